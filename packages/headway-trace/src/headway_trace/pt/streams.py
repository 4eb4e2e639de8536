"""A stream of Intel PT: the instructions of one thread, from the pieces of trace in which it ran.

A piece is decoded from the last PSB before what is wanted. What lies between the PSB and that is passed over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from headway.errors import HeadwayError
from headway_trace._records import Records
from headway_trace.host_moment import HostMoment
from headway_trace.memory import ProcessMemory
from headway_trace.perfdata.areas import MappedBytes
from headway_trace.records import Gap, Instruction, Record, Why

from ._decoder import Decoder, Image, count_packets
from .packets import PtPacketKind, SyncPoint, sync_points
from .setting import PtSetting

__all__ = ["ALWAYS", "Images", "Piece", "Pieces", "PtStatistics", "PtStream", "Slice"]

ALWAYS = (1 << 64) - 1
"""A tick after the end of every trace."""
_LOOKED_AT = 16
"""Runs before a moment in which the last instruction is looked for."""
_BEYOND = 1 << 20
"""Ticks after a moment in which the instruction that was executed then must have ended."""


@dataclass(frozen=True, slots=True)
class PtStatistics:
    """The size of a stream in bytes, and its number of packets of each kind."""

    size: int
    packets: dict[PtPacketKind, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of trace without a break, with its PSBs. ``position``: of its first byte in the area or file."""

    position: int
    data: memoryview
    points: Sequence[SyncPoint]
    ticks: Sequence[int]
    """The times of the PSBs; one without a time has that of the one before."""

    @classmethod
    def of(cls, position: int, mapped: MappedBytes) -> Piece:
        """Find the PSBs."""
        points = list(sync_points(mapped.file, mapped.start, mapped.start + mapped.size))
        ticks, last = [], 0
        for point in points:
            last = max(last, point.tick or 0)
            ticks.append(last)
        return cls(position, mapped.view, points, ticks)

    def before(self, tick: int) -> SyncPoint | None:
        """Return the last PSB at or before a tick, else the first one; None: there is none."""
        return self.points[max(bisect_right(self.ticks, tick) - 1, 0)] if self.points else None


class Pieces:
    """The pieces of what one trace unit wrote, which are looked at when they are needed.

    ``memories`` says what memory the processor had from which tick on, whichever thread it ran.
    """

    def __init__(
        self, size: int, look: Callable[[], list[Piece]], memories: Sequence[tuple[int, ProcessMemory]]
    ) -> None:
        self.size, self._look, self._memories = size, look, memories
        self._starts = [start for start, _ in memories]

    @cached_property
    def _begins(self) -> list[int]:
        """The tick at which each piece begins; one without a time has that of the piece before."""
        found, last = list[int](), 0
        for piece in self.all:
            last = max(last, piece.ticks[0] if piece.ticks else 0)
            found.append(last)
        return found

    def between(self, start: int, end: int) -> Iterator[tuple[int, Piece]]:
        """Yield the pieces in which there may be trace between two ticks, each with its number."""
        begins = self._begins
        first = 0
        if start:
            first = max(bisect_right(begins, start) - 1, 0)
            first = bisect_left(begins, begins[first]) if begins else 0
        for number in range(first, len(begins)):
            if begins[number] >= end:
                break
            yield number, self.all[number]

    def memories(self, start: int, end: int) -> Iterator[tuple[int, ProcessMemory]]:
        """Yield the memories between two ticks, each with the tick at which it ends there."""
        for at in range(max(bisect_right(self._starts, start) - 1, 0), len(self._starts)):
            if self._starts[at] >= end:
                break
            until = self._starts[at + 1] if at + 1 < len(self._starts) else end
            yield min(until, end), self._memories[at][1]

    @cached_property
    def all(self) -> list[Piece]:
        """The pieces, in order."""
        return self._look()


@dataclass(frozen=True, slots=True)
class Slice:
    """A time, in ticks, in which the stream's thread ran. ``versions``: its memory from which tick on."""

    start: int
    end: int
    pieces: Pieces
    versions: Sequence[tuple[int, ProcessMemory]]


