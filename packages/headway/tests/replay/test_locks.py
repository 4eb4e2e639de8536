"""Locks of a recording, beside the same found instant by instant."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.schedules import FUTEX, Row, made_up, rows_of, written

from headway.model import Window
from headway.model.uses import LockUse
from headway.replay.candidates import rank
from headway.replay.graph import build
from headway.replay.locks import lock_uses
from headway.replay.path import find_end
from headway.replay.predict import Model
from headway.replay.wakeups import find_wakeups

pytestmark = pytest.mark.unit

STATES = ("user", "ready", "wait.disk", "wait.futex", "kernel.futex")
SPANS = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from(STATES), st.integers(0, 2), st.integers(-1, 3)), min_size=1, max_size=8
)


def one_by_one(rows: list[Row], window: Window) -> dict[int, tuple[int, int, Counter[int], Counter[tuple[int, str]]]]:
    """By futex: waiting, held, and by the thread that ends the wait: waiting meanwhile, and its states meanwhile."""
    found = {}
    for futex in {row[8] for row in rows if row[8]}:
        waits = [(row[0], row[0] + row[1], row[6]) for row in rows if row[8] == futex]
        ends = sorted({end for _, end, by in waits if by >= 0})
        last = {end: by for _, end, by in waits if by >= 0}
        weight: Counter[int] = Counter()
        doing: Counter[tuple[int, str]] = Counter()
        held = 0
        for t in range(window.start, window.end):
            n = sum(begin <= t < end for begin, end, _ in waits)
            held += n > 0
            end = next((end for end in ends if end > t), None)
            if not n or end is None or any(not covered(waits, u) for u in range(t, end)):
                continue
            if sum(e == end for _, e, by in waits if by >= 0) > 1:
                by = [by for _, e, by in waits if e == end and by >= 0]
                assert last[end] in by
            weight[last[end]] += n
            for row in rows:
                if row[4] == last[end] and row[0] <= t < row[0] + row[1]:
                    doing[last[end], row[5]] += 1
        found[futex] = sum(end - begin for begin, end, _ in waits), held, weight, doing
    return found


def covered(waits: list[tuple[int, int, int]], t: int) -> bool:
    return any(begin <= t < end for begin, end, _ in waits)


def single(threads: list[list[tuple[int, str, int, int]]]) -> bool:
    """Whether no two waits for one futex end at once: then it does not matter which of the two wakers counts."""
    rows, _, _ = written(threads)
    ends = [(row[8], row[0] + row[1]) for row in rows if row[8]]
    return len(ends) == len(set(ends))


@given(st.lists(SPANS, min_size=1, max_size=4).filter(single))
def test_each_instant_of_waiting_is_of_the_thread_that_ends_it(threads: list[list[tuple[int, str, int, int]]]) -> None:
    rows, seen, window = written(threads)
    found = {lock.name: lock for lock in lock_uses(rows_of(rows, seen, window))}
    expected = one_by_one(rows, window)
    assert found.keys() == {f"futex {futex:#x}" for futex in expected}
    for futex, (waited, held, weight, doing) in expected.items():
        lock = found[f"futex {futex:#x}"]
        assert (lock.waited, lock.held) == (waited, held)
        threads_of = lock.holders or lock.wakers
        assert {one.tid - 100: one.waited for one in threads_of} == +weight
        did = {
            (one.tid - 100, state): time
            for one in threads_of
            for state, time in one.doing.items()
            if state != "unknown"
        }
        assert did == +doing


@given(st.builds(lambda seed: made_up(Random(seed), threads=4, cpus=2).run(), st.integers(0, 999)))
def test_no_more_is_placed_than_was_waited(run: object) -> None:
    for lock in lock_uses(run.loaded()):  # type: ignore[attr-defined]
        threads = lock.holders or lock.wakers
        assert lock.held is not None
        assert lock.held <= lock.waited
        assert sum(one.waited for one in threads) <= lock.waited
        assert sum(sum(one.doing.values()) for one in threads) <= lock.held


def test_a_lock_that_goes_through_hands_is_told_by_each() -> None:
    """The first has it while two wait; then the second, while the third still waits."""
    lock = 1
    threads = [
        [(10, "wait.disk", 0, -1), (20, "user", 0, -1)],
        [(10, "wait.futex", lock, 0), (10, "user", 0, -1)],
        [(20, "wait.futex", lock, 1), (5, "user", 0, -1)],
    ]
    (found,) = lock_uses(rows_of(*written(threads)))
    assert isinstance(found, LockUse)
    assert (found.waits, found.waited, found.held, found.is_lock) == (2, 30, 20, True)
    assert [(one.name, one.waited, one.doing) for one in found.holders] == [
        ("t0", 20, {"wait.disk": 10}),
        ("t1", 10, {"user": 10}),
    ]


def test_a_condition_has_those_that_brought_the_work() -> None:
    threads = [[(10, "user", 0, -1)], [(10, "wait.futex", 1, 0), (2, "user", 0, -1)]]
    (found,) = lock_uses(rows_of(*written(threads)))
    assert (found.is_lock, found.holders) == (False, ())
    assert [(one.name, one.doing) for one in found.wakers] == [("t0", {"user": 10})]
    assert lock_uses(rows_of(*written([[(3, "user", 0, -1)]]))) == ()


@pytest.mark.parametrize(("name", "words"), [("server: cache_lock", "server: cache_lock (0x"), ("", "the lock 0x")])
def test_what_is_worth_it_names_the_lock(name: str, words: str) -> None:
    """Two threads of one name by turns: each waits for the other's lock most of the time."""
    turns = 6
    one = [span for _ in range(turns) for span in ((10, "user", 0, -1), (10, "wait.futex", 1, 1))]
    other = [span for _ in range(turns) for span in ((10, "wait.futex", 1, 0), (10, "user", 0, -1))]
    rows, seen, window = written([one, [*other, (5, "user", 0, -1)]])
    run = rows_of(rows, [replace(thread, name="worker") for thread in seen], window)
    run = replace(run, locks={FUTEX + 1: name} if name else {})
    model = Model(build(run, find_wakeups(run), find_end(run, command=True)), whole=False)
    said = [str(change) for _, found in rank(model) for change in found.changes]
    assert any(words in text for text in said), said
