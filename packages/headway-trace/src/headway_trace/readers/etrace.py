"""Traces of RISC-V E-Trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headway.errors import HeadwayError

from ..beside import ExecutedAtTimes
from ..etrace.files import DESCRIPTION, EtraceFile
from ..etrace.reading import EtraceTrace, state_of
from ..etrace.slices import write
from ..image import RISCV, TracedImage
from ..reader import Answer, Export, Indexing, OptionError, There
from ..threads.container import TraceFile, digest_of
from ..threads.program import read_program, text_of
from ..threads.reading import TracedProgram
from ..walk import CodeOf, Step, Walk
from .machine import COLUMNS

if TYPE_CHECKING:
    from headway.model.executed import ExecutedBeside
    from headway.recording.queries.catalogue import RecordedRun

    from ..edges import Tracks
    from ..selection import Wanted

__all__ = ["EtraceReader", "open_trace"]

_UNKNOWN = 32
_Rows = TypeVar("_Rows", bytes, tuple[Any, ...])
"""Rows, one at a time; or lines, many at a time."""


def open_trace(path: str, images: Sequence[str]) -> EtraceReader:
    """Open a trace with its program. Raises HeadwayError."""
    described = path.endswith(DESCRIPTION)
    file = EtraceFile.described(path) if described else EtraceFile.of_machine(TraceFile(path))
    trace = EtraceTrace(file.name, file.parameters, file.streams, _program(file, images), file.digest)
    return EtraceReader(path, trace, file)


def _program(file: EtraceFile, images: Sequence[str]) -> TracedProgram | None:
    if file.digest:
        if len(images) > 1:
            raise OptionError("a trace of the machine has one program: give one --image")
        found = read_program(images[0]) if images else None
        if found is not None and digest_of(found.segments) != file.digest:
            raise HeadwayError(
                f"the program is not the one that was traced ({file.name!a}): give the file that ran with --image"
            )
        return found
    image = TracedImage(RISCV)
    for text in images or file.images:
        image.add_file(text)
    if not image.spans:
        return None
    segments = tuple((start, image.read(start, end - start)) for start, end in image.spans)
    if len(segments) > 256:
        raise HeadwayError(f"the program has {len(segments)} parts: give one of at most 256")
    return TracedProgram(segments, image.functions, image)


class _Fitting:
    """Whether the packets of a trace fit the program: whether anything of it is an instruction.

    ``selected``: only a part of it is read, so that there may be none; ``empty``: there is nothing at all.
    """

    def __init__(self, path: str, *, selected: bool, empty: bool = True) -> None:
        self._path, self._known, self._empty = path, selected, empty

    def of(self, rows: Iterable[_Rows]) -> Iterator[_Rows]:
        """Yield the rows, or the lines of CSV."""
        for one in rows:
            self._empty = False
            self._known = self._known or (b"executed," in one if isinstance(one, bytes) else bool(one[5]))
            yield one

    def check(self) -> Sequence[str]:
        """Raise HeadwayError if there are only gaps, of a trace that has been read; else return nothing to say."""
        if self._known or self._empty:
            return ()
        raise HeadwayError(
            f"no instruction of {self._path!a} can be decoded, its packets lead nowhere in the program: check the "
            "encoder's parameters, and that the program is the one that ran"
        )


class EtraceReader:
    """A trace of E-Trace. Only some packets have a time."""

    def __init__(self, path: str, trace: EtraceTrace, file: EtraceFile) -> None:
        self._path, self._trace, self._damage = path, trace, file.damage
        self.remarks = file.remarks

    @property
    def _text(self) -> Callable[[int], str]:
        """What gives the text of the instruction at an address. Raises MissingExtraError without capstone."""
        return text_of(self._trace.program, wide=self._trace.parameters.iaddress_width > 32)

    def instructions(self, wanted: Wanted, *, stalls: bool) -> Answer:
        """Return every instruction and every gap that is wanted; ``stalls``: also where sources trapped."""
        trace = self._trace
        trace.check_sources(wanted.streams)
        trace.check_program()
        if wanted.timed:
            trace.check_times()
        if wanted.threads:
            trace.check_threads()
        text = self._text if wanted.disassemble else None
        columns = COLUMNS if text is None else (*COLUMNS, "instruction")
        fitting = _Fitting(self._path, selected=wanted.timed or bool(wanted.threads or wanted.streams))
        rows = fitting.of(_rows(trace, wanted.streams, stalls, wanted, text))
        lines = fitting.of(trace.csv(wanted.streams, traps=stalls, wanted=wanted, text=text))
        return Answer(columns, rows, lines, partial(_there, trace, wanted.streams), fitting.check)

    def statistics(self, streams: Sequence[int]) -> Answer:
        """Return packets by kind, and with a program instructions, bits per instruction, and gaps by reason."""
        trace = self._trace
        trace.check_sources(streams)
        found = trace.statistics(streams)
        rows: list[Sequence[Any]] = [("all", *row) for row in self._damage.rows()]
        rows.append(("all", "size", "bytes", found.size))
        rows += [("all", f"packet.{kind}", "packets", count) for kind, count in found.packets.items()]
        total = 0
        for source, states in found.rows.items():
            name, count = f"{source:#x}", found.instructions(source)
            total += count
            rows.append((name, "instructions", "instructions", count))
            rows += [(name, f"gap.{state}", "gaps", n) for state, n in states.items() if state.startswith("unknown")]
        if trace.program is not None:
            rows.append(("all", "instructions", "instructions", total))
            density = round(8 * found.size / total, 3) if total and not streams else None
            rows.append(("all", "density", "bits per instruction", density))
            rows.append(("all", "contradictions", "contradictions", found.contradictions))
        gaps = any(state.startswith("unknown") for states in found.rows.values() for state in states)
        fitting = _Fitting(self._path, selected=bool(streams or total), empty=not gaps)
        return Answer(("stream", "what", "unit", "value"), rows, left_out=fitting.check)

    def alignment(self, streams: Sequence[int]) -> Answer:
        """Return the times that each source's packets have."""
        trace = self._trace
        trace.check_sources(streams)
        trace.check_times()
        trace.check_program()
        spans: dict[int, list[int]] = {}
        for rows, _ in trace.blocks(streams):
            for number in range(len(rows)):
                source, time, *_ = rows[number]
                if time is not None:
                    span = spans.setdefault(source, [0, time, time, 0])
                    span[0], span[2], span[3] = span[0] + 1, time, max(span[3], time - span[2])
        found: list[Sequence[Any]] = [(f"{source:#x}", *span) for source, span in sorted(spans.items())]
        return Answer(("stream", "times", "start", "end", "longest"), found)

    def placed(self, streams: Sequence[int]) -> Answer:
        """Return every instruction with the time before it."""
        trace = self._trace
        trace.check_sources(streams)
        trace.check_times()
        trace.check_program()
        columns = ("stream", "thread", "time", "uncertainty", "address", "size", "state", "symbol")
        return Answer(columns, _placed(trace, streams))

    def at(self, wanted: Wanted, cycle: int | None, time: int | None, indexing: Indexing | None) -> Answer:
        """Return the last that is known of every source at a time."""
        trace, ids = self._trace, wanted.streams
        if cycle is not None:
            raise OptionError("--cycle is for traces with cycles: give --time")
        if time is None:
            raise OptionError("give --time: the packets of E-Trace have times, not cycles")
        trace.check_sources(ids)
        trace.check_program()
        assert trace.program is not None
        if wanted.threads:
            trace.check_threads()
        text = self._text if wanted.disassemble else None
        rows: list[Sequence[Any]] = []
        for one in trace.at(time, ids):
            address, symbol, line = None, "", ""
            if one.address is not None:
                address, symbol = f"{one.address:#010x}", trace.program.symbol(one.address)
                line = trace.program.line(one.address)
            thread = one.context if trace.contexts and one.address is not None else None
            if not wanted.holds(thread):
                continue
            more = () if text is None else (text(one.address) if one.address is not None else "",)
            head = f"{one.source:#x}", thread, one.time, time - one.time
            rows.append((*head, address, one.size, one.state, symbol, line, *more))
        columns = ("stream", "thread", "time", "uncertainty", "address", "size", "state", "symbol", "line")
        return Answer(columns if text is None else (*columns, "instruction"), rows)

    def export(self, streams: Sequence[int]) -> Export:
        """Return the trace as slices. It has been checked when this returns."""
        trace = self._trace
        trace.check_sources(streams)
        trace.check_times()
        trace.check_program()

        def fill(file: Tracks) -> list[str]:
            write(trace, streams, file)
            return ["E-Trace has times in some packets only: instructions between two of them are placed evenly"]

        return Export(fill)

    def walk(self, streams: Sequence[int]) -> Walk:
        """Return what every source executed."""
        trace = self._trace
        trace.check_sources(streams)
        trace.check_program()
        assert trace.program is not None
        return Walk(_steps(trace, streams, CodeOf(trace.program, self._text)))

    def beside(self, run: RecordedRun) -> ExecutedBeside:
        """Return the last that is known of the threads of a recording of the same run."""
        return ExecutedAtTimes(run, self._path, self._trace)


