"""Wait chains: who waited for whom, and what for, summed along wake-ups.

A wait that thread B ended is a wait for B. If B itself was woken during this wait, the wait was in turn for what B had
waited for last. That is the next link, and so on. A chain ends at a thread that was already working when the wait
began, at an interrupt, at a thread that is not measured, or where the waker is not known. The whole time of a wait is
charged to its chain, so the times of all chains add up to all waiting.

The engine finds the waits. They are followed in slices of time, so memory does not grow with the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headway.errors import HeadwayError
from headway.recording.format import LONG

from .catalogue import RecordedRun, end_of
from .engine import literal
from .tables import Tables

__all__ = ["Chain", "chains"]

_SLICE = 20_000_000
"""The approximate number of rows of a slice."""
_COLUMNS = "thread, state, time, duration, waker, waker_tid, waker_state"

_WAITS = "thread IS NOT NULL AND duration > 0 AND (state LIKE 'wait.%' OR state = 'wait' OR state LIKE 'stopped%')"

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of waits, with the threads of one name taken together."""

    links: tuple[tuple[str, str], ...]
    """(thread name, state of its wait), beginning with the thread whose wait is charged."""
    end: str
    """What ended the last link's wait: a thread's name, an interrupt, "(tid N)", or "(unknown)"."""
    count: int
    time: int
    """The time of all waits of the first link that followed this chain."""


class _Words:
    """A numbering of hashable values."""

    def __init__(self) -> None:
        self.known: list[Any] = []
        self._number: dict[Any, int] = {}

    def number(self, word: Any) -> int:
        found = self._number.setdefault(word, len(self.known))
        if found == len(self.known):
            self.known.append(word)
        return found


class _Walk:
    """The waits of one run, followed slice by slice."""

    def __init__(self, names: dict[int, str], depth: int) -> None:
        self._names = names
        self._depth = depth
        self._own = _Words()
        self._ends = _Words()
        self._paths = _Words()
        self._time: list[int] = []
        self._count: list[int] = []
        none = np.zeros(0, np.int64)
        self._before = {"thread": none, "until": none, "since": none}
        self._levels = [none for _ in range(depth)]

    def take(self, waits: pa.Table) -> None:
        """Add the waits that ended in the next slice of time."""
        thread = _ints(waits["thread"])
        since = _ints(waits["time"])
        until = since + _ints(waits["duration"])
        own = self._owners(thread, self._state_codes(waits["state"]))
        ends = self._ends_of(waits)
        waker = _ints(waits["waker"])
        # A wait of this slice may have been for the last wait of a thread in the slices before.
        old = len(self._before["thread"])
        thread = np.concatenate([self._before["thread"], thread])
        until = np.concatenate([self._before["until"], until])
        since = np.concatenate([self._before["since"], since])
        parent, last = _parents(thread, since, until, np.concatenate([np.full(old, -1), waker]))
        levels: list[Ints] = []
        for number in range(self._depth):
            further = -1 - ends
            if number:
                linked = parent[old:] >= 0
                further = np.where(linked, levels[-1][parent[old:]], further)
            levels.append(np.concatenate([self._levels[number], self._path_codes(own, further)]))
        self._add(levels[-1][old:], until[old:] - since[old:])
        self._before = {"thread": thread[last], "until": until[last], "since": since[last]}
        self._levels = [level[last] for level in levels]

    def found(self) -> Iterator[Chain]:
        """Yield all chains."""
        for number, (count, time) in enumerate(zip(self._count, self._time, strict=True)):
            if count:
                links = []
                step = number
                while step >= 0:
                    own, step = self._paths.known[step]
                    links.append(self._own.known[own])
                yield Chain(tuple(links), self._ends.known[-1 - step], count, time)

    def _state_codes(self, column: pa.ChunkedArray[Any]) -> tuple[Ints, list[Any]]:
        coded = column.combine_chunks().dictionary_encode()
        return _ints(coded.indices), coded.dictionary.to_pylist()

    def _owners(self, thread: Ints, states: tuple[Ints, list[Any]]) -> Ints:
        """Return the number of (thread name, state) of each wait."""
        codes, words = states
        return _mapped(
            thread * (1 << 20) + codes,
            lambda pair: self._own.number((self._name(pair >> 20), words[pair & 0xFFFFF])),
        )

    def _name(self, thread: int) -> str:
        return self._names.get(thread, f"(thread {thread})")

    def _ends_of(self, waits: pa.Table) -> Ints:
        """Return the number of what ended each wait."""
        coded = waits["waker_state"].combine_chunks().dictionary_encode()
        states = coded.dictionary.to_pylist()
        by_state = _mapped(_ints(coded.indices), lambda at: self._ends.number(states[at] if at >= 0 else "(unknown)"))
        tid = _ints(waits["waker_tid"])
        by_tid = _mapped(tid, lambda tid: self._ends.number(f"(tid {tid})"))
        waker = _ints(waits["waker"])
        by_thread = _mapped(waker, lambda thread: self._ends.number(self._name(thread)))
        return np.where(waker >= 0, by_thread, np.where(tid > 0, by_tid, by_state))

    def _path_codes(self, own: Ints, further: Ints) -> Ints:
        return _mapped(
            (own << 32) + (further + (1 << 31)),
            lambda pair: self._paths.number((pair >> 32, (pair & 0xFFFFFFFF) - (1 << 31))),
        )

    def _add(self, paths: Ints, durations: Ints) -> None:
        size = len(self._paths.known)
        count = np.bincount(paths, minlength=size)
        time = np.zeros(size, np.int64)
        np.add.at(time, paths, durations)
        more = size - len(self._count)
        self._count = [a + b for a, b in zip(self._count + [0] * more, count.tolist(), strict=True)]
        self._time = [a + b for a, b in zip(self._time + [0] * more, time.tolist(), strict=True)]


