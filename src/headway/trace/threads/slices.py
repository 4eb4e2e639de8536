"""A trace of the machine as slices: a track for each hart, with stalls in its functions, sleep and gaps.

Times are ticks of the machine, so that cores whose clocks differ stay aligned; a nanosecond in the output is a tick. A
stall has a slice of its own if it is long enough to be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from headway.trace.edges import Edge, SliceEdges, Tracks

from .container import NOT_COUNTED
from .reading import STATES

if TYPE_CHECKING:
    from .reading import Trace

__all__ = ["track_of", "walk", "write"]

MIN_CYCLES = 8
"""Cycles that a stall must last to get a slice of its own."""
_EXECUTED, _NOT_TAKEN, _TRAPS, _TRIGGER, _UNKNOWN = 16, 17, 18, 19, 32
_SLEEPS = (12, 16)
_COUNTERS = 100
"""The number from which on the tracks of a core's counters follow those of its threads."""


def walk(trace: Trace, core: int, put: Callable[[Edge], None]) -> None:
    """Put the edges of a core's threads, of each thread in order and properly nested."""
    trace.check_times()
    trace.check_program()
    assert trace.program is not None
    unit = trace.shape.threads if trace.shape.strict else 1
    clock = trace.clock(core)
    # The time before the oldest entry of a trace buffer is computed backwards and may fall before the beginning.
    slices = SliceEdges(trace.program, put, lambda cycle: max(clock.tick(cycle), 0))
    for rows in trace.rows(core, stalls=True):
        for number in range(len(rows)):
            thread, cycle, cycles, address, _, what, id_ = rows[number]
            track = track_of(core, thread)
            if what == _TRIGGER:
                if cycle is not None:
                    slices.mark(track, cycle + 1, STATES[what], "trigger", address)
            elif cycle is None or not cycles:
                slices.pause(track)
            elif what >= _UNKNOWN:
                slices.apart(track, cycle, cycle + cycles, STATES[what], "gap")
            elif _SLEEPS[0] <= what < _SLEEPS[1]:
                slices.apart(track, cycle, cycle + cycles, STATES[what], "idle", address)
            elif what in (_EXECUTED, _NOT_TAKEN):
                slices.executes(track, cycle - unit + 1, cycle + 1, address, id_ or None)
            else:
                told = slices.executes(track, cycle, cycle + cycles, address, id_ or None)
                if told and (what == _TRAPS or cycles >= MIN_CYCLES):
                    category = "trap" if what == _TRAPS else "stall"
                    slices.within(track, cycle, cycle + cycles, STATES[what], category, address)
    slices.close()


def write(trace: Trace, cores: list[int], file: Tracks) -> None:
    """Write the slices of these cores, and their profiles as counters. Raises HeadwayError without a program."""
    for core in cores:
        file.describe(track_of(core), f"core {core}")
        for thread in range(trace.shape.threads):
            file.describe(track_of(core, thread), f"hart {core * trace.shape.threads + thread}", track_of(core))
        walk(trace, core, file.put)
        _count(trace, core, file)


def _count(trace: Trace, core: int, file: Tracks) -> None:
    """Write the windows of a core's profile: each counter has what was counted in a window while the window lasted.

    The trace has the ends of windows. A window begins where the one before it ended, or as long before its end as the
    shortest window is, and then nothing was counted in between.
    """
    ends = [window[0] for window in trace.windows(core)]
    if not ends:
        return
    shortest = min([after - before for before, after in pairwise(ends) if after > before], default=ends[0])
    clock = trace.clock(core)
    tracks = {
        place: track_of(core, _COUNTERS + place) for place, name in enumerate(trace.counted) if name != NOT_COUNTED
    }
    for place, track in tracks.items():
        name = trace.counted[place].replace("_", " ")
        file.counter(track, name, "cycles" if name.endswith("cycles") else "", track_of(core))
    before = 0
    for end, *counts in trace.windows(core):
        begin = max(before, end - shortest)
        for place, track in tracks.items():
            if begin > before:
                file.count(track, max(clock.tick(before), 0), 0)
            file.count(track, max(clock.tick(begin), 0), counts[place])
        before = end
    for track in tracks.values():
        file.count(track, max(clock.tick(before), 0), 0)


def track_of(core: int, thread: int = -1) -> int:
    """Return the number of a hart's track, or of its core's."""
    return 1000 * (core + 1) + thread + 1
