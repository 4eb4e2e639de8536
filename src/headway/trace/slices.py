"""The streams of a capture as slices: a track for each stream, with long waits inside functions and gaps as slices.

All are in the common time. A nanosecond in the output is a thousandth of a tick of the common clock, since many
instructions are done in one tick. If no stream has enough timestamps, each stream is on a clock of its own, and a
nanosecond is one of its cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headway.errors import HeadwayError

from ._records import SpanReader, SymbolCells
from .edges import Edge, SliceEdges, Tracks, name_of

if TYPE_CHECKING:
    from .alignment import Fit, TimestampLine
    from .decode import Stream
    from .image import TracedImage

__all__ = ["PER_TICK", "plan", "walk", "write"]

PER_TICK = 1000
"""Nanoseconds in the output for each tick of the common clock."""
MIN_CYCLES = 8
"""Cycles that an instruction must wait so that the wait gets a slice of its own."""
_LATEST = (1 << 63) - 1
_UNPLACED = "unknown.alignment"


class _Clock:
    """A conversion from cycles to nanoseconds. Cycles must come in order; its cost then does not grow with the fit."""

    def __init__(self, found: Fit | None) -> None:
        self._fit = found
        self._epoch, self._at = -1, 0
        self._lines: Sequence[TimestampLine] = ()

    def span(self, epoch: int, start: int, end: int) -> tuple[int, int] | None:
        """Return begin and end in nanoseconds; None if they are not known, or if time was lost in between."""
        if self._fit is None:
            return (start, end) if epoch == 0 else None
        if epoch != self._epoch:
            self._epoch, self._at, self._lines = epoch, 0, self._fit.lines.get(epoch, ())
        while self._at + 1 < len(self._lines) and start >= self._lines[self._at].last:
            self._at += 1
        if not self._lines or self._fit.rate is None:
            return None
        first, last, height = self._lines[self._at]
        if (start < first and self._at) or (end > last and self._at + 1 < len(self._lines)):
            return None
        rate = self._fit.rate
        begin, end = round((height + start / rate) * PER_TICK), round((height + end / rate) * PER_TICK)
        return (begin, end) if begin >= 0 and end <= _LATEST else None

    def bounds(self, epoch: int) -> list[int]:
        """Return the cycles of the epoch at which its lines begin and end, in order."""
        lines = self._fit.lines.get(epoch, ()) if self._fit is not None else ()
        return sorted({cycle for line in lines for cycle in (line.first, line.last)})


def _shown_names(image: TracedImage) -> Callable[[int], str]:
    """Return what gives an address the name of its slice."""
    return lambda address: name_of(image, address)


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


def walk(stream: Stream, found: Fit | None, put: Callable[[Edge], None]) -> int:
    """Put the edges of a stream in order, properly nested. Return how many spans were of a time already passed."""
    track, clock, slices = track_of(stream), _Clock(found), SliceEdges(stream.image, put)
    reader = SpanReader(SymbolCells(_shown_names(stream.image)), clock.bounds, MIN_CYCLES)
    reached: int | None = None
    lost = ""  # the reason why it is not known what was done since then
    for epoch, start, cycle, address, thread, why, known, waited in (
        span for block in stream.blocks() for span in reader.spans(block)
    ):
        span = clock.span(epoch, start, cycle)
        if span is None or not known:
            slices.pause(track)
            lost = lost or _UNPLACED if why is None else why.state
            continue
        begin, end = span
        if lost and reached is not None and reached < begin:
            slices.apart(track, reached, begin, lost, "gap")
        lost = ""
        if why is not None:
            if begin < end:
                slices.apart(track, begin, end, why.state, "gap")
        elif slices.executes(track, begin, end, address, thread) and waited:
            slices.within(track, begin, end, "stall", "stall", address)
        reached = end
    slices.close()
    return slices.passed


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
