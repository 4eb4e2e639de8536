"""Slices of tasks: from when to when each thread worked on which task, from the rows of a recording."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .transitions import Transitions

__all__ = ["TaskSlice", "TaskSlices"]


class TaskSlice(NamedTuple):
    """A time in which a thread worked on one task."""

    place: int
    """Of the thread, among all threads."""
    begin: int
    end: int
    name: str
    """Empty: the task has none."""
    id: int
    """0: it has none."""
    trace: int = 0
    """The id of its trace, if it is a span of OpenTelemetry; 0: it is none."""

    @property
    def title(self) -> str:
        """The words for the task: its name, or its id."""
        return self.name or (f"span {self.id:016x}" if self.trace else f"task {self.id}")

    @property
    def about(self) -> tuple[tuple[str, str], ...]:
        """What is known of it beside its title, by name: its id, or those of its span and its trace."""
        if self.trace:
            return ("trace_id", f"{self.trace:032x}"), ("span_id", f"{self.id:016x}")
        return (("task id", str(self.id)),) if self.id else ()


class TaskSlices:
    """Finds the slices batch by batch. A slice ends when the task of its thread changes.

    The slices of a thread never overlap: where rows that lie over each other say so, the later slice is cut.
    """

    def __init__(self) -> None:
        self._open: dict[int, TaskSlice] = {}
        self._until: dict[int, int] = {}
        """The end of the last slice of a thread."""

    def add(self, rows: Transitions, place: NDArray[np.int32]) -> Iterator[TaskSlice]:
        """Yield the slices that end with these rows. ``place``: the thread of each row; -1: none."""
        if rows.task is None or rows.task_id is None:
            if not self._open:
                return
            for thread in {*self._open} & {*np.unique(place[rows.duration > 0]).tolist()}:
                yield self._open.pop(thread)
            return
        task = np.where((rows.task < 0) & (rows.task_id == 0), -1, rows.task)
        of_threads = np.flatnonzero((place >= 0) & (rows.duration > 0))
        order = of_threads[np.lexsort((rows.time[of_threads], place[of_threads]))]
        if not len(order):
            return
        keys = np.stack((place[order].astype(np.uint64), task[order].astype(np.uint64), rows.task_id[order]))
        first = np.flatnonzero(np.append(True, (np.diff(keys.astype(np.int64), axis=1) != 0).any(axis=0)))
        last = np.append(first[1:], len(order)) - 1
        begins, ends = rows.time[order[first]], rows.time[order[last]] + rows.duration[order[last]]
        for at, begin, end in zip(order[first].tolist(), begins.tolist(), ends.tolist(), strict=True):
            thread, number, id = int(place[at]), int(task[at]), int(rows.task_id[at])
            name = rows.tasks[number] if number >= 0 else ""
            old = self._open.pop(thread, None)
            if old is not None and (old.name, old.id) == (name, id) and number >= 0:
                self._until[thread] = end = max(end, old.end)
                self._open[thread] = old._replace(end=end)
                continue
            if old is not None:
                yield old
            begin = max(begin, self._until.get(thread, begin))
            if number >= 0 and begin < end:
                self._until[thread] = end
                self._open[thread] = TaskSlice(thread, begin, end, name, id, rows.traces.get(id, 0))

    def rest(self) -> Iterator[TaskSlice]:
        """Yield the slices that have not ended."""
        yield from self._open.values()
        self._open.clear()
