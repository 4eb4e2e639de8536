"""The stacks of rows: each wait gets the numbers of the stack where it began and of the one that ended it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from headway.model import ThreadSeen, Transitions

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Number", "RowStacks"]

Number = Callable[[int, int, int, int], int]
"""Takes a process, a moment (ns), and the hashes of a user and of a kernel stack of then. Returns the stack's number in
the recording; -1: it is not known.
"""


class RowStacks:
    """Knows the process of each thread, from one batch to the next.

    ``number`` gives stacks their numbers. ``prepare`` is called before it is asked for those of a batch, which has been
    read by then.
    """

    def __init__(self, number: Number, prepare: Callable[[], object] = lambda: None) -> None:
        self._number, self._prepare = number, prepare
        self._pids: dict[int, int] = {}
        self._leaving: tuple[set[int], set[int]] = set(), set()
        """The threads that were told to have ended, with the batch before the last and with the last."""

    def add(
        self, rows: Transitions, places: NDArray[np.int32], hashes: NDArray[np.uint64], news: Iterable[ThreadSeen]
    ) -> Transitions:
        """Return the rows with the numbers of their stacks.

        ``places``: of shape (n,), where the stacks of each row are in ``hashes``; -1: it has none. ``hashes``: of shape
        (m, 4), by enum absence_stack. ``news``: the threads of which something is new.
        """
        gone, self._leaving = (
            self._leaving[0],
            (self._leaving[1], set()),
        )  # the last rows of a thread come later than that
        for thread in gone:
            self._pids.pop(thread, None)
        for seen in news:
            self._pids[seen.thread] = seen.pid
            if seen.end is not None:
                self._leaving[1].add(seen.thread)
        self._prepare()
        there = np.flatnonzero(places >= 0)
        found = hashes[places[there]]
        began, ended = rows.time[there], rows.time[there] + rows.duration[there]
        return replace(
            rows,
            stack=self._column(len(rows), there, rows.thread[there], began, found[:, :2]),
            waker_stack=self._column(len(rows), there, rows.waker[there], ended, found[:, 2:]),
        )

    def _column(
        self,
        n: int,
        there: NDArray[np.int64],
        threads: NDArray[np.int32],
        moments: NDArray[np.int64],
        hashes: NDArray[np.uint64],
    ) -> NDArray[np.int32]:
        """Return the numbers of ``n`` rows: of those that are ``there``, of their threads, by moments and hashes."""
        column = np.full(n, -1, np.int32)
        numbers: list[int] = []
        for thread, moment, (user, kernel) in zip(threads.tolist(), moments.tolist(), hashes.tolist(), strict=True):
            if not user and not kernel:
                numbers.append(-1)
                continue
            numbers.append(self._number(self._pids.get(thread, 0), moment, user, kernel))
        column[there] = numbers
        return column
