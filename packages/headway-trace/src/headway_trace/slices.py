"""The streams of a capture as slices: a track for each stream, with long waits inside functions and gaps as slices.

All are in the common time. A nanosecond in the output is a thousandth of a tick of the common clock, since many
instructions are done in one tick. If no stream has enough timestamps, each stream is on a clock of its own, and a
nanosecond is one of its cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headway.errors import HeadwayError

from ._edges import SliceEdges
from ._slices import CaptureSlices
from .edges import Edges, Tracks

if TYPE_CHECKING:
    from .alignment import Fit
    from .decode import Stream

__all__ = ["PER_TICK", "plan", "walk", "write"]

PER_TICK = 1000
"""Nanoseconds in the output for each tick of the common clock."""
MIN_CYCLES = 8
"""Cycles that an instruction must wait so that the wait gets a slice of its own."""


def plan(fits: Sequence[tuple[Stream, Fit]]) -> tuple[list[tuple[Stream, Fit | None]], list[str]]:
    """Return the streams that can be shown, each with its fit to the common time, or None for a clock of its own.

    The second result has notes on the streams that cannot be shown, or are not in the common time. Raises HeadwayError
    if no stream can be shown.
    """
    notes = []
    timed = [(stream, found) for stream, found in fits if stream.setting.cycle_accurate]
    placed: list[tuple[Stream, Fit | None]] = [(stream, found) for stream, found in timed if found.rate is not None]
    if untimed := ", ".join(f"{stream.id:#x}" for stream, _ in fits if not stream.setting.cycle_accurate):
        notes.append(f"left out, as it counts no cycles: stream {untimed}")
    if not timed:
        raise HeadwayError(f"stream {untimed} counts no cycles: there is no time to show; trace with cycles")
    unplaced = [(stream, None) for stream, found in timed if found.rate is None]
    names = ", ".join(f"{stream.id:#x}" for stream, _ in unplaced)
    if placed and unplaced:
        notes.append(f"left out, as too few timestamps relate it to the others: stream {names}; name it alone")
    elif unplaced:
        notes.append(
            f"no timestamps: stream {names} is on its own clock, one nanosecond a cycle, to its first loss of time"
        )
    return placed or list(unplaced), notes


def walk(stream: Stream, found: Fit | None, receive: Callable[[Edges], object]) -> int:
    """Give the edges of a stream in order, properly nested. Return how many spans were of a time already passed."""
    edges = SliceEdges(stream.image, receive)
    slices = CaptureSlices(edges, track_of(stream), found, PER_TICK, MIN_CYCLES)
    for block in stream.blocks():
        slices.add(block)
    edges.close()
    return edges.passed


def write(streams: Sequence[tuple[Stream, Fit | None]], file: Tracks) -> list[str]:
    """Write the slices of the streams. Return notes for the user."""
    notes = []
    for stream, found in streams:
        file.describe(track_of(stream), f"stream {stream.id:#x} ({stream.source.core or stream.source.name})")
        if passed := walk(stream, found, file.put):
            notes.append(f"stream {stream.id:#x}: {passed} spans left out, as its time goes back")
    return notes


def track_of(stream: Stream) -> int:
    """Return the number of a stream's track."""
    return stream.id + 1
