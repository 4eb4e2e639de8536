"""Remedies: what a program can do about lost time, safely and reversibly. This is the decision, not its execution.

A thread that waits for a processor waits for another thread to leave it. If that thread is of its own process, no
division of the processors helps. If it is of other processes, the process can get processors of its own: as many as it
could use, provided that at least one is left for the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from headway.dataclass import dataclass
from headway.model.cause import Behind, Cause
from headway.model.indices import processor_time
from headway.model.kinds import Kind
from headway.model.ledger import Ledger, Thread

__all__ = ["Contention", "Contentions", "Remedy", "able", "time_in"]

_TOLERANCE = 0.15
"""A demand that exceeds a whole number of processors by this much is not worth another processor."""
_NOTABLE = 0.10
"""A thread is a neighbour if it had at least this share of the time in question."""
_NEIGHBOURS = 16


@dataclass(frozen=True, slots=True)
class Remedy:
    """A remedy for a process: what a program can do from outside.

    ``action`` is ``partition`` (give it processors of its own), ``interrupts`` (keep the interrupts of devices, and
    other work of the kernel, off its processors) or ``memory`` (give it a part of the memory or the cache of its own).
    """

    action: str
    pid: int
    processors: int
    """The number of processors that it needs."""
    neighbours: tuple[int, ...]
    """The tids of other processes' threads, the one with most time first: those that ran on the processors meanwhile,
    or, for ``memory``, those that waited for memory too.
    """


@dataclass(frozen=True, slots=True)
class Contention:
    """How the threads of one process share the processors with others."""

    demand: float
    """The number of processors that the process could use, on average over the window."""
    tids: Set[int]
    """Its threads."""
    among_itself: bool
    """Whether mostly its own threads wait for each other."""
    holder: Cause | None
    """The thread that had the processor for most of the time while this thread was ready, where it was recorded."""
    remedy: Remedy | None
    name: str
    """The process's name."""
    namesakes: int
    """The number of processes with this name, itself included: a server may have one for each connection."""
    demand_of_name: float
    """The number of processors that all of them could use."""


def able(times: Mapping[Kind, int]) -> int:
    """Return the time in which a thread was able to run, whether it ran or not."""
    return processor_time(times) + times[Kind.READY] + times[Kind.STOLEN] + times[Kind.OVERHEAD]


def time_in(thread: Thread, state: str) -> int:
    """Return the time of a thread in one state."""
    return thread.states[state].time if state in thread.states else 0


@dataclass(frozen=True, slots=True)
class _Process:
    """What a process wants of the processors."""

    demand: float
    """The number of processors that it had work for, on average."""
    wanted: int
    """The same as a whole number."""
    tids: Set[int]
    remedy: Remedy | None
    """What would help unless its threads wait for each other."""


