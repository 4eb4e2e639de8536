"""Clock anchors: the time of day at an instant of CLOCK_MONOTONIC, and the uncertainty of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Anchor", "boot", "read_anchor"]


@dataclass(frozen=True, slots=True)
class Anchor:
    """At ``monotonic`` of CLOCK_MONOTONIC, CLOCK_REALTIME was ``realtime`` (clock_gettime(2)); all in ns.

    The true difference of the two clocks differs from realtime - monotonic by at most ``uncertainty``. The error of the
    time of day itself, relative to another machine, depends on what keeps it (NTP, PTP) and is not known here.
    """

    monotonic: int
    realtime: int
    uncertainty: int


def read_anchor(tries: int = 16) -> Anchor:
    """Read CLOCK_REALTIME between two readings of CLOCK_MONOTONIC, ``tries`` times, and return the narrowest result."""
    best: Anchor | None = None
    for _ in range(tries):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        realtime = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        half = (after - before + 1) // 2
        if best is None or half < best.uncertainty:
            best = Anchor(before + (after - before) // 2, realtime, half)
    assert best is not None
    return best


def boot() -> str:
    """Return the id of this boot (random(4)), or "" if it is not known.

    CLOCK_MONOTONIC is comparable only within one boot.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
