"""CoreSight in perf.data: a stream for each thread, by the context IDs in the trace.

The kernel writes the thread's ID into CONTEXTIDR, and the trace unit traces it. A stream is decoded with the memory of
its process as it was at the end; what ran under another thread's ID is left out. Where context IDs are not traced, a
stream is a processor, with the memory of the only process.

Cycles are those of the trace unit, if it counted them. The common time is that of the timestamps in the trace. It is in
ns of perf's clock where perf says how the two lie to each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from headway.errors import HeadwayError
from headway_trace._coresight import Deformatter
from headway_trace._program import InstructionTable
from headway_trace._records import Records
from headway_trace._waypoints import WaypointFlow
from headway_trace.code import Code
from headway_trace.disassembly import ARM
from headway_trace.host_moment import HostMoment
from headway_trace.memory import ProcessMemory
from headway_trace.packets import PacketKind
from headway_trace.pt.setting import Ticks
from headway_trace.records import Gap, Instruction, Record, Timestamp

from .areas import AuxArea
from .choosing import chosen_threads, left_out_in_words
from .etm import TracedProcessor, processors_of
from .recorded import Recorded

__all__ = ["CoreSightThreads", "EtmStream"]

_CHUNK = 1 << 16
_PER_PROCESSOR = 1 << 32
_ALWAYS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class EtmStatistics:
    """The size of a stream in bytes, and its number of packets of each kind (of noise and truncated packets, bytes)."""

    size: int
    packets: dict[PacketKind, int]


class _Unit:
    """What one trace unit wrote, in all areas that have some of it."""

    def __init__(self, path: str, processor: TracedProcessor, trace_id: int | None, areas: Sequence[AuxArea]) -> None:
        self.processor, self.trace_id, self._path, self._areas = processor, trace_id, path, areas

    def pieces(self) -> Iterator[tuple[bytes | int, bool]]:
        """Yield its bytes, each with whether some are missing before; a number stands where the formatter lost some."""
        for area in self._areas:
            for number, stretch in enumerate(area.stretches):
                missing = number > 0
                deformatter = Deformatter()
                view = stretch.mapped(self._path).view
                for at in range(0, len(view), _CHUNK):
                    chunk = bytes(view[at : at + _CHUNK])
                    if self.trace_id is None:
                        yield chunk, missing
                        missing = False
                        continue
                    for stream, data, places in deformatter.feed(chunk):
                        if stream == self.trace_id:
                            yield data or places[0], missing
                            missing = False


class EtmStream:
    """The instructions of one thread, or of one processor (``thread`` is None)."""

    def __init__(
        self, number: int, label: str, units: Sequence[_Unit], memory: ProcessMemory, *, thread: int | None,
        ticks: Ticks | None, alone: bool,
    ) -> None:  # fmt: skip
        self.id, self.label, self.thread, self.alone = number, label, thread, alone
        self.errors: dict[str, int] = {}
        self.image = memory
        self._units, self._ticks = units, ticks

    def statistics(self) -> EtmStatistics:
        """Return what is in the trace of the units that the stream is in. It may share them with other threads."""
        size, counts = 0, Counter[PacketKind]()
        for unit in self._units:
            parser = unit.processor.setting.parser()
            for piece, _ in unit.pieces():
                size += 0 if isinstance(piece, int) else len(piece)
                found = (parser.lost() if isinstance(piece, int) else parser.feed(piece)).counts()
                counts.update({kind: found[kind] for kind in PacketKind if found[kind]})
            found = parser.finish().counts()
            counts.update({kind: found[kind] for kind in PacketKind if found[kind]})
        return EtmStatistics(size, dict(sorted(counts.items())))

    def check(self) -> None:
        """Check that the stream can be decoded at all. Raises HeadwayError if it cannot."""
        if not self.image.parts:
            raise HeadwayError(f"no program is known for stream {self.label}: give one with --image")

    def bounds(self, begin: int | None, end: int | None) -> tuple[int, int]:
        """Return two times of the common clock as they are."""
        return begin or 0, _ALWAYS if end is None else end

    @cached_property
    def _table(self) -> InstructionTable:
        spans = [(start, end) for start, end in self.image.spans if end <= 1 << 32]
        return InstructionTable(Code(self.image.read).look, spans)

    def _all(self) -> Iterator[Records]:
        """Yield the records of all units, one after the other, in blocks."""
        for unit in self._units:
            parser = unit.processor.setting.parser()
            flow = unit.processor.setting.flow(self._table, confined=False)
            at = 0

            def follow(packets: Any, flow: Any = flow) -> Iterator[Records]:
                yield flow.feed(packets)
                while isinstance(flow, WaypointFlow) and flow.waiting:
                    yield flow.more()

            for piece, missing in unit.pieces():
                if missing or isinstance(piece, int):
                    yield from follow(parser.lost())
                    flow.lost(at)
                if not isinstance(piece, int):
                    yield from follow(parser.feed(piece))
                    at += len(piece)
            yield from follow(parser.finish())
            yield flow.finish()

    def records(self) -> Iterator[Record]:
        """Yield the stream's records one by one. Times of the common clock are in ns where that is known."""
        mine = True
        for record in chain.from_iterable(self._all()):
            if isinstance(record, Timestamp):
                yield Timestamp(self._time(record.time), record.cycle, record.epoch, record.index)
                continue
            if isinstance(record, Instruction):
                mine = self.thread is None or record.thread == self.thread
            if mine:
                yield record

    def _time(self, ticks: int) -> int:
        """Return a timestamp of the trace as a time of the common clock."""
        return ticks if self._ticks is None else self._ticks.nanoseconds(ticks)

    def parts(self, start: int = 0, end: int = _ALWAYS) -> Iterator[tuple[Records, ProcessMemory]]:
        """Yield the records between two timestamps in blocks, with the memory that they were executed in."""
        mine, within = True, start <= 0 < end
        limited = start != 0 or end != _ALWAYS
        judge = (lambda ticks: start <= self._time(ticks) < end) if limited else None
        for block in self._all():
            found, mine, within = block.of_thread(self.thread, mine, within, judge)
            if len(found):
                yield found, self.image

    def at_time(self, time: int) -> HostMoment:
        """Return the last instruction before the first timestamp after a time, if there was a timestamp before."""
        before: int | None = None
        found: Instruction | Gap | None = None
        for record in self.records():
            if isinstance(record, Timestamp):
                if before is not None and before <= time < record.time and found is not None:
                    return HostMoment(found, self.image, "", before, record.time - before)
                before, found = record.time, None if record.time <= time else found
            elif isinstance(record, Instruction | Gap):
                found = record
        return HostMoment(why="unknown.alignment" if before is None else "unknown.outside")

    def last(self, time: int) -> HostMoment:
        """Return the last instruction up to the first timestamp after a time, or why it is not known."""
        before: int | None = None
        found: tuple[Instruction, int] | None = None
        why = "unknown.alignment"
        for record in self.records():
            if isinstance(record, Timestamp):
                if record.time > time and found is not None:
                    return HostMoment(found[0], self.image, "", found[1], record.time - found[1])
                before, why = record.time, "unknown.outside"
            elif isinstance(record, Instruction) and before is not None and before <= time:
                found = record, before
        if found is not None:
            return HostMoment(found[0], self.image, "", found[1], None)
        return HostMoment(why=why)


