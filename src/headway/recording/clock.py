"""Clock anchors: what time of day it was at an instant of CLOCK_MONOTONIC, and how exactly that is known."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Anchor", "boot", "read_anchor"]


@dataclass(frozen=True, slots=True)
class Anchor:
    """At ``monotonic`` of CLOCK_MONOTONIC it was ``realtime`` of CLOCK_REALTIME (clock_gettime(2)), all in ns.

    The true difference of the two clocks is within ``uncertainty`` of theirs. How far the time of day itself is off
    from that of another machine is the business of what keeps it (NTP, PTP), and not known here.
    """

    monotonic: int
    realtime: int
    uncertainty: int


def read_anchor(tries: int = 16) -> Anchor:
    """Read one clock between two readings of the other, several times; the narrowest pair is kept."""
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
    """Which run of this machine's kernel this is (random(4)): its CLOCK_MONOTONIC is no other's; "" if not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
