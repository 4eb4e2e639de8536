"""Segments of a trace stream: the bytes between two A-syncs, which are confirmed, repaired, or known to be damaged.

An A-sync is five zeros, 0x80, and the head of the segment that it begins. The head has the check, length and parity of
the segment before it. Every segment is therefore confirmed to be what the trace unit sent before it is used, a missing
segment is noticed, and small damage is repaired. A head may itself be damaged. The segment that it begins, of which it
is a part, is then repaired first, by the next head.
The input may be divided into chunks anywhere. Only a few segments are kept at a time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from ._mending import WIDTH, mend, vouched_for

__all__ = ["Order", "Segment", "Segments"]

_PATTERN = b"\0\0\0\0\0\x80\x42"
_CHECK, _LENGTH = 4, 3
_TAIL = 1 + _CHECK + _LENGTH + WIDTH
_HEAD = len(_PATTERN) + _TAIL + 2
LONGEST = 1 << 22
"""The number of bytes without an A-sync from which on they cannot be a segment."""
_DOUBTFUL = 2
"""The number of heads that are awaited to repair what no head before them could."""


class Segment(NamedTuple):
    """The bytes from one A-sync to the next, as they were sent, or as many of them as are known.

    ``offset``, ``end``: position in the stream. ``number``: modulo 2^16; -1 for bytes that do not begin with an A-sync.
    ``whole``: whether check, length and parity are right. ``mended``: bits that were missing in the stream, added, or
    wrong. A segment that cannot be repaired is divided: the part that its checks still confirm is ``whole``, and
    ``cut``; the rest is a segment that is not whole. No head describes the bytes before the first A-sync and those
    after the last, so these are not whole.
    """

    data: bytes
    offset: int
    end: int
    number: int
    whole: bool
    mended: int = 0
    cut: bool = False


class Order(NamedTuple):
    """The cycle at which a segment begins, and its number. Both grow in a stream, so what does not grow is repeated."""

    cycle: int
    number: int

    @classmethod
    def of(cls, segment: Segment) -> Order | None:
        """Return that of a segment; None: it is not known."""
        cycle = _varint(segment.data, _HEAD) if segment.whole else None
        return None if cycle is None else cls(cycle, segment.number)

    def before(self, later: Order) -> bool:
        """Return whether the other can follow this one."""
        return self.cycle < later.cycle or (self.cycle == later.cycle and self.number != later.number)


class Segments:
    """The division of one stream into segments."""

    def __init__(self, offset: int = 0) -> None:
        """Begin; ``offset`` is the position of the first byte that will be fed."""
        self._kept = bytearray()
        self._offset = offset
        self._searched = 0
        self._doubtful = list[int]()

    def feed(self, data: bytes) -> Iterator[Segment]:
        """Take more bytes. Yield the segments that end in them."""
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
            # So many bytes cannot be a segment.
            yield Segment(b"", self._offset + begin, self._offset + self._searched, -1, False)
            begin = self._searched
            self._doubtful.clear()
        self._offset += begin
        self._searched -= begin
        self._doubtful = [at - begin for at in self._doubtful]
        del kept[:begin]

    def finish(self) -> Iterator[Segment]:
        """End the stream. Yield the rest, with what follows the last A-sync at the end, if there is anything."""
        begin = 0
        for at in (*self._doubtful, len(self._kept)):
            if at > begin:
                yield from self._unknown(begin, at)
            begin = at
        self._kept.clear()
        self._doubtful.clear()

    def _known(self, begin: int, end: int) -> list[Segment] | None:
        """Return all that the head after these bytes confirms; None if it confirms not even the last segment."""
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
            # The head of this segment, repaired if necessary, describes the segment before it.
            end, tail = begin + start, _tail(data, 0)
        if not known:
            return None
        return [*(self._unknown(begin, end) if begin < end else ()), *reversed(known)]

    def _unknown(self, begin: int, end: int) -> list[Segment]:
        """Return bytes that no head describes. They are confirmed up to the last check in them that is right."""
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
    """Return the number of a segment; -1 if the bytes are none."""
    if not data.startswith(_PATTERN) or len(data) < _HEAD:
        return -1
    return int.from_bytes(data[_HEAD - 2 : _HEAD], "little")


def _varint(data: bytes, at: int) -> int | None:
    """Return a number with 7 bits a byte, of at most 8 bytes."""
    found = 0
    for place, byte in enumerate(data[at : at + 8]):
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return found
    return None


def _check(data: bytes | bytearray, at: int) -> int:
    """Return the CRC-32 of the segment that ends where the head at ``at`` begins."""
    at += len(_PATTERN)
    return int.from_bytes(data[at + 1 : at + 1 + _CHECK], "little") ^ data[at] * 0x01010101


def _tail(data: bytes | bytearray, at: int) -> tuple[int, int, bytes]:
    """Return check, length and parity of that segment."""
    check, at = _check(data, at), at + len(_PATTERN)
    mask = data[at]
    told = bytes(byte ^ mask for byte in data[at + 1 + _CHECK : at + _TAIL])
    return check, int.from_bytes(told[:_LENGTH], "little"), told[_LENGTH:]
