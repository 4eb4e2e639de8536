"""Differences: the interval is that of the exact test, whatever the values are."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.comparison.differences import MOST, difference, fewest, holm, probability

magnitudes = st.lists(st.integers(1, 10**6).map(float), min_size=1, max_size=8)
values = st.lists(st.integers(-(10**6), 10**6).map(float), min_size=1, max_size=30)
confidences = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])


@given(magnitudes, confidences)
def test_by_chance_an_interval_leaves_out_zero_no_more_often_than_it_may(sizes: list[float], confidence: float) -> None:
    """All choices of signs are tried: that is what chance can make of two commands that do the same."""
    outside = 0
    for signs in itertools.product((-1, 1), repeat=len(sizes)):
        found = difference([sign * size for sign, size in zip(signs, sizes, strict=True)], confidence)
        outside += found.low is not None and found.high is not None and (found.low > 0 or found.high < 0)
    assert outside <= (1 - confidence) * 2 ** len(sizes) + 1e-9


@given(st.integers(1, 9))
def test_without_ties_the_probability_is_that_of_all_choices_of_signs(number: int) -> None:
    sizes = [2.0**at for at in range(number)]  # no mean of two is zero
    found = []
    for signs in itertools.product((-1, 1), repeat=number):
        ranks = sum(rank for rank, sign in enumerate(signs, 1) if sign > 0)
        found.append((ranks, probability([sign * size for sign, size in zip(signs, sizes, strict=True)])))
    most = number * (number + 1) // 2
    for ranks, said in found:
        extreme = min(ranks, most - ranks)
        as_far = sum(min(other, most - other) <= extreme for other, _ in found) / 2**number
        assert said == pytest.approx(min(1.0, as_far), abs=1e-12)


@given(values, confidences)
def test_the_interval_leaves_out_zero_if_and_only_if_the_probability_says_so(
    some: list[float], confidence: float
) -> None:
    found = difference(some, confidence)
    outside = found.low is not None and found.high is not None and (found.low > 0 or found.high < 0)
    assert outside == (probability(some) <= 1 - confidence + 1e-9)


@given(values, st.integers(-(10**6), 10**6), confidences)
def test_a_shift_shifts_everything(some: list[float], shift: int, confidence: float) -> None:
    before, after = difference(some, confidence), difference([value + shift for value in some], confidence)
    assert after.estimate == pytest.approx(before.estimate + shift)
    if before.low is not None and before.high is not None:
        assert after.low == pytest.approx(before.low + shift)
        assert after.high == pytest.approx(before.high + shift)


@given(values, confidences)
def test_b_less_a_is_the_negative_of_a_less_b(some: list[float], confidence: float) -> None:
    there, back = difference(some, confidence), difference([-value for value in some], confidence)
    assert back.estimate == pytest.approx(-there.estimate)
    if there.low is not None and there.high is not None:
        assert back.low == pytest.approx(-there.high)
        assert back.high == pytest.approx(-there.low)
    assert probability(some) == probability([-value for value in some])


@given(values, confidences)
def test_the_estimate_is_in_the_interval_and_the_interval_among_the_values(
    some: list[float], confidence: float
) -> None:
    found = difference(some, confidence)
    if found.low is None or found.high is None:
        assert len(some) < fewest(confidence)
    else:
        assert min(some) <= found.low <= found.estimate <= found.high <= max(some)
        assert len(some) >= fewest(confidence)


@pytest.mark.parametrize(("confidence", "number"), [(0.5, 2), (0.9, 5), (0.95, 6), (0.99, 8), (0.999, 11)])
def test_so_many_blocks_are_needed(confidence: float, number: int) -> None:
    assert fewest(confidence) == number
    assert 2 / 2**number <= 1 - confidence + 1e-9 < 2 / 2 ** (number - 1)


def test_the_limits_are_those_of_the_tables() -> None:
    """Hollander, Wolfe and Chicken, table A.4: with ten differences P(T+ >= 47) is 0.024."""
    some = [float(2**at) for at in range(10)]
    means = sorted((a + b) / 2 for at, a in enumerate(some) for b in some[at:])
    found = difference(some, 0.95)
    assert (found.low, found.high) == (means[8], means[-9])


def test_the_largest_number_of_blocks_is_no_burden() -> None:
    some = [math.sin(at) for at in range(MOST)]
    found = difference(some, 0.99)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.high


@given(st.lists(st.floats(0, 1), max_size=12))
def test_corrected_probabilities_are_larger_and_keep_their_order(some: list[float]) -> None:
    corrected = holm(some)
    assert all(before <= after <= 1 for before, after in zip(some, corrected, strict=True))
    order = sorted(range(len(some)), key=lambda at: (some[at], corrected[at]))
    assert [corrected[at] for at in order] == sorted(corrected)
    if some:
        assert min(corrected) == min(1.0, len(some) * min(some))


def test_the_correction_is_that_of_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
