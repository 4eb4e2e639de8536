"""What one pass over a stream finds for all later looks at its moments.

The pass keeps the state of all layers, from frames to flow, at checkpoints: after so many records, and so many bytes of
the buffer. It also keeps which cycles the records between two checkpoints reach, and the fit to the common time. To
answer, the stream is decoded from the last checkpoint before the moment on, so the time does not grow with the trace.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, overload

from . import alignment
from ._records import Records
from .alignment import Fit, TimestampLine
from .decode import Stream
from .index_files import Built, Kept
from .records import Gap, Instruction, Timestamp

__all__ = ["Reach", "StreamIndex", "build"]

_RECORDS, _BYTES = 1 << 13, 1 << 20
"""Records, and bytes of the buffer, after which there is a checkpoint."""
_PIECE = 1 << 12
"""The number of bytes of the buffer that are taken at once; a checkpoint can be between two such pieces only."""
_NEVER = (math.inf, -math.inf)

_REACH = struct.Struct("<IIQQdd")
_LINE = struct.Struct("<QQQddd")
_STATE = struct.Struct("<QQqQ32s")


class Reach(NamedTuple):
    """The cycles, without ``begin``, of the records of one epoch that follow a checkpoint.

    ``reached`` is the latest common time (ticks) up to here, ``remaining`` the earliest from here on.
    """

    checkpoint: int
    epoch: int
    begin: int
    end: int
    reached: float
    remaining: float

    def has(self, wanted: float) -> bool:
        """Return whether a cycle of the epoch is among them."""
        return within(wanted, self.begin, self.end)


class _Line(NamedTuple):
    """A line of timestamps as it is kept.

    ``reached`` is the latest common time (ticks) of the epoch's lines up to here, ``remaining`` the earliest from here
    on. The first and the last line extend to the ends of the epoch.
    """

    epoch: int
    first: int
    last: int
    height: float
    reached: float
    remaining: float


class _EpochLines(Sequence[TimestampLine]):
    """The lines of an epoch, which are made when they are asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def kept(self, place: int) -> _Line:
        """Return a line as it is kept."""
        return _Line._make(_LINE.unpack_from(self._data, place * _LINE.size))

    @overload
    def __getitem__(self, place: int) -> TimestampLine: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[TimestampLine]: ...
    def __getitem__(self, place: int | slice) -> TimestampLine | Sequence[TimestampLine]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        return TimestampLine(*self.kept(place)[1:4])

    def __len__(self) -> int:
        return len(self._data) // _LINE.size


class _Lines(Mapping[int, _EpochLines]):
    """The lines of each epoch."""

    def __init__(self, data: bytes) -> None:
        if len(data) % _LINE.size:
            raise ValueError("lines")
        self._data, self._size = data, len(data) // _LINE.size

    def _epoch(self, place: int) -> int:
        return int(_LINE.unpack_from(self._data, place * _LINE.size)[0])

    def __getitem__(self, epoch: int) -> _EpochLines:
        first = bisect_left(range(self._size), epoch, key=self._epoch)
        last = bisect_right(range(self._size), epoch, key=self._epoch)
        if first == last:
            raise KeyError(epoch)
        return _EpochLines(self._data[first * _LINE.size : last * _LINE.size])

    def __iter__(self) -> Iterator[int]:
        return iter(sorted({self._epoch(place) for place in range(self._size)}))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Pass:
    """The pass over a stream: its timestamps, and on the way checkpoints and reaches."""

    def __init__(self, stream: Stream, told: Callable[[int], None]) -> None:
        self.stream, self._told = stream, told
        self.decoding = stream.decoding(confined=stream.confined)
        self.decoding.flow.remember()
        self.reaches: list[tuple[int, int, int, int]] = []
        self.states, self.table = bytearray(), bytearray()
        self._checkpoints = 0
        self._epoch, self._end = -1, 0

    def timestamps(self) -> Iterator[Timestamp]:
        records = _RECORDS
        taken = 0
        for chunk in self.stream.chunks(_PIECE):
            if records >= _RECORDS or self.decoding.taken - taken >= _BYTES:
                self._keep()
                records, taken = 0, self.decoding.taken
                self._told(taken)
            for block in self.decoding.feed(chunk):
                records += len(block)
                yield from self._noted(block)
        if not self._checkpoints:
            self._keep()
        for block in self.decoding.finish():
            yield from self._noted(block)

    def _keep(self) -> None:
        """Make a checkpoint. Without all that a state needs, the last one before serves instead."""
        if not self.decoding.flow.remembers:
            return
        state = json.dumps(self.decoding.save()).encode()
        digest = hashlib.sha256(state).digest()
        self.table += _STATE.pack(len(self.states), len(state), self._epoch, self._end, digest)
        self.states += state
        self._checkpoints += 1

    def _noted(self, block: Records) -> list[Timestamp]:
        for epoch, begin, end in block.reaches(self._epoch, self._end):
            last = self.reaches[-1] if self.reaches else None
            if last and last[0] == self._checkpoints - 1 and last[1] == epoch:
                self.reaches[-1] = (*last[:3], end)
            else:
                self.reaches.append((self._checkpoints - 1, epoch, begin, end))
            self._epoch, self._end = epoch, end
        return block.timestamps()


