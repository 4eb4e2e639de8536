"""What threads of a recording were executing, from a trace of the same run: ``headway at RUN.hw TIME --trace FILE``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from headway.cli import etrace_traces, machine_traces
from headway.dataclass import dataclass
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.recording.queries.catalogue import RecordedRun
    from headway.trace.alignment import Fit
    from headway.trace.decode import Stream
    from headway.trace.disassembly import Disassembler
    from headway.trace.etrace.reading import EtraceMoment
    from headway.trace.hosts import HostCapture, HostStream
    from headway.trace.records import Gap, Instruction
    from headway.trace.relation import ClockRelation
    from headway.trace.threads.reading import ThreadMoment

__all__ = ["Executed", "Traced", "open_traced"]

_MONOTONIC = "CLOCK_MONOTONIC"


@dataclass(frozen=True, slots=True)
class Executed:
    """What a thread executed last: figures are None, and texts "", where ``why`` says why it is not known."""

    why: str | None = None
    """A state (``unknown.outside``) or a sentence."""
    function: str | None = None
    line: str | None = None
    address: int | None = None
    instruction: str | None = None
    time: int | None = None
    """When, in the recording's time."""
    uncertainty: int | None = None


class Traced(Protocol):
    """A trace of the run of a recording."""

    @property
    def words(self) -> str:
        """How the clocks lie to each other, for people."""

    @property
    def left_out(self) -> str:
        """What of the trace is missing, in one line."""

    def at(self, tid: int, cpu: int | None, time: int) -> Executed:
        """Return what a thread had executed last at a time of the recording, when it had that processor."""


def open_traced(run: RecordedRun, path: str, images: Sequence[str]) -> Traced:
    """Open the trace of a recording's run. Raises HeadwayError."""
    from headway.trace.containers import kind_of

    if not os.path.exists(path):
        raise HeadwayError(f"{path!a} is not there: give a trace, or the folder of a snapshot, with --trace")
    if etrace_traces.answers(path):
        return TracedEtrace(run, path, images)
    if kind_of(path) is not None:
        return TracedRun(run, path, images)
    if machine_traces.answers(path):
        return TracedMachine(run, path, images)
    return TracedCapture(run, path, images)


_OF_THE_MACHINE = "trace and recording have the machine's clock"


def _check_machine(run: RecordedRun, path: str, traced: str, program: str) -> None:
    """Raise HeadwayError if the recording is not of a machine's run, or of another program than was traced.

    ``traced`` is the name of what was traced, ``program`` its digest; empty: not known.
    """
    if run.time_unit != "cycles":
        raise HeadwayError(f"{run.words} is of a Linux machine, and {path!a} of the reference machine")
    ran = os.path.basename(run.command[0]) if run.command else ""
    if ran and traced and ran[:255] != traced:
        raise HeadwayError(f"{run.words} is of {ran!a}, and {path!a} of {traced!a}: give the trace of the same run")
    if run.program and program and run.program != program:
        raise HeadwayError(f"{run.words} and {path!a} are of different programs: give the trace of the same run")


class TracedEtrace:
    """A trace of E-Trace beside the recording of the same run of the machine.

    Only some instructions have a time. What is known of a thread is the last of these.
    """

    words = _OF_THE_MACHINE
    left_out = ""

    def __init__(self, run: RecordedRun, path: str, images: Sequence[str]) -> None:
        """Open the trace. Raises HeadwayError if it is not of a machine's run, or without its program or times."""
        self._trace = etrace_traces.opened(path, images)
        _check_machine(run, path, self._trace.name if path.endswith(".hwt") else "", self._trace.digest)
        self._trace.check_program()
        self._trace.check_times()
        self._text = etrace_traces.text_of_trace(self._trace)
        self._moments: dict[int, list[EtraceMoment]] = {}

    def at(self, tid: int, cpu: int | None, time: int) -> Executed:
        """Return the last that is known of a thread at a tick, by the hart that it had."""
        if cpu is None:
            return Executed("it had no processor")
        if time not in self._moments:
            try:
                self._moments[time] = self._trace.at(time)
            except HeadwayError:  # nothing is known so early
                self._moments[time] = []
        program, contexts = self._trace.program, self._trace.contexts
        for one in self._moments[time]:
            if one.source != cpu or program is None:
                continue
            if one.address is None:
                return Executed(one.state)
            if contexts and one.context and one.context != tid:
                break
            where = program.symbol(one.address) or None, program.line(one.address) or None
            return Executed(None, *where, one.address, self._text(one.address) or None, one.time, 0)
        return Executed("unknown.outside")


