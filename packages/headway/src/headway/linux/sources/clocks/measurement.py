"""One measurement at the level `clocks`: it reads the kernel's clocks of the selected threads again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from headway.linux import privileges, time_namespace
from headway.linux.bpf.clocks._clock_accounts import ClockAccounts, ClockThread
from headway.linux.bpf.clocks.clock_programs import ClockPrograms
from headway.linux.options import MeasureOptions, Selection
from headway.linux.procfs.descendants import descendants
from headway.model import Ledger, Overhead, Thread, Window

from ..control_groups import ControlGroups
from ..ebpf.targets import check_targets
from ..ended_rows import EndedRows
from ..looking import LookingMeasurement
from ..proc.clocks import Clocks
from ..proc.pace import Pace
from ..proc.waits import reason_of_call
from .ledgers import ClockLedgers
from .rows import row_of, row_since_told

__all__ = ["SHARE", "ClockMeasurement"]

SHARE = 0.005
"""Of one processor, that looking may take, where no budget says otherwise."""
MAX_EXIT_SECONDS = 1.0
"""Within so long the kernel has told that the threads of a process are over, which has ended."""


class ClockMeasurement(LookingMeasurement):
    """What was selected is measured from `begin` on, until `close`.

    ``source``: the name of the source, for the ledgers. ``programs``: what it measures with; None: what it loads for
    itself. ``tids``: threads that are measured beside those of the selection. ``share``: of one processor, that looking
    may take. For the other arguments see `ClockSource`. Raises HeadwayError where it cannot be measured; then nothing
    is left attached.
    """

    def __init__(
        self,
        source: str,
        selection: Selection,
        options: MeasureOptions,
        *,
        intervals: bool,
        forget: bool,
        share: float = SHARE,
        programs: ClockPrograms | None = None,
        tids: Iterable[int] = (),
    ) -> None:
        time_namespace.must_leave()
        super().__init__(time.monotonic_ns, Pace(share), ControlGroups() if options.cgroups else None)
        self._intervals, self._forget = intervals, forget
        self._tick = Clocks.of_kernel().tick
        self.accounts = ClockAccounts(self._tick, reason_of_call)
        with ExitStack() as stack:
            if programs is None:
                check_targets(selection)
                programs = stack.enter_context(closing(ClockPrograms(selection)))
            self._programs = programs
            stack.callback(programs.end)
            if selection.command is not None:
                programs.measure_command(selection.command)
            programs.attach(self.accounts, _chosen(selection), {*selection.tids, *tids})
            self.start = 0
            """ns of CLOCK_MONOTONIC."""
            self._source, self._options = source, options
            self._ended = EndedRows()
            self._new: list[ClockThread] = []
            """Those that have ended since the last interval."""
            self._late: list[Thread] = []
            """The last parts of exits that are told in the next interval."""
            self._unfinished = 0
            self._resources = stack.pop_all()

    def begin(self, since: int = 0) -> None:
        """Begin to measure. ``since``: threads that were born since this moment are measured from their birth."""
        self.accounts.since = since
        self.start = self._programs.begin()
        self._ledgers = ClockLedgers(self._source, self._options, self._tick, up_to_date=self._programs.is_up_to_date)
        self._told = _Told(self.start, {}, Overhead(0, 0, own=0, others=0))
        self._look_at_groups(self.accounts.threads.values())
        self._own = time.process_time_ns()

    def close(self) -> None:
        """Detach and free everything; may be called again."""
        self._resources.close()

    def poll_fds(self) -> Iterable[int]:
        """Return the descriptor of the ring of ended threads: readable when many have ended."""
        return (self._programs.fileno(),)

    def service(self) -> float:
        """Look at every thread if it is time to, and take over what has ended. Return the seconds until the next."""
        self._programs.consume()
        return super().service()

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait until the kernel has told of the end of all threads of a process that has ended."""
        deadline = time.monotonic() + MAX_EXIT_SECONDS
        self._look()
        while self.accounts.exits_of(pid) and time.monotonic() < deadline:
            time.sleep(0.002)
            self._look()

    def _look(self) -> int:
        before = time.thread_time_ns()
        at = self._programs.look()
        self._look_at_groups(self.accounts.threads.values())
        ended = self.accounts.take_ended()
        if self._intervals:
            self._new += ended
        if not self._forget:
            for thread in ended:
                self._ended.add(row_of(thread, self.accounts.names, self._tick, self._options.events))
        self._pace.scanned(at, time.thread_time_ns() - before)
        return at

    def _look_at_groups(self, threads: Iterable[ClockThread]) -> None:
        if self._cgroups is not None:
            self._cgroups.look((thread.pid, thread.birth) for thread in threads)

    @property
    def looked(self) -> int:
        """The moment of the last look, ns of CLOCK_MONOTONIC."""
        return self.accounts.at

    def set_share(self, share: float) -> None:
        """Have looking take at most this share of one processor."""
        self._pace.share = share

    # ---- ledgers ----

    def stop(self) -> int:
        """Look once more, and return the moment. From then on nothing is measured.

        The last part of exits that are under way then is not known any more.
        """
        at = self._look()
        self._unfinished = sum(thread.gone for thread in self.accounts.threads.values())
        return at

    def late(self, born_until: int, until: int) -> list[Thread]:
        """Return the threads that no look has seen, because they came and went since `stop` (`ClockAccounts`)."""
        self._programs.consume()
        late = self.accounts.take_late(born_until, until)
        return [row_of(thread, self.accounts.names, self._tick, self._options.events) for thread in late]

    def last(self, *, total: bool, interval: bool) -> tuple[Ledger | None, Ledger | None]:
        """Return everything since the beginning, and since the last interval, where wanted; `stop` comes before."""
        at = self.accounts.at
        return self._grouped(self._total(at)) if total else None, (
            self._grouped(self._since_last(at)) if interval else None
        )

    def _total(self, now: int) -> Ledger:
        names, tick = self.accounts.names, self._tick
        living = [row_of(thread, names, tick, self._options.events) for thread in self.accounts.threads.values()]
        return self._ledgers.make(
            Window(self.start, now), [*self._ended.all(), *living], self._losses(), self._overhead()
        )

    def _since_last(self, now: int) -> Ledger:
        names, tick, told = self.accounts.names, self._tick, self._told
        window = Window(told.at, now)
        threads = [
            row_since_told(thread, names, tick, self._options.events)
            for thread in (*self._new, *self.accounts.threads.values())
        ]
        losses, overhead = self._losses(), self._overhead()
        self._new, self._told = [], _Told(now, losses, overhead)
        return self._ledgers.make(
            window,
            self._within(window, [thread for thread in threads if thread.span or thread.end is None]),
            {name: n - told.losses.get(name, 0) for name, n in losses.items()},
            overhead - told.overhead,
        )

    def _within(self, window: Window, threads: Iterable[Thread]) -> list[Thread]:
        """Return what threads did, in the window. What does not fit there is kept for the next one.

        What the last part of an exit took is known a grace period of RCU later. If an interval ended meanwhile, that is
        told in the next one.
        """
        late, self._late = self._late, []
        rows = []
        for thread in (*late, *threads):
            behind = max(window.start - thread.start, 0)
            until = thread.until + behind
            if until > window.end:
                self._late.append(thread)
            elif behind:
                rows.append(replace(thread, start=thread.start + behind, until=until, end=until))
            else:
                rows.append(thread)
        return rows

    def note(self, name: str, words: Callable[[], str]) -> None:
        """Have every ledger say something (`ClockLedgers.note`)."""
        self._ledgers.note(name, words)

    @property
    def tells_without_privileges(self) -> bool:
        """Whether the kernel lets a look begin without CAP_BPF."""
        with privileges.without((privileges.LinuxCapability.BPF, privileges.LinuxCapability.SYS_ADMIN)):
            return self._programs.tells_of_misses

    def _losses(self) -> dict[str, int]:
        losses = {name: n for name, n in self._programs.losses().items() if n}
        if self._unfinished:
            losses["unseen_ends"] = losses.get("unseen_ends", 0) + self._unfinished
        if self._ended.added_up:
            losses["ended_threads_added_up"] = self._ended.added_up
        return losses

    def _overhead(self) -> Overhead:
        """Return the cost of looking. Nothing is taken out of the threads' time, since nothing runs in it."""
        return Overhead(0, self.accounts.readings, own=time.process_time_ns() - self._own, others=0)


def _chosen(selection: Selection) -> tuple[int, ...]:
    """Return the processes that are measured as a whole when measuring begins."""
    return (*selection.pids, *(descendants(selection.pids) if selection.descendants else ()))


@dataclass(frozen=True, slots=True)
class _Told:
    """What the last interval ended with."""

    at: int
    losses: Mapping[str, int]
    overhead: Overhead
