"""What threads of a recording were executing, from a trace of the same run: ``headway at RUN.hw TIME --trace FILE``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.recording.queries.catalogue import RecordedRun
    from headway.trace.disassembly import Disassembler
    from headway.trace.hosts import HostCapture, HostStream
    from headway.trace.relation import ClockRelation

__all__ = ["Executed", "TracedRun"]

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


class TracedRun:
    """A trace beside a recording. ``relation`` is that of their clocks, None if it is not known."""

    def __init__(self, run: RecordedRun, path: str, images: Sequence[str]) -> None:
        """Open the trace and relate the clocks. Raises HeadwayError if the trace cannot be read or related."""
        from headway.trace.containers import kind_of
        from headway.trace.disassembly import Disassembler
        from headway.trace.hosts import open_host

        if kind_of(path) is None:
            raise HeadwayError(f"{path!a} has no threads that a recording has too: give what perf record wrote")
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

    def at(self, tid: int, time: int) -> Executed:
        """Return what a thread had executed last at a time of the recording."""
        from headway.trace.records import Instruction

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
            self._engine.text(memory, record.address, record.size) or None,
            None if found.time is None else self.relation.here(found.time),
            (found.uncertainty or 0) + self.relation.uncertainty,
        )
