"""Times divided by samples: the parts add up, and the interval has the truth in it as often as it says."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model import RUNNING, Estimate, add_sampled, divide, subtract_sampled, wilson

names = st.sampled_from(["user", "kernel.read", "kernel.futex", "softirq.net_rx", "irq.timer"])
times = st.integers(0, 10**15)
samples = st.dictionaries(names, st.integers(0, 10**6))
estimates = st.builds(Estimate, times, st.integers(0, 10**6), times, st.integers(0, 10**6))
sampled = st.dictionaries(names, estimates)


@given(times, samples)
def test_the_parts_add_up_to_the_time_and_are_its_shares_rounded(time: int, found: dict[str, int]) -> None:
    parts = divide(time, found)
    whole = sum(found.values())
    assert sum(part.time for part in parts.values()) == time
    assert sum(part.samples for part in parts.values()) == whole
    if not whole:
        assert parts == ({RUNNING: Estimate(time, 0)} if time else {})
        return
    for state, number in found.items():
        if not number:
            assert state not in parts
            continue
        assert parts[state].samples == number
        assert abs(parts[state].time - Fraction(time * number, whole)) < 1


@given(times, samples, st.randoms())
def test_the_order_of_the_states_makes_no_difference(time: int, found: dict[str, int], random: object) -> None:
    mixed = list(found.items())
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert divide(time, dict(mixed)) == divide(time, found)


@given(times, samples)
def test_more_samples_are_never_less_time(time: int, found: dict[str, int]) -> None:
    parts = divide(time, found)
    order = sorted(parts, key=lambda state: parts[state].samples)
    for less, more in pairwise(order):
        if parts[less].samples < parts[more].samples:
            assert parts[less].time <= parts[more].time


def test_the_rest_goes_to_the_largest_remainders() -> None:
    assert divide(10, {"user": 1, "kernel.read": 1, "irq.timer": 1}) == {
        "user": Estimate(3, 1),
        "kernel.read": Estimate(3, 1),
        "irq.timer": Estimate(4, 1),
    }
    assert divide(10, {"user": 2, "kernel.read": 1}) == {"user": Estimate(7, 2), "kernel.read": Estimate(3, 1)}


@pytest.mark.parametrize(("time", "found"), [(-1, {"user": 1}), (1, {"user": -1})])
def test_what_is_negative_is_refused(time: int, found: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="negative"):
        divide(time, found)


@given(sampled, sampled, sampled)
def test_adding_is_associative_and_commutative(
    a: dict[str, Estimate], b: dict[str, Estimate], c: dict[str, Estimate]
) -> None:
    assert add_sampled(a, b, c) == add_sampled(c, a, b) == add_sampled(add_sampled(a, b), c)


@given(sampled, sampled)
def test_subtracting_takes_back_what_was_added(a: dict[str, Estimate], b: dict[str, Estimate]) -> None:
    nothing = Estimate()
    assert subtract_sampled(add_sampled(a, b), a) == {state: part for state, part in b.items() if part != nothing}


@given(st.integers(1, 10**6), st.data())
def test_the_interval_is_around_the_share_and_narrows_with_more_samples(whole: int, data: st.DataObject) -> None:
    part = data.draw(st.integers(0, whole))
    low, high = wilson(part, whole)
    assert 0 <= low <= part / whole <= high <= 1
    narrow = wilson(4 * part, 4 * whole)
    assert narrow[1] - narrow[0] < high - low
    other = wilson(whole - part, whole)
    assert (1 - other[1], 1 - other[0]) == pytest.approx((low, high))


def test_the_interval_is_the_published_one() -> None:
    assert wilson(0, 0) == (0, 1)
    assert wilson(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)
    assert wilson(10, 10) == pytest.approx((0.7225, 1), abs=1e-4)
    assert (wilson(0, 10)[0], wilson(10, 10)[1]) == (0, 1)
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe, 1998, table I


@pytest.mark.parametrize("share", [0.03, 0.2, 0.38, 0.5, 0.9])
@pytest.mark.parametrize("whole", [30, 200, 400])
def test_the_interval_has_the_truth_in_it_19_times_of_20(share: float, whole: int) -> None:
    """Computed from the binomial distribution. The coverage is 95 % on average, and a little less at worst."""
    covered = 0.0
    for part in range(whole + 1):
        low, high = wilson(part, whole)
        if low <= share <= high:
            covered += comb(whole, part) * share**part * (1 - share) ** (whole - part)
    assert covered > 0.925
