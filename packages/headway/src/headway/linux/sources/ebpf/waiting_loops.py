"""Libraries whose threads wait for each other in loops of their own, which looks like progress where nothing looks.

OpenMP's threads spin at barriers (GOMP_SPINCOUNT, KMP_BLOCKTIME, OMP_WAIT_POLICY), and so do those of the BLAS
libraries. That such a library is loaded is no evidence that its threads spin now, so it is only said.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from headway.linux.bpf.threads.rows import LivingThread
from headway.linux.procfs.maps import mappings
from headway.model import Kind, Ledger, processor_time

__all__ = ["WaitingLoops"]

_LIBRARY = re.compile(r"lib(gomp|omp5?|iomp5|openblas\w*|blis|mkl_\w+)([-.][^/]*)?\.so(\.[0-9.]+)?", re.ASCII)
_PAUSES = 0.25, 16.0
"""Seconds after the beginning at which all processes are looked at first, and at most between two looks."""
_MOST = 64
"""So many processes are looked at."""
_NEARLY_ALL = 0.9
"""A process may spin if so much of its processor time looks like progress."""


class WaitingLoops:
    """Finds such libraries in the processes that are measured. ``living``: the threads that are measured now."""

    def __init__(self, living: Callable[[], Iterable[LivingThread]]) -> None:
        self._living = living
        self._found: dict[int, str] = {}
        self._pause = _PAUSES[0]
        self._next = time.monotonic() + self._pause

    def look_if_due(self) -> None:
        """Look at the processes, ever more seldom: libraries are mostly loaded at the beginning."""
        if time.monotonic() < self._next:
            return
        for pid in sorted({thread.pid for thread in self._living()})[:_MOST]:
            if pid not in self._found:
                with suppress(OSError):
                    self._look(pid)
        self._pause = min(2 * self._pause, _PAUSES[1])
        self._next = time.monotonic() + self._pause

    def _look(self, pid: int) -> None:
        for mapping in mappings(pid):
            name = os.path.basename(mapping.path)
            if _LIBRARY.fullmatch(name):
                self._found[pid] = name
                return

    def told(self, ledger: Ledger) -> Ledger:
        """Return the ledger with a reason to look closer, if such a process seems to make nothing but progress."""
        names = {self._found[pid] for pid in self._found if _seems_busy(ledger, pid)}
        if not names:
            return ledger
        words = f"not looked for, and threads of {' and '.join(sorted(names)[:2])} may wait in loops: --spin finds that"
        return replace(ledger, reasons={**ledger.reasons, "spinning": words})


def _seems_busy(ledger: Ledger, pid: int) -> bool:
    """Return whether several threads of a process ran, and nearly all of their time looks like progress."""
    had = [times for thread in ledger.threads if thread.pid == pid and processor_time(times := thread.times())]
    progress = sum(times[Kind.EFFECTIVE] for times in had)
    return len(had) > 1 and progress > _NEARLY_ALL * sum(map(processor_time, had))
