"""The source for users without privileges: what /proc tells of every thread, looked at again and again.

How much of it is exact. Run time and run-queue time come from ``schedstat``, in ns, as of the scheduler's last update
(a tick ago at most, for a thread that is on a processor; complete for every other). Time that is neither is waiting. So
the division of a thread's life into running, ready and waiting is the kernel's own; what is sampled is the division of
the running into user and kernel (the kernel samples it at its tick) and that of the waiting by reason (what the thread
was found waiting for at a look). Regions that the program marks are taken out of user time
(`headway.linux.regions.marked`).

What cannot be seen is counted. Threads come and go between two looks, and the last slice of a thread that ends may be
missed; but the clock of their process holds their time too, and a parent is told the time of the children that it waits
for. What these say beyond what was seen is in the losses, not in any thread's cells.

Times are ns of CLOCK_MONOTONIC; the birth of a thread is in ns since boot, in steps of a clock tick (proc_pid_stat(5),
field 22), which tells apart threads that use the same id one after the other.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from headway.errors import HeadwayError, SelectionError
from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf import counters
from headway.linux.perf.thread_counters import ThreadCounters
from headway.linux.procfs._procfs import Scanner, Task, parse_schedstat
from headway.linux.procfs.ids import process_of
from headway.linux.regions.marked import Marked
from headway.linux.syscalls.table import BY_FILE, WAITS, name_of
from headway.model import Cell, Ledger, Overhead, Precision, Quality, Thread, Window, since

__all__ = ["ProcSource"]

SHARE = 0.03
"""Of one processor, that looking may take."""
SHORTEST = 10_000_000
"""Between two scans, in ns."""
LONGEST = 1_000_000_000
"""Between two scans, in ns, whatever they cost."""
SWEEP_SHARE = 0.02
"""Of one processor, that looking through everything for threads by name or cgroup may take."""
SWEEP_SHORTEST = 100_000_000
"""Between two such sweeps, in ns."""
SPARE_DESCRIPTORS = 128
"""File descriptors left for everybody else in this process."""

CLOCK_MONOTONIC_COARSE = 6
"""Its resolution is the scheduler's tick (include/uapi/linux/time.h, kernel/time/posix-timers.c)."""

CHANNELS: tuple[tuple[str, str], ...] = (
    ("futex_", "wait.futex"),
    ("ep_poll", "wait.epoll"),
    ("do_epoll_wait", "wait.epoll"),
    ("poll_schedule_timeout", "wait.poll"),
    ("do_poll", "wait.poll"),
    ("do_select", "wait.poll"),
    ("do_sys_poll", "wait.poll"),
    ("hrtimer_nanosleep", "wait.sleep"),
    ("do_nanosleep", "wait.sleep"),
    ("common_nsleep", "wait.sleep"),
    ("do_wait", "wait.child"),
    ("kernel_wait4", "wait.child"),
    ("pipe_", "wait.pipe"),
    ("anon_pipe_", "wait.pipe"),
    ("fifo_open", "wait.pipe"),
    ("wait_for_partner", "wait.pipe"),
    ("inet_csk_accept", "wait.net"),
    ("sk_wait_data", "wait.net"),
    ("sk_stream_wait", "wait.net"),
    ("tcp_", "wait.net"),
    ("udp_", "wait.net"),
    ("unix_", "wait.net"),
    ("sock_", "wait.net"),
    ("__skb_wait", "wait.net"),
    ("skb_wait", "wait.net"),
    ("netlink_", "wait.net"),
    ("io_schedule", "wait.disk"),
    ("folio_wait", "wait.disk"),
    ("wait_on_page", "wait.disk"),
    ("wait_on_buffer", "wait.disk"),
    ("bit_wait_io", "wait.disk"),
    ("blk_", "wait.disk"),
    ("rq_qos_wait", "wait.disk"),
    ("jbd2_", "wait.disk"),
    ("xfs_", "wait.disk"),
    ("btrfs_", "wait.disk"),
    ("do_signal_stop", "stopped"),
    ("ptrace_stop", "stopped"),
    ("handle_userfault", "wait.fault"),
)
"""Kernel functions that threads sleep in (as /proc/PID/wchan names them), by how they begin."""


