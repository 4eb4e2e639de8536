"""Durations of rows: an occurrence is all of its pieces. A page fault may turn out to be of another sort meanwhile."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headway.model import NO_STATE, Batch, Transitions, bucket_of
from headway.recording.durations import DurationsOfRows

STATES = ("", "user", "kernel.fault", "kernel.fault.minor", "kernel.fault.major", "irq.timer", "wait.fault")
SORTS = STATES[2:5]

times = st.integers(1, 5000)
pieces = st.lists(st.tuples(st.sampled_from(SORTS), times), min_size=1, max_size=5)
events = st.lists(st.tuples(st.integers(0, 2), pieces), min_size=1, max_size=20)


def batch(rows: list[tuple[int, int, int, str, int]]) -> Batch:
    """Return a batch of rows: when, how long, of which thread, in which state, how many ended."""
    n, nothing = len(rows), np.zeros(len(rows), np.int32)
    transitions = Transitions(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.int64),
        nothing,
        nothing.astype(np.int16),
        np.array([row[2] for row in rows], np.int32),
        np.array([STATES.index(row[3]) for row in rows], np.uint16),
        np.array([row[4] for row in rows], np.int32),
        nothing - 1,
        nothing,
        np.full(n, NO_STATE, np.uint16),
        STATES,
    )
    return Batch(rows[0][0], rows[-1][0] + rows[-1][1], transitions, [], [], {})


@given(events, st.sampled_from([1, 4]), st.sets(st.integers(0, 200)))
def test_a_fault_lasts_as_long_as_it_was_of_its_last_sort(
    faults: list[tuple[int, list[tuple[str, int]]]], parts: int, cuts: set[int]
) -> None:
    rows: list[tuple[int, int, int, str, int]] = []
    expected: defaultdict[tuple[int, str], Counter[int]] = defaultdict(Counter)
    now = 1000
    for thread, fault in faults:
        length = 0
        for n, (sort, time) in enumerate(fault):
            length = length + time if n and fault[n - 1][0] == sort else time
            ends = n == len(fault) - 1
            rows += [(now, time, thread, sort, int(ends)), (now + time, 7, thread, "user" if ends else "irq.timer", 1)]
            now += time + 7
        expected[thread, fault[-1][0]][bucket_of(length, parts)] += 1
    durations, first = DurationsOfRows(now + 1, parts, {}), 0
    for cut in sorted({cut for cut in cuts if 0 < cut < len(rows)} | {len(rows)}):
        durations.add(batch(rows[first:cut]))
        first = cut
    found = {
        (thread, state): Counter(dict(each.buckets))
        for thread, states in durations.by_thread().items()
        for state, each in states.items()
        if state in SORTS
    }
    assert found == expected
