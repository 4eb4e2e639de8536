"""Traces of a Linux machine: perf.data, or a file of Intel PT packets.

A stream is a thread, where perf recorded which thread a processor had; otherwise a processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from headway.errors import HeadwayError

from .._records import Totals
from ..alignment import AlignedTime, Fit, fit
from ..beside import ExecutedOnHost
from ..disassembly import X86, Disassembler
from ..hosts import HostCapture, HostStream, csv_lines, open_host, write_slices
from ..reader import Answer, Export, Indexing, OptionError, There
from ..records import Gap, Instruction, Timestamp, place_of
from ..walk import CodeOf, Step, Walk, steps_of

if TYPE_CHECKING:
    from headway.model.executed import ExecutedBeside
    from headway.recording.queries.catalogue import RecordedRun

    from ..memory import ProcessMemory
    from ..selection import Wanted

__all__ = ["HostReader", "open_trace"]

COLUMNS = ("stream", "thread", "cycle", "cycles", "address", "size", "state", "symbol")


def open_trace(path: str, images: Sequence[str]) -> HostReader:
    """Open a trace. Raises HeadwayError."""
    return HostReader(path, open_host(path, images))


class HostReader:
    """A trace of a Linux machine. Threads are chosen as streams are."""

    remarks = ()

    def __init__(self, path: str, capture: HostCapture) -> None:
        self._path, self._capture = path, capture

    def _chosen(self, ids: Sequence[int]) -> Sequence[HostStream]:
        """Return the chosen streams, which are going to be decoded."""
        streams = self._capture.chosen(ids)
        for stream in streams:
            stream.check()
        return streams

    def _left_out(self) -> Sequence[str]:
        return (self._capture.left_out,) if self._capture.left_out else ()

    def instructions(self, wanted: Wanted, *, stalls: bool) -> Answer:
        """Return every instruction and every gap that is wanted, each stream in order."""
        streams = self._chosen((*wanted.streams, *wanted.threads))
        text = self._texts(wanted)
        rows = (
            (*_row(stream, record, memory), *text(record, memory))
            for stream in streams
            for record, memory in _records(stream, wanted.begin, wanted.end)
        )
        lines = None
        if not wanted.disassemble:
            lines = chain.from_iterable(csv_lines(stream, wanted.begin, wanted.end) for stream in streams)
        columns = (*COLUMNS, "instruction") if wanted.disassemble else COLUMNS
        return Answer(columns, rows, lines, partial(_there, streams, wanted), self._left_out)

    def _texts(self, wanted: Wanted) -> Callable[[Instruction | Gap | None, ProcessMemory | None], tuple[str, ...]]:
        """Return what gives the cell of an instruction's text, if there is one in the rows."""
        if not wanted.disassemble:
            return lambda record, memory: ()
        engine = Disassembler(self._capture.isa)

        def text(record: Instruction | Gap | None, memory: ProcessMemory | None) -> tuple[str, ...]:
            if not isinstance(record, Instruction) or memory is None:
                return ("",)
            return (engine.text(memory, place_of(record.address, record.isa)),)

        return text

    def statistics(self, streams: Sequence[int]) -> Answer:
        """Return packets by kind, and with a program instructions, bits for each, and gaps by reason."""
        rows = chain.from_iterable(_statistics(stream) for stream in self._capture.chosen(streams))
        return Answer(("stream", "what", "unit", "value"), rows, left_out=self._left_out)

    def alignment(self, streams: Sequence[int]) -> Answer:
        """Return how each stream's cycles lie in the common time."""
        rows = [
            (
                stream.label, len(found.residuals), found.outliers, sum(map(len, found.lines.values())), found.rate,
                found.worst, *(found.span or (None, None)),
            )
            for stream, found in _fits(self._chosen(streams))
        ]  # fmt: skip
        columns = ("stream", "timestamps", "outliers", "lines", "cycles_per_tick", "residual_max", "start", "end")
        return Answer(columns, rows, left_out=self._left_out)

    def placed(self, streams: Sequence[int]) -> Answer:
        """Return every instruction with its time."""
        columns = ("stream", "thread", "time", "uncertainty", "cycles", "address", "size", "state", "symbol")
        fits = _fits(self._chosen(streams))
        rows = chain.from_iterable(_placed(stream, found) for stream, found in fits)
        return Answer(columns, rows, left_out=self._left_out)

    def at(self, wanted: Wanted, cycle: int | None, time: int | None, indexing: Indexing | None) -> Answer:
        """Return what every thread was executing at a time of the common clock."""
        if time is None or cycle is not None:
            raise OptionError("give --time: --cycle is for captures and traces of the machine")
        streams = self._chosen((*wanted.streams, *wanted.threads))
        text = self._texts(wanted)
        rows: list[Sequence[Any]] = []
        for stream in streams:
            found = stream.at_time(time)
            record, memory = found.record, found.memory
            row: tuple[Any, ...]
            if record is None or memory is None:
                row = (stream.label, stream.thread, None, None, None, 0, found.why, "")
            else:
                row = _row(stream, record, memory)
            line = memory.line(record.address) if isinstance(record, Instruction) and memory is not None else ""
            more = text(record, memory)
            rows.append((row[0], row[1], found.time, found.uncertainty, row[2], *row[4:], line, *more))
        if all(row[7] == "unknown.outside" for row in rows):
            raise HeadwayError(f"nothing was traced at that time: {self._capture.words}")
        columns = ("stream", "thread", "time", "uncertainty", "cycle", "address", "size", "state", "symbol", "line")
        shown = (*columns, "instruction") if wanted.disassemble else columns
        return Answer(shown, rows, left_out=self._left_out)

    def export(self, streams: Sequence[int]) -> Export:
        """Return the trace as slices."""
        fits = [(stream, found) for stream, found in _fits(self._chosen(streams)) if found.rate is not None]
        if not fits:
            how = "tsc (intel_pt/tsc/)" if self._capture.isa == X86 else "timestamps (cs_etm/timestamp/)"
            raise HeadwayError(f"{self._path!a} has no times: there is nothing to show in order; record with {how}")
        return Export(lambda file: write_slices(fits, file), self._capture.left_out)

    def walk(self, streams: Sequence[int]) -> Walk:
        """Return what every thread executed; of a stream that is of a processor, the processor."""
        return Walk(self._steps(self._chosen(streams)), self._capture.left_out)

    def _steps(self, streams: Sequence[HostStream]) -> Iterator[Step]:
        engine = Disassembler(self._capture.isa)
        codes: dict[int, CodeOf] = {}
        for stream in streams:
            for records, memory in stream.parts():
                code = codes.get(id(memory))
                if code is None:
                    code = codes[id(memory)] = CodeOf(memory, engine.of(memory))
                yield from steps_of(records, stream.label, code)

    def beside(self, run: RecordedRun) -> ExecutedBeside:
        """Return what the threads of a recording of the same run executed."""
        return ExecutedOnHost(run, self._path, self._capture)


