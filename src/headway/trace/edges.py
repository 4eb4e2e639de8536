"""An instruction trace as nested slices for a view, the same for every trace format: what each track was doing.

The producer of a format reports for each track, in order of time, what was executed (`SliceEdges.executes`), what the
time within it was spent on (`SliceEdges.within`), and when nothing was executed or nothing is known
(`SliceEdges.apart`). `SliceEdges` turns each span in one function into one slice, with the lines of source that are
known. It writes each slice when it ends, so that memory does not grow with the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = ["AddressNames", "Edge", "SliceEdges", "Tracks", "name_of"]

_MAX_NAMES = 1 << 20


class AddressNames(Protocol):
    """The names that a program has for addresses. Both methods return "" for an address without a name."""

    def symbol(self, address: int) -> str:
        """Return the function that contains the address."""

    def line(self, address: int) -> str:
        """Return ``file:line`` of the source of the address."""


def name_of(names: AddressNames, address: int) -> str:
    """Return the name of a slice in which an address is executed: its function, or the 256 bytes around it."""
    return names.symbol(address) or f"{address & ~0xFF:#010x}"


class Edge(NamedTuple):
    """The begin of a slice of a track at a time (ns), or, if ``name`` is None, the end of the innermost slice."""

    track: int
    time: int
    name: str | None
    category: str = ""
    address: int | None = None
    line: str = ""
    thread: int | None = None
    instant: bool = False
    """Not the begin of a slice, but something without a length, within the innermost slice if one is open."""


class Tracks(Protocol):
    """A receiver of edges."""

    def describe(self, track: int, name: str, parent: int | None = None) -> None:
        """Name a track, before its first edge; ``parent`` is the number of the track above it."""

    def put(self, edge: Edge) -> None:
        """Take the next edge."""

    def counter(self, track: int, name: str, unit: str, parent: int) -> None:
        """Name the track of a counter, before its first value; ``unit``: empty for a number of occurrences."""

    def count(self, track: int, time: int, value: int) -> None:
        """Take a counter's value from a time (ns) on. Its times never go back."""


@dataclass(slots=True)
class _Track:
    name: str | None = None
    """The name of the open slice; None if no slice is open."""
    thread: int | None = None
    begin: int = 0
    """The time at which that slice began."""
    end: int = 0
    """The time up to which it is known what the track did."""


class SliceEdges:
    """Makes edges from spans of time and gives them to ``put``.

    Spans have times of the producer, which ``clock`` converts to nanoseconds. They come in the order of their track's
    time. A span that lies before the time that its track has reached is left out and counted (``passed``).
    """

    def __init__(
        self, names: AddressNames, put: Callable[[Edge], None], clock: Callable[[int], int] = lambda time: time
    ) -> None:
        self._names, self._put, self._clock = names, put, clock
        self._known: dict[int, str] = {}
        self._tracks: dict[int, _Track] = {}
        self.passed = 0

    def executes(self, track: int, start: int, end: int, address: int, thread: int | None = None) -> bool:
        """Report that the instruction at ``address`` was executed, or waited to be, by the software thread ``thread``.

        Return False if the track has passed that time.
        """
        name = self._known.get(address)
        if name is None:
            if len(self._known) >= _MAX_NAMES:
                self._known.clear()
            name = self._known[address] = name_of(self._names, address)
        now = self._tracks.get(track)
        if now is not None and now.name == name and now.end == start and now.thread == thread:
            now.end = end
            return True
        begin = self._fit(track, start, end)
        if begin is None:
            return False
        now = self._tracks[track]
        self._close(track, now)
        self._begin(track, begin, name, "function", address, thread)
        now.name, now.thread, now.begin, now.end = name, thread, begin, end
        return True

    def within(self, track: int, start: int, end: int, name: str, category: str, address: int) -> None:
        """Report what a part of the last span was spent on, after `executes` has returned True for that span."""
        now = self._tracks[track]
        start = max(start, now.begin)
        if now.name is None or start >= end:
            return
        self._begin(track, start, name, category, address, None)
        self._put(Edge(track, self._clock(end), None))

    def apart(self, track: int, start: int, end: int, name: str, category: str, address: int | None = None) -> None:
        """Report that nothing was executed, or that it is not known what was."""
        begin = self._fit(track, start, end)
        if begin is None:
            return
        now = self._tracks[track]
        self._close(track, now)
        self._begin(track, begin, name, category, address, None)
        self._put(Edge(track, self._clock(end), None))
        now.end = end

    def mark(self, track: int, time: int, name: str, category: str, address: int) -> None:
        """Report that something happened at a time that the track has reached, and no later one."""
        self._put(Edge(track, self._clock(time), name, category, address, self._names.line(address), None, True))

    def pause(self, track: int) -> None:
        """Report that what the track does from here on has no place in time."""
        now = self._tracks.get(track)
        if now is not None:
            self._close(track, now)

    def close(self) -> None:
        """End all open slices, after the last report."""
        for track, now in self._tracks.items():
            self._close(track, now)

    def _fit(self, track: int, start: int, end: int) -> int | None:
        """Return the time from which on the track has not passed the span; None if it has passed all of it."""
        if start >= end:
            return None
        now = self._tracks.setdefault(track, _Track(end=start))
        if now.end >= end:
            self.passed += 1
            return None
        return max(start, now.end)

    def _begin(self, track: int, start: int, name: str, category: str, address: int | None, thread: int | None) -> None:
        line = "" if address is None else self._names.line(address)
        self._put(Edge(track, self._clock(start), name, category, address, line, thread))

    def _close(self, track: int, now: _Track) -> None:
        if now.name is not None:
            self._put(Edge(track, self._clock(now.end), None))
            now.name = None
