"""Disturbances of a reader on its processor, because of which a reading is dropped.

The reader's own stamps show them. In a meeting it reads the clock in a loop. Anything that takes the processor from it
(a system management interrupt, the hypervisor, a more urgent thread, an interrupt) leaves a gap between two looks at
the clock, and the error of a stamp is never larger than such a gap. Counts that grew meanwhile tell the causes apart.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping

from ._meeting import Stamps

__all__ = ["ABSENT", "FOR_GOOD", "LATE", "MOVED", "NEW", "OFFLINE", "REASONS", "explain", "judge"]

MAX_GAP = 5_000
"""The longest time in ns between two looks at the clock without a disturbance."""
MAX_READING = 12_000
"""The longest time in ns for reading the counters; a look at the clock costs less than a tenth of that."""
MAX_SKEW = 10_000
"""The longest time in ns between the first and the last reader."""

ABSENT, OFFLINE, FORBIDDEN, MOVED, PREEMPTED = "absent", "offline", "cpuset", "moved", "preempted"
GAP, SKEW, CLOCK, COUNTER, LATE, SMI, STEAL, NEW = (
    "interrupted",
    "skew",
    "clock",
    "counter",
    "late",
    "smi",
    "steal",
    "new",
)

FOR_GOOD = (OFFLINE, FORBIDDEN)
"""Reasons for which trying again does not help."""

REASONS = {
    ABSENT: "its reader did not come: something more urgent has the processor",
    OFFLINE: "the processor is offline, or was",
    FORBIDDEN: "its reader may not run there any more (cpuset)",
    MOVED: "its reader was moved to another processor",
    PREEMPTED: "something more urgent took the processor from its reader",
    GAP: "something interrupted its reader",
    SKEW: "it was read too late after the others",
    CLOCK: "the clocks of two processors do not agree",
    COUNTER: "a counter could not be read, or jumped",
    LATE: "all were read long after the end of the interval: headway was stopped, or the machine slept",
    SMI: "a system management interrupt stopped all processors",
    STEAL: "the hypervisor took the processor from its reader",
    NEW: "there was no earlier good reading to compare it with",
}
"""The reasons in words, by their names in JSON."""


def judge(stamps: Mapping[int, Stamps | None]) -> dict[int, str]:
    """Return what is wrong with a meeting, by processor; empty if nothing disturbed it.

    ``stamps``: those of each processor's reader; None if it did not come. If not all readers met, the result names only
    those that are to blame.
    """
    wrong: dict[int, str] = {}
    there: list[tuple[int, Stamps]] = []
    for cpu, s in stamps.items():
        reason = _of_one(cpu, s)
        if reason:
            wrong[cpu] = reason
        elif s is not None and s.met:
            there.append((cpu, s))
    if not there:
        return wrong
    first = min([s.before for _, s in there])
    # Every reader reports its arrival before any reader can see that all have arrived.
    arrived = max([s.arrived for _, s in there])
    for cpu, s in there:
        if s.before - first > MAX_SKEW:
            wrong[cpu] = SKEW
        elif s.saw_go < arrived:
            wrong[cpu] = CLOCK
    return wrong


def _of_one(cpu: int, s: Stamps | None) -> str | None:
    if s is None:
        return ABSENT
    if s.repin_error:
        return FORBIDDEN if s.repin_error == errno.EPERM else OFFLINE
    if s.loose or s.cpu_before != cpu or s.cpu_after != cpu:
        return MOVED
    if s.preempted or s.waited:
        return PREEMPTED
    if s.gap > MAX_GAP:
        return GAP
    if not s.met:
        return None
    if s.missing:
        return COUNTER
    if not s.arrived <= s.saw_go <= s.before <= s.after <= s.saw_done:
        return CLOCK
    if s.after - s.before > MAX_READING or s.before - s.saw_go > MAX_GAP:
        return GAP
    return None


def explain(reason: str, s: Stamps | None, *, smi: int | None, virtual: bool) -> str:
    """Return what interrupted, if counts tell. ``smi``: system management interrupts meanwhile (None: unknown)."""
    if reason not in (GAP, SKEW) or s is None:
        return reason
    if smi:
        return SMI
    return STEAL if virtual and 2 * s.away >= s.gap > MAX_GAP else reason
