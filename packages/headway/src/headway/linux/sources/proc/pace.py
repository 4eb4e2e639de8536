"""When to look at all threads again, so that looking takes a small share of one processor."""

from __future__ import annotations

__all__ = ["LONGEST", "SHORTEST", "Pace"]

SHARE = 0.03
"""Of one processor, that looking may take."""
SHORTEST = 10_000_000
"""Between two scans, in ns."""
LONGEST = 1_000_000_000
"""Between two scans, in ns, whatever they cost."""


class Pace:
    """The pause between two scans, from what they cost; all times are ns. ``share``: of one processor."""

    def __init__(self, share: float = SHARE) -> None:
        self.share = share
        self.period = SHORTEST
        self.cost = 0
        """What looking took so far."""
        self._last = 0
        self._scan_cost = 0

    def rest(self, now: int) -> int:
        """Return how long it is until the next scan is due."""
        return self._last + self.period - now

    def scanned(self, at: int, cost: int) -> None:
        """Count a scan: its moment, and the processor time that it took."""
        self.cost += cost
        self._last = at
        self._scan_cost = cost if cost > self._scan_cost else (self._scan_cost + cost) // 2
        self.period = min(max(round(self._scan_cost / self.share), SHORTEST), LONGEST)

    def spent(self, cost: int) -> None:
        """Count processor time that something else took: the next scan is due the later for it."""
        self.cost += cost
        self.period = min(self.period + round(cost / self.share), LONGEST)