class CoreSightThreads:
    """A perf.data file with CoreSight, as threads. ``left_out`` says what of it is missing or cannot be decoded."""

    def __init__(self, recorded: Recorded) -> None:
        """Raises HeadwayError if it does not say how its trace units were set up."""
        assert recorded.info is not None
        self.recorded, self.path = recorded, recorded.path
        processors = processors_of(recorded.info.words, self.path)
        self.isa = ARM
        found = recorded.conversion
        self.ticks = (
            Ticks(found.shift, found.multiplier, found.zero)
            if found is not None and found.known and 0 < found.multiplier < 1 << 32 and found.shift < 64
            else None
        )
        units = [self._unit(one) for one in processors]
        self.streams: dict[int, EtmStream] = {}
        self._build([one for one in units if one is not None], recorded.images)

    def _unit(self, processor: TracedProcessor) -> _Unit | None:
        """Return what a trace unit wrote: into the area of its processor, or, in frames, into those of threads."""
        areas = [one for one in self.recorded.areas if one.cpu in (processor.cpu, -1)]
        trace_id = self.recorded.trace_ids.get(processor.cpu, processor.trace_id)
        if not self.recorded.raw and trace_id is None:
            return None
        return _Unit(self.path, processor, None if self.recorded.raw else trace_id, areas) if areas else None

    def _build(self, units: Sequence[_Unit], images: Sequence[str]) -> None:
        sideband = self.recorded.sideband
        tracing = [unit for unit in units if unit.processor.setting.threads]
        for tid, pid in sorted(sideband.pids.items()):
            versions = sideband.versions(pid)
            memory = self._with(versions[-1].memory if versions else ProcessMemory(self.recorded.files), images)
            if tracing and memory.parts and tid > 0:
                name = f"{sideband.name(tid) or '?'}:{tid}"
                self.streams[tid] = EtmStream(
                    tid, name, tracing, memory, thread=tid, ticks=self.ticks, alone=len(sideband.pids) == 1
                )
        alone = sideband.processes[0] if len(sideband.processes) == 1 else None
        for unit in units:
            if unit in tracing and self.streams:
                continue
            versions = sideband.versions(alone) if alone is not None else []
            memory = self._with(versions[-1].memory if versions else ProcessMemory(self.recorded.files), images)
            number, label = _PER_PROCESSOR + unit.processor.cpu, f"cpu{unit.processor.cpu}"
            self.streams[number] = EtmStream(number, label, [unit], memory, thread=None, ticks=self.ticks, alone=True)

    def _with(self, memory: ProcessMemory, images: Sequence[str]) -> ProcessMemory:
        made = memory.copy()
        for image in images:
            made.add_file(image)
        return made

    @property
    def clock(self) -> str:
        """The name of the clock of its times."""
        return self.recorded.clock if self.ticks is not None else "the timestamps of the trace"

    def run_starts(self) -> dict[int, list[int]]:
        """Return tid -> when the thread got a processor, in ns of perf's clock."""
        return self.recorded.sideband.run_starts() if self.ticks is not None else {}

    @property
    def words(self) -> str:
        """From when to when there is trace."""
        return "its timestamps say from when to when it is (headway trace align)"

    @property
    def left_out(self) -> str:
        """What is missing or was left out, in one line; empty: nothing."""
        return left_out_in_words(list(self.recorded.left_out()))

    def chosen(self, ids: Iterable[int]) -> list[EtmStream]:
        """Return the streams with these IDs, or all if there are none. Raises SelectionError for an unknown ID."""
        return chosen_threads(self.streams, ids, self.path)
