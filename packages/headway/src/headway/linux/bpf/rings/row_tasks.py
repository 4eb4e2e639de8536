"""The tasks of rows: each row of a thread gets the task that the thread worked on when the row began."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

import numpy as np

from headway.model import OTHER_TASKS, READY_PARTS, Transitions

__all__ = ["RowTasks"]

_Task = tuple[int, int, int]
"""The place of a task's name in the names, -1 for no task; its id; and its trace's, 0 for none."""
_NO_TASK: _Task = (-1, 0, 0)


class RowTasks:
    """Knows what each thread works on, from one batch to the next.

    ``name_of`` returns the name that has a number: empty for none, None for the tasks for which there was no room.
    """

    def __init__(self, name_of: Callable[[int], str | None]) -> None:
        self._name_of = name_of
        self._names: list[str] = [""]
        self._places: dict[int, int] = {0: 0}
        self._works_on: dict[int, _Task] = {}
        """Thread -> its task; those that work on none are left out."""

    def add(self, rows: Transitions, changes: Sequence[tuple[int, int, int, int, int]]) -> Transitions:
        """Return the rows with their tasks.

        ``changes``: (thread, time, number of the name, id, id of the trace) of each change since the last batch, in the
        order of time.
        A row never lies across a change of its thread's task.
        """
        if not changes and not self._works_on:
            return rows
        task, ids = np.full(len(rows), -1, np.int32), np.zeros(len(rows), np.uint64)
        by_thread = {
            thread: list(of) for thread, of in groupby(sorted(changes, key=itemgetter(0, 1)), key=itemgetter(0))
        }
        traces: dict[int, int] = {}
        # A part of a time ready stands at its end, where another task may begin (`TransitionDecoder`).
        part = np.array([state in READY_PARTS for state in rows.states], np.bool_)
        times = rows.time - (part[rows.state] & (rows.duration == 0))
        order = np.argsort(rows.thread, kind="stable")
        threads = rows.thread[order]
        for thread in sorted({*by_thread, *self._works_on}):
            mine = order[np.searchsorted(threads, thread) : np.searchsorted(threads, thread, side="right")]
            news = by_thread.get(thread, [])
            tasks = [
                self._works_on.pop(thread, _NO_TASK),
                *(self._task(name, number, trace) for _, _, name, number, trace in news),
            ]
            which = np.searchsorted(np.array([time for _, time, *_ in news], np.int64), times[mine], side="right")
            task[mine] = np.array([place for place, _, _ in tasks], np.int32)[which]
            ids[mine] = np.array([number for _, number, _ in tasks], np.uint64)[which]
            traces.update((number, trace) for _, number, trace in tasks if trace)
            if tasks[-1] != _NO_TASK:
                self._works_on[thread] = tasks[-1]
        return replace(rows, task=task, task_id=ids, tasks=tuple(self._names), traces=traces)

    def forget(self, threads: Iterable[int]) -> None:
        """Forget threads of which no more rows come."""
        for thread in threads:
            self._works_on.pop(thread, None)

    def _task(self, name: int, number: int, trace: int) -> _Task:
        if not name and not number:
            return _NO_TASK
        place = self._places.get(name)
        if place is None:
            said = self._name_of(name)
            place = self._places[name] = len(self._names)
            self._names.append(OTHER_TASKS if said is None else said)
        return place, number, trace
