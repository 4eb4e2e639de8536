"""Traces of the reference machine, in its own format (``.hwt``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from headway.errors import HeadwayError

from ..beside import ExecutedInCycles
from ..reader import Answer, Export, Indexing, OptionError, There
from ..threads.container import NOT_COUNTED, TraceFile, unit_of
from ..threads.program import read_program, text_of
from ..threads.reading import Trace, state_of
from ..threads.slices import write
from ..threads.steps import steps_of_threads
from ..walk import CodeOf, Walk

if TYPE_CHECKING:
    from headway.model.executed import ExecutedBeside
    from headway.recording.queries.catalogue import RecordedRun

    from ..edges import Tracks
    from ..selection import Wanted
    from ..threads._flow import ThreadRows

__all__ = ["COLUMNS", "MachineReader", "open_trace"]

COLUMNS = ("stream", "thread", "cycle", "cycles", "address", "size", "state", "symbol")
_SHORT = {"data_cache": "d", "instruction_cache": "i", "dependency": "data", "_stall_cycles": "_stalls", "_cycles": ""}
"""Short forms of the names of counters, for tables on a terminal."""


def open_trace(path: str, images: Sequence[str]) -> MachineReader:
    """Open a trace with its program. Raises HeadwayError."""
    recording = TraceFile(path)
    if recording.etrace is not None:
        raise HeadwayError(f"{path!a} is of E-Trace: give a trace of the machine's own format")
    if len(images) > 1:
        raise OptionError("a trace of the machine has one program: give one --image")
    return MachineReader(path, Trace(recording, read_program(images[0]) if images else None))


class MachineReader:
    """A trace of the machine."""

    def __init__(self, path: str, trace: Trace) -> None:
        self._path, self._trace = path, trace
        self.remarks = trace.recording.remarks

    def _chosen(self, ids: Sequence[int]) -> list[int]:
        trace = self._trace
        for core in ids:
            trace.check_core(core)
        return sorted(set(ids)) or [core for core in range(trace.shape.cores) if trace.recording.sizes[core]]

    def instructions(self, wanted: Wanted, *, stalls: bool) -> Answer:
        """Return what is wanted, each thread's in order: instructions, gaps, and with ``stalls`` other cycles."""
        trace, cores = self._trace, self._chosen(wanted.streams)
        trace.check_program()
        if wanted.timed:
            trace.check_times()
        trace.check_threads(wanted.threads)
        text = text_of(trace.program) if wanted.disassemble else None
        rows = (
            (*_row(trace, core, rows, number), *_text(text, rows, number))
            for core in cores
            for rows in trace.rows(core, stalls=stalls, wanted=wanted)
            for number in range(len(rows))
        )
        lines = chain.from_iterable(trace.csv(core, stalls=stalls, wanted=wanted, text=text) for core in cores)
        columns = COLUMNS if text is None else (*COLUMNS, "instruction")
        return Answer(columns, rows, lines, partial(_there, trace, cores, wanted))

    def statistics(self, streams: Sequence[int]) -> Answer:
        """Return packets by kind, and with a program instructions, bits per instruction, and gaps by reason."""
        file = (("all", *row) for row in self._trace.recording.damage.rows())
        return Answer(("stream", "what", "unit", "value"), chain(file, self._statistics(self._chosen(streams))))

    def _statistics(self, cores: Sequence[int]) -> Iterator[Sequence[Any]]:
        trace = self._trace
        for core in cores:
            name, found = f"{core:#x}", trace.statistics(core)
            yield name, "size", "bytes", found.size
            yield from ((name, f"packet.{kind}", "packets", count) for kind, count in found.packets.items())
            if found.mended:
                yield name, "mended", "bits", found.mended
            if found.before:
                yield name, "before the first A-sync", "bytes", found.before
            if found.damaged:
                yield name, "damaged", "bytes", found.damaged
            if found.unchecked:
                yield name, "after the last A-sync", "bytes", found.unchecked
            if found.windows:
                yield name, "profile.windows", "windows", found.windows
                yield from ((name, f"profile.{what}", unit_of(what), n) for what, n in found.profile.items())
            if trace.program is None:
                continue
            count = found.instructions
            yield name, "instructions", "instructions", count
            yield name, "density", "bits per instruction", round(8 * found.size / count, 2) if count else None
            gaps = (item for item in found.rows.items() if item[0].startswith("unknown"))
            yield from ((name, f"gap.{state}", "gaps", number) for state, number in gaps)
            yield name, "contradictions", "contradictions", found.contradictions

    def windows(self, streams: Sequence[int]) -> Answer:
        """Return a row for each window of the profile."""
        trace, cores = self._trace, self._chosen(streams)
        used = [place for place, name in enumerate(trace.counted) if name != NOT_COUNTED]
        rows: Iterator[Sequence[Any]] = (
            (f"{core:#x}", end, *(counts[place] for place in used))
            for core in cores
            for end, *counts in trace.windows(core)
        )
        first = next(rows, None)
        if first is None:
            raise HeadwayError(
                f"{self._path!a} has no windows of a profile: run the machine with a window, for example "
                "trace.window = 1000"
            )
        names = [trace.counted[place] for place in used]
        titles = ("stream", "cycle", *map(_short, names))
        return Answer(("stream", "cycle", *names), chain([first], rows), titles=titles)

    def alignment(self, streams: Sequence[int]) -> Answer:
        """Return how each core's cycles lie in the machine's ticks."""
        trace, cores = self._trace, self._chosen(streams)
        trace.check_times()
        rows: list[Sequence[Any]] = []
        for core in cores:
            clock = trace.clock(core)
            span = clock.changes[0].tick, clock.tick(clock.end)
            rows.append((f"{core:#x}", clock.end, len(clock.changes) - 1, clock.rate, clock.tick(0), *span))
        return Answer(("stream", "cycles", "changes", "cycles_per_tick", "offset", "start", "end"), rows)

    def placed(self, streams: Sequence[int]) -> Answer:
        """Return every instruction with its tick."""
        trace, cores = self._trace, self._chosen(streams)
        trace.check_times()
        trace.check_program()
        columns = ("stream", "thread", "time", "uncertainty", "cycles", "address", "size", "state", "symbol")
        return Answer(columns, (row for core in cores for row in _placed(trace, core)))

    def at(self, wanted: Wanted, cycle: int | None, time: int | None, indexing: Indexing | None) -> Answer:
        """Return what every thread of every core was doing at a tick, or in a cycle of one core."""
        trace, ids = self._trace, wanted.streams
        if time is not None and cycle is not None:
            raise OptionError("give --time, a tick of the machine's clock, or --cycle, not both")
        if time is None and cycle is None:
            raise OptionError(
                "give --time, a tick of the machine, or --cycle, of the core that --stream names, else of core 0"
            )
        if cycle is not None and len(ids) > 1:
            raise OptionError("--cycle is of one core: name one with --stream")
        trace.check_threads(wanted.threads)
        moments = trace.at_time(time, ids) if cycle is None and time is not None else trace.at(cycle or 0, *ids)
        text = text_of(trace.program) if wanted.disassemble else None
        rows: list[Sequence[Any]] = []
        for one in moments:
            if not wanted.holds(one.thread):
                continue
            address, symbol, line = None, "", ""
            if one.address is not None and trace.program is not None:
                address, symbol = f"{one.address:#010x}", trace.program.symbol(one.address)
                line = trace.program.line(one.address)
            head = f"{one.core:#x}", one.thread, one.cycle, one.id or None
            more = () if text is None else (text(one.address) if one.size and one.address is not None else "",)
            rows.append((*head, address, one.size, one.state, "marked" if one.triggered else "", symbol, line, *more))
        columns = ("stream", "thread", "cycle", "id", "address", "size", "state", "trigger", "symbol", "line")
        return Answer(columns if text is None else (*columns, "instruction"), rows)

    def export(self, streams: Sequence[int]) -> Export:
        """Return the trace as slices. It has been checked when this returns."""
        trace, cores = self._trace, self._chosen(streams)
        trace.check_times()
        trace.check_program()

        def fill(file: Tracks) -> list[str]:
            write(trace, cores, file)
            return []

        return Export(fill)

    def walk(self, streams: Sequence[int]) -> Walk:
        """Return what the program's threads executed; a hart that has none counts as one."""
        trace, cores = self._trace, self._chosen(streams)
        trace.check_program()
        assert trace.program is not None
        return Walk(steps_of_threads(trace, cores, CodeOf(trace.program, text_of(trace.program))))

    def beside(self, run: RecordedRun) -> ExecutedBeside:
        """Return what the threads of a recording of the same run executed."""
        return ExecutedInCycles(run, self._path, self._trace)


