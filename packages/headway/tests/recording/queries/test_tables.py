"""What the tables say is what the rows say, whatever was recorded and however it ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.model import kind_of
from headway.recording.queries import chains as following
from headway.recording.queries.chains import Chain, chains
from headway.recording.queries.questions import QUESTIONS, question
from headway.recording.queries.tables import TABLES, Tables, open_tables
from headway.recording.reader import Recording
from headway.recording.writer import RecordingWriter

from ...effort import FEW
from ...recordings import Run, document, empty_ledger
from .runs import Recorded, Row, lawful, ledger, overhead, write

seeds = st.integers(0, 2**32)
few = settings(max_examples=4 if FEW else 10, deadline=None)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as scratch:
        yield Path(scratch)


def opened(folder: Path, recorded: Recorded, parts: int | None = None) -> Tables:
    path = write(recorded, folder / str(len(list(folder.iterdir()))), parts=parts)
    return open_tables(str(path))


def rows(tables: Tables, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in tables.ask_user(query).rows]


def cells(recorded: Recorded, who: str) -> dict[tuple[int, str], int]:
    found = {key: time for key, (time, _) in ledger(recorded.rows, who).items()}
    return found | {(number, "overhead"): time for number, time in overhead(recorded.rows, who).items()}


@few
@given(seeds)
def test_the_states_of_a_closed_recording_are_its_ledger(folder: Path, seed: int) -> None:
    recorded = lawful(Random(seed))
    names = {thread.thread: thread.name for thread in recorded.threads}
    with opened(folder, recorded) as tables:
        found = rows(tables, "SELECT thread, tid, name, state, kind, time FROM states")
        assert {(row[0], row[3]): row[5] for row in found} == cells(recorded, "thread")
        assert all(row[1] == 100 + row[0] and row[2] == names[row[0]] for row in found)
        assert all(row[4] == kind_of(row[3]).value for row in found)
        processors = rows(tables, "SELECT cpu, state, kind, time FROM processors")
        assert {(row[0], row[1]): row[3] for row in processors} == cells(recorded, "cpu")
        by_name = rows(tables, "SELECT name, state, sum(time) FROM states GROUP BY ALL")
        wanted: dict[tuple[str, str], int] = defaultdict(int)
        for (number, state), time in cells(recorded, "thread").items():
            wanted[names[number], state] += time
        assert {(row[0], row[1]): row[2] for row in by_name} == wanted


@few
@given(seeds)
def test_a_recording_that_was_not_closed_has_the_ledger_of_its_complete_parts(folder: Path, seed: int) -> None:
    random = Random(seed)
    recorded = lawful(random)
    parts = random.randrange(1, len(recorded.edges) - 1)
    known = recorded.until(parts)
    with opened(folder, recorded, parts) as tables:
        found = rows(tables, "SELECT thread, state, time, count FROM states")
        assert {(row[0], row[1]): row[2] for row in found if row[2]} == {
            key: time for key, time in cells(known, "thread").items() if time
        }
        counts = {(row[0], row[1]): row[3] for row in found if row[3]}
        assert counts == {key: count for key, (_, count) in ledger(known.rows).items() if count}
        assert [row[:2] for row in rows(tables, 'SELECT closed, "end" FROM recordings')] == [(0, recorded.edges[parts])]
        threads = rows(tables, 'SELECT thread, name, start, "end" FROM threads ORDER BY thread')
        assert threads == [(t.thread, t.name, t.start, t.end) for t in known.threads]
        assert rows(tables, "SELECT name, count FROM losses") == [("transitions", 3)]


@few
@given(seeds)
def test_lost_progress_is_what_the_kinds_add_up_to(folder: Path, seed: int) -> None:
    recorded = lawful(Random(seed))
    kinds: dict[tuple[int, str], int] = defaultdict(int)
    for (number, state), time in cells(recorded, "thread").items():
        kinds[number, kind_of(state).value] += time
    with opened(folder, recorded) as tables:
        answer = QUESTIONS["lost-progress"].ask(tables, 1)
        found = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    assert [row["lost"] for row in found] == sorted((row["lost"] for row in found), reverse=True)
    for row in found:
        number = row["tid"] - 100
        for column in ("effective", "kernel", "poll", "ready", "stolen", "wait", "unknown"):
            assert row[column] == kinds[number, column]
        assert row["lost"] == sum(kinds[number, kind] for kind in ("kernel", "poll", "ready", "stolen"))


def test_user_code_that_stalled_is_divided_as_its_cycles_were(folder: Path) -> None:
    query = """SELECT kind, time FROM progress ORDER BY kind"""
    with opened(folder, lawful(Random(1))) as tables:
        tables.engine.define(
            "states",
            "SELECT 'h' AS host, 'r' AS run, 1 AS thread, 2 AS tid, 2 AS pid, 'n' AS name, 'user' AS state, "
            "'effective' AS kind, 1000 AS time, 100 AS cycles, 40 AS stall_cycles, 30 AS memory_stall_cycles",
        )
        assert rows(tables, query) == [("effective", 600), ("memory", 300), ("stall", 100)]


def chained(recorded: Recorded, depth: int) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Wait chains, wait by wait."""
    names = {thread.thread: thread.name for thread in recorded.threads}
    waits = [row for row in recorded.rows if row.state.startswith("wait") and row.duration]

    def follow(wait: Row, left: int) -> tuple[Any, ...]:
        assert wait.thread is not None
        link = (names[wait.thread], wait.state)
        if wait.waker is None:
            end = f"(tid {wait.waker_tid})" if wait.waker_tid else wait.waker_state or "(unknown)"
            return (link, end)
        before = [w for w in waits if w.thread == wait.waker and wait.time < w.end <= wait.end and w is not wait]
        latest = [w for w in waits if w.thread == wait.waker and w.end <= wait.end]
        last = max(latest, key=lambda w: w.end, default=None)
        if left == 1 or last is None or last is wait or last not in before:
            return (link, names[wait.waker])
        return (link, *follow(last, left - 1))

    found: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for wait in waits:
        cell = found[follow(wait, depth)]
        cell[0] += 1
        cell[1] += wait.duration
    return {path: (count, time) for path, (count, time) in found.items()}


