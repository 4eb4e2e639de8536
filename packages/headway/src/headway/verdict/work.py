"""What each thread did: whether it works or rests, and the parts of its time by cause.

A thread works if it makes progress, wants a processor, or is held up in the middle of its work. One that only waits
for work rests: it is no cause, and no sentence names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from headway.dataclass import dataclass
from headway.model import Kind, Ledger, Thread, listed, processor_time

from .why import AT_REST, HELD_UP, Why, reason_of, why_of

__all__ = ["REST", "Doing", "doing", "works"]

REST = 0.10
"""A thread that had work in a smaller share of its time rests."""
_OF_KIND = {Why.OWN_CODE: Kind.EFFECTIVE, Why.MEMORY: Kind.MEMORY, Why.STALLS: Kind.STALL}
"""The causes whose time hardware counters divide."""


@dataclass(frozen=True, slots=True)
class Doing:
    """What a thread did, in the ledger's time unit."""

    thread: Thread
    able: int
    """The time in which it ran, or could have run."""
    held_up: int = 0
    """The time of waits that only work has."""
    futex: int = 0
    futexes: int = 0
    """How often it waited in a futex."""
    rests: int = 0
    """How often it waited where a thread may rest."""
    parts: Mapping[Why, int] = field(default_factory=dict)

    @property
    def active(self) -> int:
        """The time in which it had work, as far as its states alone tell."""
        return self.able + self.held_up


def doing(ledger: Ledger) -> Sequence[Doing]:
    """Return what each thread did that was measured for a while."""
    return [_doing(ledger, thread) for thread in ledger.threads if thread.span > 0]


def works(one: Doing, locked: bool) -> bool:
    """Return whether a thread works. ``locked``: its waits in futexes are waits for locks."""
    return one.active + (one.futex if locked else 0) >= REST * one.thread.span


def _doing(ledger: Ledger, thread: Thread) -> Doing:
    times = ledger.times(thread)
    parts: dict[Why, int] = {}
    held_up = rests = futex = futexes = 0
    for state, count, time in listed(thread.states):
        why, reason = why_of(state), reason_of(state)
        if why is not None and time > 0:
            parts[why] = parts.get(why, 0) + time
        if reason in HELD_UP:
            held_up += time
        elif reason == "futex":
            futex, futexes = time, count or 0
        elif reason in AT_REST:
            rests += count or 0
    for why, kind in _OF_KIND.items():
        parts[why] = times[kind]
    able = processor_time(times) + times[Kind.READY] + times[Kind.STOLEN] + times[Kind.OVERHEAD]
    return Doing(thread, able, held_up, futex, futexes, rests, parts)
