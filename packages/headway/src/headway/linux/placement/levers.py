"""The levers that set how much of the processors a party gets: nice values, and weights of control groups.

A lever is asked first what it wants, and does it when that is in the undo journal.
"""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from headway.balance import steps_for
from headway.errors import HeadwayError
from headway.linux.privileges import LinuxCapability, effective
from headway.linux.procfs.cgroup_folders import cgroup_folder

from .controls import Controls
from .weights import GroupWeight, Niced, Reniced, SessionNice, Weight, added

__all__ = ["GroupLever", "Lever", "ProcessLever", "SessionLever", "ThreadLever", "lowest_nice", "process_levers"]

_ROUNDS = 10
"""How often the threads of a process are looked at while it creates new ones. The next interval finds the rest."""
_FINE = 1.05
"""The factor of one step of a control group's weight."""


class Lever(Protocol):
    """Sets the weight of one party."""

    def words(self) -> str:
        """Return what will be changed."""

    def want(self, weight: float, pids: Iterable[int] = ()) -> bool:
        """Decide how to give it so much of the weight that it had; ``pids``: the processes of the party that are seen.

        Return whether `records` has changed: then it has to be kept before `apply`.
        """

    def apply(self) -> None:
        """Do what was decided. Raises HeadwayError if the system refuses."""

    def records(self) -> tuple[Weight, ...]:
        """Return what takes everything back."""

    def set(self) -> str:
        """Return what is set now, in a word or two."""


def lowest_nice() -> int:
    """Return the lowest nice value that this process may set (setpriority(2), RLIMIT_NICE)."""
    if LinuxCapability.SYS_NICE in effective():
        return -20
    limit = resource.getrlimit(resource.RLIMIT_NICE)[0]
    return -20 if limit == resource.RLIM_INFINITY else min(max(20 - limit, -20), 20)


class _Niceness:
    """The nice values of the threads of one process."""

    def __init__(self, controls: Controls, pid: int, parent: Reniced | None, apart: Sequence[int] = ()) -> None:
        """``parent``: of the process that has started it, or that one's. Raises ProcessLookupError if it has ended."""
        self._controls = controls
        birth, now = controls.birth(pid), controls.nice(pid)
        if birth is None or now is None:
            raise ProcessLookupError(errno.ESRCH, "it has ended")
        given = {} if parent is None else {added(parent.before, offset): parent.before for offset in parent.offsets}
        self.record = Reniced(pid, birth, controls.name(pid), given.get(now, now), (), (), tuple(apart))
        others = [
            Niced(tid, born, given.get(nice, nice))
            for tid in controls.threads(pid)
            if (born := controls.birth(tid)) is not None and (nice := controls.nice(tid)) is not None
        ]
        self.record = replace(self.record, others=tuple(one for one in others if one.before != self.record.before))
        if parent is not None:
            self.record = replace(self.record, offsets=parent.offsets)

    def note(self, offset: int) -> bool:
        """Put an offset into the record. Return whether it was not there."""
        if offset in self.record.offsets:
            return False
        self.record = replace(self.record, offsets=(*self.record.offsets, offset))
        return True

    def set(self, offset: int, only: int | None = None) -> None:
        """Add the offset to the nice values of all threads, or of one only. Values that others gave are left alone."""
        controls, record = self._controls, self.record
        known = {one.tid: one.before for one in record.others}
        for _ in range(_ROUNDS):
            changed = False
            for tid in [only] if only is not None else controls.threads(record.pid):
                before, now = known.get(tid, record.before), controls.nice(tid)
                ours = now == before or now in {added(before, one) for one in record.offsets}
                if now is not None and ours and now != added(before, offset):
                    controls.renice(tid, added(before, offset))
                    changed = True
            if not changed:
                return


class _Steps:
    """The nice values that a party is lowered by."""

    def __init__(self, controls: Controls) -> None:
        self.controls, self.offset = controls, 0

    def decide(self, weight: float) -> bool:
        """Return whether another offset is wanted."""
        before, self.offset = self.offset, steps_for(weight, self.offset)
        return before != self.offset


def _renice(act: Iterable[tuple[_Niceness, int, int | None]]) -> None:
    for process, offset, only in act:
        try:
            process.set(offset, only)
        except OSError as error:
            raise HeadwayError(
                f"the nice values of process {process.record.pid} cannot be set ({error.strerror})"
            ) from None


