"""What threads of a recording were executing, from a trace of the same run: ``headway at RUN.hw TIME --trace FILE``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headway.errors import HeadwayError
from headway.model.executed import Executed

from .alignment import Fit, fit
from .disassembly import ARM, RISCV, Disassembler
from .records import Gap, Instruction, place_of
from .relation import ClockRelation, relate, relate_ticks
from .switches import last_of_threads, run_starts_of
from .threads.program import text_of

if TYPE_CHECKING:
    from headway.recording.queries.catalogue import RecordedRun

    from .decode import Capture, Stream
    from .etrace.reading import EtraceMoment, EtraceTrace
    from .hosts import HostCapture, HostStream
    from .threads.reading import ThreadMoment, Trace

__all__ = ["ExecutedAtTimes", "ExecutedInCapture", "ExecutedInCycles", "ExecutedOnHost"]

_MONOTONIC = "CLOCK_MONOTONIC"
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


class ExecutedAtTimes:
    """A trace of E-Trace beside the recording of the same run of the machine.

    Only some instructions have a time. What is known of a thread is the last of these.
    """

    words = _OF_THE_MACHINE
    left_out = ""

    def __init__(self, run: RecordedRun, path: str, trace: EtraceTrace) -> None:
        """Raise HeadwayError if the trace is not of the recording's run, or without its program or times."""
        self._trace = trace
        _check_machine(run, path, self._trace.name if path.endswith(".hwt") else "", self._trace.digest)
        self._trace.check_program()
        self._trace.check_times()
        self._text = text_of(trace.program, wide=trace.parameters.iaddress_width > 32)
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


class ExecutedInCycles:
    """A trace of the reference machine beside the recording of the same run. Both have the machine's clock."""

    words = _OF_THE_MACHINE
    left_out = ""

    def __init__(self, run: RecordedRun, path: str, trace: Trace) -> None:
        """Raise HeadwayError if the trace is not of the recording's run, or without its program."""

        self._trace = trace
        shape = trace.shape
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


class ExecutedOnHost:
    """A trace beside a recording. ``relation`` is that of their clocks, None if it is not known."""

    def __init__(self, run: RecordedRun, path: str, capture: HostCapture) -> None:
        """Relate the clocks. Raises HeadwayError if they cannot be related."""

        if run.time_unit != "ns":
            raise HeadwayError(f"{run.words} is of the reference machine, and {path!a} is of a Linux machine")
        self.capture = capture
        self._engine: Disassembler = Disassembler(self.capture.isa)
        self._streams: dict[int, HostStream] = {
            stream.thread: stream for stream in self.capture.chosen(()) if stream.thread is not None
        }
        self.relation: ClockRelation = self._related(run, path)

    def _related(self, run: RecordedRun, path: str) -> ClockRelation:
        from headway.recording.queries.run_starts import run_starts

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


class ExecutedInCapture:
    """A capture of a trace port beside a recording of the same run, by the context IDs that its streams have.

    Its timestamps are of a counter whose frequency it does not say. That is found of the times between switches.
    """

    def __init__(self, run: RecordedRun, path: str, capture: Capture) -> None:
        """Relate the clocks. Raises HeadwayError if the capture cannot be read, or they cannot be related."""
        from headway.recording.queries.run_starts import run_starts

        if run.time_unit != "ns":
            raise HeadwayError(f"{run.words} is of the reference machine, and {path!a} is of a Linux machine")
        self._capture = capture
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
