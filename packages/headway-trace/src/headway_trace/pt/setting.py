"""What the decoder has to know of the processor and of how its trace unit was set."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["PtSetting", "Ticks"]

_LAST = (1 << 64) - 1
_CPUID = re.compile(
    r"GenuineIntel(?:,(\d{1,3}),(\d{1,4}),(\d{1,3})|-(\d{1,3})-([0-9a-fA-F]{1,4})-([0-9a-fA-F]{1,2}))", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Ticks:
    """How a value of the time stamp counter becomes nanoseconds, as the kernel computes it (perf_event_mmap_page)."""

    shift: int
    multiplier: int
    zero: int

    def nanoseconds(self, ticks: int) -> int:
        """Return the time in ns of a value of the counter."""
        whole, rest = ticks >> self.shift, ticks & (1 << self.shift) - 1
        return self.zero + whole * self.multiplier + (rest * self.multiplier >> self.shift)

    def ticks(self, nanoseconds: int) -> int:
        """Return the last value of the counter that is not after a time in ns; 0: it is before the counter began."""
        if nanoseconds < self.zero:
            return 0
        return min(((nanoseconds - self.zero + 1 << self.shift) - 1) // self.multiplier, _LAST)


@dataclass(frozen=True, slots=True)
class PtSetting:
    """``family``, ``model`` and ``stepping`` of the processor decide which errata are worked around; 0: not known.

    ``crystal``: CPUID 0x15 EBX and EAX, which relate MTC packets to the time stamp counter; 0, 0: not known.
    ``mtc_period`` and ``nominal`` (the highest ratio without turbo) are as in RTIT_CTL.MTCFreq and PLATFORM_INFO.
    ``ticks`` is None if only the counter is known, and not what it has to do with the time of the system.
    """

    family: int = 0
    model: int = 0
    stepping: int = 0
    crystal: tuple[int, int] = (0, 0)
    mtc_period: int = 0
    nominal: int = 0
    ticks: Ticks | None = None
    filters: tuple[tuple[int, int, int], ...] = ()
    """Address filters, at most four: 1 (only there is traced) or 2 (tracing stops there), first and last address."""
    cycle_accurate: bool = True
    """Whether there is a time: packets with the time stamp counter were switched on."""

    @property
    def protocol(self) -> str:
        """The name of the protocol."""
        return "Intel PT"

    @classmethod
    def of_processor(cls, words: str) -> tuple[int, int, int]:
        """Return family, model and stepping of a processor as perf names it (``GenuineIntel,6,158,10``)."""
        found = _CPUID.match(words)
        if not found:
            return 0, 0, 0
        if found[1]:
            return int(found[1]), int(found[2]) & 0xFF, int(found[3]) & 0xFF
        return int(found[4]), int(found[5], 16) & 0xFF, int(found[6], 16) & 0xFF
