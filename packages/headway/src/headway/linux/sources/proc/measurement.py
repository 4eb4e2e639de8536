"""One measurement by /proc: it looks at the selected threads again and again, and makes their ledgers."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf import counters
from headway.linux.perf.thread_counters import ThreadCounters
from headway.linux.procfs._procfs import Scanner, Task
from headway.linux.procfs.living import is_zombie
from headway.linux.regions.charging import Marked
from headway.model import KERNEL_THREAD, Cell, Ledger, Overhead, Thread, Window, since

from ..control_groups import ControlGroups
from ..looking import LookingMeasurement
from .clocks import Clocks
from .directory import ProcDirectory
from .discovery import Discovery
from .ledgers import ProcLedgers
from .pace import Pace
from .waits import reason_of_call, reason_of_wchan

__all__ = ["ProcMeasurement"]

SPARE_DESCRIPTORS = 128
"""File descriptors left for everybody else in this process."""


class ProcMeasurement(LookingMeasurement):
    """What was selected is looked at from the moment at which this exists until `close`.

    For the arguments see `ProcSource`. Raises HeadwayError where it cannot be measured; then no file is left open.
    """

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions,
        *,
        forget: bool,
        proc: str,
        clock: Callable[[], int],
        descriptors: int | None,
    ) -> None:
        before = time.thread_time_ns()
        super().__init__(clock, Pace(), ControlGroups(proc) if options.cgroups else None)
        self._selection, self._forget = selection, forget
        with ExitStack() as stack:
            directory = stack.enter_context(closing(ProcDirectory(proc)))
            has_schedstat = directory.has_schedstat()
            self._clocks = clocks = Clocks.of_kernel()
            self._waited_for = _time_of_children()
            here = proc == "/proc"  # of another tree's threads the kernel of this machine can count nothing
            plan = counters.plan(options.events, user_only=True) if here else counters.CounterPlan()
            spare = _spare_descriptors() if descriptors is None else descriptors
            for_counters = spare // 2 if plan.events else 0
            self._counters = stack.enter_context(closing(ThreadCounters(plan, for_counters, clocks.tick)))
            self._start = now = clock()
            self._scanner = stack.enter_context(
                closing(
                    Scanner(
                        directory.fd,
                        tick=clocks.tick,
                        clock_tick=clocks.clock_tick,
                        boot_offset=clocks.boot_offset,
                        start=now,
                        budget=spare - for_counters,
                        schedstat=has_schedstat,
                        follow_single=selection.follow,
                        reason_of_call=reason_of_call,
                        reason_of_wchan=reason_of_wchan,
                    )
                )
            )
            self._discovery = Discovery(self._scanner, directory, selection, clocks, now)
            self._dead = {task for tid, task in self._scanner.tasks.items() if tid == task.pid and is_zombie(tid, proc)}
            """Threads that had ended before measuring began: first threads of processes that go on."""
            self._marked = Marked(proc, clock)
            self._marked.look(self._scanner, now)
            self._counters.follow(self._keys())
            self._ledgers = ProcLedgers(
                selection, options, clocks, self._marked, self._counters, has_schedstat=has_schedstat
            )
            self._ended: list[Thread] = []
            self._reported = 0
            """So many of them were in an interval."""
            self._ended_exactly = True
            self._unseen_of_command = 0
            self._earlier: Ledger | None = None
            """The reading at the end of the last interval, if there was one."""
            self._pace.cost = time.thread_time_ns() - before
            self._resources = stack.pop_all()

    def close(self) -> None:
        """Close all files; may be called again."""
        self._resources.close()

    def _total(self, now: int) -> Ledger:
        return self._ledger(now, [*self._ended, *self._living()])

    def _since_last(self, now: int) -> Ledger:
        ended, self._reported = self._ended[self._reported :], len(self._ended)
        if self._forget:
            self._ended, self._reported = [], 0
        later = self._ledger(now, [*ended, *self._living()])
        between = since(later, self._earlier) if self._earlier is not None else later
        self._earlier = later
        return between

    def _look(self) -> int:
        before = time.thread_time_ns()
        waited_for = _time_of_children() if self._selection.command is not None else 0
        created = self._discovery.created()
        now = self._clock()
        self._scanner.scan(now, created=created)
        self._discovery.find(now, created=created)
        self._marked.look(self._scanner, now)
        self._counters.follow(self._keys())
        self._take_ended()
        if self._selection.command in self._scanner.processes:
            self._waited_for = waited_for  # nobody had waited for the command then: it was others' time
        if self._cgroups is not None:
            clock_tick = self._clocks.clock_tick
            self._cgroups.look((task.pid, task.birth * clock_tick) for task in self._scanner.tasks.values())
        self._pace.scanned(now, time.thread_time_ns() - before)
        return now

    def _take_ended(self) -> None:
        for task in self._scanner.take_ended():
            if task in self._dead:
                self._dead.remove(task)
                continue
            self._ended.append(self._thread(task))
            self._ended_exactly = self._ended_exactly and task.exact
        for process in self._scanner.take_finished():
            if process.pid == self._selection.command and self._selection.follow:
                # It was waited for, and with it all that it had waited for: by this process, which is told so.
                used = _time_of_children() - self._waited_for
                self._unseen_of_command = max(used - process.accounted, 0)

    def _keys(self) -> list[tuple[int, int]]:
        """Return what the counters know the threads by."""
        return [(task.tid, task.birth) for task in self._scanner.tasks.values()] if self._counters.active else []

    def _living(self) -> Iterator[Thread]:
        living = (task for task in self._scanner.tasks.values() if not task.ended)
        return (self._thread(task) for task in living if task not in self._dead)

    def _thread(self, task: Task) -> Thread:
        account = task.account
        until = account.start + account.span
        times = account.states(self._scanner.names)
        if task.in_kernel and (run := times.pop("user", 0) + times.pop("kernel", 0)):  # it has no code of a program
            times[KERNEL_THREAD] = run
        states = {state: Cell(t, None) for state, t in times.items()}
        if self._counters.active:
            states = self._counters.charge((task.tid, task.birth), states, ended=task.ended)
        return Thread(
            tid=task.tid,
            pid=task.pid,
            name=task.name,
            birth=task.birth * self._clocks.clock_tick,
            start=account.start,
            end=until if task.ended else None,
            until=until,
            span=account.span,
            states=self._marked.split(task, states),
        )

    def _ledger(self, now: int, threads: list[Thread]) -> Ledger:
        losses = {
            "unseen_ns": self._scanner.unseen + self._unseen_of_command,
            "unseen_ends": self._scanner.ends_unseen,
            "hidden": len(self._scanner.hidden),
        }
        return self._ledgers.make(
            Window(self._start, now),
            threads,
            losses=losses,
            exact=self._ended_exactly and all(task.exact for task in self._scanner.tasks.values() if not task.ended),
            overhead=Overhead(time=self._pace.cost, events=self._scanner.looks),
        )


def _spare_descriptors() -> int:
    """Return how many files may be kept open; the limit stays as it is, because a command would inherit another."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:
        used = SPARE_DESCRIPTORS
    return max((limit if limit != resource.RLIM_INFINITY else 1 << 20) - used - SPARE_DESCRIPTORS, 0)


def _time_of_children() -> int:
    """Return the CPU time of all children that this process has waited for, in ns, in steps of a microsecond."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((usage.ru_utime + usage.ru_stime) * 1e9)
