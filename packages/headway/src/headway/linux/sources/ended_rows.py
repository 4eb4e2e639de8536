"""The rows of threads that have ended: one by one, and added up once there are many."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.model import Thread

__all__ = ["MAX_ENDED", "OTHERS", "EndedRows"]

MAX_ENDED = 1 << 17
"""Ended threads that are kept one by one; later ones are added up by process and name."""
OTHERS = "others"
"""The name of the row in which threads are added up once there are too many names."""


class EndedRows:
    """``most``: so many are listed one by one. Later ones are added up by process and name, so many of these too, and
    then in one row.
    """

    def __init__(self, most: int = MAX_ENDED) -> None:
        self._most = most
        self._listed: list[Thread] = []
        self._by_name: dict[tuple[int, str], Thread] = {}
        self.added_up = 0
        """How many are not listed one by one."""

    @property
    def is_full(self) -> bool:
        """Whether further ones are added up. Their time must be divided, then."""
        return len(self._listed) >= self._most

    def all(self) -> list[Thread]:
        """Return the rows."""
        return [*self._listed, *self._by_name.values()]

    def add(self, thread: Thread) -> None:
        """Add a thread, with all that it did."""
        if not self.is_full:
            self._listed.append(thread)
            return
        self.added_up += 1
        key = thread.pid, thread.name
        if key not in self._by_name and len(self._by_name) >= self._most:
            key = 0, OTHERS
            thread = replace(thread, tid=0, pid=0, name=OTHERS)
        old = self._by_name.get(key)
        self._by_name[key] = replace(thread, states=dict(thread.states)) if old is None else _sum(old, thread)


def _sum(old: Thread, thread: Thread) -> Thread:
    from headway.model import add_durations, add_sampled, add_tasks

    total = dict(old.states)
    for state, cell in thread.states.items():
        total[state] = total[state] + cell if state in total else cell
    clock = old.kernel_clock + thread.kernel_clock if old.kernel_clock and thread.kernel_clock else None
    return replace(
        old,
        end=thread.end,
        until=thread.until,
        span=old.span + thread.span,
        states=total,
        kernel_clock=clock,
        sampled=add_sampled(old.sampled, thread.sampled),
        tasks=add_tasks(old.tasks, thread.tasks),
        durations=add_durations(old.durations, thread.durations, of=total),
    )
