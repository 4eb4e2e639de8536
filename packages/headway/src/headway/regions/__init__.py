"""Marked regions of this program (no progress, polling, progress with a name), and the tasks of its threads.

A measured thread also reads its own progress here.

The marks use the same header as C programs (``headway.h``, in the directory that `headway.get_include` returns).
Regions of Python and of its extension modules therefore nest within each other, and an observer sees no difference. A
mark is a few stores to memory of the thread, whether anybody observes or not.
"""

from __future__ import annotations

from ._regions import (
    Steps,
    Thread,
    clear_noneffective,
    clear_state,
    clear_task,
    current_task,
    noneffective,
    numbered_task,
    poll,
    progress,
    set_noneffective,
    set_numbered_task,
    set_state,
    set_task,
    state,
    states,
    task,
    task_number,
    threads,
)
from .own_progress import Progress, States, StateTime
from .thread_names import name_threads

__all__ = [
    "Progress",
    "StateTime",
    "States",
    "Steps",
    "Thread",
    "clear_noneffective",
    "clear_state",
    "clear_task",
    "current_task",
    "name_threads",
    "noneffective",
    "numbered_task",
    "poll",
    "progress",
    "set_noneffective",
    "set_numbered_task",
    "set_state",
    "set_task",
    "state",
    "states",
    "task",
    "task_number",
    "threads",
]