def _short(name: str) -> str:
    for long, short in _SHORT.items():
        name = name.replace(long, short)
    return name.replace("stall@", "stalls@") if name.startswith("stall@") else {"stall": "stalls"}.get(name, name)


def _there(trace: Trace, cores: Sequence[int], wanted: Wanted) -> There:
    """Return the threads of these cores, and the ticks of which there is something."""
    threads = [core * trace.shape.threads + number for core in cores for number in range(trace.shape.threads)]
    clocks = [trace.clock(core) for core in cores] if wanted.timed else []
    times = (min(one.changes[0].tick for one in clocks), max(one.tick(one.end) for one in clocks)) if clocks else None
    return There(threads, times)


def _text(text: Callable[[int], str] | None, rows: ThreadRows, number: int) -> tuple[str, ...]:
    if text is None:
        return ()
    _, _, _, address, size, _, _ = rows[number]
    return (text(address) if size else "",)


def _row(trace: Trace, core: int, rows: ThreadRows, number: int) -> tuple[Any, ...]:
    thread, cycle, cycles, address, size, what, _ = rows[number]
    head = f"{core:#x}", core * trace.shape.threads + thread, cycle, cycles
    if what >= 32:
        return *head, None, 0, state_of(rows, number), ""
    assert trace.program is not None
    if not address:  # a trigger marker of a thread whose place is not known
        return *head, None, 0, state_of(rows, number), ""
    return *head, f"{address:#010x}", size, state_of(rows, number), trace.program.symbol(address)


def _placed(trace: Trace, core: int) -> Iterable[Sequence[Any]]:
    """The rows of decode, with ticks for cycles. A tick is exact unless changes of the clock may be missing."""
    clock = trace.clock(core)
    uncertainty = 0 if trace.whole(core) and clock.exact else None
    for rows in trace.rows(core):
        for number in range(len(rows)):
            stream, thread, cycle, *rest = _row(trace, core, rows, number)
            when = (None, None) if cycle is None else (clock.tick(cycle), uncertainty)
            yield stream, thread, *when, *rest
