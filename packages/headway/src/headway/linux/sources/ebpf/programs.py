"""Load the eBPF programs, set up for one measurement, and map the memory that they share with it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from headway.exhaustion import at_once
from headway.linux.bpf.polling import checks
from headway.linux.bpf.programs import loading
from headway.linux.bpf.programs.kernel_types import KernelTypes, types_of_kernel
from headway.linux.bpf.programs.libbpf import Library
from headway.linux.bpf.programs.loading import Features, Shape
from headway.linux.bpf.programs.unavailable import UnavailableError
from headway.linux.bpf.shared.layout import PUBLISHED, STATES
from headway.linux.bpf.shared.states import NAMES
from headway.linux.levels import Level
from headway.linux.options import Selection
from headway.linux.perf import perf_event as perf
from headway.linux.perf.counters import CounterPlan
from headway.linux.procfs import processors
from headway.linux.procfs.cgroup_folders import cgroup2_id
from headway.linux.procfs.descendants import descendants
from headway.linux.procfs.ids import pid_namespace

from .options import SourceOptions

if TYPE_CHECKING:  # imported when they are needed: the kernel is to begin with the programs soon
    from collections.abc import Callable

    from headway.linux.bpf.histograms._durations import DurationMaps
    from headway.linux.bpf.tables.beside import ProgramsBeside
    from headway.linux.bpf.tables.call_table import CallTable
    from headway.linux.bpf.tables.lock_table import LockTable
    from headway.linux.bpf.threads.user_maps import UserMaps

__all__ = ["LoadedPrograms"]

HISTOGRAMS = 32_768
"""The least number of histograms that there is room for: one for each state that a thread was in."""
CAUSES = 1 << 16
"""Causes that there is room for."""
FUTEX_MOVES = 1 << 12
"""Futexes from which threads were moved to another one that there is room for. The oldest make room for new ones."""
MORE_PROCESSES = 1 << 10
"""So many descendants may begin while the programs are loaded, at least. Of later ones the parents are known."""
MORE_THREADS = 1 << 14
"""So many threads that are measured may be selected anew when the level of detail changes, at least."""
MAX_PROCESSES = 1 << 15
PROCESS_CLOCK_BYTES = 1 << 26
"""Most memory for the clocks of processes: each process has 8 bytes on each processor."""

_SHARED = ("processors", "saved_processors", "thread_records", "saved_threads", ".bss", "tag_names")
"""The maps that `BpfMaps` reads, in the order in which it takes them."""
_TASKS = ("task_records", "saved_task_records", "task_names")
"""Those of tasks, likewise."""
TASK_RECORDS = 1 << 12
"""Tasks of threads that there is room for at a time, of which the first is none; about 2 KiB each."""
_HISTOGRAMS = ("thread_histograms", "saved_thread_histograms", "histograms", "saved_histograms")
"""Those of durations, in the order in which `DurationMaps` takes them."""
_COUNTS = ("thread_counts", "saved_thread_counts", "processor_counts", "saved_processor_counts")
"""Those of counted events, likewise."""


class LoadedPrograms:
    """The programs, loaded and not yet attached; `close` unloads them.

    ``plan``: the events to be counted by state. ``function_states``: the states of marked functions, in the order of
    their tags. ``meanwhile``: called by this thread while another one has the kernel load them; it is for callers whom
    no signal interrupts with an exception. Raises HeadwayError; then nothing is left loaded.

    The mapped memory of the maps belongs to ``memory`` and lives as long as that.
    """

    def __init__(
        self,
        library: Library,
        options: SourceOptions,
        plan: CounterPlan,
        function_states: Sequence[str] = (),
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        self.library, self.plan = library, plan
        status_checks = checks.load(options.measure.checks)
        self.shape = shape = Shape.of(
            options.selection,
            options.measure,
            intervals=options.intervals,
            record=options.record,
            namespace=pid_namespace() != 0,
        )
        self.about_settings = (status_checks, len(plan.events))
        """What else decides what the programs do at an event, beside their shape."""
        self.without_locks = ""
        """Why holders of locks are not watched; empty: they are, or that was not asked for."""
        self.only_threads = loading.sees_only_threads(shape)
        """Whether what processors do without a measured thread is not divided."""
        types = types_of_kernel()
        with ExitStack() as stack:

            def load() -> Features:
                features = Features.probe(library, types)
                sizes, settings = _sizes(options, plan), _settings(options, plan)
                self.object = loading.load(library, shape, features, sizes, settings, status_checks, types)
                stack.callback(self.object.close)
                return features

            self.features = load() if meanwhile is None else at_once(load, meanwhile)
            from headway.linux.bpf.reading.memory import BpfMaps

            for tag in reversed(range(1 + len(function_states), STATES["N_TAGS"])):
                self.object.map("free_tags").push(tag)
            if not self.features.fetch:
                for record in reversed(range(1, options.max_thread_records)):
                    self.object.map("free_thread_records").push(record)
            if options.measure.tasks:
                for record in reversed(range(1, TASK_RECORDS)):
                    self.object.map("free_task_records").push(record)
                for name in reversed(range(1, STATES["N_TASK_NAMES"])):
                    self.object.map("free_task_names").push(name)
            self.memory = BpfMaps(
                tuple(self.object.map(name).map_memory() for name in _SHARED),
                processors.possible(),
                options.max_thread_records,
                polls=checks.state_names(status_checks.checks),
                functions=function_states,
                plan=plan,
                counts=tuple(self.object.map(name).map_memory() for name in _COUNTS) if plan.events else (),
                tasks=tuple(self.object.map(name).map_memory() for name in _TASKS) if options.measure.tasks else (),
                max_task_records=TASK_RECORDS if options.measure.tasks else 0,
                durations=self._durations(options) if options.measure.durations else None,
            )
            if not self.features.fetch:
                self.memory.hand_out_thread_records()
            if plan.events:
                self._open_counters(stack)
            self.calls = stack.enter_context(closing(self._calls(options, types))) if options.measure.calls else None
            """What counts system calls by file, loaded and not attached, if that was asked for."""
            self.locks = self._locks(options, types) if options.measure.locks else None
            """What watches holders of locks, likewise, unless the kernel refuses it."""
            if self.locks is not None:
                stack.callback(self.locks.close)
            self.user_maps: UserMaps | None = None
            """The maps in which threads read what they have done, if that was asked for."""
            if options.measure.publish:
                names = checks.state_names(status_checks.checks)
                self.user_maps = stack.enter_context(closing(self._user_maps(options, names, tuple(function_states))))
            self._resources = stack.pop_all()

    def _durations(self, options: SourceOptions) -> DurationMaps:
        """Return the maps of histograms."""
        from headway.linux.bpf.histograms._durations import DurationMaps

        maps = DurationMaps(
            tuple(self.object.map(name).map_memory() for name in _HISTOGRAMS),
            options.measure.durations,
            _max_histograms(options),
            self.object.map("free_histograms").fd,
        )
        if not self.features.fetch:
            maps.hand_out()
        return maps

    def _calls(self, options: SourceOptions, types: KernelTypes) -> CallTable:
        """Return the programs that count system calls by file."""
        from headway.linux.bpf.tables.call_table import CallTable

        return CallTable(self.library, self.object, options.max_thread_records, types)

    def _locks(self, options: SourceOptions, types: KernelTypes) -> LockTable | None:
        """Return the programs that watch what holders of locks do; None: the kernel refuses them.

        They are loaded with all that is behind waits, which is known without them, too.
        """
        from headway.linux.bpf.tables.lock_table import LockTable

        records, names = options.max_thread_records, self.memory.state_name
        try:
            return LockTable(self.library, self.object, records, types, names, fetch=self.features.fetch)
        except UnavailableError as error:
            self.without_locks = f"what holders of locks did is not known: {error}"
            return None

    @property
    def beside(self) -> Iterator[ProgramsBeside]:
        """The programs that are attached beside those of the measurement, and after them."""
        yield from (one for one in (self.calls, self.locks) if one is not None)

    def _user_maps(self, options: SourceOptions, names: Sequence[str], function_states: tuple[str, ...]) -> UserMaps:
        """Return what makes the maps in which threads read what they have done. ``names``: of the states of polling."""
        from headway.linux.bpf.threads.user_maps import UserMaps

        from .publication import tell_kinds

        tell_kinds(self.object, function_states)
        known = [*NAMES[: STATES["POLL"]], *names]
        known += [""] * (STATES["TAG"] - len(known)) + [self.memory.state_name(STATES["TAG"]), *function_states]
        return UserMaps(
            self.object,
            _published(options),
            known + [""] * (STATES["N_STATES"] - len(known)),
            self.memory.announce_publication,
            kernel_known=self.features.faults and options.measure.most is Level.INTERRUPTS,
            used=1 if self.features.fetch else _published(options),
            everybody=options.measure.publish_all,
        )

    def _open_counters(self, stack: ExitStack) -> None:
        """Have the programs read a counter of each event on each processor."""
        opened = self.plan.open(processors.online())
        stack.callback(perf.close_all, [fd for fds in opened.values() for fd in fds])
        events = self.object.map("events")
        for cpu, fds in opened.items():
            for place, fd in enumerate(fds):
                if fd >= 0:
                    events.put(cpu * STATES["N_COUNTED"] + place, fd)

    def select(self, selection: Selection) -> None:
        """Have the processes and threads measured that were chosen by number, with descendants that live now."""
        pids, tids = self.object.map("selected_pids"), self.object.map("selected_tids")
        for pid in _chosen(selection)[: pids.max_entries]:
            pids.put(pid)
        for tid in selection.tids:
            tids.put(tid)

    def visit_threads(self) -> None:
        """Have a program look at every thread that there is, and begin with those that are to be measured."""
        self.object.programs["dump_task"].iterate()

    def divide_ready_threads(self) -> None:
        """Have a program divide the time of threads that are still ready, until the snapshot that has just been."""
        if self.features.fetch and self.memory.has_ready_threads():
            self.object.programs["divide_ready_threads"].iterate()

    def skipped(self) -> int:
        """Return how often the kernel skipped a program because it was running already on that processor."""
        beside = sum(programs.skipped() for programs in self.beside)
        return beside + sum(program.misses() for program in self.object.programs.values() if program.wanted)

    def close(self) -> None:
        """Detach and unload the programs, and close the counters; may be called again."""
        self._resources.close()


def _chosen(selection: Selection) -> tuple[int, ...]:
    """Return the processes that are measured as a whole when measuring begins."""
    return (*selection.pids, *(descendants(selection.pids) if selection.descendants else ()))


def _sizes(options: SourceOptions, plan: CounterPlan) -> dict[str, int]:
    """Return the entries of the maps; where a map is not needed it has one."""
    cpus, counting, why = processors.possible(), bool(plan.events), options.measure.why
    span_words, absence_words = options.ring_words
    return {
        "processors": cpus,
        "saved_processors": cpus if options.intervals else 1,
        "thread_records": options.max_thread_records,
        "saved_threads": options.max_thread_records if options.intervals else 1,
        "publications": PUBLISHED["N_PUBLICATIONS"] if options.measure.publish else 1,
        "free_thread_records": options.max_thread_records,
        "exits": options.exit_bytes,
        "events": cpus * STATES["N_COUNTED"],
        "processor_counts": cpus if counting else 1,
        "saved_processor_counts": cpus if counting and options.intervals else 1,
        "thread_counts": options.max_thread_records if counting else 1,
        "saved_thread_counts": options.max_thread_records if counting and options.intervals else 1,
        "causes": CAUSES if why else 1,
        "futex_moves": FUTEX_MOVES if why else 1,
        **(_task_sizes(options) if options.measure.tasks else {}),
        "histories": cpus if why else 1,
        **(_histogram_sizes(options) if options.measure.durations else {}),
        **(_stack_sizes(cpus, summed=not options.record) if options.measure.stacks else {}),
        **(_unwinding_sizes(cpus) if options.measure.stacks and options.measure.unwind else {}),
        **(_code_sizes(cpus) if options.measure.spin else {}),
        "spans": cpus * span_words,
        "absences": cpus * absence_words,
        "tails": cpus if options.record else 1,
        **_process_sizes(cpus, _n_processes(options)),
        "selected_pids": 2 * len(_chosen(options.selection)) + (MORE_PROCESSES if options.selection.descendants else 1),
        "selected_tids": len(options.selection.tids) + (MORE_THREADS if options.measure.budget is not None else 1),
    }


def _published(options: SourceOptions) -> int:
    """Return how many threads can be told what they have done, of which the first is none; 0: nobody asked for it."""
    if not options.measure.publish:
        return 0
    from headway.linux.bpf.threads.user_maps import room_for

    return room_for(options.max_thread_records)


def _task_sizes(options: SourceOptions) -> dict[str, int]:
    return {
        "task_records": TASK_RECORDS,
        "saved_task_records": TASK_RECORDS if options.intervals else 1,
        "free_task_records": TASK_RECORDS,
        "task_numbers": TASK_RECORDS,
        "thread_contexts": processors.possible(),
    }


def _max_histograms(options: SourceOptions) -> int:
    """Return for how many states of threads there is room: of each thread four, as most threads are idle."""
    return max(HISTOGRAMS, 4 * options.max_thread_records)


def _histogram_sizes(options: SourceOptions) -> dict[str, int]:
    most = _max_histograms(options)
    return {
        "thread_histograms": options.max_thread_records,
        "saved_thread_histograms": options.max_thread_records if options.intervals else 1,
        "histograms": most * options.measure.durations,
        "saved_histograms": most * options.measure.durations if options.intervals else 1,
        "free_histograms": most,
    }


def _n_processes(options: SourceOptions) -> int:
    """Return the numbers of processes that there are, of which the first is none."""
    return min(options.max_thread_records, MAX_PROCESSES, PROCESS_CLOCK_BYTES // (8 * processors.possible()))


def _process_sizes(cpus: int, n: int) -> dict[str, int]:
    return {"run_clocks": cpus, "process_clocks": cpus * n, "processes": n, "free_processes": n}


def _stack_sizes(cpus: int, *, summed: bool) -> dict[str, int]:
    """``summed``: times are added up by stack; where transitions are recorded they are not."""
    from headway.linux.bpf.samples import stacks

    return stacks.sizes(cpus) | ({} if summed else {"stack_times": 1})


def _unwinding_sizes(cpus: int) -> dict[str, int]:
    from headway.linux.bpf.interpreters import python
    from headway.linux.bpf.unwinding import tables

    return {**tables.sizes(cpus), **python.sizes(cpus)}


def _code_sizes(cpus: int) -> dict[str, int]:
    from headway.linux.bpf.samples.code_samples import RING_BYTES

    return {"sample_events": RING_BYTES << (cpus - 1).bit_length()}


def _settings(options: SourceOptions, plan: CounterPlan) -> dict[str, object]:
    """Return the settings that are numbers and names; what is switched on and off follows from the shape."""
    selection = options.selection
    name = os.fsencode(selection.name or "")
    group, group_level = cgroup2_id(selection.cgroup) if selection.cgroup else (0, 0)
    return {
        "ring_words": options.ring_words[0],
        "absence_words": options.ring_words[1],
        "n_counted": len(plan.events),
        "max_histograms": _max_histograms(options),
        "name": name.removesuffix(b"*"),
        "name_prefix": name.endswith(b"*"),
        "max_thread_records": options.max_thread_records,
        "published": _published(options),
        "n_processes": _n_processes(options),
        "namespace_inum": pid_namespace(),
        "cgroup": group,
        "cgroup_level": group_level,
    }
