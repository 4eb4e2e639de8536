"""Marked regions of this program, whose time is not progress, or is polling, and the tasks that its threads work on.

The marks use the same header as C programs (``headway.h``, in the directory that `headway.get_include` returns).
Regions of Python and of its extension modules therefore nest within each other, and an observer sees no difference. A
mark is a few stores to memory of the thread, whether anybody observes or not.
"""

from __future__ import annotations

from ._regions import (
    Steps,
    clear_noneffective,
    clear_task,
    current_task,
    noneffective,
    poll,
    set_noneffective,
    set_task,
    task,
    task_number,
)
from .thread_names import name_threads

__all__ = [
    "Steps",
    "clear_noneffective",
    "clear_task",
    "current_task",
    "name_threads",
    "noneffective",
    "poll",
    "set_noneffective",
    "set_task",
    "task",
    "task_number",
]
