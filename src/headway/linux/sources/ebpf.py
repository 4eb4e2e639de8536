"""The eBPF source: every change of state of every measured thread, counted in the kernel.

bpf/progress.bpf.c does the accounting; this module sets it up, tells it which threads to measure, and turns the memory
that it shares into ledgers. Needs Linux 5.15 or later with BTF, or an older one with the same features backported, and
CAP_BPF and CAP_PERFMON.
"""

from __future__ import annotations

import mmap
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import HeadwayError, SelectionError
from headway.linux import privileges
from headway.linux.bpf import checks, loading
from headway.linux.bpf._memory import Cells, Exits, Memory
from headway.linux.bpf.calibration import Costs, Exercise, ExercisingProcess, costs
from headway.linux.bpf.hotplug import Hotplug
from headway.linux.bpf.layout import LOSSES, STATES
from headway.linux.bpf.libbpf import BpfError, Library, Object, RingReader
from headway.linux.bpf.loading import Features, Shape
from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf import counters
from headway.linux.perf import perf_event as perf
from headway.linux.procfs import processors
from headway.linux.procfs.ids import pid_namespace, process_of
from headway.model import (
    KNOWN_LOSSES,
    Cell,
    Counted,
    Ledger,
    Overhead,
    Precision,
    Processor,
    Quality,
    Thread,
    Window,
    unit_of,
    within,
)
from headway.model.ledger import States

if TYPE_CHECKING:  # what few measurements need is loaded by those
    from headway.linux.bpf import stacks
    from headway.linux.bpf.causes import CauseReader, Causes
    from headway.linux.bpf.marking import Marking
    from headway.linux.bpf.transitions import Priority, TransitionReader
    from headway.model.transitions import Batch

__all__ = ["BpfSource"]

RING_BYTES = 1 << 24
"""Room for the totals of about 30,000 ended threads between two looks."""
CALIBRATIONS = 1
"""How often the programs are detached and attached again to find what events cost; each time takes 30 ms."""
SERVICE_SECONDS = 0.1
SEARCH_SECONDS = 1.0
"""Between two searches for marked regions in processes that were not looked at yet."""
NAMING_SECONDS = 0.01, 0.25
"""Between two looks at what threads wait for, which is named while its process lives: at first, and later."""
NAMING_SHARE = 20
"""So many times as long as a look took is the pause after it, at least."""
CAUSES = 1 << 16
"""Causes that there is room for."""
_SETTLING = 1.0
"""Seconds at most until the threads of an ended process have left their processors, which a hypervisor may hold."""
KEPT_EXITS = 1 << 17
"""Ended threads listed one by one; later ones are added up by process and name."""

_LOSSES = {name: LOSSES[loss.constant] for name, loss in KNOWN_LOSSES.items() if loss.constant}
"""The losses that the eBPF programs count, and the places where they do."""

_SHARED = ("processors", "saved_processors", "thread_records", "saved_threads", ".bss", "tag_names")
_COUNTS = ("thread_counts", "saved_thread_counts", "processor_counts", "saved_processor_counts")
_RINGS = ("spans", "absences", "tails")