def _steps(trace: EtraceTrace, ids: Sequence[int], code: CodeOf) -> Iterator[Step]:
    for rows, _ in trace.blocks(ids, traps=True):
        for number in range(len(rows)):
            source, _, _, address, size, what, _ = rows[number]
            yield Step(f"source {source:#x}", None if what >= _UNKNOWN else code, address, size)


def _there(trace: EtraceTrace, ids: Sequence[int]) -> There:
    """Return the threads and times of which there is something."""
    threads, times = set[int](), list[int]()
    for rows, _ in trace.blocks(ids):
        threads.update(rows.contexts())
        times = [*times, *(rows.times() or ())]
        times = [min(times), max(times)] if times else []
    return There(threads, (times[0], times[1]) if times else None)


def _rows(
    trace: EtraceTrace,
    ids: Sequence[int],
    traps: bool,
    wanted: Wanted | None = None,
    text: Callable[[int], str] | None = None,
) -> Iterator[tuple[Any, ...]]:
    assert trace.program is not None
    contexts = trace.contexts
    for rows, _ in trace.blocks(ids, traps=traps, wanted=wanted):
        for number in range(len(rows)):
            source, time, context, address, size, code, end = rows[number]
            more = () if text is None else (text(address) if size else "",)
            if code >= _UNKNOWN:
                cycles = end - time if time is not None and end is not None and end >= time else None
                yield f"{source:#x}", None, time, cycles, None, 0, state_of(rows, number), "", *more
                continue
            thread = context if contexts else None
            symbol = trace.program.symbol(address)
            yield f"{source:#x}", thread, time, None, f"{address:#010x}", size, state_of(rows, number), symbol, *more


def _placed(trace: EtraceTrace, ids: Sequence[int]) -> Iterator[Sequence[Any]]:
    """The rows of decode, with the last time before each, and how much later it may have been."""
    waiting: dict[str, list[tuple[Any, ...]]] = {}
    begun: dict[str, int | None] = {}
    for row in _rows(trace, ids, False):
        source, _, time, *_ = row
        held = waiting.setdefault(source, [])
        if time is not None or len(held) >= 1 << 16:
            yield from _timed(held, begun.get(source), time)
            held.clear()
            begun[source] = time if time is not None else begun.get(source)
        held.append(row)
    for source, held in waiting.items():
        yield from _timed(held, begun.get(source), None)


def _timed(held: Sequence[tuple[Any, ...]], begin: int | None, end: int | None) -> Iterator[Sequence[Any]]:
    for place, (source, thread, time, _, *rest) in enumerate(held):
        later = 0 if time is not None and not place else None if begin is None or end is None else end - begin
        yield source, thread, time if time is not None else begin, later, *rest
