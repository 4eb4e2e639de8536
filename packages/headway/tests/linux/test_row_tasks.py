"""The tasks of rows, by an oracle that looks at each row on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux.bpf.rings.row_tasks import RowTasks
from headway.model import OTHER_TASKS, Transitions

pytestmark = pytest.mark.unit

NAMES = {0: "", 1: "checkout", 2: "search", 9: None}
Change = tuple[int, int, int, int, int]
changes = st.tuples(st.integers(0, 3), st.integers(0, 50), st.sampled_from(sorted(NAMES)), st.integers(0, 3)).map(
    lambda change: (*change, 2**127 + change[3] if change[3] == 3 else 0)
)
batches = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 50))), st.lists(changes, max_size=8)), max_size=4
)


def rows_of(rows: Sequence[tuple[int, int]]) -> Transitions:
    n = len(rows)
    zero = np.zeros(n, np.int32)
    return Transitions(
        np.array([time for _, time in rows], np.int64),
        np.ones(n, np.int64),
        zero,
        zero.astype(np.int16),
        np.array([thread for thread, _ in rows], np.int32),
        zero.astype(np.uint16),
        zero,
        zero,
        zero,
        zero.astype(np.uint16),
        ("user",),
    )


@given(batches)
def test_a_row_has_the_last_change_of_its_thread_until_then(
    given_: list[tuple[list[tuple[int, int]], list[Change]]],
) -> None:
    tasks = RowTasks(NAMES.__getitem__)
    known: list[Change] = []
    for number, (rows, news) in enumerate(given_):
        start = 100 * number  # a batch comes after the one before
        moved = [(thread, start + time) for thread, time in rows]
        late: list[Change] = [(t, start + time, name, task, trace) for t, time, name, task, trace in news]
        fresh = sorted(late, key=lambda change: change[1])
        known += fresh
        found = tasks.add(rows_of(moved), fresh)
        for at, (thread, time) in enumerate(moved):
            last = [change for change in known if change[0] == thread and change[1] <= time]
            name, task, trace = last[-1][2:] if last else (0, 0, 0)
            if not name and not task:
                assert found.task is None or found.task[at] == -1
                assert found.task_id is None or found.task_id[at] == 0
                continue
            assert found.task is not None
            assert found.task_id is not None
            said = NAMES[name]
            assert found.tasks[found.task[at]] == (OTHER_TASKS if said is None else said)
            assert found.task_id[at] == task
            assert found.traces.get(task, 0) == trace


def test_a_thread_that_is_forgotten_has_no_task() -> None:
    tasks = RowTasks(NAMES.__getitem__)
    tasks.add(rows_of([(1, 5)]), [(1, 3, 1, 7, 0)])
    tasks.forget([1, 2])
    assert tasks.add(rows_of([(1, 9)]), []).task is None


def test_a_part_of_ready_belongs_to_the_task_before_the_one_that_begins_at_its_end() -> None:
    rows = replace(
        rows_of([(1, 5), (1, 5), (1, 5)]),
        duration=np.array([1, 0, 0], np.int64),
        state=np.array([0, 1, 0], np.uint16),
        states=("user", "ready.own"),
    )
    found = RowTasks(NAMES.__getitem__).add(rows, [(1, 2, 1, 6, 0), (1, 5, 1, 7, 0)])
    assert found.task_id is not None
    assert found.task_id.tolist() == [7, 6, 7]
