"""Intervals: the differences between one snapshot and the next, as ledgers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headway.linux.bpf.threads._cells import Cells
from headway.model import (
    READY,
    READY_PARTS,
    KernelClock,
    Ledger,
    Processor,
    Quality,
    StateDurations,
    Task,
    Thread,
    Window,
    fitted,
    subtract_durations,
    subtract_tasks,
)

from .causes import with_causes
from .division import divided
from .ended import EndedThreads
from .ledgers import EbpfLedgers
from .snapshots import Snapshot
from .tasks import tasks_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headway.linux.bpf.waits.causes import Causes

__all__ = ["Intervals", "since_earlier"]

_Key = tuple[int, int]
"""A thread: (tid, birth)."""


class Intervals:
    """The ledgers of intervals that follow each other from ``start`` on, ns of CLOCK_MONOTONIC.

    No ledger takes back what an earlier one has told. Where a snapshot has less of a state than earlier ledgers told
    (`Cells.less` says why), the state gets nothing until the snapshots have as much again.
    """

    def __init__(self, ledgers: EbpfLedgers, ended: EndedThreads, start: int) -> None:
        self._ledgers, self._ended = ledgers, ended
        self._start = start
        self._threads: dict[_Key, Cells] = {}
        self._clocks: dict[_Key, KernelClock] = {}
        self._tasks: dict[_Key, tuple[Task, ...]] = {}
        self._durations: dict[_Key, StateDurations] = {}
        self._processors: dict[int, Cells] = {}
        self._causes: Causes | None = None
        self._losses: Mapping[str, int] = {}
        self._events = 0

    def ledger(self, snapshot: Snapshot) -> Ledger:
        """Return what happened between the last snapshot that was given, or the start, and this one."""
        start, at = self._start, snapshot.at
        threads = divided([*self._ended_threads(), *self._living_threads(snapshot)])
        processors = divided(self._processor_rows(snapshot))
        if snapshot.causes is not None:
            threads = with_causes(threads, snapshot.causes, self._causes)
        ledger = self._ledgers.make(
            Window(start, at),
            threads,
            processors,
            losses={name: n - self._losses.get(name, 0) for name, n in snapshot.losses.items()},
            events=snapshot.events - self._events,
            counted=snapshot.counted,
        )
        self._start, self._causes = at, snapshot.causes
        self._losses, self._events = snapshot.losses, snapshot.events
        return ledger

    def _ended_threads(self) -> list[Thread]:
        threads = []
        for thread in self._ended.take_new():
            key, before = self._take_earlier(thread.tid, thread.birth)
            if before is not None:
                since = max(self._start, thread.birth)
                cells = thread.states.less(before)  # type: ignore[attr-defined]
                durations = _new_durations(thread.durations, self._durations.get(key), cells)
                clock = self._clocks.get(thread.key)
                if clock is not None and thread.kernel_clock is not None:
                    clock = thread.kernel_clock - clock
                else:
                    clock = KernelClock(None, Quality.UNAVAILABLE)
                tasks = self._tasks_since(thread.key, thread.tasks, cells)
                thread = replace(
                    thread,
                    start=since,
                    span=thread.until - since,
                    states=cells,
                    kernel_clock=clock,
                    tasks=tasks,
                    durations=durations,
                )
            threads.append(thread)
        return threads

    def _living_threads(self, snapshot: Snapshot) -> list[Thread]:
        threads, told, at = [], {}, snapshot.at
        clocks: dict[_Key, KernelClock] = {}
        tasks: dict[_Key, tuple[Task, ...]] = {}
        kept: dict[_Key, StateDurations] = {}
        for row in snapshot.living:
            tid, birth = row.tid, row.birth
            key, before = self._take_earlier(tid, birth)
            new, told[tid, birth] = since_earlier(before, row.cells)
            since = max(self._start, birth)
            clock, earlier = row.kernel_clock, self._clocks.get((tid, birth))
            clocks[tid, birth] = clock
            if earlier is not None:
                clock = clock - earlier
            elif before is not None:
                clock = KernelClock(None, Quality.UNAVAILABLE)
            durations: StateDurations | None = row.durations
            if durations is not None:
                kept[tid, birth] = durations
                if before is not None:
                    durations = _new_durations(durations, self._durations.get(key), new)
            thread = Thread(
                tid,
                row.pid,
                row.name,
                birth,
                since,
                None,
                at,
                at - since,
                new,
                kernel_clock=clock,
                durations=durations,
            )
            if row.tasks:
                tasks[tid, birth] = tasks_of(row)
                thread = replace(thread, tasks=self._tasks_since(thread.key, tasks[tid, birth], new))
            threads.append(thread)
        self._threads, self._clocks, self._tasks, self._durations = told, clocks, tasks, kept
        return threads

    def _tasks_since(self, key: _Key, tasks: tuple[Task, ...], states: Cells) -> tuple[Task, ...]:
        """Return what a thread did for its tasks since the last interval; ``states``: what it did at all."""
        return fitted(states, subtract_tasks(tasks, self._tasks.get(key, ()))) if tasks else ()

    def _processor_rows(self, snapshot: Snapshot) -> list[Processor]:
        rows = []
        for cpu, cells in snapshot.processors.items():
            new, self._processors[cpu] = since_earlier(self._processors.get(cpu), cells)
            rows.append(Processor(cpu, snapshot.at - self._start, new))
        return rows

    def _take_earlier(self, tid: int, birth: int) -> tuple[_Key, Cells | None]:
        """Return what a thread was called, and what was told of it until this interval began; None: it is new."""
        key = tid, birth
        if (
            key not in self._threads and birth < self._start
        ):  # it has executed a program: its leader's id is now its own
            key = next((other for other in self._threads if other[1] == birth), key)
        return key, self._threads.pop(key, None)


def _new_durations(later: StateDurations | None, earlier: StateDurations | None, new: Cells) -> StateDurations | None:
    """Return the durations since an earlier reading, as many as there are new occurrences.

    Where the cells take back what an earlier reading told (`Cells.less`), the difference is in `Durations.unplaced`.
    """
    found = subtract_durations(later, earlier)
    if found is None:
        return None
    counts = {state: count for state, count, _ in new.listed}
    counts[READY] = sum([counts.get(state, 0) for state in (READY, *READY_PARTS)])
    return {
        state: each
        if each.count == (count := counts.get(state, 0))
        else replace(each, unplaced=each.unplaced + count - each.count)
        for state, each in found.items()
    }


def since_earlier(before: Cells | None, now: Cells) -> tuple[Cells, Cells]:
    """Return what came since an earlier reading (None: there is none), and what has been told with that."""
    if before is None:
        return now, now
    new = now.less(before)
    return new, before.plus(new) if new.settled else now
