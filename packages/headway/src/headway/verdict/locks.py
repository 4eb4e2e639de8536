"""Which waits in futexes are waits for locks, and which are rests of threads that have nothing to do.

A futex is behind a mutex and behind the queue of a pool of threads, and its state is the same. These signs tell a lock:

- the futex says which thread has it;
- threads that wait for one object end each other's waits: the one that has the lock has waited for it before;
- the object has a name that says so (``cache_lock``);
- the thread waits for its work elsewhere (in ``epoll`` or a sleep), so the futex is in the middle of its work;
- it works for much of its time between these waits;
- the threads of a process do by turns what one of them could do alone.

A thread waits for another one's end (pthread_join) no more often than there are threads, and the threads of a pool end
each other's last waits. So all but a name and a holder need more waits than that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set

from headway.dataclass import dataclass
from headway.model import Behind, Thread
from headway.model.locks import had_by_another, names_a_lock

from .work import Doing

__all__ = ["locked"]

_MUCH = 0.30
"""A thread that is active for this share of its time does not rest."""
_NOTABLE = 0.10
"""Waits in futexes that take less of a thread's time are not judged."""
_TURNS = (0.75, 1.25)
"""So many times the window is what threads do together that do it by turns."""
_SHARE = 0.05
"""What each of them has at least of the window."""
_MOST_OF = 0.80
"""What one thread has at most of that, or it is not by turns."""

_Key = tuple[int, int]


def locked(every: Sequence[Doing], window: int) -> Set[_Key]:
    """Return the keys of the threads whose waits in futexes are waits for locks. ``window``: its duration."""
    number = Counter(one.thread.pid for one in every)
    waiting = [one for one in every if one.futex >= _NOTABLE * one.thread.span]
    often = [one for one in waiting if one.futexes > number[one.thread.pid]]
    waiters = _waiters(waiting)
    found = {one.thread.key for one in waiting if had_by_another(one.thread) or _named(one.thread)}
    found |= {one.thread.key for one in often if _each_other(one.thread, waiters)}
    found |= {one.thread.key for one in often if one.rests >= one.futexes or one.active >= _MUCH * one.thread.span}
    return found | set(_by_turns(often, window))


@dataclass(frozen=True, slots=True)
class _Object:
    """The object that a thread waited for in futexes most of that time."""

    name: str
    time: int


def _object(thread: Thread) -> _Object | None:
    about = [c for c in thread.causes if c.state == "wait.futex" and c.behind is Behind.OBJECT]
    most = max(about, key=lambda cause: (cause.time, cause.name), default=None)
    return None if most is None else _Object(most.name, most.time)


def _named(thread: Thread) -> bool:
    about = _object(thread)
    return about is not None and names_a_lock(about.name)


def _waiters(waiting: Sequence[Doing]) -> Mapping[tuple[int, str], Set[int]]:
    """Return the threads that wait for each object of a process."""
    found: dict[tuple[int, str], set[int]] = defaultdict(set)
    for one in waiting:
        for cause in one.thread.causes:
            if cause.state == "wait.futex" and cause.behind is Behind.OBJECT:
                found[one.thread.pid, cause.name].add(one.thread.tid)
    return found


def _each_other(thread: Thread, waiters: Mapping[tuple[int, str], Set[int]]) -> bool:
    """Return whether threads that wait for the same object ended most of this thread's waits."""
    about = _object(thread)
    if about is None:
        return False
    same = waiters[thread.pid, about.name] - {thread.tid}
    woken = [c for c in thread.causes if c.state == "wait.futex" and c.behind is Behind.WAKER]
    return 2 * sum(c.time for c in woken if c.tid in same) > sum(c.time for c in woken)


def _by_turns(often: Sequence[Doing], window: int) -> Iterator[_Key]:
    """Yield the threads that do by turns, all of the time, what one could do alone."""
    processes: dict[int, list[Doing]] = defaultdict(list)
    for one in often:
        if _busy(one) >= _SHARE * window:
            processes[one.thread.pid].append(one)
    for members in processes.values():
        busy = [_busy(one) for one in members]
        together = sum(busy)
        if _TURNS[0] * window <= together <= _TURNS[1] * window and max(busy) <= _MOST_OF * together:
            yield from (one.thread.key for one in members)


def _busy(one: Doing) -> int:
    """Return the time in which a thread did anything but wait in a futex."""
    return one.thread.span - one.futex