@few
@given(seeds, st.integers(1, 4), st.sampled_from([7, 10**9]))
def test_wait_chains_are_followed_along_wake_ups(folder: Path, seed: int, depth: int, slice_: int) -> None:
    recorded = lawful(Random(seed))
    with opened(folder, recorded) as tables, pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "_SLICE", slice_)
        found = chains(tables, tables.catalogue.runs[0], depth)
    assert {(*chain.links, chain.end): (chain.count, chain.time) for chain in found} == chained(recorded, depth)
    assert [chain.time for chain in found] == sorted((chain.time for chain in found), reverse=True)


def test_a_chain_goes_on_only_where_the_waker_was_woken_within_the_wait(folder: Path) -> None:
    row_a = Row(1000, 500, 0, None, 0, "wait.futex", waker=1)
    early = Row(900, 50, 0, None, 1, "wait.disk", waker_state="irq.device")
    recorded = lawful(Random(2), threads=2, steps=1, start=900)
    recorded.rows = [early, row_a]
    names = [thread.name for thread in recorded.threads]
    with opened(folder, recorded) as tables:
        found = chains(tables, tables.catalogue.runs[0], 3)
    assert Chain(((names[0], "wait.futex"),), names[1], 1, 500) in found
    recorded.rows = [early._replace(time=1200), row_a]
    with opened(folder, recorded) as tables:
        found = chains(tables, tables.catalogue.runs[0], 3)
    assert Chain(((names[0], "wait.futex"), (names[1], "wait.disk")), "irq.device", 1, 500) in found


@few
@given(seeds)
def test_waits_are_counted_and_added_up(folder: Path, seed: int) -> None:
    recorded = lawful(Random(seed))
    names = {thread.thread: thread.name for thread in recorded.threads}
    wanted: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in recorded.rows:
        if row.thread is not None and row.duration and row.state.startswith(("wait", "ready")):
            wanted[names[row.thread], row.state].append(row.duration)
    with opened(folder, recorded) as tables:
        found = list(QUESTIONS["waits"].ask(tables, 1).rows)
    assert {(row[0], row[1]): tuple(row[2:]) for row in found} == {
        key: (len(times), sum(times), int(sum(times) / len(times)), max(times)) for key, times in wanted.items()
    }


