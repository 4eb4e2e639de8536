"""Find the marked regions of processes that had some before measuring began. Later ones register with the programs."""

from __future__ import annotations

import time

from headway.linux.bpf._memory import BpfMaps

__all__ = ["RegionSearch"]

SECONDS = 1.0
"""Between two searches."""


class RegionSearch:
    """Searches the processes that are measured, each once, for blocks of marked regions."""

    def __init__(self, memory: BpfMaps) -> None:
        self._memory = memory
        self._searched: set[int] = set()
        self._last = 0.0

    def search_if_due(self) -> None:
        """Search again if the last search was long ago."""
        if time.monotonic() - self._last > SECONDS:
            self.search()

    def search(self) -> None:
        """Tell the eBPF programs where the threads of processes that are new have their blocks."""
        self._last = time.monotonic()
        fresh = {thread.pid for thread in self._memory.unmarked()} - self._searched
        if not fresh:
            return
        self._searched &= {thread.pid for thread in self._memory.living()}  # ids are used again
        self._searched |= fresh
        from headway.linux.regions.blocks import RegionBlocks

        for pid in fresh:
            blocks = RegionBlocks(pid)
            if blocks.find():
                for tid, block in blocks.read().blocks.items():
                    self._memory.mark(tid, block.address)
