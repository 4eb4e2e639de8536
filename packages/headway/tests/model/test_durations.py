"""Histograms of durations against plain lists of durations."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model import (
    N_POWERS,
    Cell,
    Durations,
    Ledger,
    Longest,
    Quality,
    Thread,
    Window,
    add_durations,
    bucket_of,
    known_durations,
    limit_of,
    subtract_durations,
    violations,
)

PARTS = (1, 2, 4, 8)
parts = st.sampled_from(PARTS)
lengths = st.integers(0, 1 << 44) | st.integers(0, 4096) | st.integers(0, 43).map(lambda power: 1 << power)
many = st.lists(lengths, max_size=30)


def histogram(found: list[int], of: int = 1, *, start: int = 0) -> Durations:
    """The durations of occurrences that ended at ``start`` and at every unit of time after it."""
    buckets: dict[int, int] = {}
    for length in found:
        bucket = bucket_of(length, of)
        buckets[bucket] = buckets.get(bucket, 0) + 1
    longest = Longest(max(found), start + found.index(max(found))) if found else None
    return Durations(tuple(sorted(buckets.items())), of, longest=longest)


@given(lengths, parts)
def test_a_duration_is_above_the_limit_before_its_bucket_and_at_most_its_own(length: int, of: int) -> None:
    bucket = bucket_of(length, of)
    limit = limit_of(bucket, of)
    assert limit is None or length <= limit
    if bucket:
        below = limit_of(bucket - 1, of)
        assert below is not None
        assert length > below
    assert bucket // of == bucket_of(length)


@pytest.mark.parametrize("of", PARTS)
def test_limits_grow_and_those_of_powers_of_two_are_powers_of_two(of: int) -> None:
    limits = [limit_of(bucket, of) for bucket in range(N_POWERS * of)]
    known = [limit for limit in limits if limit is not None]
    assert known == sorted(known)
    assert len(known) == (N_POWERS - 1) * of
    assert known[of - 1 :: of] == [1 << power for power in range(N_POWERS - 1)]
    assert all(limit_of(bucket_of(limit, of), of) == limit for limit in known)


def test_a_bucket_is_a_power_of_two_or_a_part_of_one() -> None:
    assert [bucket_of(n) for n in (0, 1, 2, 3, 4, 5, 8, 9)] == [0, 0, 1, 2, 2, 3, 3, 4]
    assert limit_of(bucket_of(1_000_000)) == 1 << 20
    assert limit_of(bucket_of(1_000_000, 8), 8) == 1_048_576
    assert limit_of(bucket_of(900_000, 8), 8) == 917_504
    assert limit_of(bucket_of(1 << 60)) is None


@given(many, parts, st.floats(0, 1))
def test_a_percentile_is_within_its_limits(found: list[int], of: int, share: float) -> None:
    limits = histogram(found, of).limits(share)
    if not found:
        assert limits is None
        return
    true = sorted(found)[max(1, ceil(len(found) * share - 1e-9)) - 1]
    assert limits is not None
    above, at_most = limits
    assert above <= true
    assert at_most is not None
    assert true <= at_most <= max(found)


@given(many, many, many, parts, parts)
def test_histograms_add_up_as_lists_do(a: list[int], b: list[int], c: list[int], of: int, other: int) -> None:
    x, y, z = histogram(a, of), histogram(b, other, start=100), histogram(c, of, start=200)
    assert x + y == y + x
    assert (x + y) + z == x + (y + z)
    together = x + y
    fewer = min(of, other)
    assert together.buckets == histogram(a + b, fewer).buckets
    assert together.placed == together.count == len(a) + len(b)
    assert together == x + Durations(parts=of) + y
    assert together.longest is None or together.longest.time == max(a + b)


@given(many, many, parts)
def test_what_came_since_is_what_was_added(early: list[int], late: list[int], of: int) -> None:
    before = histogram(early, of)
    after = before + histogram(late, of, start=len(early))
    new = after - before
    assert new.buckets == histogram(late, of).buckets
    if not late:
        assert new.longest is None
    elif max(late) > max(early, default=-1):
        assert new.longest == Longest(max(late), len(early) + late.index(max(late)))
    else:
        assert new.longest is not None
        assert new.longest.time >= max(late)


def test_an_occurrence_that_goes_on_is_in_no_bucket_and_counts_where_it_began() -> None:
    one = Durations((), 1, 0, 1, Longest(500, None))
    assert one.count == 1
    assert one.limits(0.5) is None
    assert one.longest is not None
    assert one.longest.under_way
    ended = histogram([1500])
    assert (ended - one).count == 0
    assert (ended - one).longest == ended.longest
    assert one + (ended - one) == ended


def test_the_longest_of_an_interval_that_had_longer_ones_before_is_a_bound() -> None:
    before = histogram([10_000])
    new = histogram([10_000, 700]) - before
    assert new.longest == Longest(1024, None, Quality.BOUND)
    assert new.at_most(0.5) == 1024


@given(many, many, parts)
def test_states_add_up_one_by_one_and_unknown_ones_stay_unknown(a: list[int], b: list[int], of: int) -> None:
    one, two = {"user": histogram(a, of)}, {"user": histogram(b, of), "ready": histogram(b, of)}
    total = add_durations(one, two)
    assert total == {"user": one["user"] + two["user"], "ready": two["ready"]}
    assert add_durations(one, None) is None
    assert subtract_durations(None, one) is None
    since = subtract_durations(total, two)
    assert since is not None
    assert {state: each.buckets for state, each in since.items()} == ({"user": one["user"].buckets} if a else {})
    assert known_durations(total, {"user": Cell(0, len(a) + len(b)), "ready": Cell(0, None)}) == {"user": total["user"]}


def test_a_ledger_whose_durations_are_not_as_many_as_its_occurrences_breaks_the_law() -> None:
    thread = Thread(1, 1, "x", 0, 0, 10, 10, 10, {"user": Cell(10, 3)}, durations={"user": histogram([5, 5])})
    found = violations(Ledger("bpf", Window(0, 10), (thread,)))
    assert found == ["thread 1 (x): user has 2 durations, its count is 3"]


@given(many, parts)
def test_fewer_buckets_are_sums_of_the_others(found: list[int], of: int) -> None:
    assert histogram(found, of).coarser(1).buckets == histogram(found).buckets
    for limit in (1 << 10, 1 << 20, 1 << 34):
        assert histogram(found, of).below(limit) == sum(length <= limit for length in found)