def _row(stream: HostStream, record: Instruction | Gap, memory: ProcessMemory) -> tuple[Any, ...]:
    name = stream.label
    if isinstance(record, Instruction):
        where = f"{record.address:#010x}", record.size, record.state, memory.symbol(record.address)
        return name, record.thread, record.cycle, record.cycles, *where
    state = f"{record.why.state}[{record.start}:{record.end}]"
    return name, stream.thread, record.cycle, record.cycles, None, 0, state, ""


def _records(stream: HostStream, begin: int | None, end: int | None) -> Iterator[tuple[Any, ProcessMemory]]:
    for records, memory in stream.parts(*stream.bounds(begin, end)):
        for record in records:
            if isinstance(record, Instruction | Gap):
                yield record, memory


def _there(streams: Sequence[HostStream], wanted: Wanted) -> There:
    """Return the threads that were chosen, and the times of which there is something."""
    fits = _fits(streams) if wanted.timed else []
    spans = [found.span for _, found in fits if found.span is not None]
    times = (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None
    return There([stream.thread for stream in streams if stream.thread is not None], times)


def _statistics(stream: HostStream) -> Iterator[Sequence[Any]]:
    name, found = stream.label, stream.statistics()
    yield name, "size", "bytes", found.size
    for kind, count in found.packets.items():
        yield name, f"packet.{kind.title}", "bytes" if kind == 0 else "packets", count
    if not stream.image.spans:
        return
    totals = Totals()
    for records, _ in stream.parts():
        records.add_to(totals)
    instructions = totals.instructions
    yield name, "instructions", "instructions", instructions
    if totals.aborted:
        yield name, "instructions.aborted", "instructions", totals.aborted
    density = round(found.size * 8 / instructions, 2) if instructions and stream.alone else None
    yield name, "density", "bits per instruction", density
    for why, (gaps, cycles) in sorted(totals.by_reason.items(), key=lambda item: item[0].state):
        yield name, f"gap.{why.state}", "gaps", gaps
        if cycles is not None:
            yield name, f"gap.{why.state}", "cycles", cycles
    yield from ((name, f"error.{what}", "errors", count) for what, count in sorted(stream.errors.items()))


def _fits(streams: Sequence[HostStream]) -> list[tuple[HostStream, Fit]]:
    return [(stream, fit(record for record in stream.records() if isinstance(record, Timestamp))) for stream in streams]


def _placed(stream: HostStream, found: Fit) -> Iterator[Sequence[Any]]:
    for record, memory in _records(stream, None, None):
        moment = found.moment(record.epoch, record.cycle)
        when: tuple[float | None, float | None] = None, None
        if isinstance(moment, AlignedTime):
            when = round(moment.time, 3), round(moment.uncertainty, 3)
        row = _row(stream, record, memory)
        yield row[0], row[1], *when, *row[3:]
