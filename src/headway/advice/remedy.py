"""What can be done about lost time by a program, safely and reversibly: a decision, not its execution.

A thread that waits for a processor waits behind somebody. Where that is its own process, no division of the processors
helps; where it is others, the process can have processors of its own: as many as it could use, if that leaves at least
one to the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from headway.model.cause import Behind, Cause
from headway.model.indices import processor_time
from headway.model.kinds import Kind
from headway.model.ledger import Ledger, Thread

__all__ = ["Contention", "Contentions", "Remedy", "able"]

_TOLERANCE = 0.15
"""A demand of this much more than a whole number of processors is not worth another one."""
_NOTABLE = 0.10
"""A neighbour is one that had this share of the time in question."""
_NEIGHBOURS = 16


@dataclass(frozen=True, slots=True)
class Remedy:
    """Give a process processors of its own (``action``: partition)."""

    action: str
    pid: int
    processors: int
    """How many it needs."""
    neighbours: tuple[int, ...]
    """Threads (tids) of other processes that were seen on the processors meanwhile, the one with most time first."""


@dataclass(frozen=True, slots=True)
class Contention:
    """Whom the threads of a process share the processors with."""

    demand: float
    """So many processors the process could use, on average over the window."""
    among_itself: bool
    """Whether it is mostly its own threads that wait for each other."""
    holder: Cause | None
    """Who most had the processor while this thread was ready, where it was recorded."""
    remedy: Remedy | None


def able(times: Mapping[Kind, int]) -> int:
    """Time in which a thread was able to run, whether it did or not."""
    return processor_time(times) + times[Kind.READY] + times[Kind.STOLEN] + times[Kind.OVERHEAD]


class Contentions:
    """Whom the processes of a ledger share the processors with; made once, asked for each thread that waits."""

    def __init__(self, ledger: Ledger, processors: int) -> None:
        """``processors``: how many there are, 0 where that is not known."""
        self._ledger, self._processors = ledger, processors
        self._duration = ledger.window.duration
        self._of: dict[int, list[Thread]] = {}
        self._busy: list[tuple[int, Thread]] = []
        for thread in ledger.threads:
            self._of.setdefault(thread.pid, []).append(thread)
            time = able(thread.times())
            if thread.end is None and time > _NOTABLE * self._duration:
                self._busy.append((time, thread))

    def of(self, thread: Thread) -> Contention:
        """Whom a thread's process shares the processors with, and what can be done about it."""
        mine, processors = self._of[thread.pid], self._processors
        demand = sum(able(t.times()) for t in mine) / self._duration if self._duration else 0.0
        own = {t.tid for t in mine}
        held = [c for c in thread.causes if c.behind is Behind.HOLDER and c.state == "ready" and c.tid is not None]
        if held:
            among_itself = 2 * sum(c.time for c in held if c.tid in own) > sum(c.time for c in held)
        else:
            among_itself = bool(processors) and demand > processors + _TOLERANCE
        holder = max(held, key=lambda c: (c.time, c.name), default=None)
        remedy = None
        wanted = max(math.ceil(demand - _TOLERANCE), 1)
        enough = wanted < processors or not processors
        alive = any(t.end is None for t in mine)
        if alive and enough and not among_itself and self._ledger.source != "machine" and thread.pid > 1:
            remedy = Remedy("partition", thread.pid, wanted, self._neighbours(mine, own))
        return Contention(demand, among_itself, holder, remedy)

    def _neighbours(self, mine: list[Thread], own: set[int]) -> tuple[int, ...]:
        """Who had the processor while threads of the process were ready; else who else was seen to want one."""
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
