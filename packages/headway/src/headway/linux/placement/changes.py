"""Changes to where processes run, as values: each can describe itself, do its change, and take it back.

Taking back looks at the actual state, not at the intended one. It may be called for a step that was never done, half
done, or taken back already, and it leaves alone what somebody else has changed since.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Protocol

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux.procfs.processors import as_list

from .controls import Controls

__all__ = ["PREFIX", "Bind", "Bound", "Change", "Enable", "MakeGroup", "Move", "Partition", "UseNode", "descendants"]

PREFIX = "headway-"
"""The prefix of the names of headway's groups."""
_ROUNDS = 100
"""How often a group is emptied while its processes create new ones."""


class Change(Protocol):
    """One step of a plan."""

    def words(self) -> str:
        """Return what is written where."""

    def back(self) -> str:
        """Return how it is taken back."""

    def do(self, controls: Controls) -> list[str]:
        """Make the change. Return sentences on what came out otherwise than planned.

        Raises HeadwayError, or the OSError of what failed.
        """

    def undo(self, controls: Controls) -> list[str]:
        """Take the change back as far as it was done. Return sentences on what had to be left as it is, and why."""


@dataclass(frozen=True, slots=True)
class Enable:
    """Let the groups below ``root`` have processors of their own."""

    root: str

    @property
    def _file(self) -> str:
        return f"{self.root}/cgroup.subtree_control"

    def words(self) -> str:
        """Return what is written where."""
        return f"write +cpuset to {self._file}"

    def back(self) -> str:
        """Return how it is taken back."""
        return f"write -cpuset to {self._file}, unless others use it by then"

    def do(self, controls: Controls) -> list[str]:
        """Make the change."""
        controls.write(self._file, "+cpuset")
        return []

    def undo(self, controls: Controls) -> list[str]:
        """Take the change back."""
        if "cpuset" not in (controls.read(self._file) or "").split():
            return []
        for group in controls.groups(self.root):
            used = controls.read(f"{group}/cpuset.cpus") or "cpuset" in (
                controls.read(f"{group}/cgroup.subtree_control") or ""
            )
            if used:
                return [f"the cpuset controller stays on in {self.root}: {group} uses it"]
        controls.write(self._file, "-cpuset")
        return []


@dataclass(frozen=True, slots=True)
class MakeGroup:
    """Create a control group."""

    group: str

    def words(self) -> str:
        """Return what is written where."""
        return f"make the group {self.group}"

    def back(self) -> str:
        """Return how it is taken back."""
        return "remove it"

    def do(self, controls: Controls) -> list[str]:
        """Make the change."""
        controls.make(self.group)
        return []

    def undo(self, controls: Controls) -> list[str]:
        """Take the change back."""
        try:
            controls.remove(self.group)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise HeadwayError(f"{self.group} cannot be removed ({error.strerror})") from None
        return []


@dataclass(frozen=True, slots=True)
class Partition:
    """Give a group processors that nobody else may use (a partition; the kernel's cgroup-v2.rst).

    The scheduler balances the threads of a ``root`` partition over its processors. In an ``isolated`` one it does not,
    and the kernel's own unbound work stays away too.
    """

    group: str
    cpus: tuple[int, ...]
    kind: str = "root"

    @property
    def _file(self) -> str:
        return f"{self.group}/cpuset.cpus.partition"

    def words(self) -> str:
        """Return what is written where."""
        text = f"write {as_list(self.cpus)} to {self.group}/cpuset.cpus and {self.kind} to {self._file}"
        return text if self.kind == "root" else f"{text} (root, if the kernel has no {self.kind} partitions)"

    def back(self) -> str:
        """Return how it is taken back."""
        return f"write member to {self._file}"

    def do(self, controls: Controls) -> list[str]:
        """Make the change."""
        controls.write(f"{self.group}/cpuset.cpus", as_list(self.cpus))
        kind, notes = self.kind, []
        try:
            controls.write(self._file, kind)
        except OSError as error:
            if kind == "root" or error.errno != errno.EINVAL:
                raise
            notes.append(f"this kernel has no {kind} partitions (Linux 6.1 has): {self.group} is a root partition")
            kind = "root"
            controls.write(self._file, kind)
        # The kernel accepts the word, and reports afterwards whether it could be done.
        state = controls.read(self._file) or "nothing"
        if state != kind:
            cpus = as_list(self.cpus)
            raise HeadwayError(f"the kernel makes no partition of processors {cpus} ({self._file}: {state})")
        return notes

    def undo(self, controls: Controls) -> list[str]:
        """Take the change back."""
        if controls.read(self._file) not in (None, "", "member"):
            controls.write(self._file, "member")
        return []


