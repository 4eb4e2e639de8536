"""Figures in a fixed small number of columns: three or four significant digits and the unit."""

from __future__ import annotations

from functools import lru_cache

from headway.model import Quality

__all__ = ["MARKS", "NOTHING", "share", "with_unit"]

MARKS = {
    Quality.EXACT: "",
    Quality.ESTIMATED: "±",
    Quality.BOUND: "≤",
    Quality.BY_MODE: "≈",
    Quality.SAMPLED: "~",
    Quality.PARTIAL: "≥",
    Quality.UNAVAILABLE: "",
}
"""The mark before a figure of each quality."""

_LARGEST_SHARE = 9.995
"""More of a whole than this is no share, and comes from figures that do not belong together."""

NOTHING = "·"
"""The sign for exactly zero. Most cells of a table are zero and should not attract attention."""

_TIMES = (("ns", 1), ("µs", 10**3), ("ms", 10**6), ("s", 10**9), ("h", 3600 * 10**9))
_NUMBERS = (("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12))
_LARGEST_OF = {"s": 10_000, "h": float("inf"), "": 1_000_000, "T": float("inf")}
"""A unit is used for values below this; the next unit from there on. It is 1,000 for units not listed."""


@lru_cache(maxsize=65536)
def with_unit(value: int, unit: str, width: int, gap: str = "") -> str:
    """Return a time (``unit`` is "ns") or any other number, in at most ``width`` columns (at least 5).

    ``gap`` separates a time from its unit.

    >>> with_unit(75_123_000, "ns", 5), with_unit(75_123_000, "ns", 7, " "), with_unit(0, "ns", 5)
    ('75ms', '75.1 ms', '·')
    >>> with_unit(9_412_345, "cycles", 5), with_unit(9_412, "cycles", 5)
    ('9.41M', '9,412')
    """
    if value == 0:
        return NOTHING
    scales, gap = (_TIMES, gap) if unit == "ns" else (_NUMBERS, "")
    for name, scale in scales:
        largest = _LARGEST_OF.get(name, 1_000)
        if value >= largest * scale:
            continue
        tail = gap + name if name else ""
        for digits in (3, 2, 1, 0) if scale > 1 else (0,):
            text = f"{value / scale:,.{digits}f}" if not name else f"{value / scale:.{digits}f}"
            fits = len(text) + len(tail) <= width
            if fits and float(text.replace(",", "")) < largest:
                return text + tail
    return f"{value / scales[-1][1]:.0e}{scales[-1][0]}"[:width]


def share(part: float | None) -> str:
    """Return a share of one as per cent, in at most five columns."""
    if part is None:
        return "–"
    return f"{part * 100:.0f} %" if part < _LARGEST_SHARE else ">999%"
