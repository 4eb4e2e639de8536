"""The resolutions of the times in /proc."""

from __future__ import annotations

import os
import time

from headway.dataclass import dataclass

__all__ = ["Clocks"]

CLOCK_MONOTONIC_COARSE = 6
"""Its resolution is the scheduler's tick (include/uapi/linux/time.h, kernel/time/posix-timers.c)."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """All in ns."""

    tick: int
    """The scheduler's."""
    clock_tick: int
    """The step of processor times and of births in proc_pid_stat(5)."""
    boot_offset: int
    """The time since boot is so much more than CLOCK_MONOTONIC: the machine slept so long."""

    @classmethod
    def of_kernel(cls) -> Clocks:
        """Ask the running kernel."""
        return cls(
            tick=round(time.clock_getres(CLOCK_MONOTONIC_COARSE) * 1e9),
            clock_tick=1_000_000_000 // os.sysconf("SC_CLK_TCK"),
            boot_offset=time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns(),
        )

    def birth(self, ticks: int) -> int:
        """Return a birth as proc_pid_stat(5) tells it, in ns of CLOCK_MONOTONIC."""
        return ticks * self.clock_tick - self.boot_offset
