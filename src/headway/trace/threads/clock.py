"""A core's clock against the machine's, from what its trace unit said of it.

The cores of a machine may run at different speeds, so threads of different cores are laid over each other by ticks.
Each time a core's clock changed its trace unit said which tick a cycle was at, and how the clock ran from there on. It
says the same in between, too, at the head of each segment; that is no change, and must not be taken for one: a clock
that is stopped for a part of each window counts its windows from the change. It does so, too, from one to the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Change", "Clock"]

_FULL = 16
"""Sixteenths of the machine's clock."""
_NEAR = 1
"""Cycles by which a head may be off: of a slow clock, its tick may be any of its cycle's."""


class Change(NamedTuple):
    """From a cycle on, which is at ``tick``, it has ``speed`` sixteenths, in ``running`` ticks of each window."""

    cycle: int
    tick: int
    speed: int
    running: int

    def tick_of(self, cycle: int, window: int) -> int:
        """The tick that a cycle is at."""
        turned = (cycle - self.cycle) * _FULL // self.speed
        if self.running == window:
            return self.tick + turned
        windows, rest = divmod(turned, self.running)
        return self.tick + windows * window + rest

    def cycle_of(self, tick: int, window: int) -> int:
        """The first cycle at or after a tick."""
        turned = tick - self.tick
        if self.running != window:
            windows, rest = divmod(turned, window)
            turned = windows * self.running + min(rest, self.running)
        return self.cycle - (-turned * self.speed // _FULL)


class Clock:
    """``end``: the first cycle after the trace. ``changes``: in order, the first of them where the trace begins."""

    def __init__(self, told: Sequence[tuple[int, int, int, int, bool]], end: int, window: int) -> None:
        """``told``, in the order in which it was.

        (cycle, tick, speed in sixteenths, ticks of each ``window`` in which it runs, whether it was changed there; else
        it is what the head of a segment says).
        """
        self.end = end
        self.exact = True
        """Whether each cycle's tick is: where a clock's windows begin is known from a change alone, not from a head."""
        self._window = window
        self.changes: list[Change] = []
        for cycle, tick, speed, running, changed in told:
            now, before = Change(cycle, tick, speed, running), self.changes[-1] if self.changes else None
            if before and not changed:
                repeats = before[2:] == now[2:] and abs(before.cycle_of(tick, window) - cycle) <= _NEAR
                if repeats or cycle <= before.cycle:
                    continue
            full = now[2:] == (_FULL, window)
            if before and full and before[2:] == now[2:] and tick - before.tick == cycle - before.cycle:
                continue
            self.exact = self.exact and (changed or full)
            while self.changes and self.changes[-1].cycle >= cycle:
                self.changes.pop()
            self.changes.append(now)
        self.changes = self.changes or [Change(0, 0, _FULL, window)]
        self._cycles = [change.cycle for change in self.changes]
        self._ticks = [change.tick for change in self.changes]

    @property
    def rate(self) -> float | None:
        """Cycles per tick of the machine, over the whole of the trace."""
        first = self.changes[0]
        ticks = self.tick(self.end) - first.tick
        return (self.end - first.cycle) / ticks if ticks else None

    def tick(self, cycle: int) -> int:
        """The tick that a cycle of the core is at."""
        return self.changes[max(bisect_right(self._cycles, cycle) - 1, 0)].tick_of(cycle, self._window)

    def cycle(self, tick: int) -> int:
        """The core's first cycle at or after a tick."""
        return self.changes[max(bisect_right(self._ticks, tick) - 1, 0)].cycle_of(tick, self._window)
