"""What is said of time that was divided by samples: which part was counted exactly, how far the rest may be off."""

from __future__ import annotations

from math import ceil

from headway.model import Amounts, Cell, Estimate, Indices, Quality, processor_time

from .figures import MARKS, share

__all__ = ["efficiency", "exactness", "how_divided", "mark_of"]


def how_divided(had: Amounts) -> str:
    """Return which part of processor time was counted exactly, state by state, and how the rest was divided."""
    whole, sampled, undivided = processor_time(had.by_kind), had.by_samples, had.undivided
    exact = whole - sampled - undivided
    parts = []
    if exact > 0:
        parts.append(f"{_portion(exact, whole)} counted exactly")
    if sampled:
        what = _portion(sampled, whole) if undivided else "the rest" if exact > 0 else "all"
        parts.append(f"{what} divided by {_samples(had.samples)}")
    if undivided:
        what = _portion(undivided, whole) if undivided < whole else "all"
        parts.append(f"{what} not divided (no sample fell into it)")
    return ", ".join(parts)


def exactness(cell: Cell, estimate: Estimate) -> str:
    """Return which share of a state's time was counted exactly, and the number of samples for the rest."""
    exact, samples = cell.time - estimate.time, _samples(estimate.samples)
    return f"{_portion(exact, cell.time)} exact, {samples}" if exact > 0 else f"by {samples}"


def efficiency(indices: Indices, width: int) -> str:
    """Return TE, if it is sampled with how far it may be from the truth, where that has room in ``width`` columns.

    The interval is around the rounded figure, and at least as wide as that of the model.
    """
    limits, te, rpi = indices.interval["epi"], indices.te, indices.rpi
    if limits is None or te is None or not rpi:
        return share(te)
    middle = round(te * 100)
    error = max(ceil(limits[1] / rpi * 100 - middle), ceil(middle - limits[0] / rpi * 100), 1)
    text = f"~{middle} ±{error} %"
    return text if len(text) <= width else f"~{middle} %"


def mark_of(estimate: Estimate | None) -> str:
    """Return the mark before the time of a state."""
    return MARKS[Quality.SAMPLED] if estimate is not None and estimate.time else ""


def _samples(number: int) -> str:
    return f"{number:,} sample{'s' * (number != 1)}"


def _portion(part: int, whole: int) -> str:
    """Return a share that is neither nothing nor all: never rounded to 0 or to 100 %."""
    found = part / whole
    return "< 1 %" if found < 0.005 else "> 99 %" if found >= 0.995 else share(found)