class ProcessLever:
    """The nice values of a process and those that it has started."""

    def __init__(self, controls: Controls, pid: int, apart: Sequence[int]) -> None:
        """``apart``: processes that are parties of their own."""
        self._steps, self._apart = _Steps(controls), tuple(other for other in apart if other != pid)
        self._root = _Niceness(controls, pid, None, self._apart)
        self._all = {pid: self._root}
        self._due = False

    def words(self) -> str:
        """Return what will be changed."""
        record = self._root.record
        return f"the nice values of process {record.pid} ({record.name}), now {record.before}"

    def want(self, weight: float, pids: Iterable[int] = ()) -> bool:
        """Decide."""
        there, new = {*pids, self._root.record.pid}, False
        for pid in self._all.keys() - there:
            if self._steps.controls.birth(pid) != self._all[pid].record.birth:
                del self._all[pid]
        for pid in sorted(there):
            if pid not in self._all:
                try:
                    self._all[pid] = _Niceness(self._steps.controls, pid, self._root.record)
                except ProcessLookupError:
                    continue
                new = True
        changed = self._steps.decide(weight)
        self._due = self._due or new or changed
        if self._due:
            noted = [process.note(self._steps.offset) for process in self._all.values()]
            return new or any(noted)
        return False

    def apply(self) -> None:
        """Do it."""
        if self._due:
            _renice((process, self._steps.offset, None) for process in self._all.values())
            self._due = False

    def records(self) -> tuple[Weight, ...]:
        """Return what takes it back: first the process itself, whose record covers what is not known yet."""
        others = [process.record for pid, process in self._all.items() if process is not self._root]
        apart = (*self._apart, *(record.pid for record in others))
        return (replace(self._root.record, apart=apart), *others)

    def set(self) -> str:
        """Return the nice value."""
        return f"nice {added(self._root.record.before, self._steps.offset)}"


class ThreadLever:
    """The nice value of one thread. All levers of a process share what is known of that (`of_process`)."""

    def __init__(self, process: _Niceness, controls: Controls, tid: int) -> None:
        self._process, self._tid, self._steps, self._due = process, tid, _Steps(controls), True

    @staticmethod
    def of_process(controls: Controls, pid: int) -> _Niceness:
        """Return what the levers of its threads share. Raises ProcessLookupError if it has ended."""
        return _Niceness(controls, pid, None)

    def words(self) -> str:
        """Return what will be changed."""
        return f"the nice value of thread {self._tid} of process {self._process.record.pid}"

    def want(self, weight: float, pids: Iterable[int] = ()) -> bool:
        """Decide. A new thread has the nice value of its creator, so it is set in any case."""
        self._due = self._steps.decide(weight) or self._due
        return self._due and self._process.note(self._steps.offset)

    def apply(self) -> None:
        """Do it."""
        if self._due:
            _renice([(self._process, self._steps.offset, self._tid)])
            self._due = False

    def records(self) -> tuple[Weight, ...]:
        """Return what takes it back, which is the same for all threads of the process."""
        return (self._process.record,)

    def set(self) -> str:
        """Return the nice value."""
        return f"nice {added(self._process.record.before, self._steps.offset)}"


class SessionLever:
    """The nice value of the groups of threads in which the sessions of a process, and of those it started, are."""

    def __init__(self, controls: Controls, pid: int, apart: Sequence[str]) -> None:
        """``apart``: the groups of other parties."""
        self._steps, self._apart, self._pid, self._due = _Steps(controls), apart, pid, False
        self._groups: dict[str, SessionNice] = {}
        self._first: dict[str, int] = {}
        self._looked: set[int] = set()
        self._look([pid])

    def _look(self, pids: Iterable[int]) -> bool:
        new = False
        for pid in pids:
            if pid in self._looked:
                continue
            self._looked.add(pid)
            found = self._steps.controls.session_group(pid)
            if found is not None and found[0] not in (*self._groups, *self._apart):
                self._groups[found[0]], new = SessionNice(found[0], found[1], ()), True
                self._first[found[0]] = pid
        return new

    def words(self) -> str:
        """Return what will be changed."""
        ((name, record), *_) = self._groups.items()
        return f"the nice value of {name}, the session of process {self._pid}, now {record.before}"

    def want(self, weight: float, pids: Iterable[int] = ()) -> bool:
        """Decide."""
        new = self._look(pids)
        self._due = self._steps.decide(weight) or new or self._due
        if not self._due:
            return False
        for name, record in self._groups.items():
            value = added(record.before, self._steps.offset)
            if value not in record.values:
                self._groups[name], new = replace(record, values=(*record.values, value)), True
        return new

    def apply(self) -> None:
        """Do it."""
        if not self._due:
            return
        controls, self._due = self._steps.controls, False
        for name, record in self._groups.items():
            wanted = added(record.before, self._steps.offset)
            for pid in [self._first[name], *self._looked]:
                found = controls.session_group(pid)
                if found is None or found[0] != name:
                    continue
                if found[1] != wanted and found[1] in (record.before, *record.values):
                    self._set(pid, wanted)
                break

    def _set(self, pid: int, value: int) -> None:
        try:
            self._steps.controls.renice_session(pid, value)
        except BlockingIOError:  # without CAP_SYS_ADMIN the kernel takes ten a second, of all processes together
            self._due = True
        except OSError as error:
            raise HeadwayError(f"/proc/{pid}/autogroup cannot be written ({error.strerror})") from None

    def records(self) -> tuple[Weight, ...]:
        """Return what takes it back."""
        return tuple(self._groups.values())

    def set(self) -> str:
        """Return the nice value."""
        (record, *_) = self._groups.values()
        return f"nice {added(record.before, self._steps.offset)}"


