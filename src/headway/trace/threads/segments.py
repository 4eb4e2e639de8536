"""A trace port's bytes to segments: what lies between two A-syncs, found to be what was sent, mended, or neither.

An A-sync is five zeros, 0x80, and the head of the segment that it begins. The head says what the segment before it is
known by: its check, length and parity. So a segment is known to be what the trace unit sent before any of it is
believed, one that is missing is missed, and small damage is undone. A head may be damaged itself: then the segment that
it begins, of which it is a part, is mended first, by the head after that.
Bytes may come in any division; a few segments are kept at most.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from ._mending import WIDTH, mend, vouched_for

__all__ = ["Segment", "Segments"]

_PATTERN = b"\0\0\0\0\0\x80\x42"
_CHECK, _LENGTH = 4, 3
_TAIL = 1 + _CHECK + _LENGTH + WIDTH
_HEAD = len(_PATTERN) + _TAIL + 2
LONGEST = 1 << 22
"""Bytes without an A-sync that are no segment any more."""
_DOUBTFUL = 2
"""Heads that are waited for to mend what no head before them could."""


class Segment(NamedTuple):
    """The bytes from one A-sync to the next, as they were sent, or as much of them as is known.

    ``offset``, ``end``: where in the stream; ``number`` modulo 2^16; ``whole``: what it is known by is right.
    ``mended``: bits that were missing in the stream, too many, or wrong. Of a segment that cannot be mended the part
    that its checks still vouch for is whole, and ``cut``, and the rest is a segment that is not. What precedes the
    first A-sync, or follows the last, has nothing that it could be known by: it is not whole. ``number`` is -1 for
    what does not begin with an A-sync.
    """

    data: bytes
    offset: int
    end: int
    number: int
    whole: bool
    mended: int = 0
    cut: bool = False


class Segments:
    """Takes one stream apart."""

    def __init__(self, offset: int = 0) -> None:
        """``offset``: of the first byte that will be fed."""
        self._kept = bytearray()
        self._offset = offset
        self._searched = 0
        self._doubtful = list[int]()

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
            self._searched = at + 1
            if at == begin:
                continue
            piece = bytes(kept[begin:at])
            if zlib.crc32(piece) == _check(kept, at) and (number := _number(piece)) >= 0:
                yield Segment(piece, self._offset + begin, self._offset + at, number, True)
                self._doubtful.clear()
                begin = at
                continue
            found = self._known(begin, at)
            if found is None:
                self._doubtful.append(at)
                if len(self._doubtful) <= _DOUBTFUL:
                    continue
                at = self._doubtful.pop(0)
                found = self._unknown(begin, at)
            else:
                self._doubtful.clear()
            yield from found
            begin = at
        if len(kept) - begin > LONGEST:
            # Whatever this was, it is no segment.
            yield Segment(b"", self._offset + begin, self._offset + self._searched, -1, False)
            begin = self._searched
            self._doubtful.clear()
        self._offset += begin
        self._searched -= begin
        self._doubtful = [at - begin for at in self._doubtful]
        del kept[:begin]

    def finish(self) -> Iterator[Segment]:
        """The end of the stream: what follows the last A-sync comes last, if there is anything."""
        begin = 0
        for at in (*self._doubtful, len(self._kept)):
            if at > begin:
                yield from self._unknown(begin, at)
            begin = at
        self._kept.clear()
        self._doubtful.clear()

    def _known(self, begin: int, end: int) -> list[Segment] | None:
        """All that is known of these bytes by the head after them; None: not even the last segment in them."""
        known = list[Segment]()
        tail = _tail(self._kept, end)
        while begin < end and len(known) <= _DOUBTFUL:
            data = bytes(self._kept[begin:end])
            found = mend(data, *tail)
            if found is None or (number := _number(found[1])) < 0:
                break
            start, data, bits = found
            if bits and not vouched_for(data)[1]:
                break
            known.append(Segment(data, self._offset + begin + start, self._offset + end, number, True, bits))
            # By its own head, mended if it had to be, the segment before it is known.
            end, tail = begin + start, _tail(data, 0)
        if not known:
            return None
        return [*(self._unknown(begin, end) if begin < end else ()), *reversed(known)]

    def _unknown(self, begin: int, end: int) -> list[Segment]:
        """What no head knows. Up to the last check in it that is right it is known nevertheless."""
        data = bytes(self._kept[begin:end])
        part, _ = vouched_for(data)
        middle, found = begin + part, list[Segment]()
        if part:
            found.append(
                Segment(data[:part], self._offset + begin, self._offset + middle, _number(data), True, cut=True)
            )
        number = -1 if part else _number(data)
        found.append(Segment(data[part:], self._offset + middle, self._offset + end, number, False))
        return found


def _number(data: bytes) -> int:
    """Of a segment; -1: it is none."""
    if not data.startswith(_PATTERN) or len(data) < _HEAD:
        return -1
    return int.from_bytes(data[_HEAD - 2 : _HEAD], "little")


def _check(data: bytes | bytearray, at: int) -> int:
    """Of the segment that ends where the head there begins, its CRC-32."""
    at += len(_PATTERN)
    return int.from_bytes(data[at + 1 : at + 1 + _CHECK], "little") ^ data[at] * 0x01010101


def _tail(data: bytes | bytearray, at: int) -> tuple[int, int, bytes]:
    """Check, length and parity of that segment."""
    check, at = _check(data, at), at + len(_PATTERN)
    mask = data[at]
    told = bytes(byte ^ mask for byte in data[at + 1 + _CHECK : at + _TAIL])
    return check, int.from_bytes(told[:_LENGTH], "little"), told[_LENGTH:]
