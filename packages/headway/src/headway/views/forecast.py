"""When work is expected to be done, in a line."""

from __future__ import annotations

from headway.model import Quality
from headway.model.forecast import Expectation

from .figures import MARKS, share
from .lines import Line
from .printable import fit

__all__ = ["forecast_line"]


def _time(ns: int) -> str:
    """Return a length of time to two or three digits."""
    seconds = ns / 1e9
    if seconds < 600:
        return f"{seconds:.3g} s"
    minutes, hours = seconds / 60, seconds / 3600
    return f"{minutes:.0f} min" if minutes < 100 else f"{hours:.0f} h"


def forecast_line(expected: Expectation, width: int, quality: Quality) -> Line:
    """Return how much of the work is done, and when the rest will be; ``quality``: of EPI."""
    text = f"work: {MARKS[quality]}{share(expected.done / expected.work)} of {_time(expected.work)} EPI is done"
    if expected.left == 0:
        text = f"work: {MARKS[quality]}all of {_time(expected.work)} EPI is done"
    elif expected.left is None:
        text += "; it makes no progress"
    else:
        text += f", the rest in {_time(expected.left)}"
        if expected.least is not None:
            most = "or never" if expected.most is None else f"to {_time(expected.most)}"
            text += f" (95 %: {_time(expected.least)} {most})"
    return [(fit(text, width).rstrip(), "")]
