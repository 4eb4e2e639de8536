"""Snapshots: everything that the eBPF programs have counted since the beginning, as of one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headway.dataclass import dataclass
from headway.linux.bpf.threads._cells import Cells
from headway.linux.options import Selection
from headway.linux.perf import perf_event as perf
from headway.model import Counted

from .ended import EndedThreads
from .losses import LossReader
from .programs import LoadedPrograms
from .targets import measured_cpus

if TYPE_CHECKING:
    from headway.linux.bpf.reading._snapshots import ThreadRow
    from headway.linux.bpf.waits.causes import CauseReader, Causes

__all__ = ["Snapshot", "SnapshotReader"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was counted from the beginning until ``at``, ns of CLOCK_MONOTONIC.

    The threads that have ended by then are in `EndedThreads`.
    """

    at: int
    living: Sequence[ThreadRow]
    processors: Mapping[int, Cells]
    """By cpu."""
    causes: Causes | None
    """What is behind the states of threads, if that was asked for."""
    losses: Mapping[str, int]
    events: int
    counted: Mapping[str, Counted]
    """For how much of the time each counter counted."""


class SnapshotReader:
    """Reads the maps as of a moment that was announced (`BpfMaps.take_snapshot`) and is past."""

    def __init__(
        self,
        programs: LoadedPrograms,
        selection: Selection,
        ended: EndedThreads,
        losses: LossReader,
        causes: CauseReader | None,
    ) -> None:
        self._memory, self._plan, self._selection = programs.memory, programs.plan, selection
        self._ended, self._losses, self._causes = ended, losses, causes
        self.causes: Causes | None = None
        """Those of the last snapshot that was read."""

    def read(self, at: int) -> Snapshot:
        """Return the snapshot at this moment, and hand the threads that had ended by then to `EndedThreads`."""
        counted = self._plan.counted([perf.CounterReading(0, *times) for times in self._memory.counted()])
        self._ended.take(at)
        living = self._memory.read_threads(at)
        cpus = measured_cpus(self._selection)
        processors = {cpu: cells for cpu, cells in self._memory.read_processors(at).items() if cpu in cpus}
        self.causes = causes = self._causes.read(at) if self._causes is not None else None
        losses, events = self._losses.read()  # last: readings that did not add up are among them
        return Snapshot(at, living, processors, causes, losses, events, counted)
