"""Causes of the time in a state: the object waited for, the thread that ended the wait, the thread that ran meanwhile.

Causes are always sorted, the one with most time first, so that equal sets of causes compare equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum

from headway.dataclass import dataclass

from .cell import Cell
from .ready import READY, time_with_causes

__all__ = [
    "FORGOTTEN",
    "HIDDEN",
    "IDLE",
    "NOT_KNOWN",
    "NOT_VISIBLE",
    "STILL_READY",
    "THROTTLED",
    "WOKEN_BY",
    "Behind",
    "Cause",
    "CauseKey",
    "add_causes",
    "list_causes",
    "subtract_causes",
    "with_all_holders",
    "within",
]

IDLE = "idle"
"""The holder of a processor that ran no thread."""
HIDDEN = " (hidden from tracing)"
"""Ends the name of a holder of whose own events the kernel shows none. The kernel's names of threads are shorter."""
NOT_VISIBLE = " (not visible here)"
"""Ends the name of a thread that has no id in this pid namespace."""
STILL_READY = "still ready at the end"
"""In place of the holders where a thread was ready when the window ended: it is not known which processor it gets."""
THROTTLED = "throttled"
"""In place of holders while the CPU quota of the thread's control group was used up."""
FORGOTTEN = "forgotten"
"""In place of the first holders where so many had the processor after them that they are not kept."""
WOKEN_BY = ", woken by "
"""Stands in the name of a place (`Behind.PLACE`) before the place of the waker."""
NOT_KNOWN = "not known"
"""In place of holders that were not seen."""


class Behind(Enum):
    """The relation of a cause to the state."""

    OBJECT = "object"
    """The object that the state was about: a lock, a file, a socket, an interrupt's device."""
    WAKER = "waker"
    """The thread that ended the wait."""
    HOLDER = "holder"
    """Of the time ready, what had the processor: a thread, an interrupt (the name of its state), or nobody (`IDLE`).

    Of a wait for a lock, the thread that had the lock when the wait began.
    """

    PLACE = "place"
    """Of a wait in a recording with stacks: where in the program it began, and where the waker was."""

    __hash__ = object.__hash__


_NOBODYS: Mapping[int | None, tuple[int | None, str | None]] = {}
CauseKey = tuple[str, Behind, str, int | None]
"""(state, behind, name, tid): identifies a cause among those of its thread."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The part of a thread's time in one state that one cause explains.

    The causes of one state and one `Behind` add up to at most the state's time. The rest was not seen.
    """

    state: str
    behind: Behind
    name: str
    """The name of the object or thread, for people to read."""
    time: int
    """In the ledger's time unit."""
    count: int
    tid: int | None = None
    """The tid, if the cause is a thread."""
    pid: int | None = None
    """The process of that thread, if it is known."""
    cgroup: str | None = None
    """The path of the control group of that process, if it is known."""

    @property
    def key(self) -> CauseKey:
        """(state, behind, name, tid)."""
        return self.state, self.behind, self.name, self.tid


def list_causes(
    found: Mapping[CauseKey, tuple[int, int]], whose: Mapping[int | None, tuple[int | None, str | None]] = _NOBODYS
) -> tuple[Cause, ...]:
    """Return the causes for the given times and counts, sorted. Causes with neither time nor count are left out.

    ``whose``: process and control group of threads, by tid.
    """
    rows = [
        Cause(state, behind, name, time, count, tid, *whose.get(tid, (None, None)))
        for (state, behind, name, tid), (time, count) in found.items()
        if time or count
    ]
    return tuple(sorted(rows, key=_order))


def add_causes(*many: Iterable[Cause]) -> tuple[Cause, ...]:
    """Return the sum of the causes of several threads, or of several windows of one thread."""
    total: dict[CauseKey, tuple[int, int]] = {}
    whose: dict[int | None, tuple[int | None, str | None]] = {}
    for causes in many:
        for cause in causes:
            time, count = total.get(cause.key, (0, 0))
            total[cause.key] = time + cause.time, count + cause.count
            _note(whose, cause)
    return list_causes(total, whose)


def _note(whose: dict[int | None, tuple[int | None, str | None]], cause: Cause) -> None:
    """Note whose thread a cause is. Of several answers the largest counts, so that the order does not matter."""
    if cause.pid is not None or cause.cgroup is not None:
        known = whose.get(cause.tid)
        told = cause.pid, cause.cgroup
        if known is None or _comparable(told) > _comparable(known):
            whose[cause.tid] = told


def _comparable(told: tuple[int | None, str | None]) -> tuple[int, str]:
    return told[0] or 0, told[1] or ""


def subtract_causes(later: Iterable[Cause], earlier: Iterable[Cause]) -> tuple[Cause, ...]:
    """Return the causes added since an earlier reading of the same thread."""
    before = {cause.key: cause for cause in earlier}
    rest = {}
    whose: dict[int | None, tuple[int | None, str | None]] = {}
    for cause in later:
        _note(whose, cause)
        old = before.get(cause.key)
        rest[cause.key] = (cause.time - old.time, cause.count - old.count) if old else (cause.time, cause.count)
    return list_causes(rest, whose)


def within(states: Mapping[str, Cell], causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Return the causes reduced to the time that the states have, the largest first.

    A wait is counted with all its time when it ends. An interval that contains only the last part of the wait has less
    time than that, so the cause is cut.
    """
    room: dict[tuple[str, Behind], int] = {}
    rows = []
    for cause in sorted(causes, key=_order):
        key = cause.state, cause.behind
        if key not in room:
            room[key] = time_with_causes(states, cause.state)
        time = min(cause.time, room[key])
        room[key] -= time
        if time or not cause.time:
            rows.append(replace(cause, time=time))
    return tuple(sorted(rows, key=_order))


def with_all_holders(states: Mapping[str, Cell], causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Return the causes with a holder `NOT_KNOWN` added, so that the holders have all of the time in ``ready``."""
    rest = time_with_causes(states, READY)
    rest -= sum([c.time for c in causes if c.state == READY and c.behind is Behind.HOLDER])
    if rest <= 0:
        return causes
    return tuple(sorted((*causes, Cause(READY, Behind.HOLDER, NOT_KNOWN, rest, 0)), key=_order))


def _order(cause: Cause) -> tuple[int, str, str, str, int]:
    return -cause.time, cause.state, cause.behind.value, cause.name, -1 if cause.tid is None else cause.tid
