"""What threads worked on: totals by process and task, in a bounded number of series.

A task is told by its name, or by its id if it has no name. What threads did between tasks has neither. Ids may be those
of requests, so they have no bound: tasks that come when there is no more room are added up in one series. Spans of
OpenTelemetry without a name, whose ids are random, are one series for each process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from headway.model import NO_TASK, Kind, Task, Thread, TraceContext, time_by_kind

from ..printable import clean
from .places import LONGEST, Labels

__all__ = ["MOST_TASKS", "TaskSeries", "TaskTotals"]

MOST_TASKS = 500
"""The largest number of tasks, over all processes. Each has a series for each kind of time."""
_OTHERS: Labels = (("other", "true"),)
_SPANS = ("spans", "true")


class TaskSeries(NamedTuple):
    """What threads of one process did for one task."""

    labels: Labels
    changes: int
    """How often a thread began to work on it."""
    times: dict[str, int]
    """Time in ns, by kind."""
    context: tuple[int, ...] | None = None
    """The fields of the `TraceContext` in which a thread began to work on it last; None: it was in none."""


class TaskTotals:
    """Adds up the tasks of ledgers of consecutive intervals, in ns. No number ever decreases."""

    def __init__(self, most: int = MOST_TASKS) -> None:
        self._most = most
        self._changes: dict[Labels, int] = {}
        self._times: dict[Labels, dict[Kind, int]] = {}
        self._contexts: dict[Labels, TraceContext] = {}

    def add(self, threads: Iterable[Thread], name_of: Callable[[int], str]) -> None:
        """Add the threads of an interval. ``name_of`` returns the name of a process."""
        for thread in threads:
            for task in thread.tiles():
                labels = self._room(_labels(task, name_of(thread.pid)))
                self._changes[labels] = self._changes.get(labels, 0) + max(task.changes, 0)
                known = self._contexts.get(labels)
                if task.context is not None and (known is None or known.at <= task.context.at):
                    self._contexts[labels] = task.context
                times = self._times.setdefault(labels, {})
                for kind, time in time_by_kind(task.states).items():
                    if time > 0:
                        times[kind] = times.get(kind, 0) + time

    def frozen(self) -> tuple[TaskSeries, ...]:
        """Return the series."""
        return tuple(
            TaskSeries(
                labels,
                self._changes[labels],
                {kind.value: time for kind, time in times.items()},
                tuple(self._contexts[labels]) if labels in self._contexts else None,
            )
            for labels, times in self._times.items()
        )

    def _room(self, labels: Labels) -> Labels:
        return labels if labels in self._times or len(self._times) < self._most else _OTHERS


def _labels(task: Task, process: str) -> Labels:
    if task.other:
        return _OTHERS
    of_process = ("process", process)
    if task.name:
        return of_process, ("task_name", clean(task.name, LONGEST))
    if task.context is not None:
        return of_process, _SPANS
    return (of_process,) if task.title == NO_TASK else (of_process, ("task_id", str(task.id)))