def reason_of_call(number: int) -> str | None:
    """The state of a thread that sleeps in this system call; None: that depends on the file that the call is about."""
    name = name_of(number)
    reason = WAITS.get(name, name)
    return None if reason == BY_FILE else f"wait.{reason}"


def reason_of_wchan(channel: bytes) -> str | None:
    """The state of a thread that sleeps in this function of the kernel; None: it does not say."""
    name = channel.decode("ascii", "replace")
    return next((reason for prefix, reason in CHANNELS if name.startswith(prefix)), None)


class ProcSource:
    """Ledgers from /proc (proc(5)), for the threads selected."""

    name = "proc"

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions = MeasureOptions(),  # noqa: B008
        *,
        forget: bool = False,
        proc: str = "/proc",
        clock: Callable[[], int] = time.monotonic_ns,
        descriptors: int | None = None,
    ) -> None:
        """``clock`` gives ns of CLOCK_MONOTONIC; ``descriptors``: files to keep open at most (None: as can be).

        ``forget``: threads that have ended are in the interval in which they did, and in no reading since `begin`.
        """
        self._selection = selection
        self._options = options
        self._forget = forget
        self._path = proc
        self._clock = clock
        self._descriptors = descriptors
        self._root = -1
        self._loadavg = -1
        self._scanner: Scanner | None = None
        self._marked = Marked(proc, clock)
        self._counters = ThreadCounters(counters.Plan(), 0)
        self._window_start = 0
        self._ended: list[Thread] = []
        self._ended_exactly = True
        self._others: set[int] = set()
        self._last_id: bytes | None = None
        self._complete = 0
        self._period = SHORTEST
        self._last_scan = 0
        self._scan_cost = 0
        self._swept = 0
        self._sweep_period = SWEEP_SHORTEST
        self._cost = 0
        self._waited_for = 0
        self._unseen_of_command = 0
        self._reported = 0
        self._earlier: Ledger | None = None
        self._final: Ledger | None = None

    # -- the interface of a source ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start measuring. Raises HeadwayError where the selection cannot be measured."""
        chosen = self._selection
        if chosen.cpus is not None:
            raise HeadwayError(
                "/proc does not tell on which processor a thread spent its time: "
                "measuring some processors only needs the eBPF source (run headway as root)"
            )
        self._check_criteria()
        before = time.thread_time_ns()
        try:
            self._root = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as why:
            raise HeadwayError(f"{self._path} cannot be read ({why.strerror}): mount it, proc(5) says how") from None
        try:
            self._begin(chosen)
        except BaseException:
            self.close()
            raise
        self._cost += time.thread_time_ns() - before

    def poll_fds(self) -> Iterable[int]:
        """None: /proc tells nobody that something happened."""
        return ()

    def service(self) -> float | None:
        """Look at every thread once; seconds until the next look, so that looking takes 3 % of a processor at most.

        Not if that was done just before, by a reading.
        """
        if self._scanner is None:
            return None
        rest = self._last_scan + self._period - self._clock()
        if rest < self._period // 2:
            self._scan(self._scanner)
            rest = self._period
        return rest / 1e9

    def read(self) -> Ledger:
        """Everything since `begin`, as of now."""
        if self._scanner is None:
            if self._final is None:
                raise RuntimeError("begin() comes first")
            return self._final
        now = self._scan(self._scanner)
        before = time.thread_time_ns()
        threads = [*self._ended, *self._living(self._scanner)]
        ledger = self._ledger(self._scanner, now, threads)
        self._count_cost(time.thread_time_ns() - before)
        return ledger

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Nothing to wait for: a process that has ended is a zombie at once."""

    def interval(self) -> Ledger:
        """What happened since the last `interval`, or since `begin`."""
        if self._scanner is None:
            raise RuntimeError("begin() comes first, and nothing after end()")
        now = self._scan(self._scanner)
        before = time.thread_time_ns()
        ended, self._reported = self._ended[self._reported :], len(self._ended)
        if self._forget:
            self._ended, self._reported = [], 0
        later = self._ledger(self._scanner, now, [*ended, *self._living(self._scanner)])
        between = since(later, self._earlier) if self._earlier is not None else later
        self._earlier = later
        self._count_cost(time.thread_time_ns() - before)
        return between

    def end_interval(self) -> Ledger:
        """What happened since the last `interval`, and measure no more."""
        last = self.interval()
        self.end()
        return last

    def end(self) -> Ledger:
        """Everything since `begin`, as of now, and measure no more.

        Of a command, call it when it has ended and before it is waited for (waitid(2) with WNOWAIT): the figures of a
        zombie are complete.
        """
        self._final = self.read()
        self.close()
        return self._final

    def close(self) -> None:
        """Let go of all files; may be called at any time, more than once."""
        if self._scanner is not None:
            self._scanner.close()
            self._scanner = None
        self._counters.close()
        for fd in (self._root, self._loadavg):
            if fd >= 0:
                os.close(fd)
        self._root = self._loadavg = -1

    # -- the beginning ------------------------------------------------------------------------------------------------

    def _check_criteria(self) -> None:
        """What only another source can follow is said in the ledger; what none could is refused by each."""
        from headway.linux.bpf import checks

        checks.load(self._options.checks)
        if self._options.functions:
            from headway.linux.regions.functions import resolve

            resolve(self._options.functions, self._selection.pids, self._selection.argv)

    def _begin(self, chosen: Selection) -> None:
        with suppress(OSError):
            self._loadavg = os.open("loadavg", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._root)
            if os.fstat(self._loadavg).st_dev != os.fstat(self._root).st_dev:  # something else, mounted over it
                os.close(self._loadavg)
                self._loadavg = -1
        self._has_schedstat = self._schedstat_works()
        self._tick = round(time.clock_getres(CLOCK_MONOTONIC_COARSE) * 1e9)
        self._clock_tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        self._boot_offset = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
        self._waited_for = _time_of_children()
        here = self._path == "/proc"  # of another tree's threads the kernel of this machine can count nothing
        counted = counters.plan(self._options.events, user_only=True) if here else counters.Plan()
        spare = _spare_descriptors() if self._descriptors is None else self._descriptors
        for_counters = spare // 2 if counted.events else 0
        self._counters = ThreadCounters(counted, for_counters, self._tick)
        self._window_start = now = self._clock()
        scanner = self._scanner = Scanner(
            self._root,
            tick=self._tick,
            clock_tick=self._clock_tick,
            boot_offset=self._boot_offset,
            start=now,
            budget=spare - for_counters,
            schedstat=self._has_schedstat,
            follow_single=chosen.follow,
            reason_of_call=reason_of_call,
            reason_of_wchan=reason_of_wchan,
        )
        self._last_id = self._newest_id()
        self._open_processes(scanner, chosen, now)
        for tid in chosen.tids:
            pid = self._process_of(tid)
            if pid is None or not scanner.add_thread(pid, tid, now, opening=True):
                raise SelectionError(self._why_not(scanner, tid, "thread"))
        if chosen.cgroup is not None:
            self._cgroup = _cgroup_directory(chosen.cgroup)
        self._sweep(scanner, now, opening=True)
        self._marked.look(scanner, now)
        self._complete = now
        self._counters.follow(self._keys(scanner))

    def _open_processes(self, scanner: Scanner, chosen: Selection, now: int) -> None:
        """Take the processes selected under observation, and remember all others: they are nobody's children."""
        wanted = dict.fromkeys([*chosen.pids, *([chosen.command] if chosen.command is not None else [])])
        for pid in wanted:
            tgid = self._process_of(pid)
            if tgid is not None and tgid != pid:
                raise SelectionError(
                    f"{pid} is a thread of process {tgid}: choose it with -t {pid}, or all with -p {tgid}"
                )
        there = scanner.ids() if chosen.everything or (chosen.follow and wanted) else []
        parents: set[int] = set()
        some_hidden = False
        if not chosen.everything:
            for pid in there:
                if pid not in wanted:
                    self._others.add(pid)
                    known = scanner.stat(pid)
                    if known is not None:
                        parents.add(known[2])
            some_hidden = bool(scanner.hidden)
            scanner.hidden.clear()  # what is not chosen is not missed
        for pid in [*wanted, *(pid for pid in there if chosen.everything and pid not in wanted)]:
            if chosen.follow:
                complete = pid not in parents and not some_hidden
                found = scanner.add_process(pid, now, opening=True, all_children=complete)
            else:
                found = sum(scanner.add_thread(pid, tid, now, opening=True) for tid in scanner.ids(pid)) > 0
            if not found and pid in wanted:
                raise SelectionError(self._why_not(scanner, pid, "process"))

    def _why_not(self, scanner: Scanner, number: int, what: str) -> str:
        scanner.stat(number)
        hidden = number in scanner.hidden
        with suppress(ProcessLookupError, OverflowError):
            try:
                os.kill(number, 0)
            except PermissionError:
                hidden = True
        if hidden:
            return f"/proc hides {what} {number} from this user: run headway as root or as the user that owns it"
        return f"there is no {what} {number}"

    def _process_of(self, tid: int) -> int | None:
        """The process of a thread; None: there is no such thread, or it is hidden."""
        return process_of(tid, proc="", dir_fd=self._root)

    def _contents(self, path: str) -> bytes:
        """A file of /proc, empty if it cannot be read."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._root)
        except OSError:
            return b""
        try:
            return os.read(fd, 1 << 16)
        except OSError:
            return b""
        finally:
            os.close(fd)

    def _schedstat_works(self) -> bool:
        """A kernel built without CONFIG_SCHED_INFO has no such file, or three zeros in it; we have run for a while."""
        figures = parse_schedstat(self._contents("self/schedstat"))
        return figures is not None and figures[0] > 0

    # -- looking ------------------------------------------------------------------------------------------------------

    def _newest_id(self) -> bytes | None:
        """The id that was given out last in this pid namespace (proc_loadavg(5)); None where that is not to be had."""
        if self._loadavg < 0:
            return None
        try:
            last = os.pread(self._loadavg, 256, 0).split()[-1]
        except (OSError, IndexError):
            return None
        return last if last.isdigit() and last != b"0" else None

    def _scan(self, scanner: Scanner) -> int:
        before = time.thread_time_ns()
        newest = self._newest_id()
        created = newest is None or newest != self._last_id
        self._last_id = newest
        now = self._clock()
        scanner.scan(now, created=created)
        self._discover(scanner, now, created)
        self._marked.look(scanner, now)
        self._counters.follow(self._keys(scanner))
        self._close_ended(scanner)
        cost = time.thread_time_ns() - before
        self._cost += cost
        self._last_scan = now
        self._scan_cost = cost if cost > self._scan_cost else (self._scan_cost + cost) // 2
        self._period = min(max(round(self._scan_cost / SHARE), SHORTEST), LONGEST)
        return now

    def _discover(self, scanner: Scanner, now: int, created: bool) -> None:
        """Find the threads and processes that came since the last look, beside new threads of processes known."""
        chosen = self._selection
        if chosen.follow:
            for pid in scanner.take_children():
                if pid not in scanner.processes and pid not in self._others:
                    self._take_new(scanner, pid, now)
            if created and (chosen.everything or chosen.pids or chosen.command is not None):
                self._discover_processes(scanner, now)
        if (created and chosen.cgroup is not None) or now - self._swept >= self._sweep_period:
            self._sweep(scanner, now, opening=False)
        self._complete = now

    def _take_new(self, scanner: Scanner, pid: int, now: int) -> None:
        known = scanner.stat(pid)
        if (
            known is not None
            and known[7] * self._clock_tick - self._boot_offset + self._clock_tick > self._window_start
        ):
            scanner.add_process(pid, now, opening=False, absent=0, all_children=not scanner.hidden)
        else:
            self._others.add(pid)

    def _discover_processes(self, scanner: Scanner, now: int) -> None:
        there = scanner.ids()
        self._others.intersection_update(there)
        new = [pid for pid in there if pid not in scanner.processes and pid not in self._others]
        if self._selection.everything:
            parents = dict.fromkeys(new, 0)
        else:
            parents = {pid: known[2] for pid in new if (known := scanner.stat(pid)) is not None}
            self._others.update(pid for pid in new if pid in scanner.hidden)
        while parents:
            ours = [
                pid
                for pid, parent in parents.items()
                if self._selection.everything or ((process := scanner.processes.get(parent)) and process.whole)
            ]
            for pid in ours:
                del parents[pid]
                scanner.add_process(pid, now, opening=False, absent=self._complete, all_children=not scanner.hidden)
            if not ours:
                break
        self._others.update(parents)

    def _sweep(self, scanner: Scanner, now: int, *, opening: bool) -> None:
        """Look through the machine for threads of the name, through the cgroup for those in it."""
        chosen = self._selection
        if chosen.name is None and chosen.cgroup is None:
            return
        before = time.thread_time_ns()
        if chosen.name is not None:
            prefix = chosen.name.endswith("*")
            wanted = os.fsencode(chosen.name.removesuffix("*"))[:15]
            for pid in scanner.ids():
                for tid in scanner.named(pid, wanted, prefix):
                    scanner.add_thread(pid, tid, now, opening=opening)
        if chosen.cgroup is not None:
            for tid in _threads_of_cgroup(self._cgroup):
                if tid not in scanner.tasks:
                    owner = self._process_of(tid)
                    if owner is not None:
                        scanner.add_thread(owner, tid, now, opening=opening)
        self._swept = now
        self._sweep_period = max(SWEEP_SHORTEST, round((time.thread_time_ns() - before) / SWEEP_SHARE))

    def _count_cost(self, cost: int) -> None:
        """What else was spent: the next scan is due the later for it."""
        self._cost += cost
        self._period = min(self._period + round(cost / SHARE), LONGEST)

    # -- the books ----------------------------------------------------------------------------------------------------

    def _close_ended(self, scanner: Scanner) -> None:
        for task in scanner.take_ended():
            self._ended.append(self._thread(scanner, task))
            self._ended_exactly = self._ended_exactly and task.exact
        for process in scanner.take_finished():
            if process.pid == self._selection.command and self._selection.follow:
                # It was waited for, and with it all that it had waited for: by this process, which is told so.
                used = _time_of_children() - self._waited_for
                self._unseen_of_command = max(used - process.accounted, 0)

    def _keys(self, scanner: Scanner) -> list[tuple[int, int]]:
        """What the counters know the threads by."""
        return [(task.tid, task.birth) for task in scanner.tasks.values()] if self._counters.active else []

    def _living(self, scanner: Scanner) -> Iterator[Thread]:
        return (self._thread(scanner, task) for task in scanner.tasks.values() if not task.ended)

    def _thread(self, scanner: Scanner, task: Task) -> Thread:
        account = task.account
        until = account.start + account.span
        states = {state: Cell(t, None) for state, t in account.states(scanner.names).items()}
        if self._counters.active:
            states = self._counters.charge((task.tid, task.birth), states, ended=task.ended)
        return Thread(
            tid=task.tid,
            pid=task.pid,
            name=task.name,
            birth=task.birth * self._clock_tick,
            start=account.start,
            end=until if task.ended else None,
            until=until,
            span=account.span,
            states=self._marked.split(task, states),
        )

    def _ledger(self, scanner: Scanner, now: int, threads: list[Thread]) -> Ledger:
        losses = {
            "unseen_ns": scanner.unseen + self._unseen_of_command,
            "unseen_ends": scanner.ends_unseen,
            "hidden": len(scanner.hidden),
        }
        marks = self._marked.losses
        exact = (
            self._has_schedstat
            and self._ended_exactly
            and not any(losses.values())
            and all(task.exact for task in scanner.tasks.values() if not task.ended)
        )
        counted = self._counters.counted()
        return Ledger(
            source="proc",
            window=Window(self._window_start, now),
            threads=tuple(sorted(threads, key=lambda thread: thread.key)),
            precision=counters.sharpen(
                Precision(
                    total=Quality.EXACT if exact else Quality.SAMPLED,
                    effective=Quality.SAMPLED,
                    memory=Quality.UNAVAILABLE,
                    kernel=Quality.SAMPLED,
                    poll=Quality.UNAVAILABLE,
                ),
                counted,
                in_cycles=False,
            ),
            reasons=self._reasons(exact),
            losses={**losses, **marks, **self._counters.losses()},
            counted=counted,
            events=tuple(self._counters.plan.named),
            overhead=Overhead(time=self._cost, events=scanner.looks),
        )

    def _reasons(self, exact: bool) -> dict[str, str]:
        tick = f"{self._tick / 1e6:g} ms"
        reasons = {
            "epi": f"the kernel samples what is user and what is kernel time, at its tick of {tick}",
            "kpi": f"the kernel samples what is user and what is kernel time, at its tick of {tick}",
            **counters.remarks(self._counters.plan, in_cycles=False),
            "iopi": "/proc does not tell what a system call returned",
            "wait": "a thread waits for what it was found waiting for at a look; the sum of its waits is not sampled",
            "irq": "/proc charges an interrupt to the thread that it hit",
            "stolen": "/proc does not tell whom the hypervisor took time from: it is in ready or wait",
        }
        if not self._has_schedstat:
            reasons["rpi"] = f"this kernel keeps no schedstat, so run time is in steps of {self._clock_tick / 1e6:g} ms"
            reasons["ready"] = "this kernel keeps no schedstat, so being ready cannot be told from waiting"
        elif not exact:
            reasons["rpi"] = (
                f"the run time of a thread on a processor is up to {tick} old, "
                "and what a thread ran between the last look and its end is not in it"
            )
        if self._options.functions:
            reasons["marked functions"] = "only eBPF can place probes in them: their time is in user"
        if self._marked.seen:
            reasons["regions"] = (
                "of a marked region only that is charged which was certainly in user code: what the thread was off the "
                "processor or in the kernel between two looks is taken to have been in it; the rest is in EPI"
            )
        if self._marked.reason is not None:
            reasons["regions_unread"] = self._marked.reason
        if self._selection.follow:
            reasons["follow"] = (
                "/proc does not tell whose child a process was whose parent ended before it was first seen"
            )
            if self._selection.tids or self._selection.name is not None:
                reasons["follow"] += ", nor which thread created another"
        return reasons


def _spare_descriptors() -> int:
    """How many files may be kept open; the limit stays as it is, because a command would inherit another."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:
        used = SPARE_DESCRIPTORS
    return max((limit if limit != resource.RLIM_INFINITY else 1 << 20) - used - SPARE_DESCRIPTORS, 0)


def _time_of_children() -> int:
    """CPU time in ns (in steps of a microsecond) of all children that this process has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((usage.ru_utime + usage.ru_stime) * 1e9)


def _cgroup_directory(path: str) -> str:
    """A cgroup's directory: as given, or below the usual mount points."""
    for candidate in (path, *(os.path.join(at, path.lstrip("/")) for at in _CGROUP_MOUNTS)):
        if any(os.path.exists(os.path.join(candidate, name)) for name in ("cgroup.procs", "tasks")):
            return candidate
    raise SelectionError(f"there is no cgroup {path}: give its directory, for example /sys/fs/cgroup/system.slice")


_CGROUP_MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")


def _threads_of_cgroup(top: str) -> Iterator[int]:
    """Ids of the threads in a cgroup and below it: cgroup.threads of version 2, tasks of version 1."""
    for directory, _, _ in os.walk(top):
        for name in ("cgroup.threads", "tasks", "cgroup.procs"):
            try:
                with open(os.path.join(directory, name), "rb") as file:
                    numbers = file.read().split()
            except OSError:
                continue
            # 0 stands for a thread that is not in this pid namespace
            yield from (int(number) for number in numbers if number.isdigit() and int(number))
            break