class Contentions:
    """How the processes of a ledger share the processors. It is made once and asked for each waiting thread."""

    def __init__(self, ledger: Ledger, processors: int) -> None:
        """Prepare the contentions of a ledger. ``processors`` is their number, 0 if it is not known."""
        self._ledger, self._processors = ledger, processors
        self._duration = ledger.window.duration
        self._of: dict[int, list[Thread]] = {}
        self._processes: dict[int, _Process] = {}
        self._busy: list[tuple[int, Thread]] = []
        self._able: Counter[int] = Counter()
        for thread in ledger.threads:
            self._of.setdefault(thread.pid, []).append(thread)
            time = able(thread.times())
            self._able[thread.pid] += time
            if thread.end is None and time > _NOTABLE * self._duration:
                self._busy.append((time, thread))
        self._names = {pid: _name(pid, threads) for pid, threads in self._of.items()}
        self._namesakes = Counter(self._names.values())
        self._able_of_name: Counter[str] = Counter()
        for pid, time in self._able.items():
            self._able_of_name[self._names[pid]] += time

    def of(self, thread: Thread) -> Contention:
        """Return with whom a thread's process shares the processors, and what can be done about it."""
        process, processors = self._process(thread.pid), self._processors
        demand, own = process.demand, process.tids
        held = [c for c in thread.causes if c.behind is Behind.HOLDER and c.state == "ready" and c.tid is not None]
        by_own, by_others = (time_in(thread, state) for state in ("ready.own", "ready.neighbour"))
        if by_own or by_others:
            among_itself = by_own > by_others
        elif held:
            among_itself = 2 * sum(c.time for c in held if c.tid in own) > sum(c.time for c in held)
        else:
            among_itself = bool(processors) and demand > processors + _TOLERANCE
        holder = max(held, key=lambda c: (c.time, c.name), default=None)
        remedy = None if among_itself else process.remedy
        name = self._names[thread.pid]
        of_name = self._able_of_name[name] / self._duration if self._duration else 0.0
        return Contention(demand, own, among_itself, holder, remedy, name, self._namesakes[name], of_name)

    def remedy(self, thread: Thread, action: str) -> Remedy | None:
        """Return a remedy for a thread's process; None: it has ended, or needs all processors to itself."""
        process = self._process(thread.pid)
        if action != "memory":
            return None if process.remedy is None else replace(process.remedy, action=action, neighbours=())
        if not self._is_changeable(thread.pid):
            return None
        return Remedy(action, thread.pid, process.wanted, self._users_of_memory(process.tids))

    def _is_changeable(self, pid: int) -> bool:
        """Return whether a process is there to be changed: it has not ended, and is not of the reference machine."""
        return self._ledger.source != "machine" and pid > 1 and any(t.end is None for t in self._of[pid])

    def _users_of_memory(self, own: Set[int]) -> tuple[int, ...]:
        """Return the tids of other processes that waited for memory too: who waits for it uses it."""
        least = _NOTABLE * self._duration
        times = ((self._ledger.times(t)[Kind.MEMORY], t.tid) for _, t in self._busy if t.tid not in own)
        most = sorted((row for row in times if row[0] > least), key=lambda row: (-row[0], row[1]))
        return tuple(tid for _, tid in most[:_NEIGHBOURS])

    def _process(self, pid: int) -> _Process:
        """Return what is the same for all threads of a process. There may be thousands of them."""
        known = self._processes.get(pid)
        if known is None:
            mine, processors = self._of[pid], self._processors
            demand = self._able[pid] / self._duration if self._duration else 0.0
            own = {t.tid for t in mine}
            wanted = max(math.ceil(demand - _TOLERANCE), 1)
            enough = wanted < processors or not processors
            remedy = None
            if enough and self._is_changeable(pid):
                remedy = Remedy("partition", pid, wanted, self._neighbours(mine, own))
            known = self._processes[pid] = _Process(demand, wanted, own, remedy)
        return known

    def _neighbours(self, mine: list[Thread], own: set[int]) -> tuple[int, ...]:
        """Return the tids that had the processor while threads of the process were ready.

        If nobody was recorded, return the other threads that used or wanted a processor.
        """
        found: Counter[int] = Counter()
        for thread in mine:
            for cause in thread.causes:
                if cause.behind is Behind.HOLDER and cause.state == "ready" and cause.tid and cause.tid not in own:
                    found[cause.tid] += cause.time
        least = _NOTABLE * sum(t.times()[Kind.READY] for t in mine)
        if not found:
            found.update({t.tid: time for time, t in self._busy if t.tid not in own})
            least = 0.0
        most = sorted(((time, tid) for tid, time in found.items() if time > least), key=lambda row: (-row[0], row[1]))
        return tuple(tid for _, tid in most[:_NEIGHBOURS])


def _name(pid: int, threads: Sequence[Thread]) -> str:
    """Return the name of a process: that of its main thread, or of the first one that is known."""
    return next((thread.name for thread in threads if thread.tid == pid), threads[0].name)