def test_every_table_and_every_question_answers(folder: Path) -> None:
    with opened(folder, lawful(Random(3))) as tables:
        for table in TABLES:
            assert tables.ask_user(f"SELECT * FROM {table}").columns[:2] == ("host", "run")
        for found in QUESTIONS.values():
            answer = found.ask(tables, 3)
            assert {*found.times, *found.shares} <= {*answer.columns}
            assert list(answer.rows)
        busy = [row[1] for row in QUESTIONS["processors"].ask(tables, 3).rows]
        assert all(0 <= share <= 1 for share in busy)


def test_a_question_that_there_is_not_is_said_with_those_that_there_are() -> None:
    with pytest.raises(HeadwayError, match=r"^'why' is not a ready-made question: choose one of lost-progress, "):
        question("why")


@pytest.fixture(scope="module")
def asked(folder: Path) -> Iterator[Tables]:
    with opened(folder, lawful(Random(4))) as tables:
        yield tables


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELEC", "the SQL is wrong: Parser Error"),
        ("SELECT nothing FROM threads", "the SQL is wrong: Binder Error: Referenced column"),
        ("SELECT * FROM nowhere", "the SQL is wrong: Catalog Error"),
        ("SELECT CAST(name AS INT) FROM threads", "the SQL cannot be answered: Conversion Error"),
        ("SELECT 1; SELECT 2", "not one SELECT"),
        ("", "not one SELECT"),
        ("DROP VIEW threads", "not one SELECT"),
        ("COPY threads TO '/tmp/headway-must-not-be'", "not one SELECT"),
        ("INSTALL httpfs", "not one SELECT"),
        ("SET enable_external_access = true", "not one SELECT"),
        ("SELECT * FROM read_text('/etc/passwd')", "the SQL cannot be answered: Permission Error"),
        ("SELECT * FROM glob('/*')", "the SQL cannot be answered: Permission Error"),
        ("SELECT * FROM read_parquet('https://localhost/x')", "the SQL"),
        ("SELECT * FROM '/etc/passwd'", "the SQL"),
        ("SELECT * FROM sql_auto_complete('x')", "the SQL"),
    ],
)
def test_wrong_sql_and_sql_that_reaches_out_is_one_sentence(asked: Tables, query: str, words: str) -> None:
    with pytest.raises(HeadwayError) as caught:
        list(asked.ask_user(query).rows)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert rows(asked, "SELECT count(*) FROM threads") == [(4,)], "the next question is answered"


@few
@given(seeds, st.booleans())
def test_what_headway_records_has_the_ledger_of_its_source(folder: Path, seed: int, closed: bool) -> None:
    made = Run(Random(seed))
    path = folder / str(len(list(folder.iterdir())))
    writer = RecordingWriter(path, document(made.start), rows=20)
    writer.begin(empty_ledger(made.start))
    for batch in made.batches(4, 20):
        writer.add(batch)
    if closed:
        batch, wanted = made.end()
        writer.add(batch)
        writer.close(wanted)
    else:
        writer.abandon()
        with Recording(path) as recording:
            wanted = recording.ledger()
    with open_tables(str(path)) as tables:
        found = rows(tables, "SELECT thread, state, time FROM states WHERE time <> 0")
        numbers = {row[0]: row[1:] for row in rows(tables, "SELECT thread, tid, birth FROM threads")}
        processors = rows(tables, "SELECT cpu, state, time FROM processors WHERE time <> 0 AND state <> 'idle'")
    assert {(*numbers[row[0]], row[1]): row[2] for row in found} == {
        (t.tid, t.birth, state): cell.time for t in wanted.threads for state, cell in t.states.items() if cell.time
    }
    assert {(row[0], row[1]): row[2] for row in processors} == {
        (p.cpu, state): cell.time
        for p in wanted.processors
        for state, cell in p.states.items()
        if cell.time and state != "idle"
    }
