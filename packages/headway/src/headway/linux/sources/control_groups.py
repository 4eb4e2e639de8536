"""The control groups of the processes that are measured, and of those that had the processor instead.

They are read while the processes live, and kept until they are reported.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from headway.linux.procfs.cgroups import read_origin
from headway.linux.procfs.status import status as status_of
from headway.model import Behind, Cause, Ledger

__all__ = ["AGAIN_NS", "MOST", "ControlGroups"]

MOST = 1 << 16
"""So many processes are kept."""

AGAIN_NS = 60_000_000_000
"""How long a control group is taken to be the same without reading it again, in ns: a process can be moved."""


class ControlGroups:
    """The paths of control groups by process."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._paths: dict[int, tuple[int, int, str]] = {}
        """By pid: the birth of the first thread that was seen of the process, when it was read, and the path."""
        self._processes: dict[tuple[int, str], int | None] = {}
        """The processes of threads that are not measured, by tid and name."""

    def look(self, threads: Iterable[tuple[int, int]]) -> None:
        """Read what is not known yet, or was read long ago. ``threads``: pid and birth of each living thread."""
        now = time.monotonic_ns()
        births: dict[int, int] = {}
        for pid, birth in threads:
            births[pid] = min(birth, births.get(pid, birth))
        for pid, birth in births.items():
            known = self._paths.get(pid)
            if known is not None and known[0] >= birth and now - known[1] < AGAIN_NS:
                continue
            origin = read_origin(pid, proc=self._proc)
            if origin is not None:
                self._paths.pop(pid, None)
                self._paths[pid] = birth, now, origin.path
        while len(self._paths) > MOST:  # the one that was read longest ago comes first
            del self._paths[next(iter(self._paths))]

    def told(self, ledger: Ledger) -> Ledger:
        """Return the ledger with the control groups of its threads, and of the threads that had their processor."""
        self.look((thread.pid, thread.birth) for thread in ledger.threads if thread.end is None)
        threads = []
        for thread in ledger.threads:
            known = self._paths.get(thread.pid)
            threads.append(thread if known is None else replace(thread, cgroup=known[2]))
        if any(thread.causes for thread in threads):
            pids = {thread.tid: thread.pid for thread in threads}
            threads = [replace(t, causes=self._with_processes(t.causes, pids)) if t.causes else t for t in threads]
        return replace(ledger, threads=tuple(threads))

    def _with_processes(self, causes: tuple[Cause, ...], pids: Mapping[int, int]) -> tuple[Cause, ...]:
        """Return the causes with the processes and control groups of the threads that had the processor."""
        found = []
        for cause in causes:
            if cause.behind is Behind.HOLDER and cause.tid:
                pid = pids.get(cause.tid) or self._process_of(cause.tid, cause.name)
                known = None if pid is None else self._paths.get(pid)
                cause = replace(cause, pid=pid, cgroup=None if known is None else known[2])
            found.append(cause)
        return tuple(found)

    def _process_of(self, tid: int, name: str) -> int | None:
        """Return the process of a thread that is not measured, if it lives and still has this name."""
        if (tid, name) not in self._processes:
            if len(self._processes) >= MOST:
                self._processes.clear()
            status = status_of(f"{self._proc}/{tid}")
            pid = status.get("Tgid", "")
            self._processes[tid, name] = int(pid) if pid.isdecimal() and status.get("Name") == name else None
        pid_found = self._processes[tid, name]
        if pid_found is not None and pid_found not in self._paths:
            self.look([(pid_found, 0)])
        return pid_found
