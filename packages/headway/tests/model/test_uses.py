"""What threads used adds up, and intervals of it do."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headway.model.uses import (
    CallUse,
    LockHolder,
    LockUse,
    UsedFile,
    Uses,
    add_call_uses,
    add_uses,
    locks_together,
    subtract_uses,
)

AMOUNTS = st.integers(0, 1 << 40)
FILES = st.none() | st.builds(UsedFile, st.sampled_from(["disk", "socket"]), st.integers(0, 1), st.integers(1, 3))
CALLS = st.builds(
    CallUse,
    st.integers(0, 2),
    st.sampled_from(["read", "write", "futex"]),
    FILES,
    count=AMOUNTS,
    errors=AMOUNTS,
    on=AMOUNTS,
    waited=AMOUNTS,
    ready=AMOUNTS,
    bytes=AMOUNTS,
)
THREADS = st.lists(
    st.builds(
        LockHolder,
        st.integers(1, 3),
        st.just("holder"),
        AMOUNTS,
        AMOUNTS,
        st.dictionaries(st.sampled_from(["user", "wait.disk", "ready"]), AMOUNTS),
    ),
    max_size=2,
    unique_by=lambda one: one.tid,
).map(tuple)
LOCKS = st.builds(
    LockUse,
    st.integers(0, 2),
    st.sampled_from(["a_lock", "b_lock"]),
    st.sampled_from(["wait.futex", "wait.gil"]),
    waits=st.integers(1, 1 << 30),
    waited=AMOUNTS,
    held=AMOUNTS,
    holders=THREADS,
    wakers=THREADS,
)
USES = st.builds(
    Uses,
    st.lists(CALLS, max_size=4, unique_by=lambda use: use.key).map(tuple),
    st.dictionaries(st.tuples(st.integers(0, 2), st.sampled_from(["read", "open"]), st.integers(1, 3)), AMOUNTS),
    st.lists(LOCKS, max_size=3, unique_by=lambda lock: lock.key).map(tuple),
    AMOUNTS,
)


def total(uses: Uses) -> dict[object, CallUse]:
    return add_call_uses(uses.calls or (), "call")


@given(USES, USES)
def test_a_later_reading_less_an_earlier_one_is_what_came_between(first: Uses, second: Uses) -> None:
    both = add_uses(first, second)
    assert both is not None
    rest = subtract_uses(both, first)
    assert {use.key: use for use in rest.calls or ()} == {
        use.key: use for use in second.calls or () if use.count or use.time
    }
    assert rest.errors == {key: n for key, n in second.errors.items() if n}
    assert rest.without_place == second.without_place
    now = {lock.key: lock for lock in rest.locks or ()}
    for lock in second.locks or ():
        assert (now[lock.key].waits, now[lock.key].waited) == (lock.waits, lock.waited)
        assert sum(h.waited for h in now[lock.key].holders) == sum(h.waited for h in lock.holders)


@given(USES, USES)
def test_two_windows_add_up_whatever_is_told_apart(first: Uses, second: Uses) -> None:
    both = add_uses(first, second)
    assert both is not None
    for name in ("count", "errors", "on", "waited", "ready", "bytes"):
        assert sum(getattr(use, name) for use in total(both).values()) == sum(
            getattr(use, name) for uses in (first, second) for use in uses.calls or ()
        )


@given(st.lists(LOCKS))
def test_locks_of_one_name_are_one_with_all_their_waiting(locks: list[LockUse]) -> None:
    found = locks_together(locks)
    assert len({lock.key for lock in found}) == len(found)
    assert sum(lock.waited for lock in found) == sum(lock.waited for lock in locks)
    assert [lock.waited for lock in found] == sorted((lock.waited for lock in found), reverse=True)
    assert sum(h.waited for lock in found for h in lock.holders) == sum(
        h.waited for lock in locks for h in lock.holders
    )


def test_a_call_that_goes_on_counts_in_the_window_in_which_it_goes_on() -> None:
    waiting = CallUse(1, "epoll_wait", waited=10, going_on=1)
    ended = replace(waiting, count=1, waited=25, going_on=0)
    rest = subtract_uses(Uses((ended,)), Uses((waiting,)))
    assert rest.calls == (CallUse(1, "epoll_wait", count=1, waited=15),)
    assert add_uses(Uses((waiting,)), rest) == Uses((replace(ended, waited=25),))


def test_what_was_not_asked_for_stays_unknown() -> None:
    assert add_uses(None, None) is None
    assert add_uses(Uses(locks=()), None) == Uses(locks=())
    assert subtract_uses(Uses(locks=()), Uses(locks=())).calls is None
