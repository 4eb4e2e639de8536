"""The clock of a core in relation to the machine's, from the clock packets of its trace unit.

The cores of a machine may run at different speeds, so threads of different cores are aligned by ticks. At each change
of a core's clock, its trace unit sends the tick of a cycle, and how the clock runs from there on. It repeats this at
the head of each segment. Such a repetition is no change and must not be taken for one, because a clock that is stopped
for a part of each window counts its windows from the change on. It does so even from a change that changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Clock", "ClockChange"]

_FULL = 16
"""The full speed, in sixteenths of the machine's clock."""
_NEAR = 1
"""Cycles by which a head may differ: on a slow clock, its tick may be any tick of its cycle."""


class ClockChange(NamedTuple):
    """A change of a clock at a cycle and its ``tick``: ``speed`` sixteenths, in ``running`` ticks of each window."""

    cycle: int
    tick: int
    speed: int
    running: int

    def tick_of(self, cycle: int, window: int) -> int:
        """Return the tick of a cycle."""
        turned = (cycle - self.cycle) * _FULL // self.speed
        if self.running == window:
            return self.tick + turned
        windows, rest = divmod(turned, self.running)
        return self.tick + windows * window + rest

    def cycle_of(self, tick: int, window: int) -> int:
        """Return the first cycle at or after a tick."""
        turned = tick - self.tick
        if self.running != window:
            windows, rest = divmod(turned, window)
            turned = windows * self.running + min(rest, self.running)
        return self.cycle - (-turned * self.speed // _FULL)

    def rests(self, tick: int, window: int) -> bool:
        """Return whether a tick is in the part of its window in which the clock is stopped."""
        return self.running != window and (tick - self.tick) % window >= self.running


class Clock:
    """The clock of a core. ``end``: the first cycle after the trace. ``changes``: in order, from its beginning on."""

    def __init__(self, told: Sequence[tuple[int, int, int, int, bool]], end: int, window: int) -> None:
        """Take what the trace unit sent, in its order: ``told``.

        Each is (cycle, tick, speed in sixteenths, ticks of each ``window`` in which the clock runs, whether it changed
        there; if not, the head of a segment repeats it).
        """
        self.end = end
        self.exact = True
        """Whether the tick of each cycle is exact. Only a change, not a head, tells where a clock's windows begin."""
        self.window = window
        """The ticks of a window; a clock may run in a part of each."""
        self.changes: list[ClockChange] = []
        for cycle, tick, speed, running, changed in told:
            now, before = ClockChange(cycle, tick, speed, running), self.changes[-1] if self.changes else None
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
        self.changes = self.changes or [ClockChange(0, 0, _FULL, window)]
        self._cycles = [change.cycle for change in self.changes]
        self._ticks = [change.tick for change in self.changes]

    @property
    def rate(self) -> float | None:
        """Cycles per tick of the machine, over the whole trace; None for an empty one."""
        first = self.changes[0]
        ticks = self.tick(self.end) - first.tick
        return (self.end - first.cycle) / ticks if ticks else None

    def tick(self, cycle: int) -> int:
        """Return the tick of a cycle of the core."""
        return self.changes[max(bisect_right(self._cycles, cycle) - 1, 0)].tick_of(cycle, self.window)

    def cycle(self, tick: int) -> int:
        """Return the core's first cycle at or after a tick."""
        change, following = self._around(tick)
        cycle = change.cycle_of(tick, self.window)
        # Before a change the clock may have stood still: a system-management interrupt.
        return cycle if following is None else min(cycle, following.cycle)

    def stopped(self, tick: int) -> bool:
        """Return whether the clock stands still at a tick. One that is slow does not."""
        change, following = self._around(tick)
        if tick < change.tick:
            return False
        late = following is not None and tick >= change.tick_of(following.cycle, self.window)
        return late or change.rests(tick, self.window)

    def _around(self, tick: int) -> tuple[ClockChange, ClockChange | None]:
        """Return the change from which on the clock runs as it does at a tick, and the next one."""
        at = max(bisect_right(self._ticks, tick) - 1, 0)
        return self.changes[at], self.changes[at + 1] if at + 1 < len(self.changes) else None
