"""What every stream of a capture was executing at one moment.

A first pass over each stream finds its fit to the common time, and the span of cycles of each block of its records. An
answer looks only at the records of one block; the blocks before it are decoded, but their records are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeGuard

from headway.errors import HeadwayError

from . import alignment
from .alignment import Fit
from .decode import Stream
from .records import Gap, Instruction, Record, Timestamp

__all__ = ["Index", "StreamMoment"]


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


@dataclass(frozen=True, slots=True)
class _Reach:
    """The cycles, without the first, of those records of a block that are in one epoch."""

    block: int
    epoch: int
    begin: int
    end: int


@dataclass(slots=True)
class _Indexed:
    stream: Stream
    reaches: list[_Reach] = field(default_factory=list)
    fit: Fit = field(init=False)

    def __post_init__(self) -> None:
        self.fit = alignment.fit(self._timestamps())

    def _timestamps(self) -> Iterator[Timestamp]:
        """Yield the stream's timestamps; on the way, note the cycles that its blocks reach."""
        end, epoch = 0, -1
        for number, block in enumerate(self.stream.blocks()):
            yield from block.timestamps()
            for epoch, begin, end in block.reaches(epoch, end):  # noqa: B020 - they go on from block to block
                self.reaches.append(_Reach(number, epoch, begin, end))

    @property
    def last(self) -> int:
        """The last cycle of the first epoch."""
        return max((reach.end for reach in self.reaches if reach.epoch == 0), default=0)

    def covers(self, time: float) -> bool:
        """Return whether the stream has timestamps before and after the time."""
        return self.fit.span is not None and self.fit.span[0] <= time <= self.fit.span[1]

    def at(self, time: float | None, cycle: int | None) -> StreamMoment:
        """Return the moment at a common time, at a cycle of the first epoch, or at both, which must be the same."""
        if time is None and cycle is None:
            return StreamMoment(self.stream, why="unknown.alignment")
        for reach in self.reaches:
            wanted: float | None = cycle if reach.epoch == 0 else None
            if wanted is None and time is not None:
                wanted = self.fit.cycle(time, reach.epoch)
            if wanted is None or not _within(wanted, reach.begin, reach.end):
                continue
            when = self.fit.moment(reach.epoch, round(wanted))
            found = self._record(reach, wanted)
            if isinstance(when, alignment.AlignedTime):
                return StreamMoment(self.stream, when.time, when.uncertainty, round(wanted), found)
            return StreamMoment(self.stream, None, None, round(wanted), found)
        why = "unknown.outside" if time is None or not self.covers(time) else "unknown.lost"
        return StreamMoment(self.stream, time, why=why)

    def _record(self, reach: _Reach, wanted: float) -> Instruction | Gap | None:
        """Return the first record that ends at or after the cycle, which is the one that was in progress at it."""
        begin = reach.begin
        block: Iterable[Record] = next(islice(self.stream.blocks(), reach.block, None))
        for record in block:
            if not _placed(record) or record.epoch != reach.epoch:
                continue
            assert record.cycle is not None
            if _within(wanted, begin, record.cycle):
                return record
            begin = record.cycle
        return None


class Index:
    """The moments of all streams, indexed in one pass over each stream and then found quickly."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = [_Indexed(stream) for stream in streams]

    def at_time(self, time: float) -> list[StreamMoment]:
        """Return the moment of every stream at a common time, in ticks. Raises HeadwayError if no stream covers it."""
        if not any(one.covers(time) for one in self._streams):
            spans = [one.fit.span for one in self._streams if one.fit.span]
            if not spans:
                raise HeadwayError("no stream has timestamps enough for a common time: give --cycle and --stream")
            start, end = min(start for start, _ in spans), max(end for _, end in spans)
            raise HeadwayError(f"the trace is from {start:.0f} to {end:.0f}: give a time in between")
        return [one.at(time, None) for one in self._streams]

    def at_cycle(self, stream: int, cycle: int) -> list[StreamMoment]:
        """Return the moment of every stream at a cycle of ``stream`` in its first epoch.

        Raises HeadwayError if the cycle lies after the first loss of time, or after the end.
        """
        (named,) = (one for one in self._streams if one.stream.id == stream)
        if cycle > named.last:
            raise HeadwayError(f"stream {stream:#x} ends at cycle {named.last}: give an earlier one than {cycle}")
        place = named.fit.moment(0, cycle)
        time = place.time if isinstance(place, alignment.AlignedTime) else None
        return [one.at(time, cycle if one is named else None) for one in self._streams]


def _placed(record: Record) -> TypeGuard[Instruction | Gap]:
    return isinstance(record, Instruction | Gap) and record.cycle is not None


def _within(wanted: float, begin: int, end: int) -> bool:
    return begin < wanted <= end or wanted == begin == 0
