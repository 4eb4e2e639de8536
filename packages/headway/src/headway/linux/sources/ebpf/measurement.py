"""One measurement by eBPF: it puts the parts together, in the order in which they depend on each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from headway.linux import privileges
from headway.linux.bpf.costs.drift import CostDrift
from headway.linux.bpf.reading.memory import BpfMaps
from headway.linux.bpf.threads._cells import Cells
from headway.linux.bpf.threads.rows import LivingThread
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions
from headway.model import Ledger, Window

from ..control_groups import ControlGroups
from .intervals import Intervals
from .ledgers import EbpfLedgers, with_cost_range
from .losses import LossReader
from .observer_cost import ObserverCost
from .options import SourceOptions
from .prepared import PreparedPrograms
from .programs import LoadedPrograms
from .regions import RegionSearch
from .snapshots import SnapshotReader
from .totals import ThreadTotals
from .waiting_loops import WaitingLoops

if TYPE_CHECKING:  # what few measurements need is loaded by those
    from headway.linux.bpf.waits.causes import CauseReader

    from .budget import BudgetPolicy
    from .causes import CauseNaming
    from .contexts import ContextSearch
    from .depth_control import DepthControl
    from .level_control import LevelControl
    from .publication import Publication
    from .spinning import SpinFinder
    from .transitions import TransitionFeed
    from .uses import UseReader

__all__ = ["BpfMeasurement"]

SERVICE_SECONDS = 0.1


class BpfMeasurement:
    """What was selected is measured from the moment at which this exists until its last ledger; `close` in any case.

    ``source``: the name of the source, for the ledgers. ``prepared``: what it measures with, which is closed with it
    unless it is ``lent``. ``policy``: decides on the level of detail; None: the budget that is among the options, if
    one is.

    Raises HeadwayError where it cannot be measured; then nothing is left attached or loaded.
    """

    def __init__(
        self,
        source: str,
        options: SourceOptions,
        prepared: PreparedPrograms,
        policy: BudgetPolicy | None = None,
        *,
        lent: bool = False,
    ) -> None:
        selection = options.selection
        with ExitStack() as stack:
            if not lent:
                stack.enter_context(closing(prepared))
            programs, ended, memory = prepared.programs, prepared.ended, prepared.programs.memory
            self._causes = _causes(programs) if options.measure.why else None
            self._spins = stack.enter_context(closing(_spins(prepared, options))) if options.measure.spin else None
            if options.prepared is not None and prepared.stacks is not None:
                options.prepared(prepared.stacks)
            for beside in programs.beside:
                beside.attach()
            programs.select(selection)
            self.start = start = memory.begin(None if selection.cpus is None else set(selection.cpus))
            """ns of CLOCK_MONOTONIC."""
            memory.measure_only(0)
            self._drift = drift = CostDrift(
                prepared.costs, memory.timed_runs, lambda costs: memory.set_costs(costs.before(), costs.after())
            )
            self._cost = ObserverCost(
                memory.passed if programs.only_threads else None,
                lambda: drift.now,
                everything=selection.everything,
            )
            self._ledgers = EbpfLedgers(
                source,
                programs.plan,
                programs.features,
                prepared.notes,
                options.measure.level,
                durations=_unknown_durations(options.measure),
                whole_ready=options.measure.stacks and not options.record,
                only_threads=programs.only_threads,
            )
            if options.measure.level is not Level.SWITCHES:
                self._ledgers.note("seccomp", lambda: _SECCOMP if memory.has_filters else "")
            self._ledgers.note("other programs", prepared.describe_other_programs)
            self._ledgers.note("locks", lambda: programs.without_locks)
            if prepared.modes.needed:
                self._ledgers.note("division", lambda: prepared.modes.describe(memory))
            self.transitions = (
                stack.enter_context(closing(_transitions(prepared, options, start))) if options.record else None
            )
            self._loops = WaitingLoops(memory.living) if _may_spin_unseen(options) else None
            self._publication = (
                stack.enter_context(closing(_publication(programs, options))) if options.measure.publish else None
            )
            programs.visit_threads()
            programs.select(selection)  # processes that were started before the first pass came to their parents
            programs.visit_threads()  # and threads created by one that it came to later
            _visit_processors(memory)
            self._regions = RegionSearch(memory, again=_may_be_undivided(options.measure), tasks=options.measure.tasks)
            self._regions.search()
            self._contexts = None
            if options.measure.tasks:
                self._contexts = _contexts(memory, options)
            if self._contexts is not None:
                self._contexts.search()
                self._ledgers.note("tasks", lambda: _about_contexts(memory.undated))
            prepared.attach_to_functions()
            if selection.command is not None:
                memory.measure_command(selection.command)
            self.stacks = prepared.stacks
            self._selection = selection
            self._programs, self._attachments, self._ended = programs, prepared.attachments, ended
            self._naming = None if self._causes is None else _naming(self._causes)
            self._losses = LossReader(programs, ended, self.transitions)
            self._snapshots = SnapshotReader(programs, selection, ended, self._losses, self._causes)
            self._totals, self._intervals = (
                ThreadTotals(self._ledgers, ended, start),
                Intervals(self._ledgers, ended, start),
            )
            self._cgroups = ControlGroups() if options.measure.cgroups or options.measure.why else None
            self.control = None if options.measure.budget is None else _control(options, prepared, policy, drift)
            """What keeps the measurement within its budget, if it has one."""
            self._pause = SERVICE_SECONDS
            if self.control is not None:
                if policy is None:
                    self._ledgers.note("budget", self.control.describe)
                self._pause = self.control.pause
            self.depth = None
            """What decides which threads are deep, if some may be."""
            if options.measure.when:
                self.depth = _depth(options, prepared, start, self._ledgers.lack_interrupts)
                self._ledgers.note("depth", self.depth.describe)
            self._uses = _uses(programs) if options.measure.uses else None
            self._resources = stack.pop_all()

    def close(self) -> None:
        """Detach, unload and free everything; may be called again."""
        self._resources.close()

    # ---- while it runs ----

    def poll_fds(self) -> Iterable[int]:
        """Return descriptors that are readable when `service` has work to do."""
        publication = self._publication
        return (self._ended.fileno(),) if publication is None else (self._ended.fileno(), publication.fileno())

    def service(self) -> float:
        """Do what cannot wait for a reading. Return the seconds after which it is to be done again."""
        pause = self._serve()
        self._ended.release()
        if self.depth is not None:
            pause = min(pause, self.depth.service(lambda: self._announce(last=False)))
        return pause if self.control is None else min(pause, self.control.service())

    def _serve(self, until: int | None = None) -> float:
        """Do so, but leave the level as it is: a change would be a snapshot after the one that is to be read.

        ``until``: the moment of that snapshot.
        """
        self._ended.consume()
        self._drift.look()
        if self._spins is not None:
            self._spins.look(until)
        if self._loops is not None:
            self._loops.look_if_due()
        if self._publication is not None:
            self._publication.answer()
        if self.stacks is not None:
            self.stacks.consume()
        pause = self._pause if self.transitions is None else self.transitions.look()
        self._attachments.follow_processors()
        self._regions.search_if_due()
        if self._contexts is not None:
            self._contexts.search_if_due()
        if self._cgroups is not None:
            self._cgroups.look((thread.pid, thread.birth) for thread in self._programs.memory.living())
        return pause if self._naming is None else min(pause, self._naming.look_if_due())

    def measure_command(self, pid: int) -> None:
        """Measure one more suspended child, from the moment it executes its program."""
        self._programs.memory.measure_command(pid)

    def follow_processors(self) -> None:
        """See to processors that were off and are on again: a part of `service`."""
        self._attachments.follow_processors()

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait until the threads of a process that has ended have left their processors."""
        self._ended.wait_for_exit(pid)

    # ---- ledgers ----

    def total(self, *, last: bool) -> Ledger:
        """Return everything since the beginning; after the ``last`` nothing is measured."""
        return self._told(self._totals.ledger(self._snapshots.read(self._announce(last=last))), interval=False)

    def interval(self, *, last: bool) -> Ledger:
        """Return what happened since the last interval, or the beginning; after the ``last`` nothing is measured."""
        ledger = self._intervals.ledger(self._snapshots.read(self._announce(last=last)))
        if self._causes is not None:
            self._causes.forget({thread.key for thread in ledger.threads if thread.end is not None})
        return self._told(ledger, interval=True)

    def stop(self) -> int:
        """Measure nothing from a moment on that is past on return. Return it, ns of CLOCK_MONOTONIC."""
        self._stopped = self._programs.memory.take_snapshot(True)
        return self._stopped

    def last(self, *, total: bool, interval: bool) -> tuple[Ledger | None, Ledger | None]:
        """Return everything since the beginning, and since the last interval, where wanted; `stop` comes before."""
        snapshot = self._snapshots.read(self._after(self._stopped, last=True))
        whole = self._told(self._totals.ledger(snapshot), interval=False) if total else None
        return whole, self._told(self._intervals.ledger(snapshot), interval=True) if interval else None

    def _told(self, ledger: Ledger, *, interval: bool) -> Ledger:
        if self._uses is not None:
            ledger = self._uses.told(ledger, self._snapshots.causes, interval=interval)
        if self._spins is not None:
            ledger = self._spins.told(ledger, interval=interval)
        if self._loops is not None:
            ledger = self._loops.told(ledger)
        own, others = self._cost.since(recent=interval)
        ledger = replace(ledger, overhead=replace(ledger.overhead, own=own, others=others))
        ledger = with_cost_range(ledger, self._drift.range(recent=interval))
        return ledger if self._cgroups is None else self._cgroups.told(ledger)

    def empty_ledger(self) -> Ledger:
        """Return a ledger of nothing, which says how transitions are to be read."""
        return self._ledgers.make(Window(self.start, self.start))

    def losses(self) -> dict[str, int]:
        """Return what could not be seen since the beginning, by name."""
        return self._losses.read()[0]

    def _announce(self, *, last: bool) -> int:
        """Return the moment of a new snapshot, which is past, when all that belongs to it can be read."""
        return self._after(self._programs.memory.take_snapshot(last), last=last)

    def _after(self, at: int, *, last: bool) -> int:
        """Return the moment of a snapshot that has just been announced, when all that belongs to it can be read."""
        memory = self._programs.memory
        if last:
            for beside in self._programs.beside:
                beside.detach()
        if last and self._publication is not None:
            self._publication.end()
        self._programs.divide_ready_threads()
        self._serve(at)
        if last and self.transitions is not None:
            # The memory and the rings are read one after the other: until then nothing may change any more. First have
            # handlers divide what runs across the snapshot.
            memory.read_processors(at)
            memory.read_threads(at)
            self._attachments.detach()
            memory.calm()
            self._serve(at)
            self.transitions.finish(at)
        return at

    # ---- processors and threads on their own ----

    def snapshot_words(self) -> tuple[int, int]:
        """Return where a snapshot is announced: `BpfMaps.snapshot_words`."""
        return self._programs.memory.snapshot_words

    def processors_at(self, at: int) -> dict[int, Cells]:
        """Return what each measured processor did until the snapshot at this moment, which is past: cpu -> cells."""
        chosen = self._selection.cpus
        return {
            cpu: cells
            for cpu, cells in self._programs.memory.read_processors(at).items()
            if chosen is None or cpu in chosen
        }

    def living(self) -> list[LivingThread]:
        """Return the threads that are measured now."""
        return self._programs.memory.living()

    def discard_ended(self, at: int) -> None:
        """Make room: leave the threads that had ended by this moment out of all ledgers."""
        self._ended.discard(at)

    @property
    def knows_stolen(self) -> bool:
        """Whether the kernel says which processor the hypervisor took, and when."""
        return self._programs.features.steal

    @property
    def tells_without_privileges(self) -> bool:
        """Whether the kernel says what it skipped without CAP_BPF: before 5.19 it may not (commit c8644cd0efe7)."""
        with privileges.without((privileges.LinuxCapability.BPF, privileges.LinuxCapability.SYS_ADMIN)):
            return self._programs.object.programs["handle_sched_switch"].tells_of_misses


