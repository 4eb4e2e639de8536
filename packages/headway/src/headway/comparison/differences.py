"""How far two commands differ in one figure, from their differences in blocks of runs.

The interval is that of Hodges and Lehmann: the values that the signed-rank test of Wilcoxon does not reject (Hollander,
Wolfe, Chicken: Nonparametric Statistical Methods, 3.2 and 3.3). The test is exact if the signs of the differences less
the true one are those of a fair coin. Chance decides who runs first in a block, so this holds for the difference 0 if
the commands do the same, whatever the noise. For other differences it holds if the differences lie symmetrically about
the true one.

Equal values (ties), and differences of exactly 0, make the interval wider than it need be, and the probability larger.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["MOST", "Difference", "difference", "fewest", "holm", "probability"]

MOST = 200
"""The largest number of blocks."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The estimate of a difference, and the interval that has the true one with a given confidence."""

    estimate: float
    low: float | None
    high: float | None
    """None: there are too few blocks for an interval of that confidence."""


def difference(values: Sequence[float], confidence: float) -> Difference:
    """Return the difference that the differences of blocks tell. There must be one at least.

    The estimate is the median of the means of all pairs of blocks, each with itself too (Walsh averages). The limits of
    the interval are two of these means. ``confidence``: from 0 to 1, 1 excluded.
    """
    means = _walsh(values)
    size = len(means)
    estimate = (means[(size - 1) // 2] + means[size // 2]) / 2
    place = _place(len(values), confidence)
    if not place:
        return Difference(estimate, None, None)
    return Difference(estimate, means[place - 1], means[size - place])


def probability(values: Sequence[float]) -> float:
    """Return the probability of differences that are this far from 0, or farther, if there is no difference.

    It is that of the exact two-sided signed-rank test, so the interval of `difference` leaves out 0 if and only if the
    probability is at most 1 less its confidence.
    """
    means = _walsh(values)
    below, above = bisect_left(means, 0.0), bisect_right(means, 0.0)
    fewer = min(above, len(means) - below)  # those of 0 count for both sides
    return min(1.0, 2 * _below(len(values))[fewer] / (1 << len(values)))


def fewest(confidence: float) -> int:
    """Return how many blocks there must be for an interval of this confidence."""
    number = 1
    while not _place(number, confidence):
        number += 1
    return number


def holm(probabilities: Sequence[float]) -> list[float]:
    """Return the probabilities corrected for their number (Holm, A simple sequentially rejective multiple test
    procedure, 1979).

    If those up to a level are taken as differences, the probability that one of them or more is none is at most that
    level, however the figures depend on each other.
    """
    order = sorted(range(len(probabilities)), key=lambda number: probabilities[number])
    corrected = [0.0] * len(order)
    most = 0.0
    for rank, number in enumerate(order):
        most = max(most, min(1.0, (len(order) - rank) * probabilities[number]))
        corrected[number] = most
    return corrected


def _walsh(values: Sequence[float]) -> list[float]:
    """Return the means of all pairs, in order."""
    return sorted([(values[i] + values[j]) / 2 for i in range(len(values)) for j in range(i, len(values))])


def _place(number: int, confidence: float) -> int:
    """Return the place of the lower limit among the Walsh averages in order, from 1 on; 0: there is none.

    It is the largest one for which fewer positive averages than that come up by chance with at most half of what the
    confidence leaves.
    """
    outside = (1 - confidence) / 2 + 1e-12
    whole = 1 << number
    return bisect_right(_below(number), outside * whole) if number else 0


@lru_cache(maxsize=64)
def _below(number: int) -> Sequence[int]:
    """Return in how many of the 2**number choices of signs at most so many Walsh averages are positive.

    That number is the sum of the positive ranks, so it is counted by adding one rank after the other.
    """
    counts = [1]
    for rank in range(1, number + 1):
        longer = [*counts, *[0] * rank]
        for at, count in enumerate(counts):
            longer[at + rank] += count
        counts = longer
    total = 0
    for at, count in enumerate(counts):
        total += count
        counts[at] = total
    return counts
