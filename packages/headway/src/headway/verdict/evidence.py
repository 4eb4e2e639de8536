"""The evidence beside a verdict: the states, objects and threads that had most of its time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from headway.dataclass import dataclass
from headway.model import Behind, Cause, Thread
from headway.model.calls import CALLS_THAT_FORCE, CALLS_THAT_READ, CALLS_THAT_WRITE

from .why import Why, why_of

__all__ = ["Named", "calls_to", "forced", "holder", "largest", "lock_holders", "objects", "states", "wakers"]

_WRITE = CALLS_THAT_WRITE | CALLS_THAT_FORCE
_READ = CALLS_THAT_READ | {"openat", "statx", "newfstatat"}
"""Calls that look up a path read directories and inodes."""
_READY = frozenset({"ready"})


@dataclass(frozen=True, slots=True)
class Named:
    """What had a part of the time, by name."""

    name: str
    time: int
    count: int | None = None


def states(threads: Iterable[Thread], why: Why) -> list[Named]:
    """Return the states of the threads that have this cause, most time first."""
    times: Counter[str] = Counter()
    counts: dict[str, int | None] = {}
    for thread in threads:
        for state, cell in thread.states.items():
            if cell.time and _belongs(state, why):
                times[state] += cell.time
                before = counts.get(state, 0)
                counts[state] = None if before is None or cell.count is None else before + cell.count
    return [Named(state, time, counts[state]) for state, time in _most(times)]


def _belongs(state: str, why: Why) -> bool:
    own = why_of(state)
    return own is why or (own is Why.DISK and why in (Why.DISK_READS, Why.DISK_WRITES))


def objects(threads: Iterable[Thread], of: Iterable[str]) -> list[Named]:
    """Return the objects behind these states, most time first."""
    return _causes(threads, frozenset(of), Behind.OBJECT)


def wakers(threads: Iterable[Thread], of: Iterable[str]) -> list[Named]:
    """Return the names of the threads that ended waits in these states, most time first.

    An interrupt that ended a wait tells nothing of who was waited for: waits for CPython's GIL time out every 5 ms.
    """
    wanted = frozenset(of)
    causes = (cause for thread in threads for cause in thread.causes if cause.tid is not None)
    return _summed(c for c in causes if c.state in wanted and c.behind is Behind.WAKER)


def lock_holders(threads: Iterable[Thread], of: Iterable[str]) -> list[Named]:
    """Return the names of the threads that had the lock when waits in these states began, most time first."""
    return _causes(threads, frozenset(of), Behind.HOLDER)


def holder(threads: Sequence[Thread]) -> Named | None:
    """Return the thread of another process that had the processor for most of the time ready, where it was recorded."""
    pids = {thread.pid for thread in threads}
    held = (
        cause
        for thread in threads
        for cause in thread.causes
        if cause.state in _READY and cause.behind is Behind.HOLDER and cause.tid is not None and cause.pid not in pids
    )
    return next(iter(_summed(held)), None)


def largest(found: Sequence[Named], whole: int, least: float = 0.5) -> Named | None:
    """Return the first one if it has at least this share of the whole, else None."""
    return found[0] if found and found[0].time >= least * whole else None


def calls_to(thread: Thread) -> tuple[int, int]:
    """Return the kernel's time in calls that read files, and in those that write and force them."""
    read = sum(cell.time for state, cell in thread.states.items() if state.removeprefix("kernel.") in _READ)
    wrote = sum(cell.time for state, cell in thread.states.items() if state.removeprefix("kernel.") in _WRITE)
    return read, wrote


def forced(threads: Iterable[Thread]) -> Named | None:
    """Return the call that forced data to the disk, most time first; None: there was none."""
    found: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for thread in threads:
        for state, cell in thread.states.items():
            call = state.removeprefix("kernel.")
            if call in CALLS_THAT_FORCE and call != state:
                found[call] += cell.count or 0
                times[call] += cell.time
    most = next(iter(_most(times)), None)
    return None if most is None else Named(most[0], most[1], found[most[0]] or None)


def _causes(threads: Iterable[Thread], of: frozenset[str], behind: Behind) -> list[Named]:
    return _summed(c for thread in threads for c in thread.causes if c.state in of and c.behind is behind)


def _summed(causes: Iterable[Cause]) -> list[Named]:
    times: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for cause in causes:
        times[cause.name] += cause.time
        counts[cause.name] += cause.count
    return [Named(name, time, counts[name]) for name, time in _most(times)]


def _most(times: Counter[str]) -> list[tuple[str, int]]:
    return sorted(((name, time) for name, time in times.items() if time > 0), key=lambda row: (-row[1], row[0]))