def _may_spin_unseen(options: SourceOptions) -> bool:
    """Return whether nothing looks for spinning, and few enough processes are measured to look at."""
    marked = any(one.kind == "poll" for one in options.measure.functions)
    return not (options.measure.spin or marked or options.selection.everything)


def _may_be_undivided(options: MeasureOptions) -> bool:
    """Return whether the level is `Level.SWITCHES`, now and then at least."""
    return options.level is Level.SWITCHES or options.budget is not None


def _unknown_durations(options: MeasureOptions) -> str:
    """Return why some durations are not known; empty if they all are, or none are kept."""
    if not options.durations or not (options.level is Level.SWITCHES or options.changes):
        return ""
    return "only of waits and of being ready: what divides processor time tells no beginning and no end of a state"


_SECCOMP = "filters of system calls run before a call is seen: their time is in EPI"


def _about_contexts(undated: int) -> str:
    """Return what a reader must know of tasks that are spans; empty: there are none."""
    if not undated:
        return ""
    time = f"{undated / 1e6:,.1f} ms" if undated >= 10**6 else f"{undated / 1e3:,.1f} µs"
    return (
        f"OpenTelemetry's thread context does not say when it changed: {time} of user code, in which it did, are "
        "charged to the context after the change"
    )


def _contexts(memory: BpfMaps, options: SourceOptions) -> ContextSearch:
    from .contexts import ContextSearch

    return ContextSearch(memory, options.measure.task_attributes)


