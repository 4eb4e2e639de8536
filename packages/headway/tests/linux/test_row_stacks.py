"""The stacks of rows, by an oracle that looks at each row on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux.bpf.rings.row_stacks import RowStacks
from headway.model import ThreadSeen

from .test_row_tasks import rows_of

pytestmark = pytest.mark.unit

Row = tuple[int, int, int, list[int]]
"""Thread, waker, time, and the hashes of the stacks; [] if the row has none."""
HASH = st.integers(0, 3)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(-1, 2), st.integers(0, 50), st.just([]) | st.lists(HASH, min_size=4, max_size=4)
    )
)


@given(ROWS)
def test_each_row_has_the_stacks_of_its_thread_and_of_its_waker(rows: Sequence[Row]) -> None:
    asked: list[tuple[int, int, int, int]] = []

    def number(pid: int, moment: int, user: int, kernel: int) -> int:
        asked.append((pid, moment, user, kernel))
        return 1000 * pid + 100 * moment + 10 * user + kernel

    prepared: list[int] = []
    stacks = RowStacks(number, lambda: prepared.append(len(asked)))
    news = [ThreadSeen(thread, 40 + thread, 10 + thread, "", 0, 0, None) for thread in range(3)]
    plain = rows_of([(thread, time) for thread, _, time, _ in rows])
    plain = replace(plain, waker=np.array([waker for _, waker, _, _ in rows], np.int32))
    there = [hashes for *_, hashes in rows if hashes]
    places = iter(range(len(there)))
    which = np.array([next(places) if hashes else -1 for *_, hashes in rows], np.int32)
    found = stacks.add(plain, which, np.array(there, np.uint64).reshape(-1, 4), news)
    assert prepared == [0], "the address spaces are followed before stacks are numbered"
    assert found.stack is not None
    assert found.waker_stack is not None
    for at, (thread, waker, time, hashes) in enumerate(rows):
        own, others = hashes[:2], hashes[2:]
        expected = 1000 * (10 + thread) + 100 * time + 10 * own[0] + own[1] if any(own) else -1
        assert found.stack[at] == expected
        pid = 0 if waker < 0 else 10 + waker
        expected = 1000 * pid + 100 * (time + 1) + 10 * others[0] + others[1] if any(others) else -1
        assert found.waker_stack[at] == expected


def test_a_row_that_comes_after_the_end_of_its_thread_has_its_stack() -> None:
    stacks = RowStacks(lambda pid, moment, user, kernel: pid)
    ended = ThreadSeen(0, 40, 10, "", 0, 0, 90)
    nothing = np.empty((0, 4), np.uint64)
    stacks.add(rows_of([]), np.empty(0, np.int32), nothing, [ended])
    found = stacks.add(rows_of([(0, 80)]), np.zeros(1, np.int32), np.ones((1, 4), np.uint64), [])
    assert found.stack is not None
    assert found.stack.tolist() == [10]
