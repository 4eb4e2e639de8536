"""Tasks: what a thread did for each task that it worked on, from the rows that the eBPF programs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.model import Task, fitted

if TYPE_CHECKING:
    from headway.linux.bpf.reading._snapshots import ThreadRow

__all__ = ["tasks_of"]


def tasks_of(row: ThreadRow) -> tuple[Task, ...]:
    """Return the tasks of a thread. Those that it never worked on are left out."""
    if not row.tasks:
        return ()
    tasks = (
        Task(key.name, key.task, changes, dict(cells.items()), key.other, undated, context)
        for key, changes, cells, undated, context in row.tasks
        if cells.used or changes
    )
    return fitted(row.cells, tasks)
