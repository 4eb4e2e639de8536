from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import causes, states

from headway.model import (
    Behind,
    Cause,
    Cell,
    add_causes,
    list_causes,
    subtract_causes,
    time_with_causes,
    with_all_holders,
    within,
)
from headway.model.cause import NOT_KNOWN

with_states = states().flatmap(lambda found: st.tuples(st.just(found), causes(found)))
some = with_states.map(lambda pair: pair[1])


def totals(found: tuple[Cause, ...]) -> dict[tuple[str, Behind], int]:
    total: dict[tuple[str, Behind], int] = {}
    for cause in found:
        total[cause.state, cause.behind] = total.get((cause.state, cause.behind), 0) + cause.time
    return total


@given(some, some, some)
def test_adding_is_associative_and_commutative_and_keeps_every_unit(
    a: tuple[Cause, ...], b: tuple[Cause, ...], c: tuple[Cause, ...]
) -> None:
    assert add_causes(add_causes(a, b), c) == add_causes(a, add_causes(b, c)) == add_causes(c, b, a)
    assert sum(x.time for x in add_causes(a, b, c)) == sum(x.time for x in (*a, *b, *c))
    assert sum(x.count for x in add_causes(a, b, c)) == sum(x.count for x in (*a, *b, *c))


@given(some, some)
def test_what_came_since_added_to_what_was_before_is_the_whole(a: tuple[Cause, ...], b: tuple[Cause, ...]) -> None:
    both = add_causes(a, b)
    assert subtract_causes(both, a) == b
    assert add_causes(subtract_causes(both, b), b) == both


def test_causes_are_told_apart_by_state_relation_name_and_tid() -> None:
    rows = [
        Cause("wait.futex", Behind.WAKER, "a", 5, 1, 7),
        Cause("wait.futex", Behind.WAKER, "a", 5, 1, 8),
        Cause("wait.futex", Behind.WAKER, "a", 5, 1),
        Cause("wait.futex", Behind.WAKER, "b", 5, 1, 7),
        Cause("wait.futex", Behind.OBJECT, "a", 5, 1, 7),
        Cause("wait.pipe", Behind.WAKER, "a", 5, 1, 7),
    ]
    assert len(add_causes(rows, rows)) == 6
    assert {(cause.time, cause.count) for cause in add_causes(rows, rows)} == {(10, 2)}


@given(with_states)
def test_what_keeps_within_the_states_is_left_as_it_is(pair: tuple[Mapping[str, Cell], tuple[Cause, ...]]) -> None:
    found, behind = pair
    assert within(found, behind) == behind


@given(states(), some)
def test_no_more_is_left_than_the_states_have_and_no_less_than_there_is_room_for(
    found: Mapping[str, Cell], behind: tuple[Cause, ...]
) -> None:
    wanted, got = totals(behind), totals(within(found, behind))
    for key, time in wanted.items():
        assert got.get(key, 0) == min(time, time_with_causes(found, key[0]))


def test_causes_are_listed_most_time_first() -> None:
    keys = [("wait.pipe", Behind.OBJECT, name, None) for name in "abc"]
    listed = list_causes({keys[0]: (1, 1), keys[1]: (9, 1), keys[2]: (0, 0)})
    assert [cause.name for cause in listed] == ["b", "a"]


@given(with_states)
def test_the_holders_have_all_of_the_time_ready_once_what_is_not_known_is_one(
    found: tuple[Mapping[str, Cell], tuple[Cause, ...]],
) -> None:
    had, behind = found
    told = with_all_holders(had, behind)
    ready = time_with_causes(had, "ready")
    held = sum(cause.time for cause in told if cause.state == "ready" and cause.behind is Behind.HOLDER)
    assert held == ready
    assert {cause for cause in told if cause.name != NOT_KNOWN} == {c for c in behind if c.name != NOT_KNOWN}
    assert list(told) == sorted(told, key=lambda cause: -cause.time)
    assert with_all_holders(had, told) == told