def _ints(column: Any) -> Ints:
    """Return the numbers of an Arrow column as an array, -1 for null."""
    filled = column.fill_null(-1)
    found = filled.to_numpy() if isinstance(filled, pa.ChunkedArray) else filled.to_numpy(zero_copy_only=False)
    return np.asarray(found, np.int64)


def _mapped(values: Ints, make: Callable[[int], int]) -> Ints:
    """Return ``make(value)`` for each value, calling it once for each distinct value."""
    coded = pa.array(values).dictionary_encode()
    words: list[Any] = coded.dictionary.to_pylist()
    numbers = np.array([make(word) for word in words], np.int64)
    return numbers[coded.indices.to_numpy()] if len(values) else values


def _parents(thread: Ints, since: Ints, until: Ints, waker: Ints) -> tuple[Ints, Ints]:
    """Return the parent of each wait, and the indices of the last wait of every thread.

    The parent is the index of the last wait of the thread that ended this wait, if that thread's wait ended within it,
    else -1.
    """
    if not len(thread):
        return thread, thread
    numbers = np.unique(thread)
    base = int(until.min())
    span = int(until.max()) - base + 1
    if span * len(numbers) >= 1 << 62:
        raise HeadwayError("the recording has times that are too far apart to follow who waited for whom")
    moments = np.searchsorted(numbers, thread) * span + (until - base)
    order = np.argsort(moments, kind="stable")
    at = np.searchsorted(numbers, waker)
    known = (waker >= 0) & (numbers[np.minimum(at, len(numbers) - 1)] == waker)
    place = np.searchsorted(moments[order], at * span + (until - base), side="right") - 1
    found = order[np.maximum(place, 0)]
    fits = known & (place >= 0) & (thread[found] == waker) & (until[found] > since) & (found != np.arange(len(thread)))
    last = order[np.append(np.diff(thread[order]) != 0, True)]
    return np.where(fits, found, -1), last


def chains(tables: Tables, run: RecordedRun, depth: int) -> list[Chain]:
    """Return the wait chains of a run with at most ``depth`` links, those with the most time first.

    Raises HeadwayError.
    """
    one = f"host = {literal(run.host)} AND run = {literal(run.run)}"
    names = {row[0]: row[1] for row in tables.ask(f"SELECT thread, name FROM threads WHERE {one}").rows}
    walk = _Walk(names, depth)
    for slice_ in _slices(tables, run, one):
        # Two queries in one: an OR of both conditions would keep the engine from skipping row groups.
        some = [f"SELECT {_COLUMNS} FROM transitions WHERE {one} AND {_WAITS} AND {rows}" for rows in slice_]
        walk.take(tables.arrow(" UNION ALL ".join(some)))
    return sorted(walk.found(), key=lambda chain: (-chain.time, chain.links, chain.end))


def _slices(tables: Tables, run: RecordedRun, one: str) -> Iterator[list[str]]:
    """Yield, slice by slice, the SQL conditions for the rows that ended in it: first of short rows, then of long."""
    rows = next(iter(tables.ask(f"SELECT count(*) FROM transitions WHERE {one}").rows))[0]
    number = max(-(-rows // _SLICE), 1)
    end = end_of(run) or run.start
    edges = [run.start + (end - run.start) * at // number for at in range(1, number)]
    for after, before in zip([None, *edges], [*edges, None], strict=True):
        short, both = [f"duration < {LONG}"], [""]
        if after is not None:
            short.append(f"time >= {after - LONG}")
            both.append(f"time + duration >= {after}")
        if before is not None:
            short.append(f"time < {before}")
            both.append(f"time + duration < {before}")
        ends = " AND ".join(both)
        yield [" AND ".join(short) + ends, f"duration >= {LONG}{ends}"]
