"""Locks: which of the futexes that threads wait for exclude each other.

It is a lock where another thread has it, where its name says so, or where threads that wait for it wake each other: who
had it lets it go, and a producer does not wait for its own queue.
"""

from __future__ import annotations

from collections.abc import Set

from headway.model.cause import Behind, Cause
from headway.model.ledger import Ledger, Thread
from headway.model.locks import FUTEX, had_by_another, names_a_lock

__all__ = ["Lock", "lock_of", "locks"]

Lock = tuple[int, str]
"""The process, and the name of the futex in it."""
_MOST = 0.5
"""A thread waits for a lock if it has at least this share of its waits for futexes."""


def locks(ledger: Ledger) -> Set[Lock]:
    """Return the locks that threads of the ledger waited for, as far as causes were recorded."""
    found: dict[Lock, tuple[set[int], set[int | None]]] = {}
    had: set[Lock] = set()
    for thread in ledger.threads:
        about = _main(thread, Behind.OBJECT)
        if about is not None:
            waiters, wakers = found.setdefault((thread.pid, about.name), (set(), set()))
            waiters.add(thread.tid)
            if had_by_another(thread):
                had.add((thread.pid, about.name))
            woken = (c for c in thread.causes if c.state == FUTEX and c.behind is Behind.WAKER)
            wakers.update(cause.tid for cause in woken if cause.tid != thread.tid)
    return had | {lock for lock, (waiters, wakers) in found.items() if waiters & wakers or names_a_lock(lock[1])}


def lock_of(thread: Thread, known: Set[Lock]) -> Lock | None:
    """Return the lock that a thread waits for most; None: it is not known to be one."""
    about = _main(thread, Behind.OBJECT)
    lock = None if about is None else (thread.pid, about.name)
    return lock if lock in known else None


def _main(thread: Thread, behind: Behind) -> Cause | None:
    """Return the cause with most of the time in waits for futexes, if that is most of it."""
    whole = thread.states[FUTEX].time if FUTEX in thread.states else 0
    about = [cause for cause in thread.causes if cause.state == FUTEX and cause.behind is behind]
    most = max(about, key=lambda cause: (cause.time, cause.name), default=None)
    return most if most is not None and most.time >= _MOST * whole > 0 else None
