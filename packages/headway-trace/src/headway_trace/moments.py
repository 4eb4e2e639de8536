"""What every stream of a capture was executing at one moment.

Each stream has an index (`stream_index`), which one pass over it makes. An answer needs only a small part of the stream
again. The indices of a capture are kept in files, so that only the first look at it makes the passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headway.errors import HeadwayError

from . import alignment
from .decode import Capture, Contents, Stream
from .index_files import UNSOUND, Built, IndexFolder, Kept
from .records import Gap, Instruction
from .stream_index import StreamIndex, build

__all__ = ["Index", "StreamMoment", "contents_in", "keep_contents"]

_SMALL = 1 << 16
"""The largest number of bytes of a capture whose index is not kept."""
_CONTENTS = "contents"


@dataclass(frozen=True, slots=True)
class StreamMoment:
    """What a stream was doing: ``record``, or, if that is not known, ``why`` (the name of a state).

    ``time`` (ticks of the common clock) has an ``uncertainty`` to either side. ``cycle`` is in the record's epoch.
    """

    stream: Stream
    time: float | None = None
    uncertainty: float | None = None
    cycle: int | None = None
    record: Instruction | Gap | None = None
    why: str = ""


class Index:
    """The moments of streams. ``folder`` is where the indices of their capture are kept; None: nowhere.

    ``told`` is called from time to time while a stream is indexed, with that stream and how many bytes of its buffer
    are done. Raises HeadwayError if a stream that has no index in the folder has no program, or another one.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        folder: IndexFolder | None = None,
        told: Callable[[Stream, int], None] = lambda stream, taken: None,
    ) -> None:
        self._folder, self._told = folder, told
        self._streams = {stream.id: self._index(stream) for stream in streams}

    def _index(self, stream: Stream) -> StreamIndex:
        kept = self._folder.read(_name(stream)) if self._folder is not None else None
        if kept is not None:
            try:
                return StreamIndex(stream, kept)
            except UNSOUND:
                pass
        return self._built(stream)

    def _built(self, stream: Stream) -> StreamIndex:
        stream.check_image()
        built = build(stream, lambda taken: self._told(stream, taken))
        if self._folder is not None and sum(path.stat().st_size for path in stream.source.buffer.paths) > _SMALL:
            self._folder.write(_name(stream), built)
        return StreamIndex(stream, built)

    def last(self, stream: int) -> int:
        """Return the last cycle of a stream before its first loss of time."""
        return self._streams[stream].last

    @property
    def span(self) -> tuple[float, float] | None:
        """The first and the last common time, in ticks, for which there are timestamps."""
        spans = [one.fit.span for one in self._streams.values() if one.fit.span]
        return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None

    def at_time(self, time: float) -> list[StreamMoment]:
        """Return the moment of every stream at a common time, in ticks. Raises HeadwayError if no stream covers it."""
        if not any(_covers(one, time) for one in self._streams.values()):
            if self.span is None:
                raise HeadwayError("no stream has timestamps enough for a common time: give --cycle and --stream")
            raise HeadwayError(f"the trace is from {self.span[0]:.0f} to {self.span[1]:.0f}: give a time in between")
        return [self._at(number, time, None) for number in self._streams]

    def at_cycle(self, stream: int, cycle: int) -> list[StreamMoment]:
        """Return the moment of every stream at a cycle of ``stream`` in its first epoch.

        Raises HeadwayError if the cycle lies after the first loss of time, or after the end.
        """
        named = self._streams[stream]
        if cycle > named.last:
            raise HeadwayError(f"stream {stream:#x} ends at cycle {named.last}: give an earlier one than {cycle}")
        place = named.fit.moment(0, cycle)
        time = place.time if isinstance(place, alignment.AlignedTime) else None
        return [self._at(number, time, cycle if number == stream else None) for number in self._streams]

    def _at(self, number: int, time: float | None, cycle: int | None) -> StreamMoment:
        try:
            return _moment(self._streams[number], time, cycle)
        except UNSOUND:  # the file is damaged
            self._streams[number] = self._built(self._streams[number].stream)
            return _moment(self._streams[number], time, cycle)


def _name(stream: Stream) -> str:
    return f"{stream.id:#x}"


def _covers(index: StreamIndex, time: float) -> bool:
    """Return whether the stream has timestamps before and after the time."""
    return index.fit.span is not None and index.fit.span[0] <= time <= index.fit.span[1]


def _moment(index: StreamIndex, time: float | None, cycle: int | None) -> StreamMoment:
    """Return the moment at a common time, at a cycle of the first epoch, or at both, which must be the same."""
    stream, fit = index.stream, index.fit
    if time is None and cycle is None:
        return StreamMoment(stream, why="unknown.alignment")
    reach, wanted = None, math.nan
    if cycle is not None:
        reach, wanted = index.reach_of_cycle(cycle), cycle
    if reach is None and time is not None and (found := index.reach_of_time(time)) is not None:
        reach, wanted = found
    if reach is None:
        why = "unknown.outside" if time is None or not _covers(index, time) else "unknown.lost"
        return StreamMoment(stream, time, why=why)
    record = index.record(reach, wanted)
    when = fit.moment(reach.epoch, round(wanted))
    if isinstance(when, alignment.AlignedTime):
        return StreamMoment(stream, when.time, when.uncertainty, round(wanted), record)
    return StreamMoment(stream, None, None, round(wanted), record)


def contents_in(folder: IndexFolder) -> dict[str, Contents] | None:
    """Return what is in the buffers of a capture, if the folder has it."""
    kept = folder.read(_CONTENTS)
    try:
        return None if kept is None else {name: _contents(one) for name, one in _items(kept)}
    except UNSOUND:
        return None


def keep_contents(folder: IndexFolder, capture: Capture) -> None:
    """Write what is in the buffers of a capture into the folder, unless they are small."""
    if sum(sum(one.sizes.values()) for one in capture.contents.values()) > _SMALL:
        header = {
            name: {"sizes": [*one.sizes.items()], "problem": one.problem} for name, one in capture.contents.items()
        }
        folder.write(_CONTENTS, Built({"buffers": header}, {}))


def _items(kept: Kept) -> list[tuple[str, Any]]:
    return list(dict(kept.header["buffers"]).items())


def _contents(found: Any) -> Contents:
    sizes, problem = found["sizes"], found["problem"]
    if not isinstance(problem, str) or not all(type(one) is int for pair in sizes for one in pair):
        raise TypeError(problem)
    return Contents(dict(sizes), problem)
