"""Prepare a measurement before the reported time begins: load, attach and calibrate the programs.

Until the kernel has the programs, only what loading needs is imported here. `_import_the_rest` has the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from headway.errors import HeadwayError
from headway.linux import time_namespace
from headway.linux.bpf.costs.exercising import ExercisingProcess
from headway.linux.bpf.programs.libbpf import Library
from headway.linux.bpf.programs.unavailable import UnavailableError
from headway.linux.levels import Level
from headway.linux.perf import counters

from .mode_counters import ModeCounters
from .options import SourceOptions
from .programs import LoadedPrograms
from .targets import check_targets

if TYPE_CHECKING:
    from headway.linux.bpf.programs.attaching import Attachments
    from headway.linux.bpf.regions.marking import Marking
    from headway.linux.bpf.samples.code_samples import CodeSampleReader
    from headway.linux.bpf.samples.stacks import StackReader
    from headway.linux.bpf.tasks.probing import TaskProbing

    from .ended import EndedThreads

__all__ = ["PreparedPrograms"]

_LOOK_SECONDS = 10.0
_LONGEST_EXIT = 30.0
"""Seconds in which a thread that has ended gets a processor once more, however many threads want it."""


class PreparedPrograms:
    """The programs at work, with nothing that they measure until `BpfMaps.measure_only` lets them.

    `close` detaches and unloads them. Raises HeadwayError where what was selected cannot be measured; then nothing is
    left attached or loaded.
    """

    def __init__(self, options: SourceOptions) -> None:
        time_namespace.must_leave()
        library = Library()
        check_targets(options.selection)
        self.modes = ModeCounters(counters.plan(options.measure.events), options.measure)
        """What tells user code from the kernel where time is not divided."""
        self._marking = _marking(options)
        self._probing = _probing(options)
        states = () if self._marking is None else self._marking.states
        with ExitStack() as stack:
            with ExercisingProcess() as exerciser:  # made first: nothing that is opened later is in that process too
                loaded = LoadedPrograms(library, options, self.modes.plan, states, _meanwhile(options))
                self.programs = stack.enter_context(closing(loaded))
                _import_the_rest()  # of whoever has nothing done meanwhile
                self.ended = stack.enter_context(closing(_ended(loaded, options)))
                self.stacks = stack.enter_context(closing(_stacks(loaded, options))) if options.measure.stacks else None
                self.code = stack.enter_context(closing(_code(loaded))) if options.measure.spin else None
                self.attachments = stack.enter_context(closing(_attached(loaded, options)))
                from .calibrating import calibrate

                if options.measure.most is Level.SWITCHES:
                    self.programs.memory.start_undivided()
                costs = calibrate(self.programs, self.attachments, self._marking, exerciser, options.measure)
                if self._probing is not None:
                    costs = self._probing.calibrate(costs, self.programs.object, self.programs.memory, exerciser)
                if self.programs.calls is not None:
                    self.programs.calls.calibrate(exerciser.calls)
            self.programs.memory.set_costs(costs.before(), costs.after())
            self.programs.memory.set_ways_back(*costs.ways_back)
            self.programs.memory.set_cost_of_marks(*costs.marks)
            self.costs = costs
            """What events cost."""
            self._discard_exercise(exerciser.pid)
            if options.measure.when:  # no thread is deep yet
                self.attachments.set_level(Level.SWITCHES)
                self.programs.memory.start_undivided()
            self.notes: Mapping[str, str] = {
                **({} if self._marking is None else {"marked functions": self._marking.describe(costs)}),
                **({} if self._probing is None else {"probes": self._probing.describe(costs)}),
            }
            """What a reader of the figures must know, by the names of `Ledger.reasons`."""
            self._others: tuple[float, str] | None = None
            self._resources = stack.pop_all()

    def _discard_exercise(self, pid: int) -> None:
        """Forget what was measured of the process that calibration was done on, which has ended.

        It stays the only one that may be measured: a handler on a processor that the hypervisor has taken away may be
        at work still, and would have measuring begin before it does. Raises UnavailableError.
        """
        memory = self.programs.memory
        if not self.ended.wait_for_exit(pid, _LONGEST_EXIT):  # it would be among the measured threads
            raise UnavailableError(
                f"the process that headway calibrates with has ended, and has not left its processor in "
                f"{_LONGEST_EXIT:.0f} s",
                "measure when fewer threads of real-time priority run",
            )
        self.ended.discard(memory.now())
        memory.reset()
        if self.stacks is not None:
            self.stacks.forget()
        if self.code is not None:
            self.code.forget()

    def suspend(self) -> None:
        """Measure nothing for a while, at no cost, and forget what was measured. The last snapshot must have been read.

        What is attached stays loaded. `resume` makes it work again.
        """
        programs = self.programs
        self.attachments.detach()
        programs.memory.calm()
        programs.object.programs["forget_task"].iterate()
        self.ended.forget(programs.memory.now())
        free = programs.object.map("free_thread_records")
        for number in programs.memory.forget_records():  # of threads that were about to end
            free.push(number)
        programs.memory.reset()

    def resume(self, level: Level) -> None:
        """Attach the programs of a level again, with nothing measured until `BpfMaps.begin`. Raises HeadwayError."""
        self.programs.memory.begin_again(level is Level.SWITCHES)
        self.attachments.set_level(level)

    def attach_to_functions(self) -> None:
        """Place the probes of marked functions and of tasks, if there are any. Raises HeadwayError."""
        if self._marking is not None:
            self._marking.attach(self.programs.object)
        if self._probing is not None:
            self._probing.attach(self.programs.object)

    def describe_other_programs(self) -> str:
        """Return what a reader must know of other eBPF programs at the same events; empty: nothing.

        They are looked for every ten seconds: that takes a millisecond.
        """
        if self._others is None or time.monotonic() - self._others[0] >= _LOOK_SECONDS:
            self._others = time.monotonic(), self._other_programs()
        return self._others[1]

    def _other_programs(self) -> str:
        from headway.linux.bpf.programs.other_programs import describe, other_programs

        own = {program.id for program in self.programs.object.programs.values() if program.wanted}
        try:
            return describe(other_programs(self.programs.library, self.attachments.tracepoints(), own))
        except HeadwayError:  # this user may not ask
            return ""

    def close(self) -> None:
        """Detach, unload and free everything; may be called again."""
        self._resources.close()


def _meanwhile(options: SourceOptions) -> Callable[[], None] | None:
    """Return what is done while the kernel loads the programs; None: nothing."""
    wanted = options.meanwhile
    if wanted is None:
        return None

    def meanwhile() -> None:
        _import_the_rest()
        wanted()

    return meanwhile


def _import_the_rest() -> None:
    """Import what is needed as soon as the programs are loaded."""
    from headway.linux.bpf.programs import other_programs  # noqa: F401

    from . import calibrating, ended  # noqa: F401


def _ended(programs: LoadedPrograms, options: SourceOptions) -> EndedThreads:
    from .ended import EndedThreads

    return EndedThreads(programs, forget=options.forget, intervals=options.reads_intervals, most=options.max_ended)


def _attached(programs: LoadedPrograms, options: SourceOptions) -> Attachments:
    from headway.linux.bpf.programs.attaching import Attachments

    return Attachments(programs.object, programs.features, options.measure.most)


def _marking(options: SourceOptions) -> Marking | None:
    if not options.measure.functions:
        return None
    from headway.linux.bpf.regions.marking import Marking

    return Marking(options.measure.functions, options.selection)


def _probing(options: SourceOptions) -> TaskProbing | None:
    if not options.measure.task_probes:
        return None
    from headway.linux.bpf.tasks.probing import TaskProbing

    return TaskProbing(options.measure.task_probes, options.selection)


def _code(programs: LoadedPrograms) -> CodeSampleReader:
    from headway.linux.bpf.samples.code_samples import CodeSampleReader

    return CodeSampleReader(programs.library, programs.object)


def _stacks(programs: LoadedPrograms, options: SourceOptions) -> StackReader:
    from headway.linux.bpf.samples.stacks import StackReader

    return StackReader(programs.library, programs.object, programs.memory, unwind=options.measure.unwind)
