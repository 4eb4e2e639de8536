"""Intel PT in perf.data: a stream for each thread, from the areas of the processors that it had.

perf writes an area for each processor. The sideband says which thread had it when, so the records of a thread are
those of its runs, in order of time. A run is decoded from the last PSB before it; what lies between the PSB and the run
belongs to others, and is passed over. If it is not known which thread had a processor, its area is one stream.

A switch of threads and the trace have times of the same clock, but the trace's time is only as exact as its last timing
packet. So the last instructions before a switch, and the first after it, may be attributed to the other thread if
tracing went on through the switch. Where only user code is traced it does not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from headway.errors import SelectionError
from headway.trace._records import Records
from headway.trace.memory import ProcessMemory
from headway.trace.perfdata.areas import AuxArea, MappedBytes
from headway.trace.perfdata.recorded import Recorded
from headway.trace.perfdata.sideband import Run, Version
from headway.trace.records import Gap, Instruction, Record

from ._decoder import Decoder, Image, count_packets
from .library import functions
from .packets import PtPacketKind, SyncPoint, sync_points
from .setting import PtSetting, Ticks
from .streams import PtSource, PtStatistics, image_of

__all__ = ["PtThread", "PtThreads", "setting_of"]

_ALWAYS = (1 << 64) - 1
_NOTED = 12


def setting_of(recorded: Recorded) -> PtSetting:
    """Return the setting that AUXTRACE_INFO has (enum of tools/perf/arch/x86/include/... intel-pt.h)."""
    assert recorded.info is not None
    words = [*recorded.info.words, *[0] * 16]
    shift, multiplier, zero, known = words[1:5]
    found = recorded.conversion
    if found is not None and found.known:
        shift, multiplier, zero, known = found.shift, found.multiplier, found.zero, 1
    usable = known and 0 < multiplier < 1 << 32 and shift < 64
    family, model, stepping = PtSetting.of_processor(recorded.processor)
    config = next((one.config for one in recorded.file.attributes if one.type == words[0] & 0xFFFFFFFF), 0)
    return PtSetting(
        family=family,
        model=model,
        stepping=stepping,
        crystal=(words[11] & 0xFFFFFFFF, words[12] & 0xFFFFFFFF),
        mtc_period=_bits(config, words[10]),
        nominal=words[14] & 0xFF,
        ticks=Ticks(shift, multiplier, zero) if usable else None,
        cycle_accurate=not words[5] or bool(config & words[5]),
    )


def _bits(value: int, mask: int) -> int:
    """Return the field of a value that a mask selects."""
    return (value & mask) >> ((mask & -mask).bit_length() - 1) & 15 if mask else 0


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of an area, with its PSBs."""

    position: int
    data: memoryview
    points: Sequence[SyncPoint]
    ticks: Sequence[int]
    """The times of the PSBs; one without a time has that of the one before."""

    @classmethod
    def of(cls, position: int, mapped: MappedBytes) -> _Piece:
        points = list(sync_points(mapped.file, mapped.start, mapped.start + mapped.size))
        ticks, last = [], 0
        for point in points:
            last = max(last, point.tick or 0)
            ticks.append(last)
        return cls(position, mapped.view, points, ticks)

    def before(self, tick: int) -> SyncPoint | None:
        """Return the last PSB at or before a tick, else the first one."""
        if not self.points:
            return None
        return self.points[max(bisect_right(self.ticks, tick) - 1, 0)]


class _Area:
    """An area that is read when it is needed."""

    def __init__(self, path: str, area: AuxArea) -> None:
        self.area, self._path = area, path

    @cached_property
    def pieces(self) -> list[_Piece]:
        return [_Piece.of(stretch.position, stretch.mapped(self._path)) for stretch in self.area.stretches]


@dataclass(frozen=True, slots=True)
class _Slice:
    """A run of the stream's thread, in ticks."""

    start: int
    end: int
    area: _Area
    versions: Sequence[tuple[int, ProcessMemory]]


