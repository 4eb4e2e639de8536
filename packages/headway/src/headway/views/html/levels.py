"""The time of each kind that each lane had, in buckets of time. The page shows it where single spans are too fine.

A lane is a thread for the time that it lived, or a processor. A cell is a lane's time of one kind in one bucket. All
buckets are equally wide. The page adds them up to the width of its pixels (web/src/levels.ts).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .deflate import deflate

__all__ = ["FINEST", "WHOLE", "Levels"]

FINEST = 1 << 19
"""The largest number of buckets."""
WHOLE = 255
"""The value of a cell whose kind fills the whole bucket."""

Ints = NDArray[np.int64]


class Levels:
    """Adds up spans. ``lanes``: start and end of each lane, from the timeline's start; ``most``: number of cells."""

    def __init__(self, length: int, lanes: Sequence[tuple[int, int]], most: int) -> None:
        self._length = max(length, 1)
        lives = np.clip(np.array(lanes, np.int64).reshape(-1, 2), 0, self._length)
        buckets = FINEST
        while True:
            self.width = -(-self._length // buckets)
            """The width of a bucket, in the time unit."""
            self.first, self.until = lives[:, 0] // self.width, -(-lives[:, 1] // self.width)
            """Each lane's first bucket, and the bucket after its last."""
            sizes = np.maximum(self.until - self.first, 0)
            if int(sizes.sum()) <= most or buckets == 1:
                break
            buckets //= 2
        self.until = self.first + sizes
        self.offset = np.append(0, np.cumsum(sizes))
        """The index of each lane's first cell among the cells of all lanes; the last element is their number."""
        kind: Any = np.int64 if self.width >= 1 << 31 else np.int32
        self._kind = kind
        self._cells: dict[int, NDArray[Any]] = {}
        self._whole: dict[int, NDArray[np.int32]] = {}

    def add(self, lane: Ints, start: Ints, end: Ints, kind: NDArray[Any]) -> None:
        """Add spans. All arrays have shape (n,); ``kind`` is the index of each span's kind."""
        for number in np.flatnonzero(np.bincount(kind)).tolist():
            some = kind == number
            self._add(lane[some], start[some], end[some], number)

    def _add(self, lane: Ints, start: Ints, end: Ints, kind: int) -> None:
        if kind not in self._cells:
            self._cells[kind] = np.zeros(int(self.offset[-1]), self._kind)
            self._whole[kind] = np.zeros(int(self.offset[-1]) + 1, np.int32)
        cells, whole = self._cells[kind], self._whole[kind]
        # Cut what is outside the lane's life; the page does not show it.
        start = np.maximum(start, self.first[lane] * self.width)
        end = np.minimum(end, self.until[lane] * self.width)
        some = end > start
        lane, start, end = lane[some], start[some], end[some]
        first, last = start // self.width, (end - 1) // self.width
        base = self.offset[lane] - self.first[lane]
        one = first == last
        np.add.at(cells, (base + first)[one], (end - start)[one].astype(self._kind))
        base, first, last, start, end = (column[~one] for column in (base, first, last, start, end))
        np.add.at(cells, base + first, ((first + 1) * self.width - start).astype(self._kind))
        np.add.at(cells, base + last, (end - last * self.width).astype(self._kind))
        np.add.at(whole, base + first + 1, 1)
        np.add.at(whole, base + last, -1)

    def packed(self, most: int) -> tuple[list[int], bytes]:
        """Return the indices of the kinds that occur, and for each of them one byte a cell: its share of the bucket.

        Buckets are merged until the result has at most ``most`` bytes.
        """
        kinds = sorted(self._cells)
        shares = [self._cells[kind] / self.width + np.cumsum(self._whole[kind])[:-1] for kind in kinds]
        while True:
            planes = (np.minimum(np.rint(plane * WHOLE), WHOLE).astype(np.uint8).tobytes() for plane in shares)
            found = deflate(b"".join(planes))
            if len(found) <= most or self.width >= self._length:
                return kinds, found
            shares = self._halved(shares)

    def _halved(self, shares: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Merge each pair of buckets."""
        sizes = self.until - self.first
        lane = np.repeat(np.arange(len(sizes)), sizes)
        bucket = np.arange(int(self.offset[-1])) - self.offset[lane] + self.first[lane]
        self.width *= 2
        self.first, self.until = self.first // 2, np.where(sizes > 0, -(-self.until // 2), self.first // 2)
        self.offset = np.append(0, np.cumsum(self.until - self.first))
        place = self.offset[lane] + bucket // 2 - self.first[lane]
        size = int(self.offset[-1])
        return [np.bincount(place, plane, size) / 2 for plane in shares]
