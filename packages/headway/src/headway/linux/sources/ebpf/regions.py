"""Marked regions and tasks: find the blocks and the logs of the threads of measured processes.

A thread announces its block, and its log of tasks, to the eBPF programs by a system call. The programs do not see that
call in a process that made it before it was measured, nor in any process at the level of detail ``switches``. So the
blocks and logs are searched for.
"""

from __future__ import annotations

import time

from headway.linux.bpf.reading.memory import BpfMaps

__all__ = ["RegionSearch"]

SECONDS = 1.0
"""Between two searches for processes that are new."""
AGAIN_SECONDS = 0.05, 30.0
"""The first and the longest pause between two searches of one process. Each is twice the last."""


class RegionSearch:
    """Searches the processes that are measured for blocks of marked regions; with ``tasks``, for logs of tasks too.

    ``again``: as long as threads of a process have no known block, it is searched again, ever more seldom. Otherwise
    each process is searched once.
    """

    def __init__(self, memory: BpfMaps, *, again: bool = False, tasks: bool = False) -> None:
        self._memory, self._again, self._tasks = memory, again, tasks
        self._searched: dict[int, tuple[float, float]] = {}
        """Process -> when it is to be searched again, and the pause before that."""
        self._next = 0.0

    def search_if_due(self) -> None:
        """Search again if it is time to."""
        if time.monotonic() >= self._next:
            self.search()

    def search(self) -> None:
        """Tell the eBPF programs where the threads have their blocks, of processes that are due."""
        now = time.monotonic()
        self._next = now + (AGAIN_SECONDS[0] if self._again else SECONDS)
        unmarked = {thread.pid for thread in self._memory.unmarked()}
        if self._tasks:
            unmarked |= {thread.pid for thread in self._memory.without_log()}
        due = {pid for pid in unmarked if pid not in self._searched or self._is_due(pid, now)}
        if not due:
            return
        living = {thread.pid for thread in self._memory.living()}  # ids are used again
        self._searched = {pid: when for pid, when in self._searched.items() if pid in living}
        from headway.linux.regions.blocks import RegionBlocks

        for pid in due:
            _, pause = self._searched.get(pid, (0.0, AGAIN_SECONDS[0] / 2))
            pause = min(2 * pause, AGAIN_SECONDS[1])
            self._searched[pid] = now + pause, pause
            blocks = RegionBlocks(pid)
            if blocks.find():
                for tid, block in blocks.read().blocks.items():
                    self._memory.mark(tid, block.address)
                    if self._tasks and block.log:
                        self._memory.give_log(tid, block.log)

    def _is_due(self, pid: int, now: float) -> bool:
        return self._again and now >= self._searched[pid][0]
