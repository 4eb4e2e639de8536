"""The events of an ITM's stream as slices: handlers of exceptions nested in each other, samples, lines and values.

A sample is shown as a slice up to the next one of something else, with ``~`` before its name: in between it is not
known what was executed.

Times are those of the common clock, a tick in a thousand nanoseconds, or the stream's own, a tick a nanosecond. Of a
stream without timestamps only the order is known; a nanosecond then is a byte of it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from ..edges import Edges, SliceHead, Tracks, name_of
from ..slices import PER_TICK, track_of
from .events import EXCEPTIONS, Event, Happening
from .exceptions import exception_name
from .moment import change_stack
from .text import lines_of

if TYPE_CHECKING:
    from .stream import ItmStream

__all__ = ["write"]

_BLOCK = 4096
_TRACKS = 1 << 20
"""The number from which on the tracks within those of streams follow; each stream has as many as a port has numbers."""
_PORTS = 16
_LONGEST = 200


def write(streams: list[ItmStream], file: Tracks, *, common: bool) -> list[str]:
    """Write the slices of the streams. ``common``: in the common time. Return notes for the user."""
    notes = []
    for stream in streams:
        writer = _Writer(stream, file, common)
        if not stream.timed and not common:
            notes.append(f"stream {stream.name} has no timestamps: its events are in their order, a nanosecond a byte")
        writer.describe()
        writer.handlers()
        writer.samples()
        writer.lines()
        writer.values()
        if writer.untimed:
            notes.append(f"stream {stream.name}: {writer.untimed:,} events left out, as their time is not known")
    return notes


class _Writer:
    def __init__(self, stream: ItmStream, file: Tracks, common: bool) -> None:
        self._stream, self._file, self._common = stream, file, common
        self._track = track_of(stream.stream)
        self._heads: list[SliceHead] = []
        self._numbers: dict[SliceHead, int] = {}
        self._edges: list[tuple[int, int, int]] = []
        self._last: dict[int, int] = {}
        self.untimed = 0

    def _inner(self, number: int) -> int:
        """Return the number of a track within that of the stream."""
        return _TRACKS + self._track * (1 << 10) + number

    def describe(self) -> None:
        source = self._stream.stream.source
        self._file.describe(self._track, f"ITM {self._stream.name} ({source.core or source.name}): exceptions")

    def _time(self, event: Event) -> int | None:
        if not self._common:
            return event.tick if self._stream.timed else event.start
        moment = self._stream.moment(event)
        return None if moment is None else round(moment.time * PER_TICK)

    def _put(self, track: int, time: int, head: SliceHead | None) -> None:
        """Add an edge; times of a track never go back."""
        place = -1
        if head is not None:
            if head not in self._numbers:
                self._numbers[head] = len(self._heads)
                self._heads.append(head)
            place = self._numbers[head]
        time = self._last[track] = max(time, self._last.get(track, 0))
        self._edges.append((track, time, place))
        if len(self._edges) >= _BLOCK:
            self._flush()

    def _flush(self) -> None:
        if self._edges:
            columns = zip(*self._edges, strict=True)
            tracks, times, places = (array(kind, column) for kind, column in zip("qqi", columns, strict=True))
            self._file.put(Edges(memoryview(tracks), memoryview(times), memoryview(places), self._heads))
        self._edges = []

    def handlers(self) -> None:
        """Write a slice for each handler of an exception, and an instant for each loss."""
        stack: list[int] = []
        for event in self._stream.events():
            if event.what not in (*EXCEPTIONS, Happening.LOSS):
                continue
            time = self._time(event)
            if time is None:
                self.untimed += 1
                time = self._last.get(self._track, 0)
            before = list(stack)
            if event.what is Happening.LOSS:
                stack.clear()
            else:
                change_stack(stack, event)
            same = next((at for at, pair in enumerate(zip(before, stack, strict=False)) if pair[0] != pair[1]), None)
            kept = min(len(before), len(stack)) if same is None else same
            for _ in before[kept:]:
                self._put(self._track, time, None)
            for number in stack[kept:]:
                self._put(self._track, time, SliceHead(exception_name(number), "trap"))
            if event.what is Happening.LOSS and event.why is not None:
                self._put(self._track, time, SliceHead(event.why.state, "gap", instant=True))
        for _ in stack:
            self._put(self._track, self._last[self._track], None)
        self._flush()

    def samples(self) -> None:
        """Write what was sampled as slices, each up to the next sample that is of something else."""
        track, image, running = self._inner(0), self._stream.image, ""
        for event in self._stream.events():
            if event.what not in (Happening.SAMPLE, Happening.ASLEEP, Happening.PROHIBITED, Happening.LOSS):
                continue
            time = self._time(event)
            if time is None:
                self.untimed += event.what is not Happening.LOSS
                time = self._last.get(track, 0)
                name = ""
            elif event.address is not None:
                name = f"~{name_of(image, event.address & ~1)}"
            else:
                name = "" if event.what is Happening.LOSS else f"~{event.what.value.rpartition('.')[2]}"
            if name == running:
                if running:
                    self._last[track] = max(time, self._last[track])
                continue
            if running:
                self._put(track, time, None)
            if name:
                if track not in self._last:
                    self._file.describe(track, "PC samples", self._track)
                self._put(track, time, SliceHead(name, "sample"))
            running = name
        if running:
            self._put(track, self._last[track], None)
        self._flush()

    def lines(self) -> None:
        """Write an instant for each line of text."""
        for line in lines_of(self._stream.events()):
            if line.event.what is Happening.WRITE and line.event.source is not None:
                head = SliceHead(line.text[:_LONGEST] or " ", "text", instant=True)
                name = f"stimulus port {line.event.source}"
                self._instant(self._inner(_PORTS + line.event.source), name, line.event, head)
        self._flush()

    def values(self) -> None:
        """Write the values that comparators saw as counters."""
        described = set[int]()
        for event in self._stream.events():
            if event.what in (Happening.READ, Happening.WRITTEN) and event.source is not None:
                track, time = self._inner(1 + event.source), self._time(event)
                if time is None:
                    self.untimed += 1
                    continue
                if track not in described:
                    described.add(track)
                    self._file.counter(track, f"data of comparator {event.source}", "", self._track)
                time = self._last[track] = max(time, self._last.get(track, 0))
                self._file.count(track, time, event.value or 0)

    def _instant(self, track: int, name: str, event: Event, head: SliceHead) -> None:
        time = self._time(event)
        if time is None:
            self.untimed += 1
            return
        if track not in self._last:
            self._file.describe(track, name, self._track)
        self._put(track, time, head)
