"""A trace of the machine as slices: a track for each hart, with stalls in its functions, sleep and gaps.

Times are ticks of the machine, so that cores whose clocks differ stay aligned; a nanosecond in the output is a tick. A
stall has a slice of its own if it is long enough to be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from headway_trace._edges import SliceEdges
from headway_trace.edges import Edges, Tracks

from ._slices import ThreadSlices, TickClock
from .container import NOT_COUNTED, unit_of

if TYPE_CHECKING:
    from .reading import Trace

__all__ = ["track_of", "walk", "write"]

MIN_CYCLES = 8
"""Cycles that a stall must last to get a slice of its own."""
_COUNTERS = 100
"""The number from which on the tracks of a core's counters follow those of its threads."""


def walk(trace: Trace, core: int, receive: Callable[[Edges], object]) -> None:
    """Give the edges of a core's threads, of each thread in order and properly nested."""
    trace.check_times()
    trace.check_program()
    assert trace.program is not None
    edges = SliceEdges(trace.program, receive, TickClock(trace.clock(core)))
    slices = ThreadSlices(edges, track_of(core, 0), trace.shape.threads if trace.shape.strict else 1, MIN_CYCLES)
    for rows in trace.rows(core, stalls=True):
        slices.add(rows)
    edges.close()


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
        name = trace.counted[place]
        unit = "cycles" if unit_of(name) == "cycles" else ""
        file.counter(track, name.replace("_", " "), unit, track_of(core))
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
