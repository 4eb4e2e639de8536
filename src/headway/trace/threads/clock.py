"""A core's clock against the machine's, from what its trace unit said of it.

The cores of a machine may run at different speeds, so threads of different cores are laid over each other by ticks.
Each time a core's clock changed its trace unit said which tick a cycle was at, and how the clock ran from there on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

__all__ = ["Clock"]

_FULL = 16
"""Sixteenths of the machine's clock."""


class Clock:
    """``end``: the first cycle after the trace."""

    def __init__(self, changes: Sequence[tuple[int, int, int, int]], end: int, window: int) -> None:
        """``changes``: (cycle, tick, speed in sixteenths, ticks of each ``window`` in which it runs)."""
        self.end = end
        self._changes = sorted(changes) or [(0, 0, _FULL, window)]
        self._cycles = [change[0] for change in self._changes]
        self._ticks = [change[1] for change in self._changes]
        self._window = window

    def tick(self, cycle: int) -> int:
        """The tick that a cycle of the core is at."""
        first, tick, speed, running = self._changes[max(bisect_right(self._cycles, cycle) - 1, 0)]
        turned = (cycle - first) * _FULL // speed
        if running == self._window:
            return tick + turned
        windows, rest = divmod(turned, running)
        return tick + windows * self._window + rest

    def cycle(self, tick: int) -> int:
        """The core's first cycle at or after a tick."""
        first, since, speed, running = self._changes[max(bisect_right(self._ticks, tick) - 1, 0)]
        turned = tick - since
        if running != self._window:
            windows, rest = divmod(turned, self._window)
            turned = windows * running + min(rest, running)
        return first + -(-turned * speed // _FULL)
