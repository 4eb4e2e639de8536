"""Depth on demand: which threads are to be measured at the level ``calls`` while all others stay at ``switches``.

About once a second the policy gets what each thread did since the last time. A thread, process or cgroup for which a
condition holds is deep from then on, until no condition has held for `HOLD_NS`. The policy reads no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from headway.conditions import Condition, Scope
from headway.dataclass import dataclass

__all__ = ["HOLD_NS", "DepthPolicy", "Target", "ThreadTimes"]

HOLD_NS = 5_000_000_000
"""For so long no condition has to hold before a target is deep no more, ns."""
LEAST = 0.5
"""A target must have been measured for this share of the period at least, or it is judged later: of a thread that was
born just now, a moment of waiting is all that there is."""


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """What a thread did in a period, by state."""

    tid: int
    pid: int
    birth: int
    times: Mapping[str, int]
    cgroup: str = ""
    """The path of its control group, where a condition is about those."""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """What is measured deep: a thread, or all threads of a process or of a cgroup."""

    scope: Scope
    id: int = 0
    """Of the thread or the process."""
    birth: int = 0
    """Of the thread: ids are reused."""
    path: str = ""
    """Of the cgroup."""

    def __str__(self) -> str:
        return f"{self.scope.value} {ascii(self.path)[1:-1] if self.scope is Scope.CGROUP else self.id}"


_OF: Mapping[Scope, Callable[[ThreadTimes], Target]] = {
    Scope.THREAD: lambda thread: Target(Scope.THREAD, thread.tid, thread.birth),
    Scope.PROCESS: lambda thread: Target(Scope.PROCESS, thread.pid),
    Scope.CGROUP: lambda thread: Target(Scope.CGROUP, path=thread.cgroup),
}


class DepthPolicy:
    """Decides which targets are deep. ``conditions``: one of them has to hold for the target of its scope."""

    def __init__(self, conditions: Sequence[Condition], hold_ns: int = HOLD_NS) -> None:
        self._conditions, self._hold = conditions, hold_ns
        self._scopes = {condition.scope for condition in conditions}
        self._quiet: dict[Target, int] = {}
        """Of each deep target, for how long no condition has held, ns."""

    @property
    def targets(self) -> frozenset[Target]:
        """What is to be deep now."""
        return frozenset(self._quiet)

    @property
    def needs_cgroups(self) -> bool:
        """Whether a condition is about cgroups."""
        return Scope.CGROUP in self._scopes

    def feed(self, elapsed_ns: int, threads: Iterable[ThreadTimes]) -> frozenset[Target]:
        """Take over what every measured thread did in a period, and return what is to be deep from now on.

        A target of which no thread lives is left out.
        """
        times, living = self._added_up(threads)
        for target in [one for one in self._quiet if one not in living]:
            del self._quiet[target]
        for target in living:
            had = times[target]
            holds = sum(had.values()) >= LEAST * elapsed_ns and any(
                condition.scope is target.scope and condition.holds(had) for condition in self._conditions
            )
            if holds:
                self._quiet[target] = 0
            elif target in self._quiet:
                self._quiet[target] += elapsed_ns
                if self._quiet[target] >= self._hold:
                    del self._quiet[target]
        return self.targets

    def covers(self, tid: int, pid: int, birth: int, cgroup: str = "") -> Scope | None:
        """Return the widest scope in which a thread is deep now; None: it is not."""
        thread = ThreadTimes(tid, pid, birth, {}, cgroup)
        return next((scope for scope in _WIDEST_FIRST if _OF[scope](thread) in self._quiet), None)

    def _added_up(self, threads: Iterable[ThreadTimes]) -> tuple[dict[Target, dict[str, int]], set[Target]]:
        """Return the times of each target by state, and the targets that have a living thread."""
        times: dict[Target, dict[str, int]] = {}
        living = set()
        for thread in threads:
            for scope in self._scopes:
                target = _OF[scope](thread)
                total = times.setdefault(target, {})
                for state, time in thread.times.items():
                    total[state] = total.get(state, 0) + time
                if not thread.ended:
                    living.add(target)
        return times, living


_WIDEST_FIRST = (Scope.CGROUP, Scope.PROCESS, Scope.THREAD)
