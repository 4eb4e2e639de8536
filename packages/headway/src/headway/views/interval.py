"""The line that separates the report of one interval from that of the next."""

from __future__ import annotations

from headway.model import Ledger

from .figures import with_unit
from .lines import Line
from .printable import fit

__all__ = ["heading"]


def heading(ledger: Ledger, began: int, width: int = 80) -> Line:
    """Return a line with the time from ``began`` to the interval's end, and the interval's length."""
    after = with_unit(ledger.window.end - began, ledger.time_unit, 7, " ")
    length = with_unit(ledger.window.duration, ledger.time_unit, 7, " ")
    text = f"after {after}, an interval of {length} "
    return [(fit(text + "─" * max(width - len(text), 0), width), "dim")]
