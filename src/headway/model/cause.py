"""What is behind the time in a state: the thing waited for, who ended the wait, who held the processor.

Causes are listed in one order, most time first, so that the same causes are equal however they came together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from .cell import Cell

__all__ = ["Behind", "Cause", "CauseKey", "add_causes", "list_causes", "subtract_causes", "within"]


class Behind(Enum):
    """How a cause relates to the state."""

    OBJECT = "object"
    """What it was about: a lock, a file, a socket, an interrupt's device."""
    WAKER = "waker"
    """Who ended the wait."""
    HOLDER = "holder"
    """Who had the processor meanwhile."""

    __hash__ = object.__hash__


CauseKey = tuple[str, Behind, str, int | None]
"""What tells a cause from every other one of its thread: (state, behind, name, tid)."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A part of a thread's time in one state, by one cause.

    The causes of one state and one `Behind` add up to no more than the state's time; what is missing was not seen.
    """

    state: str
    behind: Behind
    name: str
    """Of the thing or the thread, for people to read."""
    time: int
    """In the ledger's time unit."""
    count: int
    tid: int | None = None
    """Of the thread, where the cause is one."""

    @property
    def key(self) -> CauseKey:
        """(state, behind, name, tid)."""
        return self.state, self.behind, self.name, self.tid


def list_causes(found: Mapping[CauseKey, tuple[int, int]]) -> tuple[Cause, ...]:
    """Causes from their times and counts; those with neither are left out."""
    rows = [
        Cause(state, behind, name, time, count, tid)
        for (state, behind, name, tid), (time, count) in found.items()
        if time or count
    ]
    return tuple(sorted(rows, key=_order))


def add_causes(*many: Iterable[Cause]) -> tuple[Cause, ...]:
    """The causes of several threads, or of several times of one, added up."""
    total: dict[CauseKey, tuple[int, int]] = {}
    for causes in many:
        for cause in causes:
            time, count = total.get(cause.key, (0, 0))
            total[cause.key] = time + cause.time, count + cause.count
    return list_causes(total)


def subtract_causes(later: Iterable[Cause], earlier: Iterable[Cause]) -> tuple[Cause, ...]:
    """What came since an earlier reading of the same thread."""
    before = {cause.key: cause for cause in earlier}
    rest = {}
    for cause in later:
        old = before.get(cause.key)
        rest[cause.key] = (cause.time - old.time, cause.count - old.count) if old else (cause.time, cause.count)
    return list_causes(rest)


def within(states: Mapping[str, Cell], causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """The causes, cut to the time that the states have, the largest first.

    A wait is counted when it ends, with all its time: in an interval that has only the last part of it, that is more
    than the interval's.
    """
    room: dict[tuple[str, Behind], int] = {}
    rows = []
    for cause in sorted(causes, key=_order):
        key = cause.state, cause.behind
        if key not in room:
            room[key] = states[cause.state].time if cause.state in states else 0
        time = min(cause.time, room[key])
        room[key] -= time
        if time or not cause.time:
            rows.append(replace(cause, time=time))
    return tuple(sorted(rows, key=_order))


def _order(cause: Cause) -> tuple[int, str, str, str, int]:
    return -cause.time, cause.state, cause.behind.value, cause.name, -1 if cause.tid is None else cause.tid
