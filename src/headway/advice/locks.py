"""Locks: which of the futexes that threads wait for exclude each other.

A futex may be a lock that others hold, or a condition by which a thread that has nothing to do waits for work. It is a
lock where threads that wait for it wake each other: only who had it can let it go, and a producer does not wait for its
own queue. A name that says so is evidence too, where the one who holds it never has to wait.
"""

from __future__ import annotations

import re
from collections.abc import Set

from headway.model.cause import Behind, Cause
from headway.model.ledger import Ledger, Thread

__all__ = ["Lock", "lock_of", "locks"]

Lock = tuple[int, str]
"""The process, and the name of the futex in it."""
_FUTEX = "wait.futex"
_MOST = 0.5
"""A thread waits for a lock if it has at least this share of its waits for futexes."""
_NAMED = re.compile(r"((?<![bc])lock|mutex|mtx)(_?t)?\b", re.IGNORECASE)


def locks(ledger: Ledger) -> Set[Lock]:
    """Return the locks that threads of the ledger waited for, as far as causes were recorded."""
    found: dict[Lock, tuple[set[int], set[int | None]]] = {}
    for thread in ledger.threads:
        about = _main(thread, Behind.OBJECT)
        if about is not None:
            waiters, wakers = found.setdefault((thread.pid, about.name), (set(), set()))
            waiters.add(thread.tid)
            woken = (c for c in thread.causes if c.state == _FUTEX and c.behind is Behind.WAKER)
            wakers.update(cause.tid for cause in woken if cause.tid != thread.tid)
    return {lock for lock, (waiters, wakers) in found.items() if waiters & wakers or _NAMED.search(lock[1])}


def lock_of(thread: Thread, known: Set[Lock]) -> Lock | None:
    """Return the lock that a thread waits for most; None: it is not known to be one."""
    about = _main(thread, Behind.OBJECT)
    lock = None if about is None else (thread.pid, about.name)
    return lock if lock in known else None


def _main(thread: Thread, behind: Behind) -> Cause | None:
    """Return the cause with most of the time in waits for futexes, if that is most of it."""
    whole = thread.states[_FUTEX].time if _FUTEX in thread.states else 0
    about = [cause for cause in thread.causes if cause.state == _FUTEX and cause.behind is behind]
    most = max(about, key=lambda cause: (cause.time, cause.name), default=None)
    return most if most is not None and most.time >= _MOST * whole > 0 else None
