"""OpenTelemetry's thread contexts as tasks: published by a program, by its libraries, and by those that lie."""

from __future__ import annotations

import platform
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.compiling import PROGRAMS, Compile, built_once, compiler
from tests.effort import FEW

from headway.linux.contexts.access import VARIABLE, ContextFinder
from headway.linux.options import MeasureOptions
from headway.linux.sources.ebpf.contexts import ContextSearch
from headway.model import Cell, Ledger, Task, Thread, TraceContext

from .measuring import (
    Together,
    disturbed,
    is_asleep,
    measure,
    measure_intervals,
    measure_together,
    only,
    say_when_looked,
)
from .recorded import record

pytestmark = [pytest.mark.root, pytest.mark.kernel]

TASKS = MeasureOptions(tasks=True)
ROUNDS = 100
DESCRIPTORS = {"x86_64": "-mtls-dialect=gnu2", "aarch64": "-mtls-dialect=desc"}
TRADITIONAL = {"x86_64": "-mtls-dialect=gnu", "aarch64": "-mtls-dialect=trad"}

Build = Callable[[str], list[str]]


@pytest.fixture(autouse=True)
def _found_before_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that publishes contexts goes on when it has been searched for them: `until_seen` in its source."""
    say_when_looked(monkeypatch, tmp_path, ContextSearch, "search")


@pytest.fixture(scope="module")
def build(shared_folder: Path) -> Build:
    """A function that builds `otel_context` in a way of publishing, and returns the words of its command."""
    gcc, machine = compiler("gcc"), platform.machine()

    def compiled(*arguments: str, to: str) -> str:
        words = [gcc, "-O1", "-pthread", "-Wno-unused-function", "-Wno-unused-parameter", *arguments]
        try:
            return str(built_once(shared_folder, words, to))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this compiler cannot build it: {error.stderr.strip().splitlines()[-1:]}")

    main, part = str(PROGRAMS / "otel_context.c"), str(PROGRAMS / "otel_library.c")

    def make(way: str) -> list[str]:
        if way in ("program", "static"):
            return [compiled("-rdynamic", *(["-static"] if way == "static" else []), main, part, "-ldl", to=way)]
        if way == "static pie":
            return [
                compiled(
                    "-static-pie",
                    "-fPIE",
                    f"-Wl,--export-dynamic-symbol={VARIABLE}",
                    main,
                    part,
                    "-ldl",
                    to="static_pie",
                )
            ]
        when, _, model = way.partition(", ")
        models = {
            "descriptors": [DESCRIPTORS[machine]],
            "traditional": [TRADITIONAL[machine]],
            "initial exec": ["-ftls-model=initial-exec"],
        }
        name = way.replace(" ", "_").replace(",", "")
        library = compiled("-shared", "-fPIC", *models[model], part, to=f"lib{name}.so")
        if when == "late":
            return [compiled("-DLATE", main, "-ldl", to=name), library]
        return [compiled(main, library, f"-Wl,-rpath,{Path(library).parent}", "-ldl", to=name)]

    return make


def tasks(thread: Thread) -> dict[str, Task]:
    """The tasks of a thread and the time between them, by title; they add up to the thread in every state."""
    found = {task.title: task for task in thread.tiles()}
    assert sum(task.time for task in found.values()) == thread.span
    return found


def time_in(task: Task, state: str) -> int:
    return task.states[state].time if state in task.states else 0


def check(ledger: Ledger, said: list[str]) -> None:
    """The contexts have the time that passed in them on the program's clock."""
    first, in_first, second, in_second, none, elsewhere = map(int, said)
    main = next(t for t in ledger.threads if t.tid == t.pid and "/checkout" in {task.name for task in t.tasks})
    found = tasks(main)
    assert set(found) == {"/checkout", "span 0000000000002222", "no task"}
    named, plain = found["/checkout"], found["span 0000000000002222"]
    for task, truth in (named, first), (plain, second), (found["no task"], none):
        assert time_in(task, "user") >= truth - disturbed(main, waits=False), task.title
    stolen = main.states.get("stolen", Cell()).time
    for task, most in (named, in_first), (plain, in_second):  # the rest has the program's start, of unknown length
        assert task.time <= most + stolen, task.title
    assert named.changes == plain.changes == ROUNDS
    assert named.time - time_in(named, "user") >= ROUNDS * 300_000, "it sleeps so long within the context"
    assert time_in(named, "wait.sleep") > 0
    assert named.context is not None
    assert plain.context is not None
    assert named.context.trace == f"ab{77:030x}"
    assert named.context[:2] == ((0xAB << 120) + 77, 0x1111)
    assert plain.id == plain.context.span_id == 0x2222
    assert main.start <= named.context.at <= plain.context.at <= main.until
    assert 0 < named.undated <= time_in(named, "user")
    (other,) = (t for t in ledger.threads if t.pid == main.pid and t.tid != t.pid)
    assert time_in(tasks(other)["span 0000000000003333"], "user") >= elsewhere - disturbed(other, waits=False)
    (child,) = (t for t in ledger.threads if t.pid != main.pid and t.tasks)
    assert time_in(tasks(child)["span 0000000000004444"], "user") >= 20_000_000 - disturbed(child, waits=False)
    assert "OpenTelemetry" in ledger.reasons["tasks"]


