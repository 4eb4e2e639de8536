"""Look each so many ns, whatever the thread does."""

from __future__ import annotations

from ..policy import USEFUL

__all__ = ["Fixed"]


class Fixed:
    """A fixed period, as a timer gives it; looks are at its multiples, those that were missed are not made up for."""

    reads_clock = False
    waits_for_kernel = False

    def __init__(self, capacity: int, *, period: int = 10_000_000, useful: float = USEFUL) -> None:
        """``useful``: the part of the capacity from which on it is drained."""
        if period <= 0:
            raise ValueError(f"period {period}: not above 0")
        self._period = period
        self._enough = capacity * useful
        self._due = -1

    def due(self, now: int, used: int) -> int:
        """See `headway.buffers.policy.Policy`."""
        if self._due < 0:
            self._due = now - now % self._period + self._period
        return self._due

    def looked(self, now: int, used: int, filled: int, lost: int) -> bool:
        """See `headway.buffers.policy.Policy`."""
        self._due = now - now % self._period + self._period
        return filled >= self._enough
