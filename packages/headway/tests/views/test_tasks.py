"""Tasks in views: the table adds up, the JSON keeps its schema, slices are the rows' tasks."""

from __future__ import annotations

import json
from itertools import pairwise

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model import Cell, Ledger, Task, Thread, TraceContext, Transitions, Window
from headway.model.task_slices import TaskSlice, TaskSlices
from headway.views.json import schema, to_document, write
from headway.views.lines import text_of
from headway.views.printable import width_of
from headway.views.tasks import tasks_table

pytestmark = pytest.mark.unit


def ledger(tasks: list[Task], states: dict[str, Cell]) -> Ledger:
    span = sum(cell.time for cell in states.values())
    thread = Thread(1, 1, "a", 0, 0, None, span, span, states, tasks=tuple(tasks))
    return Ledger("bpf", Window(0, span), (thread, Thread(2, 1, "b", 0, 0, None, 0, 0, {})))


TASKS = [
    Task("checkout", 0, 3, {"user": Cell(2_000_000, 3), "wait.futex": Cell(5_000_000, 1)}),
    Task("", 77, 1, {"kernel.read": Cell(1_000_000, 2)}),
    Task("", 0, 2, {"user": Cell(500_000, 2)}, other=True),
    Task("", 0xF067AA0BA902B7, 1, {"user": Cell(20, 1)}, False, 15, TraceContext(0xAB, 0xF067AA0BA902B7, 3)),
    Task("evil\x1b[31m\u202e", 0, 1, {"user": Cell(10, 1)}),
]
STATES = {"user": Cell(4_000_000, 9), "wait.futex": Cell(6_000_000, 2), "kernel.read": Cell(1_000_000, 2)}


@given(st.integers(20, 200), st.none() | st.integers(1, 5), st.booleans())
def test_the_table_fits_and_has_every_task_or_their_sum(width: int, limit: int | None, verbose: bool) -> None:
    lines = [text_of(line) for line in tasks_table(ledger(TASKS, STATES), width=width, limit=limit, verbose=verbose)]
    assert all(width_of(line) <= width for line in lines)
    assert not any("\x1b" in line or "\u202e" in line for line in lines)
    if width < 80 or verbose:
        return
    assert lines[0].split() == ["task", "changes", "RPI", "EPI", "kernel", "poll", "│", "ready", "waiting", "for"]
    assert lines[-1].split()[:4] == ["all", "tasks", "8", "5.00ms"]
    assert limit is not None or any(line.startswith("00f067aa0ba902b7 ") for line in lines)
    shown = len(TASKS) if limit is None else min(limit, len(TASKS))
    assert len(lines) == 1 + shown + 1 + (shown < len(TASKS)) + 1


def test_there_is_no_table_without_tasks() -> None:
    assert [*tasks_table(ledger([], STATES), width=80)] == []


def test_the_document_has_the_tasks_and_the_time_between() -> None:
    document = to_document(ledger(TASKS, STATES))
    jsonschema.validate(document, schema())
    assert json.loads("".join(write(ledger(TASKS, STATES)))) == document
    first, second = document["threads"]
    assert "tasks" not in second
    assert [task["title"] for task in first["tasks"]][:3] == ["checkout", "task 77", "other tasks"]
    assert first["tasks"][-1]["title"] == "no task"
    times: dict[str, int] = {}
    for task in first["tasks"]:
        for state in task["states"]:
            times[state["state"]] = times.get(state["state"], 0) + state["time"]
    assert times == {state["state"]: state["time"] for state in first["states"]}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2), st.integers(0, 1)), max_size=30), st.integers(1, 8))
def test_slices_are_the_rows_of_one_task_that_follow_each_other(
    given_: list[tuple[int, int, int]], of_a_batch: int
) -> None:
    names = ("", "checkout", "search")
    slices, time = TaskSlices(), {0: 0, 1: 0, 2: 0}
    found: list[TaskSlice] = []
    expected: dict[int, list[tuple[int, int, str, int]]] = {0: [], 1: [], 2: []}
    open_: dict[int, bool] = {}
    for first in range(0, len(given_), of_a_batch):
        rows = given_[first : first + of_a_batch]
        times = []
        for thread, task, number in rows:
            begin, time[thread] = time[thread], time[thread] + 10
            times.append(begin)
            if task < 0 or (not names[task] and not number):
                open_[thread] = False
                continue
            last = expected[thread][-1] if expected[thread] and open_.get(thread) else None
            if last is not None and last[2:] == (names[task], number):
                expected[thread][-1] = (last[0], begin + 10, *last[2:])
            else:
                expected[thread].append((begin, begin + 10, names[task], number))
            open_[thread] = True
        n = len(rows)
        zero = np.zeros(n, np.int32)
        nothing = [task < 0 or (not names[task] and not number) for _, task, number in rows]
        batch = Transitions(
            np.array(times, np.int64), np.full(n, 10, np.int64), zero, zero.astype(np.int16),
            np.array([t for t, _, _ in rows], np.int32), zero.astype(np.uint16), zero, zero, zero,
            zero.astype(np.uint16), ("user",),
            np.array([-1 if no else task for no, (_, task, _) in zip(nothing, rows, strict=True)], np.int32),
            np.array([0 if no else number for no, (_, _, number) in zip(nothing, rows, strict=True)], np.uint64),
            names,
        )  # fmt: skip
        found += slices.add(batch, batch.thread)
    found += slices.rest()
    for thread, wanted in expected.items():
        mine = sorted((s.begin, s.end, s.name, s.id) for s in found if s.place == thread)
        assert mine == wanted


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(-1, 2)), max_size=20), st.integers(1, 8))
def test_slices_never_overlap_whatever_the_rows_say(given_: list[tuple[int, int, int]], of_a_batch: int) -> None:
    slices = TaskSlices()
    found: list[TaskSlice] = []
    for first in range(0, len(given_), of_a_batch):
        rows = given_[first : first + of_a_batch]
        zero = np.zeros(len(rows), np.int32)
        batch = Transitions(
            np.array([time for time, _, _ in rows], np.int64), np.array([length for _, length, _ in rows], np.int64),
            zero, zero.astype(np.int16), zero, zero.astype(np.uint16), zero, zero, zero,
            zero.astype(np.uint16), ("user",),
            np.array([task for _, _, task in rows], np.int32), zero.astype(np.uint64), ("a", "b", "c"),
        )  # fmt: skip
        found += slices.add(batch, batch.thread)
    found += slices.rest()
    assert all(one.begin < one.end for one in found)
    assert all(one.end <= other.begin for one, other in pairwise(found))