WAYS = [
    "program",
    "static",
    "static pie",
    "linked, descriptors",
    "linked, traditional",
    "linked, initial exec",
    "late, descriptors",
    "late, traditional",
    "late, initial exec",
]


TRIED = ["program", "linked, descriptors", "late, traditional"] if FEW else WAYS


@pytest.fixture(scope="module")
def published(build: Build, tmp_path_factory: pytest.TempPathFactory) -> tuple[Together, dict[str, str]]:
    """One measurement of all ways of publishing that this compiler can build, and why it cannot build the others."""
    programs: dict[str, list[str | Path]] = {}
    not_built: dict[str, str] = {}
    for way in TRIED:
        try:
            programs[way] = [*build(way)]
        except pytest.skip.Exception as reason:
            not_built[way] = str(reason)
    with pytest.MonkeyPatch.context() as patch:
        say_when_looked(patch, tmp_path_factory.mktemp("published"), ContextSearch, "search")
        return measure_together(programs, options=TASKS), not_built


@pytest.mark.parametrize("way", TRIED)
def test_contexts_are_found_however_they_are_published(published: tuple[Together, dict[str, str]], way: str) -> None:
    together, not_built = published
    if way in not_built:
        pytest.skip(not_built[way])
    check(*together[way])


def test_spans_are_named_after_the_attribute_that_the_user_wants(build: Build) -> None:
    ledger, _ = measure(*build("program"), options=MeasureOptions(tasks=True, task_attributes=("tenant", "user_id")))
    named = {task.name for thread in ledger.threads for task in thread.tasks if task.name}
    assert named == {"somebody"}


def test_intervals_add_up_to_the_contexts_of_the_whole(build: Build) -> None:
    whole, _ = measure_intervals(0.05, *build("program"), options=TASKS)
    main = next(t for t in whole.threads if "/checkout" in {task.name for task in t.tasks})
    found = tasks(main)
    assert found["/checkout"].changes == ROUNDS
    assert found["/checkout"].context is not None


