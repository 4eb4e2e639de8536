"""A thread's time in one line: a bar of kinds, and a sparkline of its history.

Like all lines, they are parts of text with the name of a style. ``on effective`` is the background in a kind's colour,
``effective`` its colour for text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headway.model import Kind
from headway.views.lines import Line
from headway.views.palette import OFF_PROCESSOR, ON_PROCESSOR, ORDER, PALETTE

__all__ = ["NEVER", "bar", "cells_of", "divided", "ground", "spark"]

NEVER = 255
"""The value in a history for an interval in which the thread did not exist or was not seen."""
_LEVELS = "▁▂▃▄▅▆▇█"
_ZERO = "·"
_DIVIDER = "│"


def ground(kind: Kind) -> str:
    """Return the style of the part of a bar for this kind."""
    return f"on {kind.value}"


def divided(amounts: Sequence[int], cells: int) -> list[int]:
    """Divide ``cells`` cells in the proportion of the amounts, by largest remainders; errors are below a cell."""
    whole = sum(amounts)
    if whole <= 0:
        return [0] * len(amounts)
    found = [amount * cells // whole for amount in amounts]
    order = sorted(range(len(amounts)), key=lambda at: (-(amounts[at] * cells % whole), at))
    for at in order[: cells - sum(found)]:
        found[at] += 1
    return found


def cells_of(times: Mapping[Kind, int], cells: int) -> dict[Kind, int]:
    """Return how many of ``cells`` cells each kind gets."""
    return dict(zip(ORDER, divided([max(times.get(kind, 0), 0) for kind in ORDER], cells), strict=True))


def bar(times: Mapping[Kind, int], width: int, *, letters: bool = False) -> Line:
    """Return the bar in exactly ``width`` columns: the kinds on the processor, a line, the kinds off it.

    Every part begins with the letter of its kind. ``letters``: it consists of the letter, for screens without colour.
    """
    cells = cells_of(times, max(width - 1, 0))
    if width < 1 or not any(cells.values()):
        return [(" " * max(width, 0), "")]
    line: Line = []
    for part in (ON_PROCESSOR, OFF_PROCESSOR):
        if part is OFF_PROCESSOR:
            line.append((_DIVIDER, "dim"))
        line += [(_piece(kind, cells[kind], letters), ground(kind)) for kind in part if cells[kind]]
    return line


def _piece(kind: Kind, cells: int, letters: bool) -> str:
    letter = PALETTE[kind].letter
    if letters:  # threads mostly wait, so waiting must not dominate the picture
        return letter + "." * (cells - 1) if kind is Kind.WAIT else letter * cells
    return letter.ljust(cells)


def spark(history: Sequence[int], width: int) -> str:
    """Return the last values of a history (per cent or `NEVER`), one for each column, the newest at the right."""
    last = history[-width:] if width > 0 else ()
    return "".join([_SPARK[value] for value in last]).rjust(max(width, 0))


_SPARK = [_ZERO, *(_LEVELS[(value - 1) * 8 // 100] for value in range(1, 101)), *(" " for _ in range(101, 256))]
