"""What came between a reader and its processor: why a reading is dropped.

The reader's own stamps tell. In a meeting it looks at the clock again and again, so whatever takes the processor from
it (a system management interrupt, the hypervisor, a more urgent thread, an interrupt) leaves a gap between two looks;
and what a stamp is off by is never more than such a gap. Which of them it was is told by counts that grew meanwhile.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping

from ._meeting import Stamps

__all__ = ["ABSENT", "FOR_GOOD", "LATE", "MOVED", "NEW", "OFFLINE", "REASONS", "explain", "judge"]

MAX_GAP = 5_000
"""ns between two looks at the clock that nothing came between."""
MAX_READING = 12_000
"""ns for reading the counters; a look costs less than a tenth of that."""
MAX_SKEW = 10_000
"""ns between the first and the last reader."""

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
"""Trying again does not help."""

REASONS = {
    ABSENT: "its reader did not come: something more urgent has the processor",
    OFFLINE: "the processor is off, or was",
    FORBIDDEN: "its reader may not run there any more (cpuset)",
    MOVED: "its reader was moved to another processor",
    PREEMPTED: "something more urgent took the processor from its reader",
    GAP: "something interrupted its reader",
    SKEW: "it was read too late after the others",
    CLOCK: "the clocks of two processors do not agree",
    COUNTER: "a counter could not be read, or jumped",
    LATE: "all were read long after the interval's end: headway was stopped, or the machine slept",
    SMI: "a system management interrupt stopped all processors",
    STEAL: "the hypervisor took the processor from its reader",
    NEW: "there was no good reading before that it could be compared with",
}
"""In words, by the name that JSON has."""


def judge(stamps: Mapping[int, Stamps | None]) -> dict[int, str]:
    """What is wrong with a meeting, by processor; empty if nothing came between.

    ``stamps``: of each processor's reader; None: it did not come. Where not all met, only those that are to blame are
    listed.
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
    # Everybody says that it is there before anybody can see that all are.
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
    """What interrupted, where counts tell: ``smi``: system management interrupts meanwhile (None: not known)."""
    if reason not in (GAP, SKEW) or s is None:
        return reason
    if smi:
        return SMI
    return STEAL if virtual and 2 * s.away >= s.gap > MAX_GAP else reason
