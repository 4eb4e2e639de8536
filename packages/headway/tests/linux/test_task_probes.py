"""Tasks at static probes: the user's words lead to places or to one sentence, and their time is the program's own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import PROGRAMS, Compile, built_once, compiler

from headway.binary.elf import ElfFile
from headway.binary.usdt import probes_of
from headway.errors import SelectionError
from headway.linux.options import MeasureOptions
from headway.linux.probes.task_probes import MAX_ARGUMENTS, TaskWords, listed, resolve, sets
from headway.model import Ledger

from .measuring import disturbed, measure, only
from .recorded import record
from .test_tasks_ebpf import assert_within, tasks

STATEMENTS, TRANSACTIONS = "{1}=%s:statement__start..statement__done", "tx=%s:transaction__start..transaction__done"
REQUESTS = "{1} {2}=%s:shop:request__start"


@pytest.fixture
def program(compile_c: Compile) -> Path:
    return compile_c("probed")


# ---- words ----


@given(st.text())
def test_any_words_are_a_task_or_one_sentence(words: str) -> None:
    with suppress(SelectionError):
        task = TaskWords.parse(words)
        assert task.begin
        assert len(task.template) < 64
        assert len(task.wanted) <= MAX_ARGUMENTS


def test_words_say_where_a_task_begins_and_ends_and_what_it_is_called() -> None:
    assert TaskWords.parse("db:query-start..query-done,query__failed") == TaskWords(
        "db", "query__start", ("query__done", "query__failed"), b"query__start", ()
    )
    assert TaskWords.parse("{3} {2} of {3}=./db:x:start..done") == TaskWords(
        "./db", "x:start", ("done",), b"\1 \2 of \1", (3, 2)
    )


def test_a_ready_made_set_is_words_too() -> None:
    for ready_made in sets().values():
        assert ready_made.about
        for words in ready_made.tasks:
            assert TaskWords.parse(words).wanted


@pytest.mark.kernel
def test_places_are_no_ops_of_the_file(program: Path) -> None:
    places = resolve([STATEMENTS % program, TRANSACTIONS % program])
    assert [(place.task, place.begins) for place in places] == [(1, True), (1, False), (2, True), (2, False)]
    content = program.read_bytes()
    assert {content[place.offset : place.offset + 1] for place in places} <= {b"\x90", b"\x1f"}
    assert [bool(place.semaphore) for place in places] == [True, False, False, False]
    assert content[places[0].semaphore : places[0].semaphore + 2] == b"\0\0"
    assert [len(place.arguments) for place in places] == [1, 0, 0, 0]
    assert any(line.startswith("shop:request__start 8@") for line in listed(str(program)))


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("postgrez", "is no task: write it like query=postgres:query__start..query__done"),
        ("{9}=%s:statement__start..statement__done", "has 2 arguments, and no {9}"),
        ("{13}=%s:statement__start..statement__done", "a name has up to 4 arguments"),
        ("%s:statement__begin..statement__done", "did you mean statement__done, statement__start?"),
        ("%s:statement__start..nothing_like_it", "it has bad, request__start"),
        ("x" * 70 + "=%s:statement__start", "is no name of a task"),
        ("/nowhere:start..done", "there is no file /nowhere"),
    ],
)
def test_words_that_are_wrong_are_refused_with_one_sentence(program: Path, words: str, said: str) -> None:
    with pytest.raises(SelectionError) as raised:
        resolve([words.replace("%s", str(program))])
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.kernel
def test_a_probe_that_is_not_at_a_no_op_is_refused(program: Path, tmp_path: Path) -> None:
    """A breakpoint within an instruction would harm the program."""
    with ElfFile(str(program)) as image:
        offsets = [image.file_offset(probe.address) for probe in probes_of(image)]
    content = bytearray(program.read_bytes())
    for offset in offsets:
        assert offset is not None
        content[offset] = 0xCC
    (tmp_path / "damaged").write_bytes(content)
    with pytest.raises(SelectionError, match="is at no instruction for probes"):
        resolve([STATEMENTS % (tmp_path / "damaged")])


# ---- measuring ----


def options(*words: str) -> MeasureOptions:
    return MeasureOptions(tasks=True, task_probes=words)


@pytest.fixture(scope="module")
def measured(compile_c: Compile) -> tuple[Ledger, list[str]]:
    program = compile_c("probed")
    words = (STATEMENTS, TRANSACTIONS, REQUESTS, "bad {1}=%s:bad")
    return measure(program, options=options(*(each % program for each in words)), allowed=["probe_arguments_unread"])


SELECT = "SELECT name FROM items_2 WHERE id IN (?) AND shop = ?"


@pytest.mark.root
@pytest.mark.kernel
def test_tasks_have_the_time_that_the_program_worked_on_them(measured: tuple[Ledger, list[str]]) -> None:
    """Those within another one, one that does not reach its end, and none for an empty text."""
    ledger, said = measured
    thread = only(ledger)
    *times, seen = map(int, said)
    found = tasks(thread)
    assert found.keys() == {SELECT, "begin", "tx", "GET /items/{n}/photos/{n}", "bad ?", "no task"}
    for title, worked, within in zip(("tx", SELECT, "begin"), times[0:6:2], times[1:6:2], strict=True):
        assert_within(thread, found[title], worked, within)
    rest = sum(found[title].states["user"].time for title in ("GET /items/{n}/photos/{n}", "bad ?", "no task"))
    assert rest >= times[6] - disturbed(thread, waits=False)
    assert [found[title].changes for title in (SELECT, "begin", "tx")] == [200, 200, 400], "with each coming back"
    assert seen == 200, "the semaphore was up all the time"
    assert ledger.losses["probe_arguments_unread"] == found["bad ?"].changes == 1
    assert "µs more, which is taken out" in ledger.reasons["probes"]


@pytest.mark.root
@pytest.mark.kernel
def test_the_rows_of_a_recording_are_those_of_the_ledger(program: Path) -> None:
    recorded = record(program, options=options(STATEMENTS % program))  # its rows add up to the threads, and tile them
    rows = [batch.transitions for batch in recorded.batches]
    assert len({int(number) for each in rows if each.task_id is not None for number in each.task_id if number}) == 400


@pytest.mark.root
@pytest.mark.kernel
def test_the_probes_of_a_library_that_others_wrote(shared_folder: Path) -> None:
    program = built_once(shared_folder, [compiler("g++", "c++"), "-O1", PROGRAMS / "throwing.cc"], "throwing")
    words = "exception=libstdc++.so.6:libstdcxx:throw..catch"
    try:
        resolve([words], command=[str(program)])
    except SelectionError as error:
        pytest.skip(f"needs a libstdc++ with probes: {error}")
    ledger, _ = measure(program, options=options(words))
    assert tasks(only(ledger))["exception"].changes == 50
