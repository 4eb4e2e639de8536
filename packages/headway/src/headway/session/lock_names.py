"""Name the locks of a recording while their processes live: a row of a wait has only the address of its futex."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from headway.linux.symbols.futexes import Locks
from headway.model import Batch

__all__ = ["LockNames"]

MOST = 4096
"""Locks that are named in one recording."""


class LockNames:
    """The names of the futexes of batches, by process and address. Those without a name are not among them."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, int], str] = {}
        self._locks = Locks()
        self._threads: dict[int, tuple[int, int]] = {}
        self._seen: set[tuple[int, int]] = set()

    def look(self, batch: Batch) -> bool:
        """Name the futexes that are new in a batch. Return whether there are new names."""
        for thread in batch.threads:
            self._threads[thread.thread] = thread.tid, thread.pid
        rows = batch.transitions
        if rows.futex is None or len(self._seen) >= MOST:
            return False
        at = np.flatnonzero(rows.futex)
        fresh: dict[int, dict[int, int]] = {}
        pairs = np.unique(np.stack([rows.thread[at].astype(np.uint64), rows.futex[at]]), axis=1)
        for number, address in pairs.T.tolist():
            tid, pid = self._threads.get(number, (0, 0))
            if pid and (pid, address) not in self._seen and len(self._seen) < MOST:
                self._seen.add((pid, address))
                fresh.setdefault(pid, {})[address] = tid
        before = len(self.found)
        for pid, addresses in fresh.items():
            for one in (pid, *addresses.values()):  # a process whose first thread has ended has its memory in others
                names = {}
                with suppress(OSError):
                    names = self._locks.names(one, addresses)
                if names:
                    self.found |= {(pid, address): name.text for address, name in names.items()}
                    break
        return len(self.found) > before