class TracedMachine:
    """A trace of the reference machine beside the recording of the same run. Both have the machine's clock."""

    words = _OF_THE_MACHINE
    left_out = ""

    def __init__(self, run: RecordedRun, path: str, images: Sequence[str]) -> None:
        """Open the trace. Raises HeadwayError if it is not of a machine's run, or without its program."""
        from headway.trace.disassembly import RISCV, Disassembler

        self._trace = machine_traces.opened(path, images)
        shape = self._trace.shape
        _check_machine(run, path, shape.name, shape.program)
        self._trace.check_program()
        self._engine = Disassembler(RISCV)
        self._moments: dict[int, list[ThreadMoment]] = {}

    def at(self, tid: int, cpu: int | None, time: int) -> Executed:
        """Return what a thread was executing at a tick; it is known by its number, or by its hart."""
        if time not in self._moments:
            self._moments[time] = self._trace.at(self._trace.clock(0).cycle(time))
        program, threads = self._trace.program, self._trace.shape.threads
        for one in self._moments[time]:
            if one.id == tid or (not one.id and cpu == one.core * threads + one.thread):
                if one.address is None or program is None:
                    return Executed(one.state)
                text = self._engine.text(program, one.address) if one.size else ""
                where = program.symbol(one.address) or None, program.line(one.address) or None
                return Executed(None, *where, one.address, text or None, time, 0)
        return Executed("it had no processor")


class TracedRun:
    """A trace beside a recording. ``relation`` is that of their clocks, None if it is not known."""

    def __init__(self, run: RecordedRun, path: str, images: Sequence[str]) -> None:
        """Open the trace and relate the clocks. Raises HeadwayError if the trace cannot be read or related."""
        from headway.trace.disassembly import Disassembler
        from headway.trace.hosts import open_host

        if run.time_unit != "ns":
            raise HeadwayError(f"{run.words} is of the reference machine, and {path!a} is of a Linux machine")
        self.capture: HostCapture = open_host(path, images)
        self._engine: Disassembler = Disassembler(self.capture.isa)
        self._streams: dict[int, HostStream] = {
            stream.thread: stream for stream in self.capture.chosen(()) if stream.thread is not None
        }
        self.relation: ClockRelation = self._related(run, path)

    def _related(self, run: RecordedRun, path: str) -> ClockRelation:
        from headway.recording.queries.run_starts import run_starts
        from headway.trace.relation import ClockRelation, relate

        if self.capture.clock == _MONOTONIC:
            return ClockRelation()
        there = self.capture.run_starts()
        found = relate(run_starts(run, there.keys()), there) if there else None
        if found is None:
            raise HeadwayError(
                f"the times of {path!a} ({self.capture.clock}) cannot be related to those of {run.words}: "
                "too few switches of the same threads are in both; trace and record the same run, perf record with "
                "--switch-events"
            )
        return found

    @property
    def words(self) -> str:
        """How the clocks lie to each other, for people."""
        one = self.relation
        if not one.matches:
            return "trace and recording have the same clock"
        return f"the clocks are related by {one.matches:,} switches that both have, ± {one.uncertainty / 1000:.3g} µs"

    @property
    def left_out(self) -> str:
        """What of the trace is missing, in one line."""
        return self.capture.left_out

    def at(self, tid: int, cpu: int | None, time: int) -> Executed:
        """Return what a thread had executed last at a time of the recording."""
        from headway.trace.records import Instruction, place_of

        stream = self._streams.get(tid)
        if stream is None:
            return Executed("not traced")
        found = stream.last(self.relation.there(time))
        if not isinstance(found.record, Instruction) or found.memory is None:
            return Executed(found.why)
        record, memory = found.record, found.memory
        return Executed(
            None,
            memory.symbol(record.address) or None,
            memory.line(record.address) or None,
            record.address,
            self._engine.text(memory, place_of(record.address, record.isa)) or None,
            None if found.time is None else self.relation.here(found.time),
            (found.uncertainty or 0) + self.relation.uncertainty,
        )


