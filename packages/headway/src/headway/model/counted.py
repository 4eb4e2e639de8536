"""How much of the time an event was counted.

A processor has fewer counters than events, so the kernel multiplexes them.
"""

from __future__ import annotations

from headway.dataclass import dataclass

__all__ = ["Counted"]


@dataclass(frozen=True, slots=True)
class Counted:
    """The time for which an event was wanted and the time for which it had a counter.

    Both are in ns, summed over all processors and threads (perf_event_open(2), PERF_FORMAT_TOTAL_TIME_ENABLED and
    PERF_FORMAT_TOTAL_TIME_RUNNING). Where ``running`` is less than ``enabled``, the event's figures were scaled up.
    """

    enabled: int = 0
    running: int = 0

    @property
    def share(self) -> float:
        """The share of the time that was counted, from 0 to 1; 1 if there was no time."""
        return min(self.running / self.enabled, 1.0) if self.enabled > 0 else 1.0

    @property
    def whole(self) -> bool:
        """Whether the event was counted all the time, so that nothing was scaled."""
        return self.running >= self.enabled

    def __add__(self, other: Counted) -> Counted:
        """Return the sum of both."""
        return Counted(self.enabled + other.enabled, self.running + other.running)

    def __sub__(self, earlier: Counted) -> Counted:
        """Return what was added since an earlier reading."""
        return Counted(self.enabled - earlier.enabled, self.running - earlier.running)