class Images:
    """The memories for libipt, each made once for all streams."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[ProcessMemory, Image]] = {}

    def of(self, memory: ProcessMemory) -> Image:
        """Return a memory for libipt. Parts whose files cannot be used are left out; ``memory.files`` says why."""
        if id(memory) not in self._made:
            image = Image()
            for part in memory.parts:
                if memory.files.check(part.path):
                    why = image.add(part.path, part.offset, part.size, part.address)
                    if why:
                        memory.files.problems.setdefault(part.path, f"{part.path!a} cannot be used (libipt: {why})")
            self._made[id(memory)] = memory, image
        return self._made[id(memory)][1]


class PtStream:
    """The instructions of one thread, or of a trace of which it is not known whose instructions it has.

    ``thread`` is None in the second case. ``alone`` says whether nothing else is in its pieces.
    """

    def __init__(
        self,
        number: int,
        label: str,
        setting: PtSetting,
        slices: Sequence[Slice],
        images: Images,
        *,
        thread: int | None = None,
        alone: bool = True,
    ) -> None:
        self.id, self.label, self.setting = number, label, setting
        self.thread, self.alone = thread, alone
        self.errors: dict[str, int] = {}
        """How often libipt could not go on, by its name for the reason, as far as the stream has been decoded."""
        self._slices, self._images = slices, images

    @property
    def image(self) -> ProcessMemory:
        """The memory of the thread's process at its end."""
        return self._slices[-1].versions[-1][1]

    @cached_property
    def origin(self) -> int | None:
        """The tick from which the cycles of its records are counted: of its first run. None: there is no time."""
        one = self._slices[0]
        known = (tick for piece in one.pieces.all for tick in piece.ticks if tick)
        return one.start or next(known, None)

    def statistics(self) -> PtStatistics:
        """Return what is in the pieces that the stream is in. It may share them with other threads."""
        counts: dict[PtPacketKind, int] = {}
        areas = {id(one.pieces): one.pieces for one in self._slices}.values()
        for area in areas:
            for piece in area.all:
                for number, count in count_packets(piece.data, self.setting).items():
                    kind = PtPacketKind(number) if number <= PtPacketKind.PTW else PtPacketKind.NEWER
                    counts[kind] = counts.get(kind, 0) + count
        return PtStatistics(sum(area.size for area in areas), dict(sorted(counts.items())))

    def check(self) -> None:
        """Check that the stream can be decoded at all. Raises HeadwayError if it cannot."""
        if not any(piece.points for one in self._slices for piece in one.pieces.all):
            raise HeadwayError(f"stream {self.label} is no Intel PT: there is no PSB in it")
        if not any(memory.parts for one in self._slices for _, memory in one.versions):
            raise HeadwayError(f"no program is known for stream {self.label}: give one with --image")

    # Records

    def bounds(self, begin: int | None, end: int | None) -> tuple[int, int]:
        """Return ticks of two times of the common clock; None: without a limit."""
        clock = self.setting.ticks
        if clock is None:
            return begin or 0, ALWAYS if end is None else end
        return 0 if begin is None else clock.ticks(begin), ALWAYS if end is None else clock.ticks(end)

    def parts(self, start: int = 0, end: int = ALWAYS) -> Iterator[tuple[Records, ProcessMemory]]:
        """Yield the records from tick to tick in blocks, each with the memory that they were executed in."""
        since: int | None = None
        decoder: Decoder | None = None
        of: Piece | None = None
        self.errors = {}
        for one in self._slices:
            first, last = max(one.start, start), min(one.end, end)
            if first >= last:
                continue
            for number, piece in one.pieces.between(first, last):
                point = piece.before(first)
                if point is None or (point.tick or 0) >= last:
                    continue
                if decoder is None or of is not piece or point.offset > decoder.offset or decoder.finished:
                    self._note(decoder)
                    image = self._images.of(one.versions[0][1])
                    decoder = Decoder(
                        piece.data, self.setting, image, position=piece.position, base=self.origin, since=since,
                        lost=number > 0 and of is one.pieces.all[number - 1], thread=self.thread,
                    )  # fmt: skip
                    of = piece
                    if point.offset and (first or number):
                        decoder.start(point.offset)
                if first:
                    self._skip(decoder, one.pieces, point.tick or 0, first)
                yield from self._run(decoder, one, last)
                since = decoder.tick if decoder.tick is not None else since
        self._note(decoder)

    def _note(self, decoder: Decoder | None) -> None:
        for name, count in (decoder.errors if decoder is not None else {}).items():
            self.errors[name] = self.errors.get(name, 0) + count

    def _skip(self, decoder: Decoder, pieces: Pieces, start: int, first: int) -> None:
        """Pass over what lies before a tick: it belongs to other threads, and has to be decoded with their memories."""
        start = decoder.tick if decoder.tick is not None else start
        for until, memory in pieces.memories(start, first):
            decoder.use(self._images.of(memory))
            decoder.skip(until)
        decoder.skip(first)

    def _run(self, decoder: Decoder, one: Slice, last: int) -> Iterator[tuple[Records, ProcessMemory]]:
        """Decode up to a tick, with the memory of the process as it changes."""
        ends = [*(begin for begin, _ in one.versions[1:]), ALWAYS]
        for (_, memory), until in zip(one.versions, ends, strict=True):
            if decoder.tick is not None and decoder.tick >= until:
                continue
            decoder.use(self._images.of(memory))
            stop = min(until, last)
            while not decoder.finished and (decoder.tick is None or decoder.tick < stop):
                records = decoder.run(until=stop)
                if len(records):
                    yield records, memory

    def blocks(self) -> Iterator[Records]:
        """Yield the stream's records in blocks."""
        for records, _ in self.parts():
            yield records

    def records(self) -> Iterator[Record]:
        """Yield the stream's records one by one."""
        for block in self.blocks():
            yield from block

    # Moments

    def at_time(self, time: int) -> HostMoment:
        """Return what was executed at a time of the common clock.

        Only the run in which the time is is decoded, from the last PSB before it on.
        """
        tick = self.setting.ticks.ticks(time) if self.setting.ticks is not None else time
        one = next((one for one in self._slices if one.start <= tick < one.end), None)
        if self.origin is None:
            return HostMoment(why="unknown.alignment")
        if one is None:
            return HostMoment(why="unknown.outside")
        first = one.start
        for _, piece in one.pieces.between(tick, tick + 1):
            point = piece.before(tick)
            if point is not None and point.tick is not None and point.tick <= tick:
                first = max(first, point.tick)
        begin = first
        for records, memory in self.parts(first, min(tick + _BEYOND, one.end)):
            for record in records:
                if not isinstance(record, Instruction | Gap) or record.cycle is None:
                    continue
                now = record.cycle + self.origin
                if now >= tick and (record.cycles or now == tick):
                    return HostMoment(record, memory, "", time, self._width(max(tick - begin, now - tick)))
                begin = max(begin, now)
        return HostMoment(why="unknown.outside")

    def last(self, time: int) -> HostMoment:
        """Return the last instruction up to a time of the common clock, with the time of it.

        Without one, or if trace was lost between it and the time, there is the reason.
        """
        if self.origin is None:
            return HostMoment(why="unknown.alignment")
        tick = self.setting.ticks.ticks(time) if self.setting.ticks is not None else time
        before = [one for one in self._slices if one.start <= tick]
        lost = ""
        for one in reversed(before[-_LOOKED_AT:]):
            stop = min(tick, one.end)
            for first in self._starts(one, stop):
                found, why = self._last_of(first, stop)
                lost = lost or why
                if lost:
                    return HostMoment(why=lost)
                if found is not None:
                    return found
        return HostMoment(why="unknown.outside")

    def _starts(self, one: Slice, stop: int) -> Iterator[int]:
        """Yield ticks of a run from which to look for its last instruction: of the last PSB, then its beginning."""
        for piece in reversed(one.pieces.all):
            point = piece.before(stop)
            if point is not None and point.tick is not None and one.start < point.tick <= stop:
                yield point.tick
                break
        yield one.start

    def _last_of(self, first: int, stop: int) -> tuple[HostMoment | None, str]:
        """Return the last instruction between two ticks, and the reason of a loss after it."""
        found: tuple[Instruction, ProcessMemory] | None = None
        why = ""
        for records, memory in self.parts(first, stop):
            for record in records:
                if isinstance(record, Instruction):
                    if record.cycle is not None and self.origin is not None and record.cycle + self.origin > stop:
                        continue
                    found, why = (record, memory), ""
                elif isinstance(record, Gap) and record.why not in (Why.OFF, Why.UNSYNCHRONISED):
                    why = record.why.state
        if found is None or found[0].cycle is None or self.origin is None:
            return None, why
        ticks = found[0].cycle + self.origin
        when = self.setting.ticks.nanoseconds(ticks) if self.setting.ticks is not None else ticks
        return HostMoment(found[0], found[1], "", when, self._width(max(found[0].cycles or 0, 1))), why

    def _width(self, ticks: int) -> int:
        clock = self.setting.ticks
        return ticks if clock is None else -(-ticks * clock.multiplier >> clock.shift)
