"""Thread contexts of OpenTelemetry: find where the threads of measured processes have them.

A process may publish them from its beginning, or when it loads a library later. It says so by a system call that the
eBPF programs see, unless it did before they were there. So processes of which nothing is known are searched at once
after that call, and otherwise again and again, ever more seldom.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from headway.linux.bpf.reading.memory import BpfMaps

__all__ = ["ContextSearch"]

SECONDS = 0.05
"""Between two looks for processes that are new, or have said something."""
AGAIN_SECONDS = 0.05, 30.0
"""The first and the longest pause between two searches of one process. Each is twice the last."""


class ContextSearch:
    """Searches the processes that are measured for the contexts of their threads.

    ``naming``: the attributes after which the user wants tasks named.
    """

    def __init__(self, memory: BpfMaps, naming: Sequence[str] = ()) -> None:
        from headway.linux.contexts.access import ContextFinder

        self._memory, self._finder = memory, ContextFinder(naming)
        self._searched: dict[int, tuple[float, float]] = {}
        """Process -> when it is to be searched again, and the pause before that."""
        self._next = 0.0

    def search_if_due(self) -> None:
        """Search if it is time to."""
        if time.monotonic() >= self._next:
            self.search()

    def search(self) -> None:
        """Tell the eBPF programs where the threads of processes that are due have their contexts."""
        now = time.monotonic()
        self._next = now + SECONDS
        announced = self._memory.seek_contexts()
        due = {pid for pid, has in announced.items() if has or now >= self._searched.get(pid, (0.0, 0.0))[0]}
        if not due:
            return
        living = {thread.pid for thread in self._memory.living()}  # ids are used again
        self._searched = {pid: when for pid, when in self._searched.items() if pid in living}
        for pid in due:
            pause = AGAIN_SECONDS[0] if announced[pid] or pid not in self._searched else 2 * self._searched[pid][1]
            pause = min(pause, AGAIN_SECONDS[1])
            self._searched[pid] = now + pause, pause
            access = self._finder.find(pid)
            if access is not None:
                self._memory.give_context(pid, *access)
