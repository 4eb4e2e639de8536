"""What perf recorded beside the trace: which thread a processor had, its name, and what its process had mapped.

Times are ns of perf's clock. The end of what is known of a thread on a processor is the next switch there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from headway_trace.memory import Files, Part, ProcessMemory

from .events import Comm, Event, Exit, Fork, MemoryMapping, Started, Switch

__all__ = ["Run", "Sideband", "Version"]

_MOST_VERSIONS = 1000
"""The most versions that are kept of one process's memory; later mappings hold from the beginning of the last one."""
IDLE = 0


class Run(NamedTuple):
    """A thread had a processor from ``start`` to ``end`` (None: to the end of the recording)."""

    start: int
    end: int | None
    pid: int
    tid: int
    cpu: int


class Version(NamedTuple):
    """The memory of a process from a time on."""

    start: int
    memory: ProcessMemory


@dataclass(slots=True)
class _Switches:
    times: list[int] = field(default_factory=list)
    threads: list[tuple[int, int]] = field(default_factory=list)
    before: tuple[int, int] | None = None
    """The thread that the processor had before the first time, if that is known."""

    def put(self, time: int, thread: tuple[int, int]) -> None:
        if self.threads and self.threads[-1] == thread:
            return
        self.times.append(time)
        self.threads.append(thread)


_NOBODY = (-1, -1)


class Sideband:
    """The events about threads, sorted. ``locate`` returns the file with the code of a mapping."""

    def __init__(
        self,
        events: Iterable[Event],
        files: Files,
        left_out: Counter[str],
        locate: Callable[[MemoryMapping], str | None],
    ) -> None:
        self._files, self._left_out, self._locate = files, left_out, locate
        self._switches: dict[int, _Switches] = {}
        self._names: dict[int, str] = {}
        self._memories: dict[int, list[Version]] = {}
        self.pids: dict[int, int] = {}
        """The process of each thread."""
        ordered = [event for event in events if isinstance(event, _KEPT)]
        ordered.sort(key=lambda event: event.when.time or 0)  # the file has them by processor, in rounds
        for event in ordered:
            self._take(event)

    def _take(self, event: MemoryMapping | Comm | Fork | Exit | Switch | Started) -> None:
        time = event.when.time or 0
        if isinstance(event, Switch):
            self._switched(event, time)
        elif isinstance(event, MemoryMapping):
            self._mapped(event, time)
        elif isinstance(event, Comm):
            self.pids[event.tid] = event.pid
            self._names[event.tid] = event.name
            if event.exec:
                self._versions(event.pid).append(Version(time, ProcessMemory(self._files)))
        elif isinstance(event, Fork):
            self.pids[event.tid] = event.pid
            if event.pid != event.parent and event.parent in self._memories:
                self._memories[event.pid] = [Version(time, self._memories[event.parent][-1].memory.copy())]
        elif isinstance(event, Started):
            self.pids[event.tid] = event.pid
            if event.when.cpu >= 0:
                self._switches.setdefault(event.when.cpu, _Switches()).put(time, (event.pid, event.tid))

    def _switched(self, event: Switch, time: int) -> None:
        when = event.when
        if when.cpu < 0 or event.when.time is None:
            return
        switches = self._switches.setdefault(when.cpu, _Switches())
        itself = when.pid, when.tid
        if event.out:
            if not switches.threads:
                switches.before = itself
            switches.put(time, event.other or _NOBODY)
        else:
            if not switches.threads and event.other:
                switches.before = event.other
            switches.put(time, itself)
        for pid, tid in (itself, event.other or _NOBODY):
            if tid > 0:
                self.pids.setdefault(tid, pid)

    def _versions(self, pid: int) -> list[Version]:
        return self._memories.setdefault(pid, [Version(0, ProcessMemory(self._files))])

    def _mapped(self, event: MemoryMapping, time: int) -> None:
        if event.pid < 0 or not event.executable or not event.size:
            return
        path = self._locate(event)
        if path is None:
            return
        versions = self._versions(event.pid)
        part = Part(event.address, event.size, path, event.offset)
        if versions[-1].memory.overlapped(part):
            if len(versions) < _MOST_VERSIONS:
                versions.append(Version(time, versions[-1].memory.copy()))
            else:
                self._left_out["changes of mappings beyond 1,000 of a process"] += 1
        versions[-1].memory.add(part)

    def runs(self, cpu: int) -> Iterator[Run]:
        """Yield the times that threads had a processor, in order, but not those of nobody or an unknown."""
        switches = self._switches.get(cpu)
        if switches is None:
            return
        if switches.before is not None and switches.before[1] > IDLE and switches.times:
            yield Run(0, switches.times[0], *switches.before, cpu)
        ends: list[int | None] = [*switches.times[1:], None]
        for start, end, (pid, tid) in zip(switches.times, ends, switches.threads, strict=True):
            if tid > IDLE:
                yield Run(start, end, pid, tid, cpu)

    def run_starts(self) -> dict[int, list[int]]:
        """Return tid -> when the thread got a processor."""
        found: dict[int, list[int]] = {}
        for cpu in self._switches:
            for run in self.runs(cpu):
                if run.start:
                    found.setdefault(run.tid, []).append(run.start)
        for times in found.values():
            times.sort()
        return found

    def name(self, tid: int) -> str:
        """Return the last name of a thread; "" if it is not known."""
        return self._names.get(tid, "")

    def versions(self, pid: int) -> list[Version]:
        """Return the memory of a process in the course of time; empty: nothing is known of it."""
        return self._memories.get(pid, [])

    @property
    def processes(self) -> list[int]:
        """The processes of which mappings are known."""
        return sorted(pid for pid, versions in self._memories.items() if any(one.memory.parts for one in versions))


_KEPT = (MemoryMapping, Comm, Fork, Exit, Switch, Started)
