"""One measurement within a budget: by the kernel's clocks where programs at each switch are too dear, else by eBPF."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace

from headway.linux import privileges
from headway.linux.bpf.clocks.clock_programs import ClockPrograms
from headway.linux.bpf.programs.selected import Selected
from headway.linux.levels import Level
from headway.linux.options import Selection
from headway.model import Ledger

from ..clocks.measurement import ClockMeasurement
from ..ebpf.budget import BudgetPolicy
from ..ebpf.level_control import describe
from ..ebpf.measurement import BpfMeasurement
from ..ebpf.options import SourceOptions
from ..ebpf.prepared import PreparedPrograms
from ..ebpf.programs import MORE_THREADS
from ..ebpf.targets import measured_cpus
from .clock_control import ClockControl
from .stitching import Stitching, merged, with_processors

__all__ = ["BudgetMeasurement"]

LEVELS = (Level.CLOCKS, Level.SWITCHES, Level.INTERRUPTS)
"""Those that a budget chooses among (see `ebpf.level_control.LEVELS`)."""


class BudgetMeasurement:
    """What was selected is measured from the moment at which this exists until its last ledger; `close` in any case.

    All programs stay loaded. Only those of the level are attached. ``source``: the name of the source, for the ledgers.
    Raises HeadwayError where it cannot be measured; then nothing is left attached or loaded.
    """

    def __init__(self, source: str, options: SourceOptions) -> None:
        assert options.measure.budget is not None
        self._source, self._options = source, options
        self._whole: Ledger | None = None
        """The parts that have ended."""
        self._untold: Ledger | None = None
        """What of them no interval has told yet."""
        self._stitching = Stitching()
        self._times = dict.fromkeys(LEVELS, 0)
        self._command_began = False
        self._first = True  # no interval has been told of the part that goes on
        self._own = self._own_told = time.process_time_ns()
        with ExitStack() as stack:
            self._clock_programs = stack.enter_context(
                closing(ClockPrograms(options.selection, more_threads=MORE_THREADS))
            )
            self._prepared = stack.enter_context(closing(PreparedPrograms(options)))
            self._selected = Selected(self._prepared.programs.object.map("selected_tids"))
            change = float(self._prepared.attachments.change_ns)
            self._policy = BudgetPolicy(options.measure.budget, change, Level.INTERRUPTS, LEVELS)
            self._clocks: tuple[ClockMeasurement, ClockControl] | None = None
            self._exact: BpfMeasurement | None = BpfMeasurement(
                source, options, self._prepared, self._policy, lent=True
            )
            stack.callback(self._close_parts)
            self._own = self._own_told = time.process_time_ns()
            self._resources = stack.pop_all()

    def close(self) -> None:
        """Detach, unload and free everything; may be called again."""
        self._resources.close()

    def _close_parts(self) -> None:
        if self._exact is not None:
            self._exact.close()
        if self._clocks is not None:
            self._clocks[0].close()

    @property
    def _part(self) -> BpfMeasurement | ClockMeasurement:
        part = self._exact or (self._clocks[0] if self._clocks is not None else None)
        assert part is not None
        return part

    @property
    def level(self) -> Level:
        """The level of detail now."""
        return self._policy.level

    # ---- while it runs ----

    def poll_fds(self) -> Iterable[int]:
        """Return descriptors that are readable when `service` has work to do."""
        return self._part.poll_fds()

    def service(self) -> float:
        """Do what cannot wait, and change the level if the budget wants it. Return the seconds until the next call."""
        pause = self._part.service()
        if self._clocks is not None:
            control = self._clocks[1]
            pause = min(pause, control.service())
            if control.leaves:
                self._leave_clocks()
        elif self._exact is not None and self._exact.control is not None and self._exact.control.leaves:
            self._leave_exact()
        return pause

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait until the threads of a process that has ended have left their processors."""
        self._part.wait_until_exit_is_seen(pid)

    def _leave_exact(self) -> None:
        """Go on with the kernel's clocks."""
        exact = self._exact
        assert exact is not None
        assert exact.control is not None
        began = time.process_time_ns()
        living = exact.living()
        tids = set() if self._options.selection.everything else {thread.tid for thread in living}
        clocks = ClockMeasurement(
            self._source,
            self._selection_now({thread.pid for thread in living}),
            self._options.measure,
            intervals=self._options.reads_intervals,
            forget=self._options.forget,
            programs=self._clock_programs,
            tids=tids,
        )
        try:
            clocks.begin(exact.stop())
            for level, used in exact.control.times.items():
                self._times[level] += used
            self._end_part(exact)
        except BaseException:
            clocks.close()
            raise
        self._exact, self._clocks = None, (clocks, ClockControl(self._policy, clocks, lambda: self._prepared.costs.of))
        self._stitching.begin_part(clocks.start)
        exact.close()
        self._prepared.suspend()
        self._policy.clocks_price = time.process_time_ns() - began

    def _leave_clocks(self) -> None:
        """Go on with programs at what happens."""
        assert self._clocks is not None
        clocks, control = self._clocks
        began = time.process_time_ns()
        self._prepared.resume(self._policy.level)
        living = clocks.accounts.threads.values()
        self._selected.replace(() if self._options.selection.everything else {thread.tid for thread in living})
        options = replace(self._options, selection=self._selection_now({thread.pid for thread in living}))
        clocks.stop()
        exact = BpfMeasurement(self._source, options, self._prepared, self._policy, lent=True)
        found_until = time.monotonic_ns()
        self._times[Level.CLOCKS] += control.time
        self._end_part(clocks)
        self._exact, self._clocks = exact, None
        self._stitching.begin_part(found_until, clocks.late(exact.start, found_until))
        clocks.close()
        self._policy.clocks_price = time.process_time_ns() - began

    def _selection_now(self, pids: Container[int]) -> Selection:
        """Return what is to be selected when a part begins. ``pids``: of the processes that are measured.

        A command that was measured before is selected by its threads.
        """
        selection = self._options.selection
        self._command_began = self._command_began or selection.command in pids
        return replace(selection, command=None) if self._command_began else selection

    def _end_part(self, part: BpfMeasurement | ClockMeasurement) -> None:
        """Keep the ledgers of a part that was stopped."""
        options = self._options
        total, interval = part.last(total=not options.forget, interval=options.reads_intervals)
        if total is not None:
            total = self._stitching.stitched(total, first=True)
            self._whole = merged(self._whole, total)
        if interval is not None:
            interval = self._stitching.stitched(interval, first=self._first)
            self._untold = merged(self._untold, interval)
        last = total or interval
        assert last is not None
        self._stitching.end_part(last.threads, last.window.end)
        self._first = True

    # ---- ledgers ----

    def total(self, *, last: bool) -> Ledger:
        """Return everything since the beginning; after the ``last`` nothing is measured."""
        part = self._exact.total(last=last) if self._exact is not None else self._part.read()  # type: ignore[union-attr]
        ledger = merged(self._whole, self._stitching.stitched(part, first=True))
        return self._told(ledger, time.process_time_ns() - self._own)

    def interval(self, *, last: bool) -> Ledger:
        """Return what happened since the last interval, or the beginning; after the ``last`` nothing is measured."""
        part = self._exact.interval(last=last) if self._exact is not None else self._part.interval()  # type: ignore[call-arg]
        ledger = merged(self._untold, self._stitching.stitched(part, first=self._first))
        self._untold, self._first = None, False
        own = time.process_time_ns()
        before, self._own_told = self._own_told, own
        return self._told(ledger, own - before)

    def _told(self, ledger: Ledger, own: int) -> Ledger:
        """Return the ledger with what is known of the budget, and of headway's own processor time, changes included."""
        reasons = {**ledger.reasons, "budget": describe(self._policy, self._times_until_now())}
        ledger = with_processors(ledger, measured_cpus(self._options.selection))
        return replace(ledger, reasons=reasons, overhead=replace(ledger.overhead, own=own))

    def _times_until_now(self) -> Mapping[Level, int]:
        times = dict(self._times)
        if self._exact is not None and self._exact.control is not None:
            for level, used in self._exact.control.times_until_now().items():
                times[level] += used
        if self._clocks is not None:
            times[Level.CLOCKS] += self._clocks[1].time_until_now()
        return times

    @property
    def tells_without_privileges(self) -> bool:
        """Whether the kernel lets a process without CAP_BPF do what is done here: before 5.19 it may not."""
        with privileges.without((privileges.LinuxCapability.BPF, privileges.LinuxCapability.SYS_ADMIN)):
            return self._clock_programs.tells_of_misses
