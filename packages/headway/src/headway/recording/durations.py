"""Durations of a recording: how long the single occurrences of every state lasted, computed from the rows.

They are those that the eBPF programs keep on request (linux/bpf/histograms/durations.h), by the same rules: a duration
is all time of the state since its last occurrence ended. So a recording of which nothing is missing has exactly the
histograms that a ledger of the same time has.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headway.model import (
    DIVIDED_BY_SAMPLES,
    READY,
    READY_PARTS,
    SPINNING,
    Batch,
    Durations,
    Ledger,
    Longest,
    Quality,
    ThreadSeen,
    bucket_of,
    count_of_durations,
)

if TYPE_CHECKING:
    from .reader import Recording

__all__ = ["DurationsOfRows", "with_durations"]

_RECENT = 6
"""So many buckets are remembered, from which occurrences can be taken back: N_RECENT in linux/bpf/shared/layout.h."""

_FAULTS = frozenset({"kernel.fault", "kernel.fault.minor", "kernel.fault.major"})
"""A page fault may turn out to be of another of these sorts: rename_fault in linux/bpf/events/handler.h."""

_Column = NDArray[np.int64]


@dataclass(slots=True)
class _State:
    """One thread in one state."""

    buckets: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    pieces: int = 0
    """The time since the last occurrence ended."""
    unplaced: int = 0
    open: int = 0
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT))
    longest: Longest | None = None
    under_way: int = -1
    """How long the occurrence has lasted that has not ended; -1: there is none."""

    def place(self, duration: int, end: int, parts: int) -> None:
        bucket = bucket_of(duration, parts)
        self.buckets[bucket] += 1
        self.recent.append(bucket)
        if self.longest is None or duration > self.longest.time:
            self.longest = Longest(duration, end)

    def take_back(self, parts: int) -> None:
        bucket = self.recent.pop() if self.recent else min([b for b, n in self.buckets.items() if n], default=None)
        if bucket is None:
            return
        self.buckets[bucket] -= 1
        if self.longest is not None and bucket_of(self.longest.time, parts) == bucket:
            self.longest = Longest(self.longest.time, None, Quality.BOUND)

    def durations(self, parts: int) -> Durations:
        buckets = tuple(sorted([(bucket, n) for bucket, n in self.buckets.items() if n]))
        found = Durations(buckets, parts, self.unplaced, 0, self.longest if buckets else None)
        if not self.open:
            return found
        return found + Durations((), parts, 0, self.open, Longest(max(self.under_way, 0), None))


class DurationsOfRows:
    """Adds up rows, batch by batch in the order of time. ``end``: that of the recording; ``parts``: as in `Durations`.

    ``ended``: by the number of a thread, when it ended, of those that have.
    """

    def __init__(self, end: int, parts: int, ended: Mapping[int, int]) -> None:
        self._end, self._parts, self._ended = end, parts, ended
        self._states: dict[tuple[int, str], _State] = defaultdict(_State)
        self._has_spans: set[tuple[int, str]] = set()
        self._faults: dict[int, str] = {}
        """By the number of a thread, the sort of the fault that it was in, of those that had not ended."""

    def add(self, batch: Batch) -> None:
        """Add the rows of a batch."""
        rows, states = batch.transitions, batch.transitions.states
        parts = [number for number, name in enumerate(states) if name in READY_PARTS]
        is_part = np.isin(rows.state, parts)
        # The row of a time ready has all of it. What other rows give to its other parts was taken out of that.
        there = np.flatnonzero((rows.thread >= 0) & ~(is_part & (rows.duration == 0)))
        if not len(there):
            return
        thread, is_part = rows.thread[there].astype(np.int64), is_part[there]
        state = np.where(is_part, len(states), rows.state[there]).astype(np.int64)
        states = [*states, READY]
        if READY in states[:-1]:
            state[state == states.index(READY)] = len(states) - 1
        duration = rows.duration[there].astype(np.int64)
        end = rows.time[there].astype(np.int64) + duration
        # A correction comes after the span that ends at its moment.
        order = np.lexsort((duration == 0, end, state, thread))
        key = (thread << 16 | state)[order]
        net = (duration - np.where(is_part, 0, rows.taken[there]))[order]
        count, end, placed = rows.count[there][order].astype(np.int64), end[order], (duration > 0)[order]
        self._forget_renamed({n: name for n, name in enumerate(states) if name in _FAULTS}, key, net, count, end)
        first = np.flatnonzero(np.diff(key, prepend=-1))
        for at, until in zip(first.tolist(), [*first[1:].tolist(), len(key)], strict=True):
            number, name = int(key[at]) >> 16, states[int(key[at]) & 0xFFFF]
            part = slice(at, until)
            self._add(number, name, net[part], count[part], end[part], placed[part])

    def _forget_renamed(
        self, faults: Mapping[int, str], key: _Column, net: _Column, count: _Column, end: _Column
    ) -> None:
        """Take the time out of pieces of faults that turned out to be of another sort: it is in no duration.

        ``faults``: the sorts by their numbers; the columns have the rows of threads and states in the order of time.
        """
        there = np.flatnonzero(np.isin(key & 0xFFFF, list(faults)) & ((net > 0) | (count != 0)))
        if not len(there):
            return
        there = there[np.lexsort((end[there], key[there] >> 16))]
        thread, sort, ended = key[there] >> 16, key[there] & 0xFFFF, count[there] != 0
        last = np.diff(thread, append=-1) != 0
        renamed = ~ended & ~last & (np.diff(sort, append=-1) != 0)
        breaks = np.flatnonzero(ended | last | renamed)
        of_break = breaks[np.searchsorted(breaks, np.arange(len(there)))]
        net[there[renamed[of_break]]] = 0
        for at in np.flatnonzero(np.diff(thread, prepend=-1)).tolist():
            before = self._faults.pop(int(thread[at]), None)
            if before is not None and (before != faults[int(sort[at])] or renamed[of_break[at]]):
                self._states[int(thread[at]), before].pieces = 0
        for at in np.flatnonzero(last & ~ended).tolist():
            self._faults[int(thread[at])] = faults[int(sort[at])]

    def _add(
        self, thread: int, state: str, net: _Column, count: _Column, end: _Column, placed: NDArray[np.bool_]
    ) -> None:
        """Add the rows of one thread in one state, in the order of time."""
        found = self._states[thread, state]
        if placed.any():
            self._has_spans.add((thread, state))
        last = int(end[-1]) >= self._end and thread not in self._ended
        plain = not last and int(net.min()) >= 0 and int(count.min()) >= 0 and int(count.max()) <= 1
        # Of a marked region only the sum is known: it is an amount without a place.
        if (plain and bool((placed | (count == 0) | (net == 0)).all())) and found.pieces >= 0:
            self._add_plain(found, net, count, end)
            return
        for time, n, at, has_place in zip(net.tolist(), count.tolist(), end.tolist(), placed.tolist(), strict=True):
            self._add_row(found, thread, state, time, n, at, has_place)

    def _add_plain(self, found: _State, net: _Column, count: _Column, end: _Column) -> None:
        """Add rows that take nothing back."""
        sums = np.cumsum(net) + found.pieces
        ends = np.flatnonzero(count)
        if not len(ends):
            found.pieces = int(sums[-1])
            return
        durations = np.diff(sums[ends], prepend=0)
        found.pieces = int(sums[-1] - sums[ends[-1]])
        longest = int(durations.argmax())
        parts = self._parts
        values, numbers = np.unique(_buckets(durations, parts), return_counts=True)
        for bucket, number in zip(values.tolist(), numbers.tolist(), strict=True):
            found.buckets[bucket] += number
        for duration in durations[-_RECENT:].tolist():
            found.recent.append(bucket_of(duration, parts))
        if found.longest is None or int(durations[longest]) > found.longest.time:
            found.longest = Longest(int(durations[longest]), int(end[ends[longest]]))

    def _add_row(self, found: _State, thread: int, state: str, time: int, n: int, at: int, has_place: bool) -> None:
        if n < 0:
            for _ in range(-n):
                found.take_back(self._parts)
            return
        duration = max(found.pieces + time, 0)
        if not n:
            found.pieces = duration
            return
        if at >= self._end and thread not in self._ended:
            found.open += n
            found.under_way = max(found.under_way, duration)
            found.pieces = 0
            return
        region = not has_place and time > 0 and (thread, state) not in self._has_spans and state != "stolen"
        if n > 1 or region:
            found.unplaced += n
            found.pieces = found.pieces if region else 0
            return
        found.pieces = 0
        found.place(duration, at, self._parts)

    def by_thread(self) -> dict[int, dict[str, Durations]]:
        """Return the durations of all threads, by their numbers."""
        found: dict[int, dict[str, Durations]] = defaultdict(dict)
        for (number, state), each in self._states.items():
            durations = each.durations(self._parts)
            if durations.count or durations.buckets:
                found[number][state] = durations
        return dict(found)


def _buckets(durations: _Column, parts: int) -> _Column:
    """Return the buckets of many durations, as `bucket_of` does of one."""
    known, where = np.unique(durations, return_inverse=True)
    return np.array([bucket_of(duration, parts) for duration in known.tolist()], np.int64)[where]


def with_durations(recording: Recording, ledger: Ledger, parts: int) -> Ledger:
    """Return the ledger with the durations of the rows. ``parts``: as in `Durations`.

    Of a state whose count is not known there are none. Where rows are missing, occurrences without a duration are
    `Durations.unplaced`.
    """
    seen = recording.threads()
    window = ledger.window
    ended = {number: one.end for number, one in seen.items() if one.end is not None and one.end <= window.end}
    rows = DurationsOfRows(window.end, parts, ended)
    for batch in recording.batches():
        rows.add(batch)
    found = rows.by_thread()
    numbers = dict(_numbers(seen))
    threads = []
    for thread in ledger.threads:
        durations = found.get(numbers.get(thread.key, -1), {})
        known = {}
        for state in dict.fromkeys(READY if name in READY_PARTS else name for name in thread.states):
            each, count = durations.get(state, Durations(parts=parts)), count_of_durations(thread.states, state)
            if count is not None and (count or each.count):
                known[state] = replace(each, unplaced=each.unplaced + count - each.count)
        threads.append(replace(thread, durations=known))
    divided = any(SPINNING in thread.sampled and "user" in (thread.durations or ()) for thread in threads)
    reasons = {**ledger.reasons, "durations": DIVIDED_BY_SAMPLES} if divided else ledger.reasons
    return replace(ledger, threads=tuple(threads), reasons=reasons)


def _numbers(seen: Mapping[int, ThreadSeen]) -> Iterator[tuple[tuple[int, int], int]]:
    for number, one in seen.items():
        yield (one.tid, one.birth), number
