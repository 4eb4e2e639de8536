"""Weights that are changed again and again: what the undo journal keeps of them, and how they are taken back.

Each knows every value that headway has given. Whatever has another value now has got it from somebody else, and is left
as it is.
"""

from __future__ import annotations

from typing import Protocol

from headway.dataclass import dataclass

from .changes import descendants
from .controls import Controls

__all__ = ["GroupWeight", "Niced", "Reniced", "SessionNice", "Undoable", "Weight", "added"]

_LOWEST, _HIGHEST = -20, 19
_ROUNDS = 100
"""How often the threads of a process are looked at while it creates new ones."""


class Undoable(Protocol):
    """Something that was changed, and can be taken back."""

    def back(self) -> str:
        """Return how it is taken back."""

    def undo(self, controls: Controls) -> list[str]:
        """Take it back as far as it was done. Return sentences on what had to be left as it is, and why."""


class Weight(Undoable, Protocol):
    """A weight that was changed."""

    @property
    def subject(self) -> str:
        """What it is of."""


def added(nice: int, offset: int) -> int:
    """Return the nice value that is nearest to the sum."""
    return min(max(nice + offset, _LOWEST), _HIGHEST)


@dataclass(frozen=True, slots=True)
class Niced:
    """A thread and its nice value before."""

    tid: int
    birth: int
    before: int


@dataclass(frozen=True, slots=True)
class Reniced:
    """The nice values of the threads of a process (setpriority(2)), and of the processes that it has started."""

    pid: int
    birth: int
    name: str
    before: int
    """The nice value that its threads had."""
    others: tuple[Niced, ...]
    """The threads that had another one."""
    offsets: tuple[int, ...]
    """All that headway has added to them."""
    apart: tuple[int, ...] = ()
    """Processes that are not looked at, because there are records of their own for them."""

    @property
    def subject(self) -> str:
        """What was changed."""
        return f"process {self.pid}"

    def back(self) -> str:
        """Return how it is taken back."""
        return f"set the nice values of process {self.pid} ({self.name}) to what they were"

    def undo(self, controls: Controls) -> list[str]:
        """Take it back."""
        if controls.birth(self.pid) != self.birth:
            return []
        known = {(thread.tid, thread.birth): thread.before for thread in self.others}
        strange: set[int] = set()
        for _ in range(_ROUNDS):
            there = [self.pid, *(pid for pid in descendants(controls, self.pid) if pid not in self.apart)]
            changed = [self._undo_thread(controls, tid, known, strange) for p in there for tid in controls.threads(p)]
            if not any(changed):  # a thread that was created meanwhile has the value of its creator
                break
        if not strange:
            return []
        many = f"{len(strange)} threads keep the nice values" if len(strange) > 1 else "a thread keeps the nice value"
        return [f"{many} that somebody else gave {'them' if len(strange) > 1 else 'it'}, in process {self.pid}"]

    def _undo_thread(self, controls: Controls, tid: int, known: dict[tuple[int, int], int], strange: set[int]) -> bool:
        now, birth = controls.nice(tid), controls.birth(tid)
        if now is None or birth is None:
            return False
        before = known.get((tid, birth), self.before)
        if now == before:
            return False
        if now not in {added(before, offset) for offset in self.offsets}:
            if birth <= self.birth or (tid, birth) in known:
                strange.add(tid)
            return False
        controls.renice(tid, before)
        return True


@dataclass(frozen=True, slots=True)
class SessionNice:
    """The nice value of a session's group of threads (sched_autogroup; sched(7))."""

    group: str
    """The kernel's name of it: ``autogroup-25``."""
    before: int
    values: tuple[int, ...]
    """All that headway has given it."""

    @property
    def subject(self) -> str:
        """What was changed."""
        return self.group

    def back(self) -> str:
        """Return how it is taken back."""
        return f"write {self.before} to /proc/PID/autogroup of a process in {self.group}"

    def undo(self, controls: Controls) -> list[str]:
        """Take it back. A group whose last process has ended is gone."""
        for pid in controls.processes():
            found = controls.session_group(pid)
            if found is None or found[0] != self.group:
                continue
            if found[1] == self.before:
                return []
            if found[1] not in self.values:
                return [f"{self.group} keeps the nice value {found[1]}, which somebody else gave it"]
            if controls.renice_session(pid, self.before):
                return []
        return []


@dataclass(frozen=True, slots=True)
class GroupWeight:
    """The processor weight of a control group (``cpu.weight``; the kernel's cgroup-v2.rst)."""

    group: str
    before: int
    values: tuple[int, ...]
    """All that headway has given it."""

    @property
    def subject(self) -> str:
        """What was changed."""
        return self.group

    @property
    def file(self) -> str:
        """The control file."""
        return f"{self.group}/cpu.weight"

    def back(self) -> str:
        """Return how it is taken back."""
        return f"write {self.before} to {self.file}"

    def undo(self, controls: Controls) -> list[str]:
        """Take it back."""
        now = controls.read(self.file)
        if now is None or now == str(self.before):
            return []
        if now not in map(str, self.values):
            return [f"{self.file} stays {now}, which somebody else wrote"]
        controls.write(self.file, str(self.before))
        return []
