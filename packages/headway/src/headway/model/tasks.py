"""Tasks: what threads work on. The time of a thread is divided among its tasks, state by state.

A program says when a thread begins to work on which task. A thread works on one task at a time, or on none. So its
tasks tile its time: with the time between tasks, `NO_TASK`, they add up to the thread in each state, to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from headway.dataclass import dataclass

from .cell import Cell
from .ready import READY, READY_PARTS

__all__ = [
    "NO_TASK",
    "OTHER_TASKS",
    "Task",
    "TraceContext",
    "add_tasks",
    "fitted",
    "merged_by_name",
    "state_of_tasks",
    "subtract_tasks",
    "tiles",
]

States = Mapping[str, Cell]

NO_TASK = "no task"
"""The title of the time between tasks."""
OTHER_TASKS = "other tasks"
"""The title of tasks for which there was no room."""
_TOLD_APART = {"wait.gil": "wait.futex", **dict.fromkeys(READY_PARTS, READY)}
"""States that are told from another one for threads, not for tasks."""


class TraceContext(NamedTuple):
    """A span of a trace, as W3C Trace Context and OpenTelemetry identify it."""

    trace_id: int
    """128 bits; `trace` has it in words."""
    span_id: int
    """64 bits; `span` has it in words."""
    at: int
    """When a thread began to work in it, ns of CLOCK_MONOTONIC."""

    @property
    def trace(self) -> str:
        """The trace's id as 32 hexadecimal digits."""
        return f"{self.trace_id:032x}"

    @property
    def span(self) -> str:
        """The span's id as 16 hexadecimal digits."""
        return f"{self.span_id:016x}"


@dataclass(frozen=True, slots=True)
class Task:
    """What one thread did for one task; or several threads, where tasks of one name were added up."""

    name: str
    """Empty: it has none."""
    id: int
    """0: tasks of one name are added up, whatever their ids."""
    changes: int
    """How often a thread began to work on it."""
    states: States
    other: bool = False
    """All tasks for which there was no room."""
    undated: int = 0
    """The time, in ns, of those spans of user code at whose end a thread was found to work on it, and before which it
    did not: when it began is not known. So much at most of another task's time is in ``states``.
    """
    context: TraceContext | None = None
    """The trace context in which a thread began to work on it last; None: in none."""

    @property
    def key(self) -> tuple[str, int, bool]:
        """Name, id, and whether it is all tasks for which there was no room: identifies a task of a thread."""
        return self.name, self.id, self.other

    @property
    def title(self) -> str:
        """The words for it: its name, or its id."""
        if self.other:
            return OTHER_TASKS
        if self.context is not None and not self.name:
            return f"span {self.context.span}"
        return self.name or (f"task {self.id}" if self.id else NO_TASK)

    @property
    def time(self) -> int:
        """The time of all states together."""
        return sum(cell.time for cell in self.states.values())


def state_of_tasks(state: str) -> str:
    """Return the state as which a thread's time in a state is counted for its tasks."""
    return _TOLD_APART.get(state, state)


def tiles(states: States, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks and the time between them. They add up to the thread's states.

    Waits for Python's GIL are ``wait.futex`` here, and the parts of ``ready`` are not told: only threads have these.
    """
    if not tasks:
        return ()
    rest: dict[str, list[int]] = {}
    for state, cell in states.items():
        mine = rest.setdefault(state_of_tasks(state), [0, 0])
        mine[0] += cell.time
        mine[1] += cell.count or 0
    for task in tasks:
        for state, cell in task.states.items():
            mine = rest.setdefault(state, [0, 0])
            mine[0] -= cell.time
            mine[1] -= cell.count or 0
    between = {state: Cell(time, max(count, 0)) for state, (time, count) in rest.items() if time or count > 0}
    return (*tasks, Task("", 0, 0, between))


def fitted(states: States, tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Return the tasks with no time below 0, and in no state more time than the thread has.

    The kernel may take time back that it has charged: time that turns out to be stolen, or polling. It is then taken
    from the task that the thread works on, which may be another one. What a task has too little of a state, the task
    with most time in that state gets less.
    """
    has: dict[str, int] = {}
    for state, cell in states.items():
        state = state_of_tasks(state)
        has[state] = has.get(state, 0) + cell.time
    found = list(tasks)
    times = [{state: max(cell.time, 0) for state, cell in task.states.items()} for task in found]
    for state in {state for each in times for state in each}:
        excess = sum(each.get(state, 0) for each in times) - has.get(state, 0)
        while excess > 0:
            most = max(times, key=lambda each: each.get(state, 0))
            less = min(excess, most[state])
            most[state] -= less
            excess -= less
    return tuple(
        replace(task, states={s: Cell(of[s], max(c.count or 0, 0)) for s, c in task.states.items() if of[s] or c.count})
        for task, of in zip(found, times, strict=True)
    )


def add_tasks(a: Iterable[Task], b: Iterable[Task]) -> tuple[Task, ...]:
    """Return the tasks of both, those of one key added up."""
    found: dict[tuple[str, int, bool], Task] = {}
    for task in (*a, *b):
        old = found.get(task.key)
        if old is not None:
            task = replace(
                task,
                changes=old.changes + task.changes,
                states=_added(old.states, task.states),
                undated=old.undated + task.undated,
                context=_later(old.context, task.context),
            )
        found[task.key] = task
    return tuple(found.values())


def subtract_tasks(later: Iterable[Task], earlier: Iterable[Task]) -> tuple[Task, ...]:
    """Return what came since an earlier reading of the same thread. It may have to be `fitted`."""
    before = {task.key: task for task in earlier}
    found = []
    for task in later:
        old = before.get(task.key)
        if old is not None:
            states = {s: c - old.states[s] if s in old.states else c for s, c in task.states.items()}
            states |= {s: Cell(-c.time, -(c.count or 0)) for s, c in old.states.items() if s not in states}
            task = replace(
                task,
                changes=task.changes - old.changes,
                states={s: c for s, c in states.items() if c.time or c.count},
                undated=task.undated - old.undated,
            )
        if task.states or task.changes:
            found.append(task)
    return tuple(found)


def merged_by_name(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks of several threads, those of one title added up, most time first."""
    return sorted(add_tasks(tasks, ()), key=lambda task: (-task.time, task.title))


def _later(a: TraceContext | None, b: TraceContext | None) -> TraceContext | None:
    return b if a is None or (b is not None and b.at >= a.at) else a


def _added(a: States, b: States) -> dict[str, Cell]:
    total = dict(a)
    for state, cell in b.items():
        total[state] = total[state] + cell if state in total else cell
    return total
