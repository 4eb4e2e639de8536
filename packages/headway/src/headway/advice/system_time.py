"""The anomaly of processors that are busy with hardly any user code: reclaim, interrupts, a driver that does not end.

US patent 7,617,488 (*Determining processor utilization*) names it as a use of utilisation: it is high while few or no
user tasks are served. What takes the time is found by the states of the processors. Where the threads are known, the
thread that takes most of it is named.
"""

from __future__ import annotations

from collections.abc import Sequence

from headway.dataclass import dataclass
from headway.model.estimate import KERNEL_THREAD
from headway.model.indices import is_interrupt, time_by_kind
from headway.model.kinds import Kind, kind_of
from headway.model.ledger import Ledger, Processor, Thread

from . import patterns
from .findings import LONGEST
from .patterns import Pattern
from .thresholds import Thresholds

__all__ = ["Anomaly", "busy_without_user_code"]

_FAULT, _RECLAIMS = "kernel.fault", "kernel.reclaim"
_RECLAIM = ("kswapd", "kcompactd")
"""Kernel threads that look for memory to take back (mm/vmscan.c, mm/compaction.c)."""
_UNKNOWN = 0.1
"""Where more of the processors' time than this share was not seen, nothing is known of user code."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Processors that are busy with hardly any user code."""

    lost: int
    """Their busy time without user code."""
    share: float
    """The same as a share of their busy time."""
    found: str
    """What was found, in words."""
    pattern: Pattern
    thread: Thread | None
    """The thread that takes most of the time; None: no thread does, or it is not known which."""


def busy_without_user_code(ledger: Ledger, r: Thresholds) -> Anomaly | None:
    """Return the anomaly if all processors of the ledger together have it, otherwise None."""
    whole = idle = user = system = 0
    for processor in ledger.processors:
        times = time_by_kind(processor.states)
        whole += processor.span - times[Kind.STOLEN]
        idle += times[Kind.WAIT]
        user += times[Kind.EFFECTIVE] + times[Kind.MEMORY] + times[Kind.STALL] + times[Kind.POLL]
        system += times[Kind.KERNEL] + times[Kind.OVERHEAD]
    busy = user + system
    unknown = whole - idle - busy
    if system <= 0 or unknown > _UNKNOWN * whole or busy <= r.busy * whole or system <= r.system * busy:
        return None
    share = system / busy
    state, thread, pattern = _cause(ledger.processors, ledger.threads)
    found = (
        f"the processors are busy {busy / whole:.0%} of the time, but {share:.0%} of that is no user code, most in "
        f"{state[:LONGEST]}"
    )
    if thread is not None:
        found += f" of {thread.name[:LONGEST]} ({thread.tid})"
    return Anomaly(system, share, found, pattern, thread)


def _cause(processors: Sequence[Processor], threads: Sequence[Thread]) -> tuple[str, Thread | None, Pattern]:
    """Return the state, the thread and the pattern of most of the time."""
    times: dict[str, int] = {}
    for processor in processors:
        for state, cell in processor.states.items():
            if kind_of(state) in (Kind.KERNEL, Kind.OVERHEAD):
                times[state] = times.get(state, 0) + cell.time
    groups: dict[str, int] = {}
    for state, time in times.items():
        groups[_group(state)] = groups.get(_group(state), 0) + time
    group = max(groups, key=lambda name: (groups[name], name))
    state = max((s for s in times if _group(s) == group), key=lambda s: (times[s], s))
    if group == "interrupts":
        return state, None, patterns.INTERRUPTED
    if group == "overhead":
        return state, None, patterns.OBSERVED
    thread = max(threads, key=lambda t: (_time_in(t, group), t.key), default=None)
    if thread is not None and not _time_in(thread, group):
        thread = None
    if group == KERNEL_THREAD:
        reclaims = thread is not None and thread.name.startswith(_RECLAIM)
        return state, thread, patterns.RECLAIM if reclaims else patterns.RUNAWAY
    if group == _FAULT:
        minor = all(s == "kernel.fault.minor" for s in times if _group(s) == _FAULT and times[s])
        return state, thread, patterns.NEW_MEMORY if minor else patterns.THRASHING
    return state, thread, patterns.RECLAIM if group == _RECLAIMS else patterns.CALLS_ONLY


def _group(state: str) -> str:
    if is_interrupt(state):
        return "interrupts"
    if kind_of(state) is Kind.OVERHEAD:
        return "overhead"
    if state.startswith(_FAULT):
        return _FAULT
    return state if state in (KERNEL_THREAD, _RECLAIMS) else "calls"


def _time_in(thread: Thread, group: str) -> int:
    return sum(
        cell.time for state, cell in thread.states.items() if kind_of(state) is Kind.KERNEL and _group(state) == group
    )
