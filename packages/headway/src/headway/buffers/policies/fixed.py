"""A policy that looks at a fixed period in ns, whatever the thread does."""

from __future__ import annotations

from ..policy import USEFUL

__all__ = ["Fixed"]


class Fixed:
    """A fixed period, as a timer gives it. Looks are at its multiples; missed ones are not made up for."""

    reads_clock = False
    waits_for_kernel = False

    def __init__(self, capacity: int, *, period: int = 10_000_000, useful: float = USEFUL) -> None:
        """``period`` is in ns. ``useful`` is the part of the capacity from which on the buffer is drained."""
        if period <= 0:
            raise ValueError(f"period {period}: not above 0")
        self._period = period
        self._enough = capacity * useful
        self._due = -1

    def due(self, now: int, used: int) -> int:
        """Return the next multiple of the period; see `headway.buffers.policy.Policy`."""
        if self._due < 0:
            self._due = now - now % self._period + self._period
        return self._due

    def looked(self, now: int, used: int, filled: int, lost: int) -> bool:
        """Return whether the buffer is full enough to drain; see `headway.buffers.policy.Policy`."""
        self._due = now - now % self._period + self._period
        return filled >= self._enough
