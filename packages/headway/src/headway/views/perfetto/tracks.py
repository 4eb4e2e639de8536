"""Tracks of slices as a Perfetto trace. The caller describes each track before its edges."""

from __future__ import annotations

from typing import BinaryIO

from headway.views.edges import SliceEdges, SliceHead

from ._events import SliceTracks
from .packets import PerfettoTrace, annotated
from .wire import integer, message, text

__all__ = ["File"]


class File:
    """The Perfetto file. Call `close` when done."""

    def __init__(self, stream: BinaryIO) -> None:
        self._trace = PerfettoTrace(stream.write)
        self._events = self._trace.events
        self._tracks = SliceTracks(self._events, self._fields)
        self._address, self._line, self._thread = (self._trace.note(name) for name in ("address", "line", "thread"))

    @property
    def slices(self) -> int:
        """The number of slices written."""
        return self._events.slices

    def describe(self, track: int, name: str, parent: int | None = None) -> None:
        """Describe a track. Must come before its edges."""
        self._trace.track(track, name, parent=parent)

    def put(self, edges: SliceEdges) -> None:
        """Write edges. Raises HeadwayError for a time that Perfetto cannot hold."""
        self._tracks.put(edges.tracks, edges.times, edges.places, edges.heads)

    def _fields(self, head: SliceHead) -> tuple[int, int, bytes]:
        """Return category and name as numbers, and further fields as bytes: what does not depend on track and time."""
        name = self._trace.name_if_room(head.name)
        more = b"" if name else text(23, head.name)
        if head.address is not None:
            more += message(4, integer(1, self._address), integer(7, head.address))
        if head.line:
            more += annotated([(self._line, head.line)])
        if head.thread is not None:
            more += annotated([(self._thread, head.thread)])
        return self._trace.category(head.category), name, more

    def counter(self, track: int, name: str, unit: str, parent: int) -> None:
        """Describe the track of a counter. Must come before its values."""
        self._trace.counter(track, name, unit, parent)

    def count(self, track: int, time: int, value: int) -> None:
        """Write a counter's value from ``time`` (ns) on."""
        self._events.counter(track, time, value)

    def close(self) -> None:
        """Write what is still in the buffer."""
        self._events.flush()
