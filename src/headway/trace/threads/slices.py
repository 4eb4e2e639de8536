"""A trace of the machine as slices: a track for each hart, with stalls in its functions, sleep and gaps.

Times are ticks of the machine, so that cores whose clocks differ stay aligned; a nanosecond in the output is a tick. A
stall has a slice of its own if it is long enough to be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.trace.edges import Edge, SliceEdges, Tracks

from .reading import STATES

if TYPE_CHECKING:
    from .reading import Trace

__all__ = ["track_of", "walk", "write"]

MIN_CYCLES = 8
"""Cycles that a stall must last to get a slice of its own."""
_EXECUTED, _NOT_TAKEN, _TRAPS, _UNKNOWN = 16, 17, 18, 32
_SLEEPS = (12, 16)


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
            if cycle is None or not cycles:
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
    """Write the slices of these cores. Raises HeadwayError without a program."""
    for core in cores:
        file.describe(track_of(core), f"core {core}")
        for thread in range(trace.shape.threads):
            file.describe(track_of(core, thread), f"hart {core * trace.shape.threads + thread}", track_of(core))
        walk(trace, core, file.put)


def track_of(core: int, thread: int = -1) -> int:
    """Return the number of a hart's track, or of its core's."""
    return 1000 * (core + 1) + thread + 1
