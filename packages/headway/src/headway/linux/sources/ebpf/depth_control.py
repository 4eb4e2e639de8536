"""Depth on demand while a measurement runs: look about once a second at what threads do, and make some of them deep."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headway.conditions import Condition
from headway.linux.bpf.programs.attaching import Attachments
from headway.linux.bpf.reading.memory import BpfMaps
from headway.linux.bpf.shared.layout import DEPTHS
from headway.linux.bpf.threads._cells import Cells
from headway.linux.levels import Level
from headway.linux.procfs.cgroups import read_origin
from headway.model import Thread

from .depth import HOLD_NS, DepthPolicy, Target, ThreadTimes
from .division import divided
from .ended import EndedThreads
from .intervals import since_earlier

__all__ = ["DepthControl"]

PERIOD_NS = 1_000_000_000
"""How often the conditions are looked at."""
CGROUP_NS = 10_000_000_000
"""How often the cgroup of a process is read anew."""
_NAMED = 5
"""Targets that are named in words."""


class DepthControl:
    """Makes threads deep while a condition holds for them, from ``start`` on, ns of CLOCK_MONOTONIC.

    The programs of `Level.CALLS` are attached only while a thread is deep. ``begins`` is called when one becomes so.
    """

    def __init__(
        self,
        conditions: Sequence[Condition],
        memory: BpfMaps,
        attachments: Attachments,
        ended: EndedThreads,
        start: int,
        begins: Callable[[], None],
    ) -> None:
        self._conditions = conditions
        self._policy = DepthPolicy(conditions, HOLD_NS)
        self._memory, self._attachments, self._begins = memory, attachments, begins
        self._told: dict[tuple[int, int], Cells] = {}
        self._ended: list[Thread] = []
        ended.told = self._ended.append
        self._since = start
        self._cgroups: dict[int, tuple[int, str]] = {}
        self.targets: frozenset[Target] = frozenset()
        """What is deep now."""
        self._spent = 0
        self._seen: dict[Target, None] = {}

    def service(self, announce: Callable[[], int]) -> float:
        """Look at the conditions if it is time to. Return the seconds until the next look.

        ``announce`` takes a snapshot and returns its moment. Raises HeadwayError where programs cannot be attached.
        """
        if time.monotonic_ns() - self._since >= PERIOD_NS:
            at = announce()
            before, self._since = self._since, at
            targets = self._policy.feed(at - before, self._threads(before, at))
            if self.targets:
                self._spent += at - before
            self._apply(targets)
        return max(0.0, (self._since + PERIOD_NS - time.monotonic_ns()) / 1e9)

    def describe(self) -> str:
        """Return in words what was asked for, what is deep now, and what was."""
        asked = " or ".join(str(condition) for condition in self._conditions)
        spent = self._spent + (time.monotonic_ns() - self._since if self.targets else 0)
        if not self._seen:
            return f"calls and faults are seen where {asked}"
        return (
            f"calls and faults were seen for {spent / 1e9:.1f} s, where {asked}: of {_named(list(self._seen))}"
            f"; now of {_named(sorted(self.targets, key=str)) if self.targets else 'none'}"
        )

    def _threads(self, before: int, at: int) -> list[ThreadTimes]:
        """Return what each thread did in the period. A thread that has just executed a program is left out once."""
        rows, told = [], {}
        for row in self._memory.read_threads(at):
            key = row.tid, row.birth
            earlier = self._told.pop(key, None)
            new, told[key] = since_earlier(earlier, row.cells)
            if earlier is not None or row.birth >= before:
                since = max(before, row.birth)
                rows.append(Thread(row.tid, row.pid, row.name, row.birth, since, None, at, at - since, new))
        for thread in self._ended:
            earlier, cells = self._told.pop(thread.key, None), thread.states
            assert isinstance(cells, Cells)
            if earlier is not None or thread.birth >= before:
                cells = cells if earlier is None else cells.less(earlier)
                since = max(before, thread.birth)
                rows.append(
                    Thread(
                        thread.tid,
                        thread.pid,
                        thread.name,
                        thread.birth,
                        since,
                        thread.end,
                        thread.until,
                        thread.until - since,
                        cells,
                    )
                )
        self._ended.clear()
        self._told = told
        return [
            ThreadTimes(
                thread.tid,
                thread.pid,
                thread.birth,
                {state: cell.time for state, cell in thread.states.items()},
                self._cgroup(thread.pid),
                thread.end is not None,
            )
            for thread in divided(rows)
        ]

    def _cgroup(self, pid: int) -> str:
        """Return the path of a process's cgroup, where that matters; it may be as old as `CGROUP_NS`."""
        if not self._policy.needs_cgroups:
            return ""
        now = time.monotonic_ns()
        read, path = self._cgroups.get(pid, (0, ""))
        if now - read >= CGROUP_NS:
            if len(self._cgroups) > 2 * len(self._told) + 1000:
                self._cgroups.clear()
            origin = read_origin(pid)
            path = path if origin is None else origin.path
            self._cgroups[pid] = now, path
        return path

    def _apply(self, targets: frozenset[Target]) -> None:
        """Make deep what is to be, and nothing else. Threads of a process or a cgroup come and go, so look at all.

        Programs are attached before a thread is deep, and detached when none is. So what a deep thread does is seen.
        """
        if targets:
            changes = {}
            for row in self._memory.depths():
                scope = self._policy.covers(row.tid, row.pid, row.birth, self._cgroup(row.pid))
                deep = 0 if scope is None else DEPTHS[scope.value]
                if deep != row.deep:
                    changes[row.record] = deep
            if not self.targets:
                self._attachments.set_level(Level.CALLS, by_samples=True)
                self._begins()
            if changes or not self.targets:
                self._memory.set_depths(changes)
            self._seen.update(dict.fromkeys(sorted(targets, key=str)))
        elif self.targets:
            self._memory.set_undivided(True)
            self._attachments.set_level(Level.SWITCHES)
        self.targets = targets


def _named(targets: Sequence[Target]) -> str:
    more = f" and {len(targets) - _NAMED} more" if len(targets) > _NAMED else ""
    return ", ".join(str(target) for target in targets[:_NAMED]) + more
