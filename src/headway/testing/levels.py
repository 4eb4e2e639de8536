"""Several rounds as two numbers that one bad round does not move."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Level", "level"]

SCALE = 1.4826
"""Median absolute deviation to standard deviation, of what is normally distributed (1 / Φ⁻¹(3/4))."""


@dataclass(frozen=True, slots=True)
class Level:
    """A figure over rounds, in the figure's unit."""

    median: int
    spread: int | None
    """Like a standard deviation: 1.4826 times the median distance from the median; None of one round."""
    rounds: int


def level(values: Sequence[int | None]) -> Level | None:
    """The level of a figure; None where it is not known of every round, or there is none."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    middle = statistics.median(known)
    away = statistics.median(abs(value - middle) for value in known)
    return Level(round(middle), round(SCALE * away) if len(known) > 1 else None, len(known))
