"""Tracks of slices as a Perfetto trace. The caller describes each track before its edges."""

from __future__ import annotations

from typing import BinaryIO

from headway.errors import HeadwayError
from headway.views.edges import SliceEdge

from .packets import PerfettoTrace, annotated
from .wire import integer, message, text

__all__ = ["File"]


_MAX_KNOWN = 1 << 16
"""The number of different begins of slices whose fields are kept."""


class File:
    """The Perfetto file. Call `close` when done."""

    def __init__(self, stream: BinaryIO) -> None:
        self._trace = PerfettoTrace(stream.write)
        self._events = self._trace.events
        self._known: dict[tuple[object, ...], tuple[int, int, bytes]] = {}
        self._address, self._line, self._thread = (self._trace.note(name) for name in ("address", "line", "thread"))

    @property
    def slices(self) -> int:
        """The number of slices written."""
        return self._events.slices

    def describe(self, track: int, name: str, parent: int | None = None) -> None:
        """Describe a track. Must come before its edges."""
        self._trace.track(track, name, parent=parent)

    def put(self, edge: SliceEdge) -> None:
        """Write an edge. Raises HeadwayError for a time that Perfetto cannot hold."""
        if not 0 <= edge.time < 1 << 63:
            raise HeadwayError(f"a time of this trace, {edge.time} ns, is too large for Perfetto: export a part of it")
        if edge.name is None:
            self._events.end(edge.track, edge.time)
            return
        what = edge.name, edge.category, edge.address, edge.line, edge.thread
        found = self._known.get(what)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known[what] = self._fields(edge, edge.name)
        write = self._events.instant if edge.instant else self._events.begin
        write(edge.track, edge.time, *found)

    def _fields(self, edge: SliceEdge, title: str) -> tuple[int, int, bytes]:
        """Return category and name as numbers, and further fields as bytes: what does not depend on track and time."""
        name = self._trace.name_if_room(title)
        more = b"" if name else text(23, title)
        if edge.address is not None:
            more += message(4, integer(1, self._address), integer(7, edge.address))
        if edge.line:
            more += annotated([(self._line, edge.line)])
        if edge.thread is not None:
            more += annotated([(self._thread, edge.thread)])
        return self._trace.category(edge.category), name, more

    def counter(self, track: int, name: str, unit: str, parent: int) -> None:
        """Describe the track of a counter. Must come before its values."""
        self._trace.counter(track, name, unit, parent)

    def count(self, track: int, time: int, value: int) -> None:
        """Write a counter's value from ``time`` (ns) on."""
        self._events.counter(track, time, value)

    def close(self) -> None:
        """Write what is still in the buffer."""
        self._events.flush()
