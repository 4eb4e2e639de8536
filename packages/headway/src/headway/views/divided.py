"""What is said of time that was divided: which part was counted exactly, by what the rest, how far that may be off."""

from __future__ import annotations

from math import ceil

from headway.model import Amounts, Cell, Estimate, Indices, Quality, processor_time

from .figures import MARKS, share

__all__ = ["efficiency", "exactness", "how_divided", "mark_of"]


def how_divided(had: Amounts) -> str:
    """Return which part of processor time was counted exactly, state by state, and how the rest was divided."""
    whole = processor_time(had.by_kind)
    parts = [
        (whole - had.by_samples - had.by_mode - had.undivided, "counted exactly"),
        (had.by_mode, "divided by the cycles of user and kernel mode"),
        (had.by_samples, f"divided by {_samples(had.samples)}"),
        (had.undivided, "not divided (no sample fell into it)"),
    ]
    parts = [(part, words) for part, words in parts if part > 0]
    told = [f"{_portion(part, whole)} {words}" for part, words in parts]
    if len(parts) == 1:
        told = [f"all {parts[0][1]}"]
    elif len(parts) == 2 and not had.undivided:
        told[1] = f"the rest {parts[1][1]}"
    return ", ".join(told)


def exactness(cell: Cell, estimate: Estimate) -> str:
    """Return which share of a state's time was counted exactly, and by what the rest was divided."""
    exact, samples = cell.time - estimate.whole, _samples(estimate.samples + estimate.mode_samples)
    by = [samples] if estimate.told_by_samples or not estimate.by_mode else []
    by += ["cycles"] if estimate.by_mode else []
    return f"{_portion(exact, cell.time)} exact, {' and '.join(by)}" if exact > 0 else f"by {' and '.join(by)}"


def efficiency(indices: Indices, width: int) -> str:
    """Return TE, if it is sampled with how far it may be from the truth, where that has room in ``width`` columns.

    The interval is around the rounded figure, and at least as wide as that of the model.
    """
    limits, te, rpi = indices.interval["epi"], indices.te, indices.rpi
    if limits is None or te is None or not rpi:
        return MARKS[Quality.BY_MODE] * (te is not None and indices.quality["te"] is Quality.BY_MODE) + share(te)
    middle = round(te * 100)
    error = max(ceil(limits[1] / rpi * 100 - middle), ceil(middle - limits[0] / rpi * 100), 1)
    text = f"~{middle} ±{error} %"
    return text if len(text) <= width else f"~{middle} %"


def mark_of(estimate: Estimate | None) -> str:
    """Return the mark before the time of a state."""
    if estimate is None or not estimate.whole:
        return ""
    return MARKS[Quality.SAMPLED if estimate.told_by_samples else Quality.BY_MODE]


def _samples(number: int) -> str:
    return f"{number:,} sample{'s' * (number != 1)}"


def _portion(part: int, whole: int) -> str:
    """Return a share that is neither nothing nor all: never rounded to 0 or to 100 %."""
    found = part / whole
    return "< 1 %" if found < 0.005 else "> 99 %" if found >= 0.995 else share(found)
