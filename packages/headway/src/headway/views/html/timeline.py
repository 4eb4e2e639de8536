"""The timeline of a page: its lanes and their states, in as much detail as there is room for.

If all transitions fit, the page has every one. Otherwise it has buckets of time, as narrow as fit, and says how wide
they are and how many transitions they stand for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.dataclass import dataclass
from headway.model import NO_STATE, Kind, Transitions, Window, kind_of
from headway.views.palette import ORDER

from .levels import Levels
from .slices import Packed, SliceColumns, SlicePacker

__all__ = ["Lanes", "PackedTimeline", "TimelineBuilder"]

_AT_ONCE = 1 << 18
"""The number of rows processed at once."""
_CELLS_BESIDE_ROWS = 1 << 20
_CELLS_ALONE = 1 << 22
_OF_LEVELS = 0.22
"""The share of the room that the buckets may take beside rows."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a timeline: threads and processors."""

    window: Window
    threads: Mapping[int, int]
    """Number of a thread in the transitions -> its index in the ledger."""
    lives: Sequence[tuple[int, int]]
    """The start and end of the measurement of each thread of the ledger."""
    cpus: Sequence[int]
    """The processors, in order."""


@dataclass(frozen=True, slots=True)
class PackedTimeline:
    """A timeline as the page gets it."""

    length: int
    states: tuple[str, ...]
    """The names that rows refer to."""
    rows: int
    """The number of spans in the recording."""
    amounts: int
    """The number of rows without a duration. They are in the ledger, but have no place on the timeline."""
    unplaced: int
    """The number of rows that belong to no lane."""
    levels: Levels
    kinds: tuple[int, ...]
    """The kinds of the levels' planes, as indices into `ORDER`."""
    cells: bytes
    slices: Packed | None
    """None: there was no room."""


class TimelineBuilder:
    """Takes transitions, batch by batch, in the order of time. ``rows``: their expected number; ``most``: bytes."""

    def __init__(self, lanes: Lanes, rows: int, most: int) -> None:
        self._lanes, self._rows, self._most = lanes, rows, most
        self._length = lanes.window.duration
        self._states: dict[str, int] = {}
        self._kinds = np.zeros(0, np.int64)
        self._waits = np.zeros(0, np.bool_)
        self._off = np.zeros(0, np.bool_)
        numbers = max(lanes.threads, default=-1) + 2
        self._places = np.full(numbers, -1, np.int64)
        for number, place in lanes.threads.items():
            self._places[number] = place
        self._cpus = np.full(max(lanes.cpus, default=-1) + 2, -1, np.int64)
        self._cpus[list(lanes.cpus)] = np.arange(len(lanes.cpus))
        self._slices = SlicePacker(
            self._length,
            round(most * (1 - _OF_LEVELS)),
            waits=lambda state: self._waits[state],
            off=lambda state: self._off[state],
        )
        self._levels: Levels | None = None
        self._early: list[SliceColumns] = []
        self._amounts = self._unplaced = 0

    def add(self, batch: Transitions) -> None:
        """Add the next rows."""
        names = self._numbered(batch.states)
        placed = batch.duration > 0
        self._amounts += len(batch) - int(np.count_nonzero(placed))
        order = np.flatnonzero(placed)
        order = order[np.argsort((batch.time + batch.duration)[order], kind="stable")]
        for first in range(0, len(order), _AT_ONCE):
            self._take(self._rows_of(batch, names, order[first : first + _AT_ONCE]))

    def packed(self) -> PackedTimeline:
        """Return the complete timeline."""
        levels = self._decide()
        slices = self._slices.packed()
        room = round(self._most * _OF_LEVELS) if slices is not None else self._most
        kinds, cells = levels.packed(room)
        return PackedTimeline(
            length=self._length,
            states=tuple(self._states),
            rows=self._slices.rows,
            amounts=self._amounts,
            unplaced=self._unplaced,
            levels=levels,
            kinds=tuple(kinds),
            cells=cells,
            slices=slices,
        )

    def _numbered(self, names: Sequence[str]) -> Ints:
        """Return the numbers of the states with these names."""
        numbers = [self._states.setdefault(name, len(self._states)) for name in names]
        if len(self._states) > len(self._kinds):
            kinds = [kind_of(name) for name in self._states]
            self._kinds = np.array([ORDER.index(kind) for kind in kinds], np.int64)
            self._waits = np.array([kind is Kind.WAIT for kind in kinds], np.bool_)
            self._off = np.array([kind in (Kind.WAIT, Kind.READY) for kind in kinds], np.bool_)
        return np.array([*numbers, 0], np.int64)

    def _rows_of(self, batch: Transitions, names: Ints, rows: Ints) -> SliceColumns:
        thread = _places(self._places, batch.thread[rows])
        cpu = _places(self._cpus, batch.cpu[rows])
        start = batch.time[rows] - self._lanes.window.start
        found = SliceColumns(
            lane=np.where(thread >= 0, thread, -1 - cpu),
            start=start,
            end=start + batch.duration[rows],
            state=names[batch.state[rows]],
            cpu=cpu,
            waker=self._wakers(batch, names, rows),
        )
        somewhere = (thread >= 0) | (cpu >= 0)
        self._unplaced += len(found) - int(np.count_nonzero(somewhere))
        return found.select(somewhere)

    def _wakers(self, batch: Transitions, names: Ints, rows: Ints) -> Ints:
        tid = batch.waker_tid[rows].astype(np.int64)
        by = batch.waker_state[rows]
        known = by != NO_STATE
        found = np.where(known, 3 * names[np.where(known, by, len(names) - 1)] + 3, 0)
        found = np.where(tid > 0, 3 * tid + 2, found)
        thread = _places(self._places, batch.waker[rows])
        return np.where(thread >= 0, 3 * thread + 1, found)

    def _take(self, rows: SliceColumns) -> None:
        self._slices.add(rows)
        if self._levels is None:
            self._early.append(rows)
            if self._slices.rows >= _AT_ONCE:
                self._decide()
        else:
            self._add_up(self._levels, rows)

    def _decide(self) -> Levels:
        """Choose the width of the buckets, which depends on whether all rows will fit beside them."""
        if self._levels is None:
            if self._slices.expected(self._rows) > self._most * (1 - _OF_LEVELS):
                self._slices.give_up()
            start = self._lanes.window.start
            lives = [(begin - start, end - start) for begin, end in self._lanes.lives]
            lives += [(0, self._length)] * len(self._lanes.cpus)
            room = _CELLS_ALONE if self._slices.given_up else _CELLS_BESIDE_ROWS
            self._levels = Levels(self._length, lives, room)
            for rows in self._early:
                self._add_up(self._levels, rows)
            self._early = []
        return self._levels

    def _add_up(self, levels: Levels, rows: SliceColumns) -> None:
        kind = self._kinds[rows.state]
        levels.add(*(column[rows.lane >= 0] for column in (rows.lane, rows.start, rows.end, kind)))
        cpu = len(self._lanes.lives) + rows.cpu
        levels.add(*(column[rows.cpu >= 0] for column in (cpu, rows.start, rows.end, kind)))


def _places(table: Ints, numbers: NDArray[Any]) -> Ints:
    """Return each number's index; -1: it has none. The table's last element serves -1 and numbers beyond the table."""
    last = len(table) - 1
    return table[np.where((numbers < 0) | (numbers > last), last, numbers)]
