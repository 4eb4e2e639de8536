"""A trace port's bytes to segments: what lies between two A-syncs, found to be whole or not.

An A-sync is five zeros, 0x80, and the head of the segment that it begins: a check of the segment that it ends, and
its own number. So a segment is known to be what the trace unit sent before any of it is believed, and a missing one
is missed.
Bytes may come in any division; no more than a segment is kept.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Segment", "Segments"]

_PATTERN = b"\0\0\0\0\0\x80\x42"
_HEAD = len(_PATTERN) + 6
LONGEST = 1 << 22
"""Bytes without an A-sync that are no segment any more."""


class Segment(NamedTuple):
    """The bytes from one A-sync to the next.

    ``offset``: where in the stream; ``number`` modulo 2^16; ``whole``: its check is right. What precedes the first
    A-sync, or follows the last, has no check to be held against: it is not whole. ``number`` is -1 for what precedes
    the first.
    """

    data: bytes
    offset: int
    number: int
    whole: bool


class Segments:
    """Takes one stream apart."""

    def __init__(self, offset: int = 0) -> None:
        """``offset``: of the first byte that will be fed."""
        self._kept = bytearray()
        self._offset = offset
        self._searched = 0

    def feed(self, data: bytes) -> Iterator[Segment]:
        """More bytes; the segments that end in them."""
        kept = self._kept
        kept += data
        begin = 0
        while True:
            at = kept.find(_PATTERN, self._searched)
            if at < 0:
                self._searched = max(self._searched, len(kept) - len(_PATTERN) + 1)
                break
            if at + _HEAD > len(kept):
                self._searched = at
                break
            if at > begin:
                yield self._cut(begin, at)
            begin, self._searched = at, at + 1
        if len(kept) - begin > LONGEST:
            # Whatever this was, it is no segment.
            yield Segment(b"", self._offset + begin, -1, False)
            begin = self._searched
        self._offset += begin
        self._searched -= begin
        del kept[:begin]

    def finish(self) -> Iterator[Segment]:
        """The end of the stream: what follows the last A-sync."""
        if self._kept:
            yield Segment(bytes(self._kept), self._offset, self._number(0), False)
        self._kept.clear()

    def _number(self, begin: int) -> int:
        if not self._kept.startswith(_PATTERN, begin) or len(self._kept) < begin + _HEAD:
            return -1
        return int.from_bytes(self._kept[begin + _HEAD - 2 : begin + _HEAD], "little")

    def _cut(self, begin: int, end: int) -> Segment:
        data = bytes(self._kept[begin:end])
        check = int.from_bytes(self._kept[end + len(_PATTERN) : end + len(_PATTERN) + 4], "little")
        number = self._number(begin)
        return Segment(data, self._offset + begin, number, number >= 0 and zlib.crc32(data) == check)
