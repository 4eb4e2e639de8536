"""The eBPF source: it follows every change of state of every measured thread, in the kernel.

It needs Linux 5.15 or later with BTF, or an older one with the same features backported, and CAP_BPF and CAP_PERFMON.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from headway.linux.options import MeasureOptions, Selection

from .options import SourceOptions
from .prepared import PreparedPrograms
from .program_source import ProgramSource

if TYPE_CHECKING:
    from headway.linux.bpf.samples.stacks import StackReader
    from headway.linux.bpf.threads._cells import Cells
    from headway.linux.bpf.threads.rows import LivingThread
    from headway.model import Ledger
    from headway.model.transitions import Batch

    from .depth import Target
    from .measurement import BpfMeasurement

__all__ = ["BpfSource"]


class BpfSource(ProgramSource["BpfMeasurement"]):
    """Measures a selection of threads with eBPF (`LinuxSource`, `RecordingSource`).

    ``intervals``: `read` and `interval` will be called, not only `end`. ``forget``: threads that have ended are in the
    interval in which they did, and in no reading since `begin`, so that measuring may go on for ever. ``max_threads``:
    how many threads can be measured at the same time (None: as many as live now and half as many again, at least
    8,192); memory for so many is set aside, about 3 KiB each, and 2 more with ``intervals``.

    ``exit_bytes``: size of the ring by which ended threads come (a power of two, 4,096 at least; None: 16 MiB).
    ``max_ended``: how many ended threads are kept one by one (None: 131,072). As many more are added up by process and
    name, and all further ones in one row.

    ``record``: every transition is kept too, and handed over by `take`. Each processor has room for ``ring_words`` of
    them (a power of two, 64 at least; None: 2,097,152, or fewer on many processors), 10 bytes each, until `service` is
    called; what does not fit is counted. Until `close` the thread that calls `begin`, which is to be the one that calls
    `service` too, goes before others on the processors, where it may.

    ``meanwhile``: called in `begin`, while another thread has the kernel verify the programs, which takes a tenth of a
    second. It is for callers whom no signal interrupts with an exception.

    What is called before `begin`, or after `close`, raises RuntimeError.
    """

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions = MeasureOptions(),  # noqa: B008
        *,
        intervals: bool = False,
        forget: bool = False,
        max_threads: int | None = None,
        record: bool = False,
        ring_words: int | None = None,
        exit_bytes: int | None = None,
        max_ended: int | None = None,
        meanwhile: Callable[[], None] | None = None,
        prepared: Callable[[StackReader], None] | None = None,
    ) -> None:
        self._options = SourceOptions.of(
            selection,
            options,
            intervals=intervals,
            forget=forget,
            max_threads=max_threads,
            record=record,
            ring_words=ring_words,
            exit_bytes=exit_bytes,
            max_ended=max_ended,
            meanwhile=meanwhile,
            prepared=prepared,
        )

    def _measure(self) -> BpfMeasurement:
        options = self._options
        if (wanted := options.meanwhile) is not None:
            options = replace(options, meanwhile=lambda: _import_the_rest(wanted))
        with ExitStack() as stack:
            prepared = stack.enter_context(closing(PreparedPrograms(options)))
            from .measurement import BpfMeasurement

            measurement = BpfMeasurement(self.name, options, prepared)
            stack.pop_all()
            return measurement

    # ---- while it runs ----

    def follow_processors(self) -> None:
        """Attach again to the perf events of processors that were off meanwhile: the kernel has let go of them."""
        self._running.follow_processors()

    def measure_command(self, pid: int) -> None:
        """Measure one more suspended child, from the moment it executes its program."""
        self._running.measure_command(pid)

    def losses(self) -> dict[str, int]:
        """Return what could not be seen since `begin`, by name."""
        return self._running.losses()

    @property
    def deep(self) -> frozenset[Target]:
        """The threads, processes and cgroups of which calls are seen now because a condition holds (`DepthPolicy`)."""
        depth = self._running.depth
        return frozenset() if depth is None else depth.targets

    # ---- transitions ----

    @property
    def waiting(self) -> int:
        """How many rows `take` would return."""
        transitions = self._running.transitions
        return len(transitions) if transitions is not None else 0

    @property
    def fullest(self) -> float:
        """How full a ring of transitions was at most when it was read, 0 to 1."""
        transitions = self._running.transitions
        return transitions.fullest if transitions is not None else 0.0

    def empty_ledger(self) -> Ledger:
        """Return what must be known to read the rows of `take`: a ledger without threads and processors."""
        return self._running.empty_ledger()

    def take(self) -> Batch:
        """Return the transitions since the last call, if they are recorded; after `end`, once, the rest.

        Their rows add up to the ledger that `end` returns. What performance counters counted is in that ledger only.
        Raises ValueError where no transitions are recorded, or all have been taken.
        """
        transitions = self._running.transitions
        if transitions is None:
            raise ValueError("no transitions are recorded, or all have been taken")
        return transitions.take()

    # ---- processors and threads on their own, for a reader that announces snapshots itself ----

    @property
    def stacks(self) -> StackReader | None:
        """Where threads were when they left their processor, and the states of samples, if that was asked for."""
        return self._running.stacks

    def snapshot_words(self) -> tuple[int, int]:
        """Return where a snapshot is announced: `BpfMaps.snapshot_words`."""
        return self._running.snapshot_words()

    def processors_at(self, at: int) -> dict[int, Cells]:
        """Return what each processor has done since `begin`, as of the snapshot at this past moment: cpu -> cells."""
        return self._running.processors_at(at)

    def living(self) -> list[LivingThread]:
        """Return the threads that are measured now."""
        return self._running.living()

    def discard_ended(self, at: int) -> None:
        """Make room: leave the threads that had ended by this moment out of all ledgers."""
        self._running.discard_ended(at)

    @property
    def knows_stolen(self) -> bool:
        """Whether the kernel says which processor the hypervisor took, and when."""
        return self._running.knows_stolen


def _import_the_rest(wanted: Callable[[], None]) -> None:
    """Import what is needed when the programs have been prepared, and do what else is wanted meanwhile."""
    from . import measurement  # noqa: F401

    wanted()
