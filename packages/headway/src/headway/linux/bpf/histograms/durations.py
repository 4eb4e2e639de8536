"""Durations as the eBPF programs keep them: histograms, packed until somebody looks at them."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence
from struct import Struct, iter_unpack

from headway.model import Durations, Longest, Quality

__all__ = ["KeptDurations"]

_HEAD = Struct("=HHIQQQ")
"""Cell, number of buckets, whether the longest may have been taken back, the longest, its end, and the time since the
last occurrence ended (`_durations.DurationMaps`)."""
_BUCKET = "=HQ"
_BUCKET_SIZE = Struct(_BUCKET).size


class KeptDurations(Mapping[str, Durations]):
    """How long the single occurrences of each state lasted, of one thread: state -> `headway.model.Durations`.

    ``packed``: the histograms by cell. ``cells``: the state of each cell, and how often that ended. ``opened``: the
    states that the thread is in, the interrupted ones too, and how long the state has lasted since it was charged last.
    ``parts``: buckets for each power of two.
    """

    __slots__ = ("_cells", "_opened", "_packed", "_parts")

    def __init__(
        self, packed: bytes, cells: Sequence[tuple[str, int]], opened: Sequence[tuple[str, int]], parts: int
    ) -> None:
        self._packed, self._cells, self._opened, self._parts = packed, tuple(cells), tuple(opened), parts

    def _expanded(self) -> dict[str, Durations]:
        found: dict[str, Durations] = {}
        pieces: dict[str, int] = {}
        kept = dict(self._histograms())
        for cell, (state, ended) in enumerate(self._cells):
            histogram, rest = kept.get(cell, (Durations(parts=self._parts), 0))
            one = Durations(histogram.buckets, self._parts, ended - histogram.placed, 0, histogram.longest)
            if one.buckets or one.unplaced:
                found[state] = found[state] + one if state in found else one
            pieces[state] = pieces.get(state, 0) + rest
        for state, time in self._opened:
            one = Durations((), self._parts, 0, 1, Longest(time + pieces.pop(state, 0), None))
            found[state] = found[state] + one if state in found else one
        return found

    def _histograms(self) -> Iterator[tuple[int, tuple[Durations, int]]]:
        """Yield each cell's histogram, and the time of the occurrence that has not ended."""
        at, packed = 0, memoryview(self._packed)
        while at < len(packed):
            cell, n, revoked, longest, end, pieces = _HEAD.unpack_from(packed, at)
            at += _HEAD.size
            buckets = tuple(iter_unpack(_BUCKET, packed[at : at + n * _BUCKET_SIZE]))
            at += n * _BUCKET_SIZE
            top = None
            if buckets:
                top = Longest(longest, None, Quality.BOUND) if revoked else Longest(longest, end)
            yield cell, (Durations(buckets, self._parts, longest=top), pieces)

    def __getitem__(self, state: str) -> Durations:
        return self._expanded()[state]

    def __iter__(self) -> Iterator[str]:
        return iter(self._expanded())

    def __len__(self) -> int:
        return len(self._expanded())

    def items(self) -> ItemsView[str, Durations]:
        """States' names and durations; they are unpacked once for all."""
        return self._expanded().items()