class BpfSource:
    """Measures a selection of threads with eBPF (`LinuxSource`).

    ``intervals``: `read` and `interval` will be called, not only `end`. ``forget``: threads that have ended are in the
    interval in which they did, and in no reading since `begin`, so that measuring may go on for ever. ``max_threads``:
    how many threads can be measured at the same time (None: as many as live now and half as many again, at least
    8,192); memory for so many is set aside, about 3 KiB each, and 2 more with ``intervals``.

    ``record``: every transition is kept too, and handed over by `take`. Each processor has room for ``ring_words`` of
    them (a power of two, 64 at least; None: 2,097,152, or fewer on many processors), 10 bytes each, until `service` is
    called; what does not fit is counted. Until `close` the thread that calls `begin`, which is to be the one that calls
    `service` too, goes before others on the processors, where it may.
    """

    name = "bpf"

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
    ) -> None:
        self._selection = selection
        self._options = options
        self._intervals = intervals
        self._forget = forget
        self._max_thread_records = (max_threads or max(8192, _living_threads() * 3 // 2)) + 1
        self._object: Object | None = None
        self._ring: RingReader | None = None
        self._exits = Exits()
        self._ended: list[Thread] = []
        self._fresh: list[Thread] = []
        self._folded: dict[tuple[int, str], Thread] = {}
        self._memory: Memory
        self._maps: list[mmap.mmap] = []
        self._checks = checks.load(options.checks)
        self._marking: Marking | None = None
        self._plan = counters.Plan()
        self._counters: dict[int, list[int]] = {}
        self._searched: set[int] = set()
        self._shares: dict[str, Counted] = {}
        self._sought = 0.0
        self._start = 0
        self._last = 0
        self._before: dict[tuple[int, int], tuple[Cells, str]] = {}
        self._processors_before: dict[int, Cells] = {}
        self._losses_before: dict[str, int] = {}
        self._events_before = 0
        self._reasons: dict[str, str] = {}
        self._kernel = Quality.EXACT
        self._costs = Costs({})
        self._causes: CauseReader | None = None
        self._causes_before: Causes | None = None
        self._naming, self._next_naming = NAMING_SECONDS[0], 0.0
        self._steal_before: int | None = None
        self.stacks: stacks.StackReader | None = None
        """Where threads were when they left their processor, and the states of samples, if that was asked for."""
        self._record, self._ring_words = record, ring_words
        if record:
            from headway.linux.bpf.transitions import MAX_THREAD_RECORDS

            self._max_thread_records = min(self._max_thread_records, MAX_THREAD_RECORDS)
        self._reader: TransitionReader | None = None
        self._last_batch: Batch | None = None
        self._priority: Priority | None = None
        self._hotplug: Hotplug | None = None
        self._fault_links: dict[int, list[int]] = {}

    # ---- setting up ----

    def begin(self) -> None:
        """Load, attach and start measuring. Raises HeadwayError; then nothing is left attached."""
        try:
            with loading.files_as_allowed():
                self._begin()
        except BpfError as error:
            self.close()
            raise loading.explain(error) from None
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        selection = self._selection
        library = Library()
        self._check_ids()
        self._plan = counters.plan(self._options.events)
        if self._options.functions:
            from headway.linux.bpf.marking import Marking

            self._marking = Marking(self._options.functions, selection)
        with ExercisingProcess() as exerciser:
            self._load(library)
            self._hotplug = Hotplug()
            assert self._object is not None
            self._attach()
            self._memory.measure_only(exerciser.pid)
            self._memory.begin()
            living = self._object.programs["dump_task"]
            living.iterate()
            self._memory.look_around()
            self._costs = self._calibrate(exerciser)
            if self._marking is not None:
                calls = self._marking.calibrate(self._object, self._memory, exerciser)
                self._costs = replace(self._costs, functions=calls)
                self._reasons["marked functions"] = self._marking.describe(calls)
        self._memory.set_costs(self._costs.before(), self._costs.after())
        self.wait_until_exit_is_seen(exerciser.pid)
        self.service()
        self._exits.take(self._memory.now(), self._memory)
        self._memory.reset()
        self._memory.measure_only(0)
        if self.stacks is not None:
            self.stacks.forget()
        pids, tids = self._object.map("selected_pids"), self._object.map("selected_tids")
        for pid in selection.pids:
            pids.put(pid)
        for tid in selection.tids:
            tids.put(tid)
        self._start = self._last = self._memory.begin(None if selection.cpus is None else set(selection.cpus))
        self._steal_before = _steal_of_all()
        if self._record:
            self._read_transitions()
        living.iterate()
        living.iterate()  # threads created by one that the first pass came to later
        self._visit_processors()
        self._search_blocks()
        if self._marking is not None:
            self._marking.attach(self._object)
        if selection.command is not None:
            self._memory.measure_command(selection.command)

    def _read_transitions(self) -> None:
        from headway.linux.bpf.transitions import Priority, TransitionReader

        assert self._object is not None
        assert self._ring is not None
        spans, absences, tails = (self._object.map(name).map_memory() for name in _RINGS)
        self._reader = TransitionReader(
            (spans, absences, tails),
            self._memory,
            self._exits,
            words=self._words(),
            max_thread_records=self._max_thread_records,
            n_cpus=processors.possible(),
            cpus=self._cpus,
            start=self._start,
            consume=self._ring.consume,
        )
        self._priority = Priority()

    def _cpus(self) -> list[int]:
        """The processors that are measured."""
        chosen = self._selection.cpus
        return [cpu for cpu in processors.online() if chosen is None or cpu in chosen]

    def _words(self) -> tuple[int, int]:
        """Of the rings of a processor."""
        if not self._record:
            return 1, 1
        from headway.linux.bpf.transitions import words_of_rings

        return words_of_rings(processors.possible(), self._ring_words)

    def _attach(self) -> None:
        assert self._object is not None
        for program in self._object.programs.values():
            if program.wanted and program.section.startswith("tp_btf/"):
                self._object.attach(program)
        self._attach_to_faults(processors.online())

    def _attach_to_faults(self, cpus: Iterable[int]) -> None:
        """Have programs run at the ends of each page fault on these processors."""
        assert self._object is not None
        begins, done = self._object.programs["handle_page_fault_begin"], self._object.programs["handle_page_fault_end"]
        if not done.wanted:
            return
        runs = [(event, done) for event in perf.FAULTS] + ([(perf.FAULT, begins)] if begins.wanted else [])
        try:
            opened = perf.open_per_cpu([event for event, _ in runs], cpus)
        except HeadwayError as error:
            raise HeadwayError(
                f"{error}, though another processor had it: if one was turned off just now, try again, else use "
                "--source proc"
            ) from None
        try:
            for cpu, fds in opened.items():
                for link in self._fault_links.pop(cpu, ()):
                    self._object.detach_link(link)
                links = self._fault_links[cpu] = []
                while fds:
                    links.append(self._object.attach_perf_event(runs[len(fds) - 1][1], fds[-1]))
                    fds.pop()  # the link's
        finally:
            perf.close_all(fd for fds in opened.values() for fd in fds)

    def _calibrate(self, exerciser: ExercisingProcess) -> Costs:
        """What events cost here and now."""
        assert self._object is not None
        times = self._run_times(exerciser)
        observed, without = [exerciser.exercise()], []
        for _ in range(CALIBRATIONS):
            self._object.detach()
            self._fault_links = {}
            without.append(exerciser.exercise())
            self._attach()
            observed.append(exerciser.exercise())
        ends = Exercise.mean((observed[0], observed[-1]))
        return costs(Exercise.mean(without), Exercise.mean((*observed[1:-1], ends)), times)

    def _run_times(self, exerciser: ExercisingProcess) -> dict[str, float]:
        """The mean time of a run of each program, ns, as far as the kernel tells."""
        assert self._object is not None
        with self._object.statistics():
            exerciser.exercise()
        times = {p.name: p.run_time() for p in self._object.programs.values() if p.wanted}
        return {name: time / count for name, (time, count) in times.items() if count}

    def _check_ids(self) -> None:
        for kind, ids in (("process", self._selection.pids), ("thread", self._selection.tids)):
            for number in ids:
                path = f"/proc/{number}/task" if kind == "process" else f"/proc/{number}/stat"
                if not os.path.exists(path):
                    raise SelectionError(f"there is no {kind} {number}: it may have ended; ps -eLf lists them")
                leader = process_of(number) if kind == "process" else number
                if leader not in (number, None):
                    raise SelectionError(
                        f"{number} is a thread of process {leader}: choose it with -t {number}, or all with -p {leader}"
                    )
        for cpu in self._selection.cpus or ():
            if cpu not in processors.online():
                there = ",".join(map(str, processors.online()))
                raise SelectionError(f"there is no processor {cpu} that is on; these are: {there}")

    def _load(self, library: Library) -> None:
        shape = Shape.of(
            self._selection,
            self._options,
            intervals=self._intervals,
            record=self._record,
            namespace=pid_namespace() != 0,
        )
        features = Features.probe(library)
        self._object = loading.load(library, shape, features, self._sizes(), self._details(), self._checks)
        first_tag = 1 + (len(self._marking.states) if self._marking is not None else 0)
        for tag in reversed(range(first_tag, STATES["N_TAGS"])):
            self._object.map("free_tags").push(tag)
        if not features.fetch:
            for record in reversed(range(1, self._max_thread_records)):
                self._object.map("free_thread_records").push(record)
        self._maps = [self._object.map(name).map_memory() for name in _SHARED]
        self._memory = Memory(
            tuple(self._maps),
            processors.possible(),
            self._max_thread_records,
            polls=checks.state_names(self._checks),
            functions=self._marking.states if self._marking is not None else (),
            plan=self._plan,
            counts=tuple(self._object.map(name).map_memory() for name in _COUNTS) if self._plan.events else (),
        )
        if not features.fetch:
            self._memory.hand_out_thread_records()
        if self._plan.events:
            self._counters = self._plan.open(processors.online())
            events = self._object.map("events")
            for cpu, fds in self._counters.items():
                for place, fd in enumerate(fds):
                    if fd >= 0:
                        events.put(cpu * STATES["N_COUNTED"] + place, fd)
        if self._options.why:
            from headway.linux.bpf.causes import CauseReader

            self._causes = CauseReader(self._object.map("causes"), self._memory)
        if self._options.stacks:
            from headway.linux.bpf import stacks

            self.stacks = stacks.StackReader(library, self._object, self._memory)
        self._ring = RingReader(library, self._object.map("exits"), self._exits.function, self._exits.context)
        self._explain_figures(features)

    def _sizes(self) -> dict[str, int]:
        """Entries of the maps."""
        cpus, counting = processors.possible(), bool(self._plan.events)
        span_words, absence_words = self._words()
        return {
            "processors": cpus,
            "saved_processors": cpus if self._intervals else 1,
            "thread_records": self._max_thread_records,
            "saved_threads": self._max_thread_records if self._intervals else 1,
            "free_thread_records": self._max_thread_records,
            "exits": RING_BYTES,
            "events": cpus * STATES["N_COUNTED"],
            "processor_counts": cpus if counting else 1,
            "saved_processor_counts": cpus if counting and self._intervals else 1,
            "thread_counts": self._max_thread_records if counting else 1,
            "saved_thread_counts": self._max_thread_records if counting and self._intervals else 1,
            "causes": CAUSES if self._options.why else 1,
            "histories": cpus if self._options.why else 1,
            **self._stack_sizes(cpus),
            "spans": cpus * span_words,
            "absences": cpus * absence_words,
            "tails": cpus if self._record else 1,
            "selected_pids": len(self._selection.pids) + 1,
            "selected_tids": len(self._selection.tids) + 1,
        }

    def _stack_sizes(self, cpus: int) -> dict[str, int]:
        """Where no stacks are wanted their maps stay as small as they are declared."""
        if not self._options.stacks:
            return {}
        from headway.linux.bpf import stacks

        return stacks.sizes(cpus)

    def _details(self) -> dict[str, object]:
        """Settings that are numbers and names; what is switched on and off follows from the shape."""
        selection = self._selection
        name = os.fsencode(selection.name or "")
        group, group_level = _cgroup(selection.cgroup) if selection.cgroup else (0, 0)
        return {
            "ring_words": self._words()[0],
            "absence_words": self._words()[1],
            "n_counted": len(self._plan.events),
            "name": name.removesuffix(b"*"),
            "name_prefix": name.endswith(b"*"),
            "max_thread_records": self._max_thread_records,
            "namespace_inum": pid_namespace(),
            "cgroup": group,
            "cgroup_level": group_level,
        }

    def _explain_figures(self, features: Features) -> None:
        self._reasons = {
            "epi": "waiting for memory and other stalls are in it: they need hardware counters",
            "overhead": "taken out at prices found when measuring began, so RPI and its parts are exact together with "
            "it, not alone",
        }
        if not features.faults:
            self._kernel = Quality.UNAVAILABLE
            self._reasons["kpi"] = "page faults are in EPI: this kernel lets no software event be counted"
        if not features.steal:
            self._reasons["stolen"] = "this kernel does not say which thread it hit"

    def _visit_processors(self) -> None:
        """Go to each processor once, so that each has an event and finds out what it runs."""
        self._memory.look_around()
        allowed = os.sched_getaffinity(0)
        try:
            for cpu in sorted(allowed):
                with suppress(OSError):
                    os.sched_setaffinity(0, {cpu})
        finally:
            with suppress(OSError):
                os.sched_setaffinity(0, allowed)

    # ---- while it runs ----

    def poll_fds(self) -> Iterable[int]:
        """The ring buffer's: readable when many threads have ended."""
        return (self._ring.fileno(),) if self._ring is not None else ()

    def service(self) -> float | None:
        """Take over the totals of threads that have ended, and see to processors that were off and are on again."""
        if self._ring is not None:
            self._ring.consume()
        if self.stacks is not None:
            self.stacks.consume()
        pause = SERVICE_SECONDS if self._reader is None else self._reader.look()
        self.see_to_processors()
        now = time.monotonic()
        if now - self._sought > SEARCH_SECONDS:
            self._search_blocks()
        if self._causes is None:
            return pause
        if now >= self._next_naming:  # a short program is looked at soon, a long one seldom
            self._causes.look()
            # Where there is much to name it takes its time: a small part of all of it, at most.
            self._next_naming = now + max(self._naming, NAMING_SHARE * (time.monotonic() - now))
            self._naming = min(2 * self._naming, NAMING_SECONDS[1])
        return min(pause, self._naming)

    def see_to_processors(self) -> None:
        """Attach again to the perf events of processors that were off meanwhile: the kernel has let go of them."""
        if self._hotplug is None or self._object is None or not (back := self._hotplug.came_back()):
            return
        with suppress(HeadwayError), loading.files_as_allowed():  # off again already: it will come back
            self._attach_to_faults(back)

    def _search_blocks(self) -> None:
        """Find the marked regions of processes that had some before they were measured; the others tell of theirs."""
        self._sought = time.monotonic()
        fresh = {pid for _, pid in self._memory.unmarked()} - self._searched
        if not fresh:
            return
        self._searched &= {pid for _, pid, _ in self._memory.living()}  # ids are used again
        self._searched |= fresh
        from headway.linux.regions.blocks import Blocks

        for pid in fresh:
            blocks = Blocks(pid)
            if blocks.find():
                for tid, block in blocks.read().blocks.items():
                    self._memory.mark(tid, block.address)

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait until the process's threads have left their processors: it has ended a little before that."""
        deadline = time.monotonic() + _SETTLING
        while self._memory.is_measured(pid) and time.monotonic() < deadline:
            time.sleep(0.0002)

    def read(self) -> Ledger:
        """Everything since `begin`, as of now."""
        return self._ledger(self._take_snapshot(last=False))

    def interval(self) -> Ledger:
        """What happened since the last `interval`, or since `begin`."""
        return self._difference(self._take_snapshot(last=False))

    def end(self) -> Ledger:
        """Everything since `begin`, as of now; from now on nothing is measured."""
        return self._ledger(self._take_last_snapshot())

    def end_interval(self) -> Ledger:
        """Like `interval`, and from now on nothing is measured."""
        return self._difference(self._take_last_snapshot())

    # ---- transitions ----

    @property
    def waiting(self) -> int:
        """Rows that `take` would hand over."""
        return len(self._reader) if self._reader is not None else 0

    @property
    def fullest(self) -> float:
        """How full a ring of transitions was at most when it was read, 0 to 1."""
        return self._reader.fullest if self._reader is not None else 0.0

    def frame(self) -> Ledger:
        """What must be known to read the rows that `take` hands over: a ledger without threads and processors."""
        return self._make(Window(self._start, self._start), [], (), {}, 0)

    def take(self) -> Batch:
        """The transitions since the last call, if they are recorded; after `end`, once, the rest.

        The ledger that their rows add up to is the one that `end` returns. What performance counters counted is in that
        alone.
        """
        if self._last_batch is not None:
            batch, self._last_batch, self._reader = self._last_batch, None, None
            return batch
        if self._reader is None:
            raise ValueError("no transitions are recorded, or all have been taken")
        return self._reader.take()

    # ---- for who wants the processors only, and announces snapshots without us ----

    def snapshot_words(self) -> tuple[int, int]:
        """Where a snapshot is announced: `Memory.snapshot_words`."""
        return self._memory.snapshot_words

    def processors_at(self, at: int) -> dict[int, Cells]:
        """Return what each processor has done since `begin`, as of the snapshot at this past moment: cpu -> cells."""
        chosen = self._selection.cpus
        return {cpu: cells for cpu, cells in self._memory.read_processors(at) if chosen is None or cpu in chosen}

    def living(self) -> list[tuple[int, int, int]]:
        """The threads that are measured now: (tid, pid, birth)."""
        return self._memory.living()

    def forget_ended(self, at: int) -> None:
        """Make room: threads that had ended by this moment are in no ledger any more."""
        if self._ring is not None:
            self._ring.consume()
        self._exits.take(at, self._memory)

    @property
    def knows_stolen(self) -> bool:
        """Whether the kernel says which processor the hypervisor took, and when."""
        return "stolen" not in self._reasons

    @property
    def tells_without_privileges(self) -> bool:
        """Whether the kernel says what it skipped without CAP_BPF: before 5.19 it may not (commit c8644cd0efe7)."""
        assert self._object is not None
        with privileges.without((privileges.Capability.BPF, privileges.Capability.SYS_ADMIN)):
            return self._object.programs["handle_sched_switch"].tells_of_misses

    def losses(self) -> dict[str, int]:
        """What could not be seen since `begin`, by name."""
        return self._losses()[0]

    def close(self) -> None:
        """Detach and free everything."""
        if self._priority is not None:
            self._priority.give_back()
            self._priority = None
        if self._ring is not None:
            self._ring.close()
            self._ring = None
        if self.stacks is not None:
            self.stacks.close()
        if self._hotplug is not None:
            self._hotplug.close()
            self._hotplug = None
        if self._object is not None:
            self._object.close()
            self._object = None
        perf.close_all(fd for fds in self._counters.values() for fd in fds)
        self._counters = {}

    def _take_snapshot(self, *, last: bool) -> int:
        at: int = self._memory.take_snapshot(last)
        self._shares = self._plan.counted([perf.Reading(0, *times) for times in self._memory.counted()])
        self.service()
        self._take_exits(at)
        return at

    def _take_last_snapshot(self) -> int:
        at = self._take_snapshot(last=True)
        if self._reader is not None:
            # The memory and the rings are read one after the other: until then nothing may change any more. First have
            # handlers divide what runs across the snapshot.
            self._memory.read_processors(at)
            self._memory.read_threads(at)
            assert self._object is not None
            self._object.detach()
            self._memory.calm()
            self.service()
            self._take_exits(at)
            self._last_batch = self._reader.finish(at)
        return at

    def _take_exits(self, at: int) -> None:
        for tid, pid, name, birth, end, _, cells in self._exits.take(at, self._memory):
            thread = Thread(tid, pid, name, birth, birth, end, end, end - birth, cells)
            if self._intervals:
                self._fresh.append(thread)
            if self._forget:
                continue
            if len(self._ended) < KEPT_EXITS:
                self._ended.append(thread)
            else:
                self._fold(thread)

    def _fold(self, thread: Thread) -> None:
        key = thread.pid, thread.name
        old = self._folded.get(key)
        if old is None:
            self._folded[key] = replace(thread, states=dict(thread.states))
            return
        total = dict(old.states)
        for state, cell in thread.states.items():
            total[state] = total[state] + cell if state in total else cell
        self._folded[key] = replace(old, end=thread.end, until=thread.until, span=old.span + thread.span, states=total)

    def _processors(self, at: int) -> list[tuple[int, Cells]]:
        measured = self._cpus()
        return [(cpu, cells) for cpu, cells in self._memory.read_processors(at) if cpu in measured]

    def _ledger(self, at: int) -> Ledger:
        threads = [*self._ended, *self._folded.values()]
        for tid, pid, name, birth, _, _, cells in self._memory.read_threads(at):
            threads.append(Thread(tid, pid, name, birth, birth, None, at, at - birth, cells))
        start = self._start
        rows = tuple(Processor(cpu, at - start, cells) for cpu, cells in self._processors(at))
        losses, events = self._losses()
        if self._causes is not None:
            threads = self._with_causes(threads, self._causes.read(at), None)
        return self._make(Window(start, at), threads, rows, losses, events)

    def _difference(self, at: int) -> Ledger:
        start, self._last = self._last, at
        threads = []
        for thread in self._fresh:
            old = self._take_before(thread.tid, thread.birth, start)
            if old is None:
                threads.append(thread)
            else:
                since = max(start, thread.birth)
                cells = thread.states.less(old[0])  # type: ignore[attr-defined]
                threads.append(replace(thread, start=since, span=thread.until - since, states=cells))
        self._fresh = []
        now: dict[tuple[int, int], tuple[Cells, str]] = {}
        for tid, pid, name, birth, _, _, cells in self._memory.read_threads(at):
            key = tid, birth
            was = self._take_before(tid, birth, start)
            since = max(start, birth)
            new = cells.less(was[0]) if was is not None else cells
            now[key] = was[0].plus(new) if was is not None and new.settled else cells, name
            threads.append(Thread(tid, pid, name, birth, since, None, at, at - since, new))
        self._before = now
        rows = []
        for cpu, cells in self._processors(at):
            earlier = self._processors_before.get(cpu)
            new = cells.less(earlier) if earlier is not None else cells
            rows.append(Processor(cpu, at - start, new))
            self._processors_before[cpu] = earlier.plus(new) if earlier is not None and new.settled else cells
        if self._causes is not None:
            causes, before_it = self._causes.read(at), self._causes_before
            threads, self._causes_before = self._with_causes(threads, causes, before_it), causes
            self._causes.forget({thread.key for thread in threads if thread.end is not None})
        losses, events = self._losses()
        new_losses = {name: n - self._losses_before.get(name, 0) for name, n in losses.items()}
        ledger = self._make(Window(start, at), threads, tuple(rows), new_losses, events - self._events_before)
        self._losses_before, self._events_before = losses, events
        return ledger

    def _take_before(self, tid: int, birth: int, start: int) -> tuple[Cells, str] | None:
        """What a thread had at the start of an interval; None: it is new."""
        key = tid, birth
        if key not in self._before and birth < start:  # it has executed a program: its leader's id is now its own
            key = next((other for other in self._before if other[1] == birth), key)
        return self._before.pop(key, None)

    def _with_causes(self, threads: list[Thread], causes: Causes, before: Causes | None) -> list[Thread]:
        """The threads with what is behind their states; waits for the GIL named as such."""
        from headway.linux.bpf.causes import GIL

        found = []
        for thread in threads:
            states: States = thread.states
            time, count = causes.gil_of(thread.key, before)
            futex = states.get("wait.futex")
            if time and futex is not None:
                time, count = min(time, futex.time), min(count, futex.count or 0)
                rest = futex - Cell(time, count)
                states = {**states, "wait.futex": rest, GIL: Cell(time, count)}
                if not rest.time:
                    del states["wait.futex"]
            found.append(replace(thread, states=states, causes=within(states, causes.listed(thread.key, before))))
        return found

    def _losses(self) -> tuple[dict[str, int], int]:
        counts, events = self._memory.losses()
        lost = {name: counts[place] for name, place in _LOSSES.items()}
        lost["records_damaged"] = self._exits.damaged
        lost["readings_torn"] = self._memory.torn
        assert self._object is not None
        lost["handlers_skipped"] += sum(p.misses() for p in self._object.programs.values() if p.wanted)
        if self._reader is not None:
            lost.update(self._reader.losses())
        if self._folded:
            lost["ended_threads_added_up"] = self._exits.count - len(self._ended)
        return lost, events

    def _make(
        self, window: Window, threads: list[Thread], rows: tuple[Processor, ...], losses: dict[str, int], events: int
    ) -> Ledger:
        reasons = dict(self._reasons)
        if "stolen" in reasons and self._steal_before is not None:
            stolen = (_steal_of_all() or self._steal_before) - self._steal_before
            reasons["stolen"] += f"; from all processors together /proc/stat says {stolen / 1e9:.2f} s"
        named = tuple(self._plan.named)
        unit = unit_of(threads) if "cycles" in self._plan.fields else "ns"
        in_cycles = unit == "cycles"
        reasons = {**reasons, **counters.remarks(self._plan, in_cycles=in_cycles)}
        return Ledger(
            counted=self._shares,
            events=named,
            unit=unit,
            source=self.name,
            window=window,
            threads=tuple(threads),
            processors=rows,
            precision=counters.sharpen(
                Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE, kernel=self._kernel),
                self._shares,
                in_cycles=in_cycles,
            ),
            reasons=reasons,
            losses=losses,
            overhead=Overhead(sum(_overhead_of(row.states) for row in rows), events),
        )


def _overhead_of(states: States) -> int:
    cell = states.get("overhead")
    return cell.time if cell is not None else 0


def _living_threads() -> int:
    """How many threads there are (proc_loadavg(5), fourth field)."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def _cgroup(path: str) -> tuple[int, int]:
    """Id and level of a cgroup v2 directory. Raises HeadwayError."""
    folder = Path(path)
    mounts = [line.split() for line in Path("/proc/mounts").read_text(errors="surrogateescape").splitlines()]
    roots = [Path(_unescape(at)) for _, at, kind, *_ in mounts if kind == "cgroup2"]
    if not folder.is_absolute() and roots:
        folder = roots[0] / folder
    if not folder.is_dir():
        raise SelectionError(
            f"there is no cgroup {folder}: give a directory below {roots[0] if roots else 'a cgroup2 mount'}"
        )
    for root in roots:
        if folder.resolve().is_relative_to(root.resolve()):
            level = len(folder.resolve().relative_to(root.resolve()).parts)
            return folder.stat().st_ino, level
    raise SelectionError(
        f"{folder} is not in a cgroup v2 hierarchy ({', '.join(map(str, roots)) or 'none is mounted'})"
    )


def _unescape(path: str) -> str:
    """A path as in /proc/mounts, where blanks and the like are written in octal."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), path)


def _steal_of_all() -> int | None:
    """Time stolen from all processors together since boot by /proc/stat, ns, in steps of 10 ms."""
    try:
        first = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        return int(first[8]) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return None
