"""Every transition, packed in slices of time. The page unpacks only the slices that are looked at.

A slice covers the time [a, b) and has the rows that begin and end within it, about `A_SLICE` of all threads together,
sorted by thread and time. Rows that cross the edge of a slice are few, at most one for each thread and edge. They are
in a table of their own, which the page always has unpacked. So the state at an instant is found in one slice and that
table.

Within a slice, the thread and start of a row mostly follow from the row before, its state mostly repeats a pattern, and
its processor mostly stays. What remains is its duration; the durations of one state are stored together. The page's
counterpart is web/src/slices.ts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headway.dataclass import dataclass

from .deflate import deflate
from .packing import length, low_and_high, varints, zigzag

__all__ = ["A_SLICE", "Packed", "SliceColumns", "SlicePacker"]

A_SLICE = 1 << 16
"""The approximate number of rows of a slice, which are unpacked in a few milliseconds."""
_HELD = 1 << 18
"""The number of rows that are collected before they are divided into slices."""

Ints = NDArray[np.int64]
_Which = Callable[[Ints], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class SliceColumns:
    """Rows with a duration, column by column; arrays of shape (n,). Times are from the timeline's start."""

    lane: Ints
    """The index of the thread; for a processor that ran none of these threads, -1 - its index."""
    start: Ints
    end: Ints
    state: Ints
    """The index of the state's name."""
    cpu: Ints
    """The index of the processor; -1: none."""
    waker: Ints
    """0: none; otherwise 3 x n + 1, 2 or 3, where n is the index of a thread, a tid, or the index of a state's name."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.start)

    def select(self, rows: NDArray[np.bool_] | Ints | slice) -> SliceColumns:
        """Return some of the rows."""
        return SliceColumns(*(getattr(self, name)[rows] for name in self.__slots__))

    @classmethod
    def together(cls, parts: list[SliceColumns]) -> SliceColumns:
        """Return the concatenation of several parts."""
        none = np.zeros(0, np.int64)
        return cls(*(np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in cls.__slots__))


@dataclass(frozen=True, slots=True)
class Packed:
    """All slices, ready for the page."""

    edges: tuple[int, ...]
    """The start of each slice, and the end of the last one."""
    slices: tuple[bytes, ...]
    over_edges: bytes
    rows: int


class SlicePacker:
    """Takes rows roughly in the order in which they ended, and packs them as they come.

    ``waits`` tells of state indices whether somebody else ends the state, ``off`` whether a thread in it is off the
    processor. When the slices exceed ``most`` bytes they are discarded, and rows are only counted.
    """

    def __init__(
        self,
        length: int,
        most: int,
        waits: Callable[[Ints], NDArray[np.bool_]],
        off: Callable[[Ints], NDArray[np.bool_]],
    ) -> None:
        self._length, self._most, self._waits, self._off = length, most, waits, off
        self._held: list[SliceColumns] = []
        self._over: list[SliceColumns] = []
        self._slices: list[bytes] = []
        self._edges = [0]
        self._size = 0
        self.rows = 0
        """The number of rows added."""
        self.given_up = False
        """Whether the slices were too large and were discarded."""

    def add(self, rows: SliceColumns) -> None:
        """Add the next rows. All of them have a duration."""
        self.rows += len(rows)
        if self.given_up or not len(rows):
            return
        self._held.append(rows)
        if sum(len(part) for part in self._held) >= _HELD:
            self._cut(last=False)

    def expected(self, rows: int) -> int:
        """Return an estimate of the bytes that ``rows`` rows take, from those packed so far."""
        packed = sum(len(part) for part in self._slices)
        done = self.rows - sum(len(part) for part in self._held)
        return packed * rows // done if done else 0

    def give_up(self) -> None:
        """Discard all rows, and keep none from now on."""
        self.given_up = True
        self._held, self._over, self._slices = [], [], []

    def packed(self) -> Packed | None:
        """Return all slices, or None if they are too large."""
        if self.given_up:
            return None
        self._cut(last=True)
        over = self._pack(SliceColumns.together(self._over), 0)
        if self.given_up or self._size + len(over) > self._most:
            self.give_up()
            return None
        return Packed(tuple(self._edges), tuple(self._slices), over, self.rows)

    def _cut(self, *, last: bool) -> None:
        held = SliceColumns.together(self._held)
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

    def _pack(self, rows: SliceColumns, begin: int) -> bytes:
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

    def _processors(self, rows: SliceColumns, heads: Ints, counts: Ints) -> Ints:
        """Return 0 for each row on the expected processor: the thread's last one, or none for a state off the
        processor.
        """
        if not len(rows):
            return rows.cpu
        places = np.arange(len(rows))
        known = np.maximum.accumulate(np.where(rows.cpu >= 0, places, -1))
        before = np.append(-1, known[:-1])
        before = np.where(before >= np.repeat(heads, counts), before, -1)  # it may belong to another thread
        last = np.where(before >= 0, rows.cpu[before], -1)
        expected = np.where(rows.lane < 0, -1 - rows.lane, np.where(self._off(rows.state), -1, last))
        return np.where(rows.cpu == expected, 0, rows.cpu + 2)