class PtThread:
    """The stream of one thread, or of a processor of which it is not known whose instructions it has."""

    def __init__(
        self,
        number: int,
        name: str,
        setting: PtSetting,
        slices: Sequence[_Slice],
        *,
        known: bool,
        images: dict[int, Image],
    ) -> None:
        self.id, self.name, self.setting = number, name, setting
        self.known = known
        self.thread = number if known else None
        self.source = PtSource(name, None)
        self._slices, self._images = slices, images
        self.errors: dict[str, int] = {}

    @property
    def image(self) -> ProcessMemory:
        """The memory of the thread's process at its end."""
        return self._slices[-1].versions[-1][1]

    @property
    def size(self) -> int:
        """The number of bytes of the areas that the stream is in."""
        return sum(area.area.size for area in self._areas())

    def _areas(self) -> list[_Area]:
        return list({id(one.area): one.area for one in self._slices}.values())

    def statistics(self) -> PtStatistics:
        """Return what is in the areas that the stream is in. It may share them with other threads."""
        counts: dict[PtPacketKind, int] = {}
        for area in self._areas():
            for piece in area.pieces:
                for number, count in count_packets(piece.data, self.setting).items():
                    kind = PtPacketKind(number) if number <= PtPacketKind.PTW else PtPacketKind.NEWER
                    counts[kind] = counts.get(kind, 0) + count
        return PtStatistics(self.size, dict(sorted(counts.items())))

    def _image(self, memory: ProcessMemory) -> Image:
        if id(memory) not in self._images:
            self._images[id(memory)] = image_of(memory)
        return self._images[id(memory)]

    def parts(self, start: int = 0, end: int = _ALWAYS) -> Iterator[tuple[Records, ProcessMemory]]:
        """Yield the records from tick to tick in blocks, each with the memory that they were executed in."""
        since: int | None = None
        decoder: Decoder | None = None
        of: _Piece | None = None
        self.errors = {}
        for one in self._slices:
            first, last = max(one.start, start), min(one.end, end)
            if first >= last:
                continue
            for number, piece in enumerate(one.area.pieces):
                following = one.area.pieces[number + 1 : number + 2]
                if following and following[0].ticks and 0 < following[0].ticks[0] <= first:
                    continue
                point = piece.before(first)
                if point is None or (point.tick or 0) >= last:
                    continue
                if decoder is None or of is not piece or point.offset > decoder.offset or decoder.finished:
                    self._note(decoder)
                    memory = one.versions[0][1]
                    decoder = Decoder(
                        piece.data, self.setting, self._image(memory), position=piece.position,
                        base=self.origin, since=since, thread=self.thread,
                    )  # fmt: skip
                    of = piece
                    decoder.start(point.offset)
                if first:
                    decoder.skip(first)
                yield from self._run(decoder, one, last)
                since = decoder.tick if decoder.tick is not None else since
        self._note(decoder)

    def _note(self, decoder: Decoder | None) -> None:
        for name, count in (decoder.errors if decoder is not None else {}).items():
            self.errors[name] = self.errors.get(name, 0) + count

    def _run(self, decoder: Decoder, one: _Slice, last: int) -> Iterator[tuple[Records, ProcessMemory]]:
        """Decode up to a tick, with the memory of the process as it changes."""
        ends = [*(begin for begin, _ in one.versions[1:]), _ALWAYS]
        for (_, memory), until in zip(one.versions, ends, strict=True):
            if decoder.tick is not None and decoder.tick >= until:
                continue
            decoder.use(self._image(memory))
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

    def run_at(self, tick: int) -> _Slice | None:
        """Return the run that a tick is in, or None."""
        return next((one for one in self._slices if one.start <= tick < one.end), None)

    @cached_property
    def origin(self) -> int | None:
        """The tick from which the cycles of its records are counted: of its first run. None: there is no time."""
        one = self._slices[0]
        known = (tick for piece in one.area.pieces for tick in piece.ticks if tick)
        return one.start or next(known, None)

    def at(self, tick: int) -> tuple[Instruction | Gap | None, ProcessMemory | None]:
        """Return what the thread was executing at a tick, and its memory; None, None: it is not known.

        Only the run in which the tick is is decoded, from the last PSB before the tick on.
        """
        one = self.run_at(tick)
        if one is None or self.origin is None:
            return None, None
        first = one.start
        for piece in one.area.pieces:
            point = piece.before(tick)
            if point is not None and point.tick is not None and point.tick <= tick:
                first = max(first, point.tick)
        found: Instruction | Gap | None = None
        place: ProcessMemory | None = None
        for records, memory in self.parts(first, min(tick + _BEYOND, one.end)):
            for record in records:
                if not isinstance(record, Instruction | Gap) or record.cycle is None:
                    continue
                if record.cycle + self.origin >= tick:
                    return record, memory
                found, place = record, memory
        return found, place


