"""The processor time of a thread by the kernel's own clock of it: ``sum_exec_runtime``, which ``top`` is based on."""

from __future__ import annotations

from headway.dataclass import dataclass

from .quality import Quality

__all__ = ["KernelClock"]


@dataclass(frozen=True, slots=True)
class KernelClock:
    """How far the kernel's clock of a thread went in a window.

    The kernel brings the clock of a running thread up to date at ticks and switches only. So the figure is not known of
    a thread that ran when the window ended. Of one that ran when its measurement began it is a bound: it may have up to
    a tick too much.
    """

    time: int | None
    """In ns. None: it is not known."""
    quality: Quality

    def __add__(self, other: KernelClock) -> KernelClock:
        """Return the sum of both. What is unknown in one is unknown in the sum."""
        if self.time is None or other.time is None:
            return KernelClock(None, Quality.UNAVAILABLE)
        return KernelClock(self.time + other.time, self.quality | other.quality)

    def __sub__(self, earlier: KernelClock) -> KernelClock:
        """Return what was added since an earlier reading of the same thread. Both have the same beginning: exact."""
        if self.time is None or earlier.time is None:
            return KernelClock(None, Quality.UNAVAILABLE)
        return KernelClock(self.time - earlier.time, Quality.EXACT)
