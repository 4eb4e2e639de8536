"""When work is expected to be done, in a line."""

from __future__ import annotations

from headway.model import Ledger, Quality
from headway.model.forecast import Expectation
from headway.model.work import Work

from .figures import MARKS, share
from .lines import Line
from .printable import fit

__all__ = ["forecast_line", "forecast_text"]


def _time(ns: int) -> str:
    """Return a length of time to two or three digits."""
    seconds = ns / 1e9
    if seconds < 600:
        return f"{seconds:.3g} s"
    minutes, hours = seconds / 60, seconds / 3600
    return f"{minutes:.0f} min" if minutes < 100 else f"{hours:.0f} h"


def forecast_text(work: Work, expected: Expectation, ledger: Ledger) -> str:
    """Return how much of the work is done, and when the rest will be; ``ledger``: of the last interval."""
    mark = MARKS[Quality.EXACT if work.tag else ledger.precision.effective]
    amount = f"{work.amount:,} × {work.tag}" if work.tag else f"{_time(work.amount)} EPI"
    text = f"work: {mark}{share(expected.done / work.amount)} of {amount} is done"
    if expected.left == 0:
        text = f"work: {mark}all of {amount} is done"
    elif expected.left is None:
        text += f"; {expected.reason}"
    else:
        text += f", rest in {_time(expected.left)}"
        if expected.least is not None:
            most = "or never" if expected.most is None else f"to {_time(expected.most)}"
            text += f" (95 %: {_time(expected.least)} {most})"
    return text


def forecast_line(work: Work, expected: Expectation, ledger: Ledger, width: int) -> Line:
    """Return `forecast_text` as a line."""
    return [(fit(forecast_text(work, expected, ledger), width).rstrip(), "")]
