"""Traces of Linux machines: what perf recorded, and files of packets, opened by what they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ._edges import LineClock, SliceEdges
from ._records import Records, SymbolCells, csv_cell
from ._slices import RunSlices
from .alignment import Fit
from .containers import PERF, kind_of
from .edges import Tracks
from .host_moment import HostMoment
from .memory import ProcessMemory
from .records import Record, Why

__all__ = ["HostCapture", "HostStream", "csv_lines", "open_host", "write_slices"]


class HostStatistics(Protocol):
    """What is in a stream."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    @property
    def packets(self) -> Mapping[Any, int]:
        """The number of packets of each kind."""


class HostStream(Protocol):
    """A stream: a thread, or a processor."""

    id: int
    label: str
    thread: int | None
    alone: bool
    errors: dict[str, int]

    @property
    def image(self) -> ProcessMemory:
        """The memory at the end."""

    def statistics(self) -> HostStatistics:
        """Return what is in the stream."""

    def check(self) -> None:
        """Raise HeadwayError if it cannot be decoded."""

    def bounds(self, begin: int | None, end: int | None) -> tuple[int, int]:
        """Return what `parts` takes for two times of the common clock."""

    def parts(self, start: int = ..., end: int = ...) -> Iterator[tuple[Records, ProcessMemory]]:
        """Yield the records in blocks, each with the memory that they were executed in."""

    def records(self) -> Iterator[Record]:
        """Yield the records."""

    def at_time(self, time: int) -> HostMoment:
        """Return what was executed at a time of the common clock."""

    def last(self, time: int) -> HostMoment:
        """Return the last instruction up to a time of the common clock, or why it is not known."""


class HostCapture(Protocol):
    """A file with streams."""

    isa: str

    @property
    def clock(self) -> str:
        """The name of the clock of its times."""

    def run_starts(self) -> dict[int, list[int]]:
        """Return tid -> when the thread got a processor, in the times of the clock."""

    @property
    def left_out(self) -> str:
        """What is missing, in one line."""

    @property
    def words(self) -> str:
        """From when to when there is trace."""

    def chosen(self, ids: Iterable[int]) -> Sequence[HostStream]:
        """Return the streams with these IDs, or all."""


def open_host(path: str, images: Sequence[str] = ()) -> HostCapture:
    """Open a trace of a Linux machine. Raises HeadwayError."""
    if kind_of(path) == PERF:
        from .perfdata.recorded import CORESIGHT, Recorded

        recorded = Recorded(path, images)
        assert recorded.info is not None
        if recorded.info.kind == CORESIGHT:
            from .perfdata.coresight import CoreSightThreads

            return CoreSightThreads(recorded)
        from .pt.threads import PtThreads

        return PtThreads(recorded)
    from .pt.capture import PtCapture

    return PtCapture(path, images)


def csv_lines(stream: HostStream, begin: int | None, end: int | None) -> Iterator[bytes]:
    """Yield lines of CSV for the instructions and gaps of a stream between two times, in blocks.

    The columns are those of `decode.CSV_COLUMNS`.
    """
    name = csv_cell(stream.label)
    thread = b"" if stream.thread is None else str(stream.thread).encode()
    memory: ProcessMemory | None = None
    symbols = SymbolCells(lambda address: "")
    for records, where in stream.parts(*stream.bounds(begin, end)):
        if where is not memory:
            memory, symbols = where, SymbolCells(where.symbol)
        yield records.csv(name, symbols, _state, thread=thread, every_epoch=True)


def _state(why: int, start: int, end: int) -> str:
    return f"{Why(why).state}[{start}:{end}]"


def write_slices(streams: Sequence[tuple[HostStream, Fit]], file: Tracks) -> list[str]:
    """Write the functions of each stream as slices, in the common time. Return notes for the user."""
    notes = []
    for track, (stream, fit) in enumerate(streams, 1):
        file.describe(track, stream.label)
        first = min(line.height for lines in fit.lines.values() for line in lines)
        clock = LineClock(first, fit.rate or 1.0)
        memory: ProcessMemory | None = None
        edges: SliceEdges | None = None
        slices, passed = RunSlices(track), 0
        for records, where in stream.parts():
            if where is not memory or edges is None:
                if edges is not None:
                    edges.close()
                    passed += edges.passed
                memory, edges = where, SliceEdges(where, file.put, clock)
            slices.add(records, edges)
        if edges is not None:
            edges.close()
            passed += edges.passed
        if passed:
            notes.append(f"{stream.label}: {passed} spans left out, as its time goes back")
    return notes