def _control(
    options: SourceOptions, prepared: PreparedPrograms, policy: BudgetPolicy | None, drift: CostDrift
) -> LevelControl:
    from .level_control import LevelControl, exact_policy

    assert options.measure.budget is not None
    attachments = prepared.attachments
    policy = policy or exact_policy(options.measure.budget, attachments.change_ns)
    return LevelControl(policy, prepared.programs.memory, attachments, lambda: drift.now)


def _depth(options: SourceOptions, prepared: PreparedPrograms, start: int, begins: Callable[[], None]) -> DepthControl:
    from .depth_control import DepthControl

    memory, attachments = prepared.programs.memory, prepared.attachments
    return DepthControl(options.measure.when, memory, attachments, prepared.ended, start, begins)


def _uses(programs: LoadedPrograms) -> UseReader:
    from .uses import UseReader

    return UseReader(programs.calls, programs.locks)


def _naming(causes: CauseReader) -> CauseNaming:
    from .causes import CauseNaming

    return CauseNaming(causes)


def _causes(programs: LoadedPrograms) -> CauseReader:
    from headway.linux.bpf.waits.causes import CauseReader

    return CauseReader(programs.object.map("causes"), programs.memory)


def _spins(prepared: PreparedPrograms, options: SourceOptions) -> SpinFinder:
    from .spinning import SpinFinder

    assert prepared.code is not None
    return SpinFinder(prepared.code, forget=options.forget)


def _publication(programs: LoadedPrograms, options: SourceOptions) -> Publication:
    from .publication import Publication, socket_path

    maps, measured = programs.user_maps, programs.memory.is_measured
    assert maps is not None
    readers = {0, os.geteuid()} if options.measure.publish_all else set[int]()
    return Publication(
        socket_path(),
        maps.of,
        maps.threads,
        lambda pid, user: user in readers or measured(pid),
        programs.object.programs["end_publication"].iterate,
        maps.units,
        maps.give,
    )


def _transitions(prepared: PreparedPrograms, options: SourceOptions, start: int) -> TransitionFeed:
    from .transitions import TransitionFeed

    stacks = None if prepared.stacks is None else prepared.stacks.rows
    return TransitionFeed(prepared.programs, options, prepared.ended, start, stacks)


def _visit_processors(memory: BpfMaps) -> None:
    """Go to each processor once, so that each has an event and finds out what it runs."""
    memory.look_around()
    allowed = os.sched_getaffinity(0)
    try:
        for cpu in sorted(allowed):
            with suppress(OSError):
                os.sched_setaffinity(0, {cpu})
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)
