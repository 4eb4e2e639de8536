"""An instruction trace as nested slices, of whatever dialect it comes: what each track was doing, for a view to show.

A producer for each dialect says, track by track in order of time, what was executed (`Slices.executes`), what the time
within it was for (`Slices.within`), and when nothing was, or nothing is known (`Slices.apart`). Here a stretch in one
function becomes one slice, with the lines of source that are known, and slices are written as they end: memory does
not grow with the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Edge", "Names", "Slices", "Tracks"]

_MAX_NAMES = 1 << 20


class Names(Protocol):
    """What a program calls its addresses; nothing where it has no name for one."""

    def symbol(self, address: int) -> str:
        """The function."""

    def line(self, address: int) -> str:
        """``file:line`` of the source."""


@dataclass(frozen=True, slots=True)
class Edge:
    """At a time (ns) a slice of a track begins, or (name None) the innermost one ends."""

    track: int
    time: int
    name: str | None
    category: str = ""
    address: int | None = None
    line: str = ""
    thread: int | None = None


class Tracks(Protocol):
    """What edges are given to."""

    def describe(self, track: int, name: str, parent: int | None = None) -> None:
        """A track, before its edges."""

    def put(self, edge: Edge) -> None:
        """One more."""


@dataclass(slots=True)
class _Track:
    name: str | None = None
    """Of the slice that is open."""
    thread: int | None = None
    begin: int = 0
    """Of that slice."""
    end: int = 0
    """Up to where it is known what the track did."""


class Slices:
    """Makes edges of stretches and gives them to ``put``.

    Stretches have times of the producer, which ``clock`` makes nanoseconds of, and come in the order of their track's
    time. What is of a time that the track has passed is left out, and counted (``passed``).
    """

    def __init__(
        self, names: Names, put: Callable[[Edge], None], clock: Callable[[int], int] = lambda time: time
    ) -> None:
        self._names, self._put, self._clock = names, put, clock
        self._known: dict[int, str] = {}
        self._tracks: dict[int, _Track] = {}
        self.passed = 0

    def executes(self, track: int, start: int, end: int, address: int, thread: int | None = None) -> bool:
        """The instruction there was executed, or waited to be; ``thread``: the software thread whose it is.

        False: the track has passed that time.
        """
        name = self._known.get(address)
        if name is None:
            if len(self._known) >= _MAX_NAMES:
                self._known.clear()
            name = self._known[address] = self._names.symbol(address) or f"{address & ~0xFF:#010x}"
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
        """What time of the stretch was for that has just been told, and not passed."""
        now = self._tracks[track]
        start = max(start, now.begin)
        if now.name is None or start >= end:
            return
        self._begin(track, start, name, category, address, None)
        self._put(Edge(track, self._clock(end), None))

    def apart(self, track: int, start: int, end: int, name: str, category: str, address: int | None = None) -> None:
        """Nothing was executed, or what was is not known."""
        begin = self._fit(track, start, end)
        if begin is None:
            return
        now = self._tracks[track]
        self._close(track, now)
        self._begin(track, begin, name, category, address, None)
        self._put(Edge(track, self._clock(end), None))
        now.end = end

    def pause(self, track: int) -> None:
        """What the track does from here on has no place in time."""
        now = self._tracks.get(track)
        if now is not None:
            self._close(track, now)

    def close(self) -> None:
        """All has been told."""
        for track, now in self._tracks.items():
            self._close(track, now)

    def _fit(self, track: int, start: int, end: int) -> int | None:
        """From where on the track has not passed the stretch; None: it has passed all of it."""
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
