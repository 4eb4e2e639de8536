"""An instruction trace as nested slices for a view, the same for every trace format: what each track was doing.

The producer of a format reports for each track, in order of time, what was executed (`SliceEdges.executes`), what the
time within it was spent on (`SliceEdges.within`), and when nothing was executed or nothing is known
(`SliceEdges.apart`). `_edges.SliceEdges` turns each span in one function into one slice, with the lines of source that
are known. It gives the edges of slices in blocks as they come, so that memory does not grow with the trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = ["AddressNames", "Edge", "Edges", "SliceHead", "Tracks", "name_of"]


class AddressNames(Protocol):
    """The names that a program has for addresses. Both methods return "" for an address without a name."""

    def symbol(self, address: int) -> str:
        """Return the function that contains the address."""

    def line(self, address: int) -> str:
        """Return ``file:line`` of the source of the address."""


def name_of(names: AddressNames, address: int) -> str:
    """Return the name of a slice in which an address is executed: its function, or the 256 bytes around it."""
    return names.symbol(address) or f"{address & ~0xFF:#010x}"


class SliceHead(NamedTuple):
    """What is known of a slice when it begins, but its track and its time."""

    name: str
    category: str
    address: int | None = None
    line: str = ""
    thread: int | None = None
    instant: bool = False
    """Not a slice, but something without a length, within the innermost slice if one is open."""


class Edge(NamedTuple):
    """The begin of a slice of a track at a time (ns), or, if ``name`` is None, the end of the innermost slice.

    The other fields are those of its `SliceHead`.
    """

    track: int
    time: int
    name: str | None = None
    category: str = ""
    address: int | None = None
    line: str = ""
    thread: int | None = None
    instant: bool = False


@dataclass(frozen=True, slots=True)
class Edges:
    """A block of edges, in order.

    ``tracks``, ``times`` (ns) and ``places`` have a value for each edge: 64, 64 and 32 bits. ``places`` has where in
    ``heads`` the head of the slice is that begins; -1: the innermost slice of the track ends. Blocks may have one list
    of heads in common, which grows.
    """

    tracks: memoryview
    times: memoryview
    places: memoryview
    heads: Sequence[SliceHead]

    def __iter__(self) -> Iterator[Edge]:
        """Yield the edges one by one."""
        for track, time, place in zip(self.tracks, self.times, self.places, strict=True):
            yield Edge(track, time) if place < 0 else Edge(track, time, *self.heads[place])


class Tracks(Protocol):
    """A receiver of edges."""

    def describe(self, track: int, name: str, parent: int | None = None) -> None:
        """Name a track, before its first edge; ``parent`` is the number of the track above it."""

    def put(self, edges: Edges) -> None:
        """Take the next edges."""

    def counter(self, track: int, name: str, unit: str, parent: int) -> None:
        """Name the track of a counter, before its first value; ``unit``: empty for a number of occurrences."""

    def count(self, track: int, time: int, value: int) -> None:
        """Take a counter's value from a time (ns) on. Its times never go back."""
