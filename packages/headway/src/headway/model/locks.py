"""What shows that a futex is a lock: its name, or that another thread has it.

A futex may be a lock that others have, or a condition by which a thread that has nothing to do waits for work.
"""

from __future__ import annotations

import re

from .cause import Behind
from .ledger import Thread

__all__ = ["FUTEX", "had_by_another", "names_a_lock"]

FUTEX = "wait.futex"
_NAME = re.compile(r"((?<![bc])lock|mutex|mtx)(_?t)?\b", re.IGNORECASE)


def names_a_lock(name: str) -> bool:
    """Return whether the name of an object says that it is a lock: ``cache_lock``, but not ``clock`` or ``block``."""
    return _NAME.search(name.rpartition(": ")[2]) is not None


def had_by_another(thread: Thread) -> bool:
    """Return whether other threads had what a thread waited for in futexes, for most of that time."""
    waited = thread.states.get(FUTEX)
    had = sum(c.time for c in thread.causes if c.state == FUTEX and c.behind is Behind.HOLDER)
    return waited is not None and 2 * had > waited.time
