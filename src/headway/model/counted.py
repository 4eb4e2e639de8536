"""How much of the time an event was really counted: a processor has fewer counters than events (multiplexing)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Counted"]


@dataclass(frozen=True, slots=True)
class Counted:
    """For how long an event was wanted, and for how long it had a counter (perf_event_open(2), PERF_FORMAT_TOTAL_TIME).

    Both in ns, over all processors and threads. Where ``running`` is less, the event's figures were scaled up.
    """

    enabled: int = 0
    running: int = 0

    @property
    def share(self) -> float:
        """From 0 to 1: how much of the time was counted; 1 where there was no time to count in."""
        return min(self.running / self.enabled, 1.0) if self.enabled > 0 else 1.0

    @property
    def whole(self) -> bool:
        """Whether nothing had to be scaled."""
        return self.running >= self.enabled

    def __add__(self, other: Counted) -> Counted:
        """Both together."""
        return Counted(self.enabled + other.enabled, self.running + other.running)

    def __sub__(self, earlier: Counted) -> Counted:
        """What came since an earlier reading."""
        return Counted(self.enabled - earlier.enabled, self.running - earlier.running)
