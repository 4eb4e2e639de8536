"""Every transition, packed in slices of time: the page unpacks those that are looked at, and no others.

A slice is [a, b): it has the rows that begin and end within it, about `A_SLICE` of all threads together, sorted by
thread and time. Rows that reach over the edge of a slice are few, at most one a thread and edge, and stand together in
a table of their own, which the page always has at hand. So what was at an instant is found in one slice and that table.

Of a row in a slice its thread and begin are mostly known from the row before; its state mostly repeats a pattern; its
processor mostly stays. What is left is its duration, and the durations of one state stand together. The page's side of
this is web/src/slices.ts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .deflate import deflate
from .packing import length, low_and_high, varints, zigzag

__all__ = ["A_SLICE", "Packed", "Rows", "Slices"]

A_SLICE = 1 << 16
"""Rows of a slice, about: unpacked in a few milliseconds."""
_HELD = 1 << 18
"""Rows that are gathered before slices are cut of them."""

Ints = NDArray[np.int64]
_Which = Callable[[Ints], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Stretches of time, column by column; arrays of one length. Times are from the timeline's start."""

    lane: Ints
    """Whose it is: of a thread its place among the threads; of a processor that ran none of these, -1 - its place."""
    start: Ints
    end: Ints
    state: Ints
    """The place of the state's name."""
    cpu: Ints
    """The place of the processor; -1: none."""
    waker: Ints
    """0: none; else 3 x n + 1, 2 or 3, where n is the place of a thread, a tid, or the place of a state's name."""

    def __len__(self) -> int:
        """Rows."""
        return len(self.start)

    def select(self, rows: NDArray[np.bool_] | Ints | slice) -> Rows:
        """Some of them."""
        return Rows(*(getattr(self, name)[rows] for name in self.__slots__))

    @classmethod
    def together(cls, parts: list[Rows]) -> Rows:
        """Several one after the other."""
        none = np.zeros(0, np.int64)
        return cls(*(np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in cls.__slots__))


@dataclass(frozen=True, slots=True)
class Packed:
    """All slices, ready for the page."""

    edges: tuple[int, ...]
    """Where each begins, and where the last one ends."""
    slices: tuple[bytes, ...]
    over_edges: bytes
    rows: int


class Slices:
    """Takes rows in the order in which they ended, more or less, and packs them as they come.

    ``waits``: whether a state, by its place, is one that somebody ends; ``off``: whether a thread in it is off the
    processor. As soon as they take more than ``most`` bytes they are given up, and only counted.
    """

    def __init__(
        self,
        length: int,
        most: int,
        waits: Callable[[Ints], NDArray[np.bool_]],
        off: Callable[[Ints], NDArray[np.bool_]],
    ) -> None:
        self._length, self._most, self._waits, self._off = length, most, waits, off
        self._held: list[Rows] = []
        self._over: list[Rows] = []
        self._slices: list[bytes] = []
        self._edges = [0]
        self._size = 0
        self.rows = 0
        """So many have come."""
        self.given_up = False
        """Whether they are too many."""

    def add(self, rows: Rows) -> None:
        """The next ones; all of them last some time."""
        self.rows += len(rows)
        if self.given_up or not len(rows):
            return
        self._held.append(rows)
        if sum(len(part) for part in self._held) >= _HELD:
            self._cut(last=False)

    def expected(self, rows: int) -> int:
        """About how many bytes so many rows come to, from those that are packed by now."""
        packed = sum(len(part) for part in self._slices)
        done = self.rows - sum(len(part) for part in self._held)
        return packed * rows // done if done else 0

    def give_up(self) -> None:
        """Keep no rows from now on."""
        self.given_up = True
        self._held, self._over, self._slices = [], [], []

    def packed(self) -> Packed | None:
        """All of them; None: they are too many."""
        if self.given_up:
            return None
        self._cut(last=True)
        over = self._pack(Rows.together(self._over), 0)
        if self.given_up or self._size + len(over) > self._most:
            self.give_up()
            return None
        return Packed(tuple(self._edges), tuple(self._slices), over, self.rows)

    def _cut(self, *, last: bool) -> None:
        held = Rows.together(self._held)
        self._held.clear()
        held = held.select(np.argsort(held.end, kind="stable"))
        whole = len(held) // A_SLICE * A_SLICE
        ends = [int(held.end[at - 1]) for at in range(A_SLICE, whole + 1, A_SLICE)]
        if last:
            ends.append(max(self._length, int(held.end[-1]) if len(held) else 0))
        cuts = sorted({end for end in ends if end > self._edges[-1]})
        places = [0, *(int(np.searchsorted(held.end, cut, side="right")) for cut in cuts)]
        edges = [self._edges[-1], *cuts]
        for (first, until), begin in zip(pairwise(places), edges, strict=False):
            rows = held.select(slice(first, until))
            inside = rows.start >= begin
            self._over.append(rows.select(~inside))
            packed = self._pack(rows.select(inside), begin)
            self._slices.append(packed)
            self._size += len(packed)
        self._edges += cuts
        rest = held.select(slice(places[-1], None))
        (self._over if last else self._held).append(rest)
        if self._size > self._most:
            self.give_up()

    def _pack(self, rows: Rows, begin: int) -> bytes:
        rows = rows.select(np.lexsort((rows.start, rows.lane)))
        new = np.append(True, rows.lane[1:] != rows.lane[:-1])[: len(rows)]
        heads = np.flatnonzero(new)
        counts = np.diff(np.append(heads, len(rows)))
        lanes = rows.lane[heads]
        used, local = np.unique(rows.state, return_inverse=True)
        waits = self._waits(rows.state)
        gaps = rows.start[1:] - rows.end[:-1]
        durations = rows.end - rows.start
        streams = [
            varints(zigzag(np.diff(lanes, prepend=0))),
            varints(counts),
            varints(zigzag(rows.start[heads] - begin)),
            varints(np.diff(used, prepend=0)),
            varints(local),
            varints(zigzag(gaps[~new[1:]])),
            varints(self._processors(rows, heads, counts)),
            varints(rows.waker[waits]),
            *(low_and_high(durations[local == number]) for number in range(len(used))),
        ]
        return deflate(length(len(heads), len(used)) + b"".join(streams))

    def _processors(self, rows: Rows, heads: Ints, counts: Ints) -> Ints:
        """0 where the processor is the one to be expected: the thread's last, or none in a state off the processor."""
        if not len(rows):
            return rows.cpu
        places = np.arange(len(rows))
        known = np.maximum.accumulate(np.where(rows.cpu >= 0, places, -1))
        before = np.append(-1, known[:-1])
        before = np.where(before >= np.repeat(heads, counts), before, -1)  # not another thread's
        last = np.where(before >= 0, rows.cpu[before], -1)
        expected = np.where(rows.lane < 0, -1 - rows.lane, np.where(self._off(rows.state), -1, last))
        return np.where(rows.cpu == expected, 0, rows.cpu + 2)