class GroupLever:
    """The weight of a control group (``cpu.weight``)."""

    def __init__(self, controls: Controls, path: str) -> None:
        """Raises HeadwayError if the group has no weight, or it may not be set."""
        self._controls, self.group, self._step = controls, str(cgroup_folder(path).resolve()), 0
        file = f"{self.group}/cpu.weight"
        before = controls.read(file)
        if before is None:
            raise HeadwayError(
                f"{self.group} has no cpu.weight: that takes cgroup v2, and +cpu in cgroup.subtree_control above it"
            )
        if not before.isdecimal() or not 1 <= int(before) <= 10_000:
            raise HeadwayError(f"{file} is {before!a:.40}, so it is not changed (cpu.idle may be 1)")
        if not controls.may_write(file):
            raise HeadwayError(f"{file} cannot be written: only root can, or the user that the group is delegated to")
        self._record, self._due = GroupWeight(self.group, int(before), ()), False

    @property
    def _value(self) -> int:
        return min(max(round(self._record.before * _FINE**-self._step), 1), 10_000)

    def words(self) -> str:
        """Return what will be changed."""
        return f"{self._record.file}, now {self._record.before}"

    def want(self, weight: float, pids: Iterable[int] = ()) -> bool:
        """Decide."""
        before, self._step = self._step, steps_for(weight, self._step, _FINE)
        self._due = self._due or before != self._step
        if not self._due or self._value in self._record.values:
            return False
        self._record = replace(self._record, values=(*self._record.values, self._value))
        return True

    def apply(self) -> None:
        """Do it, unless somebody else has written another weight. A group that is gone is left alone."""
        if not self._due:
            return
        self._due, record = False, self._record
        now = self._controls.read(record.file)
        if now not in (str(self._value), None) and now in map(str, (record.before, *record.values)):
            try:
                self._controls.write(record.file, str(self._value))
            except FileNotFoundError:
                pass
            except OSError as error:
                raise HeadwayError(f"{record.file} cannot be written ({error.strerror})") from None

    def records(self) -> tuple[Weight, ...]:
        """Return what takes it back."""
        return (self._record,)

    def set(self) -> str:
        """Return the weight."""
        return f"weight {self._value}"


def process_levers(controls: Controls, pids: Sequence[int]) -> Mapping[int, Lever]:
    """Return what sets the weights of these processes beside each other. Raises HeadwayError where nothing does.

    The scheduler divides a processor first between control groups that have weights, then, where these have none and
    autogroups are on, between sessions, and only then between threads (sched(7)).
    """
    for pid in pids:
        _check(controls, pid)
    groups = {pid: controls.processor_group(pid) or "/" for pid in pids}
    if len(set(groups.values())) > 1:
        told = ", ".join(f"{pid} in {group}" for pid, group in groups.items())
        raise HeadwayError(
            f"nice values say nothing between control groups, and the processes are in several ({told}): balance these "
            "(--cgroup)"
        )
    found = {pid: controls.session_group(pid) for pid in pids}
    sessions = {pid: session[0] for pid, session in found.items() if session is not None}
    if not (controls.session_groups_are_on() and controls.is_root_group(groups[pids[0]]) and len(sessions) > 1):
        return {pid: _by_process(controls, pid, pids) for pid in pids}
    names = set(sessions.values())
    if len(names) == 1:
        return {pid: _by_process(controls, pid, pids) for pid in pids}
    if len(names) < len(pids):
        told = ", ".join(f"{pid} in {session}" for pid, session in sessions.items())
        raise HeadwayError(
            f"nice values say nothing between sessions, and some of the processes share one ({told}): start each with "
            "setsid, or turn autogroups off (sysctl kernel.sched_autogroup_enabled=0)"
        )
    return {pid: SessionLever(controls, pid, [*(names - {session})]) for pid, session in sessions.items()}


def _by_process(controls: Controls, pid: int, pids: Sequence[int]) -> ProcessLever:
    try:
        lever = ProcessLever(controls, pid, pids)
    except ProcessLookupError:
        raise HeadwayError(f"there is no process {pid}") from None
    check_may_return(lever.records())
    return lever


def check_may_return(records: Iterable[Weight]) -> None:
    """Raise HeadwayError if nice values could be raised, but not lowered to what they were."""
    lowest = lowest_nice()
    for record in records:
        if isinstance(record, Reniced) and min((record.before, *_befores(record))) < lowest:
            raise HeadwayError(
                "without CAP_SYS_NICE a nice value can only be raised, and not be set back: run headway balance as "
                "root, or start each process in a session of its own (setsid), or balance control groups (--cgroup)"
            )


def _befores(record: Reniced) -> Iterator[int]:
    return (one.before for one in record.others)


def _check(controls: Controls, pid: int) -> None:
    if controls.birth(pid) is None:
        raise HeadwayError(f"there is no process {pid}")
    if controls.is_kernel_thread(pid):
        raise HeadwayError(f"process {pid} belongs to the kernel: it is left as it is")
    if not controls.is_fair(pid):
        raise HeadwayError(
            f"process {pid} has a policy (chrt -p {pid}) for which no weight counts: it is left as it is"
        )
    if not controls.may_bind(pid):
        raise HeadwayError(f"process {pid} belongs to another user: its weight takes CAP_SYS_NICE")