def test_without_tasks_asked_for_no_context_is_read(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNTIL_SEEN")
    ledger, _ = measure(*build("program"))
    assert all(thread.tiles() == () for thread in ledger.threads)
    assert "tasks" not in ledger.reasons


HOSTILE = ["unmapped", "kernel", "odd", "flag", "no_trace", "no_span", "cut"]


@pytest.mark.parametrize("how", ["kernel", "cut"] if FEW else HOSTILE)
def test_what_is_no_context_is_none_and_counted(compile_c: Compile, how: str) -> None:
    ledger, _ = measure(compile_c("otel_hostile"), how, options=TASKS, allowed=["thread_contexts_unread"])
    thread = only(ledger)
    found = tasks(thread)
    assert found["span 0000000000005555"].changes == 50
    assert ledger.losses["thread_contexts_unread"] > 0
    if how == "cut":  # its head is good
        assert found["span 0000000000006666"].changes == 50
    else:
        assert set(found) == {"span 0000000000005555", "no task"}
        assert time_in(found["no task"], "user") >= 50 * 200_000 - disturbed(thread, waits=False)


def test_threads_that_publish_in_a_way_that_is_not_known_have_no_contexts(
    compile_c: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program sleeps for the first time when it has said how: until then its contexts would be taken for known."""
    find = ContextFinder.find
    monkeypatch.setattr(ContextFinder, "find", lambda finder, pid: find(finder, pid) if is_asleep(pid) else None)
    ledger, _ = measure(compile_c("otel_hostile"), "schema", options=TASKS)
    assert not only(ledger).tasks


# ---- attributes ----

KEYS = (2, 1)
"""Key indexes of names in `otel_records`, the best first."""


def name_of(size: int, data: bytes) -> str:
    """The name that attributes give, as OTEP 4947 has them read; empty: none."""
    at, best = 0, (len(KEYS), b"")
    size = min(size, 1023)
    for _ in range(64):
        if at + 2 > size or at + 2 + data[at + 1] > size:
            break
        key, value = data[at], data[at + 2 : at + 2 + data[at + 1]]
        if key in KEYS and KEYS.index(key) <= best[0]:
            best = KEYS.index(key), value
        at += 2 + len(value)
    return best[1][:63].partition(b"\0")[0].decode("utf-8", "replace")


def attributes(random: Random) -> tuple[int, bytes]:
    """The size and the bytes of attributes: mostly whole ones, and any bytes."""
    text = b""
    while len(text) < 1024:
        if random.random() < 0.1:
            text += random.randbytes(random.randrange(1, 40))
        value = random.choice([b"/cart", b"/item/{id}", b"", b"x" * random.randrange(256), b"caf\xc3\xa9", b"\0"])
        text += bytes([random.randrange(5), len(value)]) + value
        if random.random() < 0.4:
            break
    size = random.choice([len(text), len(text), random.randrange(len(text) + 2), 65535, 1023, 1024])
    return size, text[:1024].ljust(1024, b"\1")


@pytest.mark.parametrize("seed", range(1 if FEW else 3))
def test_any_attributes_give_the_name_that_they_should(compile_c: Compile, tmp_path: Path, seed: int) -> None:
    records = [attributes(Random(100 * seed + number)) for number in range(100)]
    (tmp_path / "records").write_bytes(b"".join(struct.pack("=H", size) + data for size, data in records))
    ledger, _ = measure(compile_c("otel_records"), tmp_path / "records", options=TASKS)
    found = tasks(only(ledger))
    expected: dict[str, int] = {}
    for number, (size, data) in enumerate(records, 1):
        title = name_of(size, data) or f"span {number:016x}"
        expected[title] = expected.get(title, 0) + 1
    assert {title: task.changes for title, task in found.items() if title != "no task"} == expected


# ---- transitions ----


def test_rows_have_the_span_and_its_trace(build: Build) -> None:
    recorded = record(*build("linked, traditional"), options=TASKS)
    traces: dict[int, int] = {}
    times: dict[tuple[int, str], int] = {}
    for batch in recorded.batches:
        rows = batch.transitions
        traces.update(rows.traces)
        if rows.task is None or rows.task_id is None:
            continue
        for at in range(len(rows)):
            number = int(rows.thread[at])
            if number >= 0 and rows.task[at] >= 0:
                key = int(rows.task_id[at]), rows.tasks[rows.task[at]]
                times[key] = times.get(key, 0) + int(rows.duration[at] - rows.taken[at])
    assert {span: trace & 0xFF for span, trace in traces.items()} == {0x1111: 77, 0x2222: 78, 0x3333: 79, 0x4444: 80}
    assert set(times) == {(0x1111, "/checkout"), (0x2222, ""), (0x3333, ""), (0x4444, "")}
    for thread in recorded.ledger.threads:
        for task in thread.tasks:
            if task.other or not task.time:
                continue
            assert isinstance(task.context, TraceContext)
            alone = task.time - time_in(task, "overhead") - time_in(task, "stolen")
            stolen = thread.states["stolen"].time if "stolen" in thread.states else 0
            assert abs(times[task.context.span_id, task.name] - alone) <= stolen + 10