class TracedCapture:
    """A capture of a trace port beside a recording of the same run, by the context IDs that its streams have.

    Its timestamps are of a counter whose frequency it does not say. That is found of the times between switches.
    """

    def __init__(self, run: RecordedRun, path: str, images: Sequence[str]) -> None:
        """Open the capture and relate the clocks. Raises HeadwayError if it cannot be read or related."""
        from headway.recording.queries.run_starts import run_starts
        from headway.trace.alignment import fit
        from headway.trace.decode import Capture
        from headway.trace.disassembly import ARM, Disassembler
        from headway.trace.relation import relate_ticks
        from headway.trace.switches import run_starts_of

        if run.time_unit != "ns":
            raise HeadwayError(f"{run.words} is of the reference machine, and {path!a} is of a Linux machine")
        self._capture = Capture.open(path, images)
        self._engine = Disassembler(ARM)
        self._streams: list[tuple[Stream, Fit]] = []
        for stream in self._capture.chosen(()):
            if stream.setting.threads:
                stream.check()
                stream.check_image()
                self._streams.append((stream, fit(stream.timestamps())))
        self._streams = [(stream, found) for stream, found in self._streams if found.rate is not None]
        if not self._streams:
            raise HeadwayError(f"no stream of {path!a} has context IDs and timestamps: its threads are not known")
        there = run_starts_of(self._streams)
        found = relate_ticks(run_starts(run, there.keys()), there)
        if found is None:
            raise HeadwayError(
                f"the timestamps of {path!a} cannot be related to the times of {run.words}: too few switches of the "
                "same threads are in both; trace and record the same run, with the thread's ID as context ID"
            )
        self.relation = found
        self._last: dict[int, dict[int, tuple[Instruction | Gap, Stream, float]]] = {}

    @property
    def words(self) -> str:
        """How the clocks lie to each other, for people."""
        one = self.relation
        return (
            f"the clocks are related by {one.matches:,} switches that both have, ± {one.uncertainty / 1000:.3g} µs; "
            f"the timestamps count {one.rate * 1e3:,.4g} MHz"
        )

    @property
    def left_out(self) -> str:
        """What of the capture is missing, in one line."""
        return self._capture.left_out

    def at(self, tid: int, cpu: int | None, time: int) -> Executed:
        """Return what a thread had executed last at a time of the recording."""
        from headway.trace.records import Instruction, place_of
        from headway.trace.switches import last_of_threads

        tick = self.relation.there(time)
        if time not in self._last:
            self._last[time] = last_of_threads(self._streams, tick)
        found = self._last[time].get(tid)
        if found is None:
            return Executed("unknown.outside")
        record, stream, when = found
        if not isinstance(record, Instruction):
            return Executed(record.why.state)
        image, place = stream.image, place_of(record.address, record.isa)
        return Executed(
            None,
            image.symbol(record.address) or None,
            image.line(record.address) or None,
            record.address,
            self._engine.text(image, place) or None,
            self.relation.here(when),
            self.relation.uncertainty + round(1 / self.relation.rate) + 1,
        )
