"""Find the threads to look at: those selected at the beginning, and those that come later."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress

from headway.errors import SelectionError
from headway.linux.options import Selection
from headway.linux.procfs._procfs import Scanner
from headway.linux.procfs.cgroup_folders import cgroup_folder
from headway.linux.procfs.descendants import below

from .clocks import Clocks
from .directory import ProcDirectory

__all__ = ["Discovery"]

SWEEP_SHARE = 0.02
"""Of one processor, that looking through everything for threads by name or cgroup may take."""
SWEEP_SHORTEST = 100_000_000
"""Between two such sweeps, in ns."""


class Discovery:
    """Gives a scanner the threads that are selected. Raises SelectionError where one that was chosen is not there.

    ``now``: ns of CLOCK_MONOTONIC, when measuring begins.
    """

    def __init__(
        self, scanner: Scanner, directory: ProcDirectory, selection: Selection, clocks: Clocks, now: int
    ) -> None:
        self._scanner, self._directory = scanner, directory
        self._selection, self._clocks, self._start = selection, clocks, now
        self._last_id = directory.newest_id()
        self._others: set[int] = set()
        """Processes that are not selected, and whose children are not."""
        self._open_processes(now)
        for tid in selection.tids:
            pid = directory.process_of(tid)
            if pid is None or not scanner.add_thread(pid, tid, now, opening=True):
                raise SelectionError(self._why_not(tid, "thread"))
        self._cgroup = None if selection.cgroup is None else cgroup_folder(selection.cgroup)
        self._sweep_period = SWEEP_SHORTEST
        self._swept = 0
        self._sweep(now, opening=True)
        self._complete = now
        """When all that there was had been found."""

    def created(self) -> bool:
        """Return whether a process or thread may have been created on this machine since the last call."""
        newest = self._directory.newest_id()
        created = newest is None or newest != self._last_id
        self._last_id = newest
        return created

    def find(self, now: int, *, created: bool) -> None:
        """Find the threads and processes that came since the last look, beside new threads of processes known."""
        chosen = self._selection
        if chosen.follow:
            for pid in self._scanner.take_children():
                if pid not in self._scanner.processes and pid not in self._others:
                    self._take_child(pid, now)
            if created and (chosen.everything or chosen.pids or chosen.command is not None):
                self._find_processes(now)
        if (created and chosen.cgroup is not None) or now - self._swept >= self._sweep_period:
            self._sweep(now, opening=False)
        self._complete = now

    def _open_processes(self, now: int) -> None:
        """Take the processes selected under observation, and remember all others: they are nobody's children."""
        scanner, chosen = self._scanner, self._selection
        named = [*chosen.pids, *([chosen.command] if chosen.command is not None else [])]
        for pid in named:
            tgid = self._directory.process_of(pid)
            if tgid is not None and tgid != pid:
                raise SelectionError(
                    f"{pid} is a thread of process {tgid}: choose it with -t {pid}, or all with -p {tgid}"
                )
        there = scanner.ids() if chosen.everything or (named and (chosen.follow or chosen.descendants)) else []
        wanted = dict.fromkeys(named)
        parents: set[int] = set()
        some_hidden = False
        if not chosen.everything:
            stats = {pid: known for pid in there if (known := scanner.stat(pid)) is not None}
            if chosen.descendants:
                living = {pid: known[2] for pid, known in stats.items() if known[1] != "Z"}
                wanted |= dict.fromkeys(below(chosen.pids, living))
            self._others = {pid for pid in there if pid not in wanted}
            parents = {known[2] for pid, known in stats.items() if pid in self._others}
            some_hidden = bool(scanner.hidden)
            scanner.hidden.clear()  # what is not chosen is not missed
        for pid in [*wanted, *(pid for pid in there if chosen.everything and pid not in wanted)]:
            if chosen.follow:
                complete = pid not in parents and not some_hidden
                found = scanner.add_process(pid, now, opening=True, all_children=complete)
            else:
                found = sum(scanner.add_thread(pid, tid, now, opening=True) for tid in scanner.ids(pid)) > 0
            if not found and pid in named:
                raise SelectionError(self._why_not(pid, "process"))

    def _why_not(self, number: int, what: str) -> str:
        self._scanner.stat(number)
        hidden = number in self._scanner.hidden
        with suppress(ProcessLookupError, OverflowError):
            try:
                os.kill(number, 0)
            except PermissionError:
                hidden = True
        if hidden:
            return f"/proc hides {what} {number} from this user: run headway as root or as the user that owns it"
        return f"there is no {what} {number}"

    def _take_child(self, pid: int, now: int) -> None:
        """Look at a child of a measured process, if it is younger than the measurement."""
        known = self._scanner.stat(pid)
        if known is not None and self._clocks.birth(known[7]) + self._clocks.clock_tick > self._start:
            self._scanner.add_process(pid, now, opening=False, absent=0, all_children=not self._scanner.hidden)
        else:
            self._others.add(pid)

    def _find_processes(self, now: int) -> None:
        scanner = self._scanner
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

    def _sweep(self, now: int, *, opening: bool) -> None:
        """Look through the machine for threads of the name, through the cgroup for those in it."""
        scanner, name = self._scanner, self._selection.name
        if name is None and self._cgroup is None:
            return
        before = time.thread_time_ns()
        if name is not None:
            wanted = os.fsencode(name.removesuffix("*"))[:15]
            for pid in scanner.ids():
                for tid in scanner.named(pid, wanted, name.endswith("*")):
                    scanner.add_thread(pid, tid, now, opening=opening)
        if self._cgroup is not None:
            for tid in _threads_of_cgroup(self._cgroup):
                if tid not in scanner.tasks:
                    owner = self._directory.process_of(tid)
                    if owner is not None:
                        scanner.add_thread(owner, tid, now, opening=opening)
        self._swept = now
        self._sweep_period = max(SWEEP_SHORTEST, round((time.thread_time_ns() - before) / SWEEP_SHARE))


def _threads_of_cgroup(top: str | os.PathLike[str]) -> Iterator[int]:
    """Yield the ids of the threads in a cgroup and below it: cgroup.threads of version 2, tasks of version 1."""
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