def build(stream: Stream, told: Callable[[int], None] = lambda taken: None) -> Built:
    """Make the pass over a stream. ``told`` is called from time to time with the bytes of the buffer that are done.

    Raises HeadwayError if there is no image.
    """
    found = _Pass(stream, told)
    fit = alignment.fit(found.timestamps())
    header = {
        "confined": stream.confined,
        "rate": fit.rate,
        "outliers": fit.outliers,
        "worst": fit.worst,
        "longest": fit.longest,
        "span": fit.span,
    }
    sections = {
        "reaches": _packed_reaches(found.reaches, fit),
        "lines": b"".join(_packed_lines(epoch, fit) for epoch in sorted(fit.lines)),
        "table": bytes(found.table),
        "states": bytes(found.states),
        "history": found.decoding.flow.history(),
        "places": found.decoding.reader.places.save(),
    }
    return Built(header, sections)


def _bounded(times: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield for each span of time the latest one up to it, and the earliest one from it on."""
    remaining, after = [math.inf] * len(times), math.inf
    for place in range(len(times) - 1, -1, -1):
        remaining[place] = after = min(after, times[place][0])
    reached = -math.inf
    for (_, latest), left in zip(times, remaining, strict=True):
        reached = max(reached, latest)
        yield reached, left


def _packed_reaches(reaches: Sequence[tuple[int, int, int, int]], fit: Fit) -> bytes:
    """Return the reaches with the common times that they may have."""
    times = [_NEVER] * len(reaches)
    epoch = -1
    lines: Sequence[TimestampLine] = ()
    firsts, lasts = list[int](), list[int]()
    for place, (_, of, begin, end) in enumerate(reaches):
        if of != epoch:
            epoch, lines = of, fit.lines.get(of, ())
            firsts, lasts = [line.first for line in lines], [line.last for line in lines]
        if lines and fit.rate:
            first = min(bisect_left(lasts, begin), len(lines) - 1)
            last = max(bisect_right(firsts, end), first + 1)
            heights = [line.height for line in lines[first:last]]
            times[place] = min(heights) + begin / fit.rate, max(heights) + end / fit.rate
    return b"".join(_REACH.pack(*reach, *bounds) for reach, bounds in zip(reaches, _bounded(times), strict=True))


def _packed_lines(epoch: int, fit: Fit) -> bytes:
    """Return the lines of an epoch with the common times that they have."""
    lines, rate = fit.lines[epoch], fit.rate or 1.0
    times = [(line.height + line.first / rate, line.height + line.last / rate) for line in lines]
    times[0] = -math.inf, times[0][1]
    times[-1] = times[-1][0], math.inf
    bounds = _bounded(times)
    return b"".join(_LINE.pack(epoch, *line, *bound) for line, bound in zip(lines, bounds, strict=True))


class StreamIndex:
    """The index of a stream, in memory or in a file.

    A damaged file makes its methods raise one of `index_files.UNSOUND`; then it must be built again.
    """

    def __init__(self, stream: Stream, kept: Kept) -> None:
        """``kept``: what `build` returned, or a file of it."""
        self.stream, self._kept = stream, kept
        self._reaches, self._table = kept.section("reaches"), kept.section("table")
        if len(self._reaches) % _REACH.size or not self._table or len(self._table) % _STATE.size:
            raise ValueError("tables")
        self._size = len(self._reaches) // _REACH.size
        self.fit = self._fit(kept.header)

    def _fit(self, header: dict[str, Any]) -> Fit:
        rate, outliers, worst, longest, span = (
            header[name] for name in ("rate", "outliers", "worst", "longest", "span")
        )
        figures = [rate, worst, longest, *(span or ())]
        if any(type(one) not in (int, float, type(None)) or one in (math.inf, -math.inf) for one in figures):
            raise ValueError("fit")
        if type(outliers) is not int or (rate is not None and not rate > 0) or (span is not None and len(span) != 2):
            raise ValueError("fit")
        lines = _Lines(self._kept.section("lines"))
        return Fit(rate, (), outliers, lines, worst, longest, None if span is None else (span[0], span[1]))

    def _reach(self, place: int) -> Reach:
        return Reach(*_REACH.unpack_from(self._reaches, place * _REACH.size))

    @cached_property
    def last(self) -> int:
        """The last cycle of the first epoch; 0 if nothing of it is known."""
        place = bisect_right(range(self._size), 0, key=lambda one: self._reach(one).epoch)
        return self._reach(place - 1).end if place else 0

    def reach_of_cycle(self, cycle: int) -> Reach | None:
        """Return the reach that has a cycle of the first epoch."""

        def key(place: int) -> tuple[int, int]:
            reach = self._reach(place)
            return reach.epoch, reach.end

        place = bisect_left(range(self._size), (0, cycle), key=key)
        found = self._reach(place) if place < self._size else None
        return found if found and found.epoch == 0 and found.has(cycle) else None

    def reach_of_time(self, time: float) -> tuple[Reach, float] | None:
        """Return the first reach that has a common time (ticks), and its cycle then."""
        slack = _slack(time)
        place = bisect_left(range(self._size), time - slack, key=lambda one: self._reach(one).reached)
        epoch = -1
        cycle: float | None = None
        for place in range(place, self._size):  # noqa: B020 - from there on
            reach = self._reach(place)
            if reach.remaining > time + slack:
                break
            if reach.epoch != epoch:
                epoch, cycle = reach.epoch, self._cycle(time, reach.epoch)
            if cycle is not None and reach.has(cycle):
                return reach, cycle
        return None

    def _cycle(self, time: float, epoch: int) -> float | None:
        """Do the same as `Fit.cycle`, and look only at lines that may have the time."""
        lines, slack = self.fit.lines.get(epoch), _slack(time)
        if not isinstance(lines, _EpochLines) or self.fit.rate is None:
            return None
        for place in range(
            bisect_left(range(len(lines)), time - slack, key=lambda one: lines.kept(one).reached), len(lines)
        ):
            if lines.kept(place).remaining > time + slack:
                break
            cycle = (time - lines[place].height) * self.fit.rate
            if self.fit.line(epoch, cycle) == lines[place]:
                return cycle
        return None

    def record(self, reach: Reach, cycle: float) -> Instruction | Gap | None:
        """Return the first record that ends at or after a cycle that the reach has: the one in progress at it."""
        wanted = math.ceil(cycle)
        place = reach.checkpoint * _STATE.size
        start, size, epoch, end, digest = _STATE.unpack_from(self._table, place)
        state = self._kept.part("states", start, size)
        if hashlib.sha256(state).digest() != digest:
            raise ValueError("state")
        decoding = self.stream.decoding(confined=self._kept.header["confined"] is True)
        decoding.load(json.loads(state), self._kept.section("history"))

        def blocks() -> Iterator[Records]:
            for chunk in self.stream.chunks(_PIECE, decoding.taken):
                yield from decoding.feed(chunk)
            yield from decoding.finish()

        for block in blocks():
            at, epoch, end = block.first_at(epoch, end, reach.epoch, wanted)
            if at >= 0:
                record = block[at]
                assert isinstance(record, Instruction | Gap)
                if isinstance(record, Gap):
                    self.stream.places.load(self._kept.section("places"))
                return record
        return None


def _slack(time: float) -> float:
    """Return how far common times that were computed in two ways may lie apart, and much more, in ticks."""
    return 1 + abs(time) * 1e-12


def within(wanted: float, begin: int, end: int) -> bool:
    """Return whether a cycle is after ``begin`` and not after ``end``; the first cycle of an epoch has none before."""
    return begin < wanted <= end or wanted == begin == 0
