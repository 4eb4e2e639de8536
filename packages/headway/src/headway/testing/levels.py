"""Several rounds as two robust numbers, which one bad round does not change much."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["FigureLevel", "level"]

SCALE = 1.4826
"""The ratio of standard deviation to median absolute deviation of a normal distribution (1 / Φ⁻¹(3/4))."""


@dataclass(frozen=True, slots=True)
class FigureLevel:
    """A figure over all rounds, in the figure's unit."""

    median: int
    spread: int | None
    """A robust standard deviation: 1.4826 times the median distance from the median; None for one round."""
    rounds: int


def level(values: Sequence[int | None]) -> FigureLevel | None:
    """Return the level of a figure; None if it is not known for every round, or if there are no rounds."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    middle = statistics.median(known)
    away = statistics.median(abs(value - middle) for value in known)
    return FigureLevel(round(middle), round(SCALE * away) if len(known) > 1 else None, len(known))
