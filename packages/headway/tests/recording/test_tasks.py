"""Tasks of a recording: what threads worked on adds up, row by row, however the recording is divided into parts."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.model import NO_STATE, NO_TASK, TraceContext, Transitions, violations
from headway.recording import tasks as of_tasks
from headway.recording.reader import Recording
from headway.recording.tables import transitions_table
from headway.recording.tasks import with_tasks

from .queries.runs import Recorded, Row, Thread, lawful, write

NAMES = ("checkout", "search", "evil\x1b[31m", "")


def made(random: Random, *, tasks: bool = True) -> Recorded:
    """Threads on processors of their own. Their spans have a task, or none; an amount has that of its span."""
    found = lawful(random)
    rows: list[Row] = []
    for row in found.rows:
        if row.thread is None:
            continue
        if row.cpu is not None:
            row = row._replace(cpu=row.thread)
        if tasks and row.duration:
            name, id = random.choice([(None, None), *((name or None, random.randrange(1, 3)) for name in NAMES)])
            row = row._replace(task=name, task_id=id)
        elif tasks:
            row = row._replace(task=rows[-1].task, task_id=rows[-1].task_id)
        rows.append(row)
    found.rows = rows
    return found


@settings(deadline=None)
@given(st.integers(0, 1 << 32))
def test_the_tasks_are_those_of_the_rows(seed: int) -> None:
    random = Random(seed)
    run = made(random)
    expected: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for row in run.rows:
        if row.thread is not None and (row.task or row.task_id):
            title = row.task or f"task {row.task_id}"
            state = "ready" if row.state.startswith("ready.") else row.state
            expected[run.threads[row.thread].tid, title][state] += row.duration - row.taken
            expected[run.threads[row.thread].tid, title]["overhead"] += row.taken
    with TemporaryDirectory() as scratch, Recording(write(run, Path(scratch) / "run.hw")) as recording:
        plain = recording.ledger()
        ledger = with_tasks(recording, plain)
    assert violations(ledger) == []
    found = {
        (thread.tid, task.title): Counter({state: cell.time for state, cell in task.states.items() if cell.time})
        for thread in ledger.threads
        for task in thread.tasks
    }
    want = {key: Counter({s: t for s, t in times.items() if t}) for key, times in expected.items()}
    assert {key: times for key, times in found.items() if times} == {key: times for key, times in want.items() if times}
    for thread, before in zip(ledger.threads, plain.threads, strict=True):
        assert thread.states == before.states
        assert sum(task.time for task in thread.tiles()) == (thread.span if thread.tasks else 0)


def test_changes_and_parts_of_ready(tmp_path: Path) -> None:
    rows = [
        Row(0, 10, 0, 0, 0, "user", task="checkout", task_id=1),
        Row(10, 10, 0, None, 0, "ready.own", task="checkout", task_id=1),
        Row(20, 10, 0, 0, 0, "user", task="checkout", task_id=2),
        Row(30, 10, 0, 0, 0, "user"),
        Row(40, 10, 0, 0, 0, "user", task_id=7),
        Row(50, 10, 0, 0, 0, "user", task="checkout", task_id=2),
    ]
    run = Recorded(0, 60, rows, [Thread(0, 1, 1, "a", 0, 0, None)])
    with Recording(write(run, tmp_path / "run.hw")) as recording:
        (thread,) = with_tasks(recording, recording.ledger()).threads
    found = {task.title: (task.changes, {s: c.time for s, c in task.states.items()}) for task in thread.tiles()}
    assert found == {
        "checkout": (3, {"user": 30, "ready": 10}),
        "task 7": (1, {"user": 10}),
        NO_TASK: (0, {"user": 10}),
    }


def test_tasks_beyond_the_limit_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_tasks, "MOST", 3)
    rows = [Row(10 * n, 10, 0, 0, 0, "user", task_id=n + 1) for n in range(10)]
    run = Recorded(0, 100, rows, [Thread(0, 1, 1, "a", 0, 0, None)])
    with Recording(write(run, tmp_path / "run.hw")) as recording:
        (thread,) = with_tasks(recording, recording.ledger()).threads
    assert [(task.title, task.changes, task.time) for task in thread.tasks] == [
        ("task 1", 1, 10),
        ("task 2", 1, 10),
        ("task 3", 1, 10),
        ("other tasks", 7, 70),
    ]


def test_a_recording_without_tasks_stays_as_it_is(tmp_path: Path) -> None:
    with Recording(write(made(Random(1), tasks=False), tmp_path / "run.hw")) as recording:
        ledger = recording.ledger()
        assert with_tasks(recording, ledger) is ledger


TRACE = 0x4BF92F3577B34DA6A3CE929D0E0E4736


def test_spans_have_the_id_of_their_trace(tmp_path: Path) -> None:
    rows = [
        Row(0, 10, 0, 0, 0, "user", task="checkout", task_id=1, trace_id=f"{TRACE:032x}"),
        Row(10, 10, 0, 0, 0, "user", task_id=2, trace_id=f"{TRACE:032x}"),
        Row(20, 10, 0, 0, 0, "user", task_id=3, trace_id="no trace"),
        Row(30, 10, 0, 0, 0, "user", task="checkout", task_id=4, trace_id=f"{TRACE + 1:032x}"),
    ]
    run = Recorded(0, 40, rows, [Thread(0, 1, 1, "a", 0, 0, None)])
    with Recording(write(run, tmp_path / "run.hw")) as recording:
        (thread,) = with_tasks(recording, recording.ledger()).threads
    contexts = {task.title: task.context for task in thread.tasks}
    assert contexts == {
        "checkout": TraceContext(TRACE + 1, 4, 30),
        "span 0000000000000002": TraceContext(TRACE, 2, 10),
        "task 3": None,
    }


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=8), st.lists(st.integers(0, 3), max_size=8))
def test_traces_are_written_and_read_again(first: list[tuple[int, bool]], second: list[int]) -> None:
    spans = [{1: TRACE, 3: 5} if traced else {} for _, traced in first]
    batches = [transitions([id], traces) for (id, _), traces in zip(first, spans, strict=True)]
    batches.append(transitions(second, {2: 7}))
    table, _ = transitions_table(batches)
    found = table.column("trace_id").to_pylist()
    expected = {n: traces.get(id) for n, ((id, _), traces) in enumerate(zip(first, spans, strict=True))}
    expected |= {len(first) + n: {2: 7}.get(id) for n, id in enumerate(second)}
    told = dict(zip(table.column("time").to_pylist(), found, strict=True))
    clock = [n for batch in batches for n in batch.time.tolist()]
    assert len(clock) == len(told) == len(expected)
    assert [told[time] for time in clock] == [None if t is None else f"{t:032x}" for t in expected.values()]


_moment = count()


def transitions(ids: list[int], traces: dict[int, int]) -> Transitions:
    """Rows of spans, each at a time of its own."""
    n = len(ids)
    zero = np.zeros(n, np.int32)
    return Transitions(
        time=np.array([next(_moment) for _ in ids], np.int64),
        duration=np.ones(n, np.int64),
        taken=zero,
        cpu=zero.astype(np.int16),
        thread=zero,
        state=zero.astype(np.uint16),
        count=zero,
        waker=zero - 1,
        waker_tid=zero,
        waker_state=np.full(n, NO_STATE, np.uint16),
        states=("user",),
        task=zero,
        task_id=np.array(ids, np.uint64),
        tasks=("",),
        traces=traces,
    )
