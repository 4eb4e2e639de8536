"""The locks of a recording: who had each while others waited, and what that thread did meanwhile.

A recording says of each wait at a futex where it was, and which thread ended it. Who ends a wait for a lock has just
let it go; and it had it since the wait before that was ended, for then somebody else let it go. So the time in which
threads wait for a lock is divided at the moments at which waits are ended, and each piece is of the thread that ends
it. What that thread did is in its own spans.

A condition, for which threads wait for their work, looks the same. There the piece is of the thread that brings the
work, and what it did is what the others waited for, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from headway.model.holders import UNKNOWN
from headway.model.locks import names_a_lock
from headway.model.uses import LockHolder, LockUse, locks_together, sorted_threads

from .rows import Ints, Rows

__all__ = ["lock_uses"]

_STATES = ("wait.futex", "wait.gil")


@dataclass(frozen=True, slots=True)
class _Lock:
    """The waits for one futex, and the pieces into which their time is divided."""

    pid: int
    address: int
    state: str
    waits: int
    waited: int
    held: int
    """The time in which at least one thread waited."""
    waiters: frozenset[int]
    """Places of the threads that waited."""
    ended: NDArray[np.int32]
    """Of each piece, the place of the thread that ends it."""
    begin: Ints
    end: Ints
    weight: Ints
    """The time of all waits within it."""


def lock_uses(rows: Rows, names: Mapping[tuple[int, int], str] = MappingProxyType({})) -> tuple[LockUse, ...]:
    """Return the locks, and other futexes, that threads waited for, most waiting first.

    ``names``: of locks, by process and address (`headway.recording.document.Document.locks`).
    """
    locks = [*_locks(rows)]
    doing = _doing(rows, locks)
    return locks_together(
        _told(rows, number, lock, doing, names.get((lock.pid, lock.address), f"futex {lock.address:#x}"))
        for number, lock in enumerate(locks)
    )


def _locks(rows: Rows) -> Iterator[_Lock]:
    """Yield the waits by process and futex."""
    states = [number for number, state in enumerate(rows.states) if state in _STATES]
    row = np.flatnonzero(np.isin(rows.state, states) & (rows.futex != 0))
    if not len(row):
        return
    pids = np.array([thread.pid for thread in rows.threads], np.int64)[rows.thread[row]]
    columns = rows.end[row], rows.state[row], rows.futex[row], pids
    order = np.lexsort(columns)
    keys = [column[order] for column in columns[1:]]
    new = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    first = np.flatnonzero(np.concatenate([[True], new]))
    for start, stop in zip(first.tolist(), [*first[1:].tolist(), len(order)], strict=True):
        of = row[order[start:stop]]
        yield _lock(rows, int(pids[order[start]]), of)


def _lock(rows: Rows, pid: int, row: Ints) -> _Lock:
    """Return the lock with these waits, which are sorted by their ends."""
    begin, end, waker = rows.begin[row], rows.end[row], rows.waker[row]
    starts, stops = _union(begin, end)
    known = waker >= 0
    ends, last = np.unique(end[known][::-1], return_index=True)  # of several that end at once, the last
    by = waker[known][::-1][last]
    within = starts[np.searchsorted(starts, ends, side="left") - 1] if len(ends) else ends
    before = np.concatenate([[np.iinfo(np.int64).min], ends[:-1]]) if len(ends) else ends
    since = np.maximum(within, before)
    return _Lock(
        pid,
        int(rows.futex[row[0]]),
        rows.states[int(rows.state[row[0]])],
        len(row),
        int((end - begin).sum()),
        int((stops - starts).sum()),
        frozenset(rows.thread[row].tolist()),
        by.astype(np.int32),
        since,
        ends,
        _waiting_until(begin, end, ends) - _waiting_until(begin, end, since),
    )


def _union(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the beginnings and ends of the time that spans cover together."""
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    fresh = np.concatenate([[True], begin[1:] > reach[:-1]])
    return begin[fresh], reach[np.concatenate([np.flatnonzero(fresh)[1:] - 1, [len(reach) - 1]])]


def _waiting_until(begin: Ints, end: Ints, time: Ints) -> Ints:
    """Return how long all spans together had lasted by each of these moments."""
    return _since(begin, time) - _since(end, time)


def _since(moments: Ints, time: Ints) -> Ints:
    """Return, for each time, the sum of what has passed since each of the earlier moments."""
    ordered = np.sort(moments) - (base := int(moments.min()) if len(moments) else 0)
    sums = np.concatenate([[0], np.cumsum(ordered)])
    number = np.searchsorted(ordered, time - base, side="left")
    passed: Ints = number * (time - base) - sums[number]
    return passed


_Doing = dict[tuple[int, int], dict[str, int]]
"""What a thread did in the pieces of a lock: by the lock's number and the thread's place, time by state."""


def _doing(rows: Rows, locks: list[_Lock]) -> _Doing:
    found: _Doing = {}
    by = np.concatenate([np.empty(0, np.int32), *(lock.ended for lock in locks)])
    begin = np.concatenate([np.empty(0, np.int64), *(lock.begin for lock in locks)])
    end = np.concatenate([np.empty(0, np.int64), *(lock.end for lock in locks)])
    number = np.repeat(np.arange(len(locks)), [len(lock.ended) for lock in locks])
    order = np.argsort(by, kind="stable")
    places, first = np.unique(by[order], return_index=True)
    if not len(places):
        return found
    for place, of in zip(places.tolist(), np.split(order, first[1:]), strict=True):
        for state, times in _times_in(rows, place, begin[of], end[of]):
            sums = np.bincount(number[of], weights=times, minlength=len(locks))
            for lock in np.flatnonzero(sums).tolist():
                found.setdefault((lock, place), {})[state] = int(sums[lock])
    return found


def _times_in(rows: Rows, place: int, begin: Ints, end: Ints) -> Iterator[tuple[str, Ints]]:
    """Yield, for each state of a thread, the time in it within each of these spans."""
    own = slice(int(rows.first[place]), int(rows.first[place + 1]))
    starts, stops, states = rows.begin[own], rows.end[own], rows.state[own]
    if not len(starts):
        return
    edges = [np.maximum(np.searchsorted(starts, time, side="right") - 1, 0) for time in (begin, end)]
    for state in np.unique(states).tolist():
        in_it = states == state
        before = np.concatenate([[0], np.cumsum(np.where(in_it, stops - starts, 0))])
        until = [
            before[row] + np.where(in_it[row], np.clip(time - starts[row], 0, stops[row] - starts[row]), 0)
            for row, time in zip(edges, (begin, end), strict=True)
        ]
        yield rows.states[state], until[1] - until[0]


def _told(rows: Rows, number: int, lock: _Lock, doing: _Doing, name: str) -> LockUse:
    threads = []
    for place in np.unique(lock.ended).tolist():
        own = lock.ended == place
        weight, length = int(lock.weight[own].sum()), int((lock.end - lock.begin)[own].sum())
        did = dict(doing.get((number, place), {}))
        if (rest := length - sum(did.values())) > 0:
            did[UNKNOWN] = did.get(UNKNOWN, 0) + rest
        of = rows.threads[place]
        threads.append(LockHolder(of.tid, of.name, weight, int(np.count_nonzero(own)), did))
    excludes = bool(lock.waiters & set(lock.ended.tolist())) or lock.state != "wait.futex" or names_a_lock(name)
    found = sorted_threads(threads)
    return LockUse(
        lock.pid,
        name,
        lock.state,
        lock.waits,
        lock.waited,
        lock.held,
        holders=found if excludes else (),
        wakers=() if excludes else found,
        is_lock=excludes,
    )
