"""What of a trace is wanted: streams, threads, and a part of the common time."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .alignment import Fit

__all__ = ["Wanted", "stretches_of"]

_LAST = 1 << 62
"""A cycle after the end of every trace."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The choice of a user. ``streams`` and ``threads`` are empty for all, ``begin`` and ``end`` None without a limit.

    Times are of the trace's common clock; what is at ``end`` itself is left out. ``disassemble``: instructions are
    wanted as text, too.
    """

    streams: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    begin: int | None = None
    end: int | None = None
    disassemble: bool = False

    @property
    def timed(self) -> bool:
        """Whether a part of the time is wanted."""
        return self.begin is not None or self.end is not None

    def holds(self, thread: int | None) -> bool:
        """Return whether a thread is wanted. What has none is of any."""
        return not self.threads or thread is None or thread in self.threads


def stretches_of(fit: Fit, begin: int | None, end: int | None) -> list[tuple[int, int, int]]:
    """Return (epoch, first cycle, end) of what lies in a part of the common time, in order."""
    if fit.rate is None:
        return []
    found = []
    for epoch, lines in sorted(fit.lines.items()):
        for number, line in enumerate(lines):
            first = 0 if number == 0 else line.first
            last = _LAST if number == len(lines) - 1 else line.last + 1
            if begin is not None:
                first = max(first, ceil((begin - line.height) * fit.rate))
            if end is not None:
                last = min(last, ceil((end - line.height) * fit.rate))
            if first < last:
                found.append((epoch, first, last))
    return found
