"""Tasks of a recording: what each thread worked on, computed from the rows.

They are those that the eBPF programs add up on request (linux/bpf/tasks/tasks.h): tasks of one name are one, and a task
without a name is one for each id. In a recording the time in a region of a span in which the task changes belongs to
the task in which the span began.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headway.model import Batch, Ledger, Task, TraceContext, Transitions, fitted, state_of_tasks
from headway.model.task_slices import TaskSlice, TaskSlices

from .ledger import Account

if TYPE_CHECKING:
    from .reader import Recording

__all__ = ["MOST", "TasksOfRows", "has_tasks", "with_tasks"]

MOST = 1024
"""So many tasks of a thread are told apart, as in linux/bpf/tasks/tasks.h; the others are one."""

_Key = tuple[str, int, bool]
"""Name, id, and whether it is all tasks for which there was no room."""
_OTHER: _Key = ("", 0, True)


class TasksOfRows:
    """Adds up rows, batch by batch in the order of time."""

    def __init__(self) -> None:
        self._accounts: defaultdict[int, dict[_Key, Account]] = defaultdict(dict)
        self._changes: defaultdict[tuple[int, _Key], int] = defaultdict(int)
        self._contexts: dict[tuple[int, _Key], TraceContext] = {}
        self._slices = TaskSlices()

    def add(self, batch: Batch) -> None:
        """Add the rows of a batch."""
        rows = batch.transitions
        self._add_times(rows)
        for one in self._slices.add(rows, rows.thread.astype(np.int32)):
            self._begun(one)

    def _add_times(self, rows: Transitions) -> None:
        if rows.task is None or rows.task_id is None:
            return
        there = np.flatnonzero((rows.thread >= 0) & (rows.task >= 0))
        columns = (rows.task_id[there], rows.task[there], rows.state[there], rows.thread[there])
        order = np.lexsort(columns)
        if not len(order):
            return
        keys = [column[order] for column in columns]
        new = np.any([column[1:] != column[:-1] for column in keys], axis=0)
        first = np.flatnonzero(np.append(True, new))
        figures = [
            np.add.reduceat(column[there][order].astype(np.int64), first).tolist()
            for column in (rows.duration, rows.taken, rows.count)
        ]
        for id, task, state, thread, duration, taken, count in zip(
            *(column[first].tolist() for column in keys), *figures, strict=True
        ):
            account = self._accounts[thread].setdefault(self._key(thread, rows.tasks[task], id), Account())
            account.add(state_of_tasks(rows.states[state]), duration, taken, count)

    def _key(self, thread: int, name: str, id: int) -> _Key:
        key = (name, 0 if name else id, False)
        known = self._accounts[thread]
        return key if key in known or len(known) < MOST else _OTHER

    def _begun(self, one: TaskSlice) -> None:
        key = one.place, self._key(one.place, one.name, one.id)
        self._changes[key] += 1
        if one.trace:
            self._contexts[key] = TraceContext(one.trace, one.id, one.begin)

    def by_thread(self, *, whole: bool) -> dict[int, tuple[Task, ...]]:
        """Return the tasks of all threads, by their numbers. ``whole``: all rows are there."""
        for one in self._slices.rest():
            self._begun(one)
        return {
            thread: tuple(
                Task(
                    key[0],
                    key[1],
                    self._changes[thread, key],
                    account.cells(whole=whole),
                    key[2],
                    context=self._contexts.get((thread, key)),
                )
                for key, account in accounts.items()
            )
            for thread, accounts in self._accounts.items()
        }


def _tasks_in(table: pa.Table) -> bool:
    return any(table.column(name).null_count < len(table) for name in ("task", "task_id"))


def has_tasks(recording: Recording) -> bool:
    """Return whether a row has a task. Only the columns of tasks are read."""
    return any(_tasks_in(table) for table in recording.tables("transitions", ("task", "task_id")))


def with_tasks(recording: Recording, ledger: Ledger) -> Ledger:
    """Return the ledger with the tasks of the rows; the ledger itself if no row has one."""
    if not has_tasks(recording):
        return ledger
    rows = TasksOfRows()
    for batch in recording.batches():
        rows.add(batch)
    whole = recording.closed and not recording.dropped_parts and not recording.damaged
    found = rows.by_thread(whole=whole)
    if not found:
        return ledger
    numbers = {(one.tid, one.birth): number for number, one in recording.threads().items()}
    return replace(
        ledger,
        threads=tuple(
            replace(thread, tasks=fitted(thread.states, tasks))
            if (tasks := found.get(numbers.get(thread.key, -1)))
            else thread
            for thread in ledger.threads
        ),
    )
