"""Causes: name the objects of waits while their processes live, and give the threads of a ledger their causes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headway.model import READY, Behind, Cause, Cell, StateDurations, Thread, known_durations, with_all_holders, within
from headway.model.ledger import States

if TYPE_CHECKING:
    from headway.linux.bpf.waits.causes import CauseReader, Causes

__all__ = ["CauseNaming", "with_causes"]

NAMING_SECONDS = 0.01, 0.25
"""Between two looks at what threads wait for: at first, and later."""
NAMING_SHARE = 20
"""So many times as long as a look took is the pause after it, at least."""


class CauseNaming:
    """Looks at what threads wait for: soon, because a program may be short, and then more and more seldom."""

    def __init__(self, causes: CauseReader) -> None:
        self._causes = causes
        self._pause, self._next = NAMING_SECONDS[0], 0.0

    def look_if_due(self) -> float:
        """Name what is new if it is time to. Return the seconds after which to call again."""
        now = time.monotonic()
        if now >= self._next:
            self._causes.look()
            # Where there is much to name it takes its time: a small part of all of it, at most.
            self._next = now + max(self._pause, NAMING_SHARE * (time.monotonic() - now))
            self._pause = min(2 * self._pause, NAMING_SECONDS[1])
        return self._pause


def with_causes(threads: Sequence[Thread], causes: Causes, before: Causes | None = None) -> list[Thread]:
    """Return the threads with what is behind their states; waits for Python's GIL become a state of their own.

    With ``before``, the causes until the beginning of the window, only what came since is told.
    """
    from headway.linux.bpf.waits.causes import GIL

    found = []
    names = {(thread.pid, thread.tid): thread.name for thread in threads}
    for thread in threads:
        states: States = thread.states
        durations = thread.durations
        time, count = causes.gil_of(thread.key, before)
        futex = states.get("wait.futex")
        if time and futex is not None:
            time, count = min(time, futex.time), min(count, futex.count or 0)
            rest = futex - Cell(time, count)
            states = {**states, "wait.futex": rest, GIL: Cell(time, count)}
            if not rest.time:
                del states["wait.futex"]
            durations = _divided_durations(durations, states, GIL)
        listed = with_holders_of_locks(thread.pid, names, causes.listed(thread.key, before))
        behind = within(states, listed)
        found.append(replace(thread, states=states, causes=with_all_holders(states, behind), durations=durations))
    return found


def with_holders_of_locks(pid: int, names: Mapping[tuple[int, int], str], causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Return the causes of a thread with the names of those that had a lock when a wait for it began.

    ``names``: of the threads that are known, by process and id. What is none of the process's threads is left out: what
    was taken for a lock was none, or the program's ids are of another pid namespace.
    """
    found = []
    for cause in causes:
        if cause.behind is not Behind.HOLDER or cause.state == READY:
            found.append(cause)
        elif cause.tid is not None and (name := names.get((pid, cause.tid))) is not None:
            found.append(replace(cause, name=name))
    return tuple(found)


def _divided_durations(durations: StateDurations | None, states: States, gil: str) -> StateDurations | None:
    """Return the durations of the states that are left of wait.futex: if it is divided, whose is which is not known."""
    if durations is None:
        return None
    if "wait.futex" not in states and "wait.futex" in durations:
        durations = {**durations, gil: durations["wait.futex"]}
    return known_durations(durations, states)