@dataclass(frozen=True, slots=True)
class UseNode:
    """Let a group have memory of one NUMA node only, and, if given, only these processors.

    The kernel moves the pages that a process has on other nodes when it comes into the group (cgroup-v2.rst,
    ``cpuset.mems``).
    """

    group: str
    node: int
    cpus: tuple[int, ...]
    """Empty: its processors are set otherwise."""

    def words(self) -> str:
        """Return what is written where."""
        text = f"write {self.node} to {self.group}/cpuset.mems"
        return f"{text} and {as_list(self.cpus)} to {self.group}/cpuset.cpus" if self.cpus else text

    def back(self) -> str:
        """Return how it is taken back."""
        return "it goes with the group; pages that were moved stay where they are then"

    def do(self, controls: Controls) -> list[str]:
        """Make the change."""
        file = f"{self.group}/cpuset.mems"
        controls.write(file, str(self.node))
        if self.cpus:
            controls.write(f"{self.group}/cpuset.cpus", as_list(self.cpus))
        state = controls.read(f"{file}.effective") or "nothing"
        if state != str(self.node):
            raise HeadwayError(f"the kernel does not give memory of node {self.node} ({file}.effective: {state})")
        return []

    def undo(self, controls: Controls) -> list[str]:
        """Take the change back: by then no process is in the group, which is removed next."""
        return []


@dataclass(frozen=True, slots=True)
class Move:
    """Move a process, with all its threads, to another group."""

    pid: int
    birth: int
    group: str
    former: str
    root: str

    def words(self) -> str:
        """Return what is written where."""
        return f"write {self.pid} to {self.group}/cgroup.procs"

    def back(self) -> str:
        """Return how it is taken back."""
        return f"write it, and every process that it has started since, to {self.former}/cgroup.procs"

    def do(self, controls: Controls) -> list[str]:
        """Make the change."""
        if controls.birth(self.pid) != self.birth:
            raise HeadwayError(f"process {self.pid} has ended")
        controls.write(f"{self.group}/cgroup.procs", str(self.pid))
        return []

    def undo(self, controls: Controls) -> list[str]:
        """Take the change back."""
        # A process in the group is the moved one or descends from it. One that has left it was moved by somebody else.
        notes: dict[str, None] = {}
        for _ in range(_ROUNDS):
            # 0 stands for a process that cannot be seen from here. Written to cgroup.procs it would mean headway
            # itself.
            present = [pid for pid in (controls.read(f"{self.group}/cgroup.procs") or "").split() if pid != "0"]
            if not present:
                break
            for pid in present:
                home = self._return(controls, pid)
                if home != self.former:
                    notes[f"{self.former} is gone or accepts no process: {pid} was moved to {home}"] = None
        return list(notes)

    def _return(self, controls: Controls, pid: str) -> str:
        """Move a process to its former group, or to the nearest group above that accepts it. Return that group."""
        home = self.former
        while True:
            try:
                controls.write(f"{home}/cgroup.procs", pid)
            except ProcessLookupError:
                return self.former  # it has ended in the meantime
            except OSError as error:
                if home == self.root or error.errno not in (errno.ENOENT, errno.EBUSY, errno.EOPNOTSUPP, errno.ENODEV):
                    raise HeadwayError(f"{pid} cannot be moved to {home} ({error.strerror})") from None
                home = os.path.dirname(home)
                if not home.startswith(self.root):
                    home = self.root
            else:
                return home


@dataclass(frozen=True, slots=True)
class Bound:
    """A thread and the processors that it may run on, before and after."""

    tid: int
    birth: int
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Let the threads of a process run on some processors only (sched_setaffinity(2))."""

    pid: int
    name: str
    threads: tuple[Bound, ...]

    def words(self) -> str:
        """Return what is written where."""
        sets = sorted({(t.before, t.after) for t in self.threads})
        how = "; ".join(f"{as_list(after)} instead of {as_list(before)}" for before, after in sets)
        many = f"{len(self.threads)} threads" if len(self.threads) > 1 else "the one thread"
        return f"bind {many} of process {self.pid} ({self.name}) to processors {how}"

    def back(self) -> str:
        """Return how it is taken back."""
        return "let each thread run where it could before"

    def do(self, controls: Controls) -> list[str]:
        """Make the change."""
        leader = self.threads[0]
        if controls.birth(leader.tid) != leader.birth:
            raise HeadwayError(f"process {self.pid} has ended")
        known = {t.tid: t for t in self.threads}
        for _ in range(_ROUNDS):
            # A thread created in the meantime has the affinity of its creator.
            now = {tid: known.get(tid, leader) for tid in controls.threads(self.pid)}
            left = [tid for tid, bound in now.items() if controls.affinity(tid) == frozenset(bound.before)]
            for tid in left:
                controls.bind(tid, frozenset(now[tid].after))
            if not left:
                break
        return []

    def undo(self, controls: Controls) -> list[str]:
        """Take the change back."""
        leader = self.threads[0]
        known = {(t.tid, t.birth): t for t in self.threads}
        if controls.birth(leader.tid) != leader.birth:
            return []
        for pid in [self.pid, *descendants(controls, self.pid)]:
            for tid in controls.threads(pid):
                birth = controls.birth(tid)
                bound = known.get((tid, birth or 0))
                if bound is None:
                    if birth is None or birth < leader.birth:
                        continue
                    bound = leader
                if bound.before != bound.after and controls.affinity(tid) == frozenset(bound.after):
                    controls.bind(tid, frozenset(bound.before))
        return []


def descendants(controls: Controls, pid: int) -> Iterable[int]:
    """Return its children, their children, and so on, except those whose parent has ended."""
    of: dict[int, list[int]] = {}
    for other in controls.processes():
        parent = controls.parent(other)
        if parent is not None:
            of.setdefault(parent, []).append(other)
    found = [pid]
    for known in found:
        found += of.get(known, [])
    return found[1:]