_BEYOND = 1 << 20
"""Ticks after a moment in which the instruction that was executed then must have ended."""


class PtThreads:
    """A perf.data file with Intel PT, as threads. ``left_out`` says what of it is missing or cannot be decoded."""

    def __init__(self, recorded: Recorded, images: Iterable[str] = ()) -> None:
        """Raises HeadwayError if libipt is missing, or if there is nothing to decode."""
        functions()
        self.recorded, self.path = recorded, recorded.path
        self.setting = setting_of(recorded)
        self._images = tuple(images)
        self.streams: dict[int, PtThread] = {}
        self._build()

    def _build(self) -> None:
        sideband, shared = self.recorded.sideband, dict[int, Image]()
        slices: dict[int, list[_Slice]] = {}
        whole: dict[int, _Slice] = {}
        memories: dict[int, list[tuple[int, ProcessMemory]]] = {}

        def versions(pid: int) -> list[tuple[int, ProcessMemory]]:
            if pid not in memories:
                memories[pid] = self._versions(sideband.versions(pid))
            return memories[pid]

        alone = sideband.processes[0] if len(sideband.processes) == 1 else -1
        for found in self.recorded.areas:
            area = _Area(self.path, found)
            runs = list(sideband.runs(found.cpu)) if found.cpu >= 0 and self.setting.ticks else []
            if found.cpu < 0:  # the area of a thread
                runs = [Run(0, None, sideband.pids.get(found.tid, found.tid), found.tid, -1)]
            for run in runs:
                one = _Slice(self._tick(run.start), self._tick(run.end), area, versions(run.pid))
                slices.setdefault(run.tid, []).append(one)
            if not runs:
                whole[found.cpu] = _Slice(0, _ALWAYS, area, versions(alone))
        for tid, found_slices in sorted(slices.items()):
            found_slices.sort(key=lambda one: one.start)
            name = sideband.name(tid) or f"thread {tid}"
            self.streams[tid] = PtThread(tid, name, self.setting, found_slices, known=True, images=shared)
        for cpu, one in sorted(whole.items()):
            number = cpu if cpu not in self.streams else 1 << 32 | cpu
            name = f"processor {cpu}"
            self.streams[number] = PtThread(number, name, self.setting, [one], known=False, images=shared)

    def _tick(self, time: int | None) -> int:
        if time is None:
            return _ALWAYS
        return self.setting.ticks.ticks(time) if self.setting.ticks is not None else 0

    def _versions(self, versions: Sequence[Version]) -> list[tuple[int, ProcessMemory]]:
        found = [(self._tick(one.start), one.memory) for one in versions] or [(0, ProcessMemory(self.recorded.files))]
        if self._images:
            found = [(start, memory.copy()) for start, memory in found]
            for _, memory in found:
                for image in self._images:
                    memory.add_file(image)
        return found

    @property
    def left_out(self) -> str:
        """What is missing or was left out, in one line; empty: nothing."""
        notes = list(self.recorded.left_out())
        if self.setting.ticks is None:
            notes.append("the times of switches: perf does not say how its clock and the trace's lie to each other")
        more = f", and {len(notes) - _NOTED} more" if len(notes) > _NOTED else ""
        return f"left out: {', '.join(notes[:_NOTED])}{more}" if notes else ""

    def chosen(self, ids: Iterable[int]) -> list[PtThread]:
        """Return the streams with these IDs, or all if there are none. Raises SelectionError for an unknown ID."""
        ids = list(ids)
        for number in ids:
            if number not in self.streams:
                have = ", ".join(map(str, list(self.streams)[:20]))
                raise SelectionError(f"there is no thread {number} in {self.path!a}: there are {have or 'none'}")
        return [stream for number, stream in sorted(self.streams.items()) if not ids or number in ids]
