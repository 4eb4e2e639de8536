"""Chunks of a trace file from version 4 on: found by their marks, checked, and repaired where that is possible.

A chunk stands between two *marks*, its head and its tail, of 64 bytes each. Both say the same: what the chunk holds,
its number in the file, its place in the core's stream, and its length, check and parity. A mark has a check of its
own, so that it is found wherever it lies: bytes that are lost or added move only what follows them, and a chunk with a
damaged head has its tail. Damage to a chunk is repaired as that to a segment (`_mending`), and a part that is there
twice is taken out. A chunk that is in the file twice counts once.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from ._mending import WIDTH, mend

__all__ = ["DESCRIPTION", "END", "LONGEST_CHUNK", "Chunk", "ChunkWriter", "Chunks", "Mark", "first_mark", "parity_of"]

DESCRIPTION, END = 0xFF, 0xFE
"""The numbers of chunks that are of no core: the description of the machine, and the end of the trace."""
LONGEST_CHUNK = 1 << 16
_SYNC, _TAIL = b"\xa9hwc", b"\xa9hwe"
_COMMON = _SYNC[:3]
_MARK = struct.Struct(f"<4sB3sIQI{WIDTH}sI")
_SIZE = _MARK.size
_PIECE = 1 << 20
_BEGIN = 8
"""Where the first mark is."""
_MOST_REPAIRS = 1000
"""Chunks that are tried to be repaired, so that a file of damaged chunks is read in a bounded time."""


class Mark(NamedTuple):
    """What a head or a tail at byte ``at`` of the file says of its chunk."""

    tail: bool
    number: int
    """The core, or `DESCRIPTION` or `END`."""
    length: int
    sequence: int
    """The chunk's number in the file, from 0."""
    offset: int
    """Where the chunk's first byte lies in the core's stream; 0 of other chunks."""
    check: int
    parity: bytes
    at: int

    @property
    def end(self) -> int:
        """The first byte of the file after it."""
        return self.at + _SIZE

    def matches(self, other: Mark) -> bool:
        """Return whether both are of one chunk."""
        return self[1:7] == other[1:7]


def parity_of(data: bytes) -> bytes:
    """Return the exclusive or of every 36th byte, as a head of a segment has it."""
    columns = WIDTH
    while columns < len(data):
        columns *= 2
    found = int.from_bytes(data, "little")
    while columns > WIDTH:
        columns //= 2
        found = found >> 8 * columns ^ found & (1 << 8 * columns) - 1
    return found.to_bytes(WIDTH, "little")


def _mark(data: bytes, at: int, place: int) -> Mark | None:
    """Return the mark in ``data`` at ``at``, which is the file's byte ``place``; None: there is none."""
    raw = data[at : at + _SIZE]
    if len(raw) < _SIZE:
        return None
    sync, number, length, sequence, offset, check, parity, own = _MARK.unpack(raw)
    size = int.from_bytes(length, "little")
    if sync not in (_SYNC, _TAIL) or size > LONGEST_CHUNK or zlib.crc32(raw[:-4]) != own:
        return None
    return Mark(sync == _TAIL, number, size, sequence, offset, check, parity, place)


def first_mark(data: bytes) -> Mark | None:
    """Return the first mark in the first bytes of a file; None: there is none."""
    return next(_marks_in(data, 0), None)


def _marks_in(data: bytes, place: int) -> Iterator[Mark]:
    at = data.find(_COMMON)
    while at >= 0:
        found = _mark(data, at, place + at)
        if found is not None:
            yield found
        at = data.find(_COMMON, at + 1)


class ChunkWriter:
    """What writes chunks, one after the other."""

    def __init__(self) -> None:
        self.count = 0
        self._offsets: dict[int, int] = {}

    def copy(self) -> ChunkWriter:
        """Return one that goes on as this one would."""
        found = ChunkWriter()
        found.count, found._offsets = self.count, dict(self._offsets)
        return found

    def chunk(self, number: int, data: bytes) -> bytes:
        """Return a chunk of at most `LONGEST_CHUNK` bytes with its marks."""
        offset = self._offsets.get(number, 0) if number < END else 0
        self._offsets[number] = offset + len(data)
        said = (number, len(data).to_bytes(3, "little"), self.count & 0xFFFFFFFF, offset)
        rest = (*said, zlib.crc32(data), parity_of(data))
        self.count += 1
        return _packed(_SYNC, *rest) + data + _packed(_TAIL, *rest)


def _packed(sync: bytes, *values: int | bytes) -> bytes:
    unchecked = _MARK.pack(sync, *values, 0)[:-4]
    return unchecked + zlib.crc32(unchecked).to_bytes(4, "little")


class Chunk(NamedTuple):
    """Bytes of the file that are, or were, a chunk: ``size`` of them from ``at`` on.

    ``right``: they are what was written, after `restored` where they were ``repaired``.
    """

    mark: Mark
    at: int
    size: int
    right: bool
    repaired: bool = False
    sure: bool = True
    """Whether all of it is of this chunk; else chunks without any mark may be in it."""

    def restored(self, data: bytes) -> bytes:
        """Return the chunk as it was written, of its bytes in the file; if it could not be repaired, as they are."""
        found = _repaired(data, self.mark) if self.repaired else None
        return data if found is None else found


def _repaired(data: bytes, mark: Mark) -> bytes | None:
    """Return the bytes of a chunk, of damaged ones; None: they cannot be repaired."""
    more = len(data) - mark.length
    if more > 0 and zlib.crc32(data[: mark.length]) == mark.check:
        return data[: mark.length]
    if 0 < more <= mark.length:
        # Where a part is there twice, the bytes equal those so many further on.
        differing = int.from_bytes(data[:-more], "little") ^ int.from_bytes(data[more:], "little")
        at = differing.to_bytes(mark.length, "little").find(bytes(more))
        if at >= 0:
            once = data[:at] + data[at + more :]
            if zlib.crc32(once) == mark.check:
                return once
    found = mend(data, mark.check, mark.length, mark.parity)
    return None if found is None else found[1]


@dataclass(slots=True)
class Chunks:
    """The chunks of a file in the order in which they were written, each once."""

    found: Sequence[Chunk]
    complete: bool
    """Whether the chunk that ends the trace is there."""
    skipped: int
    """Bytes of the file that are of no chunk."""
    spoilt: int
    """Chunks whose head or tail is damaged."""

    @classmethod
    def of(cls, stream: BinaryIO, size: int) -> Chunks:
        """Find the chunks of a file of ``size`` bytes. Raises OSError."""
        finder = _Finder(stream, size)
        finder.find()
        best: dict[int, Chunk] = {}
        for chunk in finder.candidates:
            before = best.get(chunk.mark.sequence)
            if before is None or (chunk.right, chunk.size) > (before.right, before.size):
                best[chunk.mark.sequence] = chunk
        chosen = [best[number] for number in sorted(best)]
        used = _BEGIN + _SIZE * finder.marks + sum(chunk.size for chunk in chosen)
        return cls(chosen, finder.complete, max(finder.after - used, 0), finder.spoilt)


class _Finder:
    """The search for marks, and what lies between two of them."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._size = stream, size
        self.marks = 0
        self.candidates: list[Chunk] = []
        self.complete = False
        self.spoilt = 0
        self._repairs = 0
        self.after = size
        """Where the end of the trace is in the file."""

    def find(self) -> None:
        """Look at the whole file, up to the end of the trace."""
        before: Mark | None = None
        place = 0
        while not self.complete:
            at = place + before.length if before is not None and not before.tail else place or _BEGIN
            mark = self._mark_at(at) or self._next_mark(place)
            self._between(before, place, mark)
            if mark is None:
                # What follows the last mark is a part of a chunk, or of a mark.
                self.after = self._size if before is not None and not before.tail else place
                return
            self.marks += 1
            before, place = mark, mark.end
            if mark.number == END:
                self._end(mark)

    def _end(self, mark: Mark) -> None:
        self.complete = True
        tail = self._mark_at(mark.end)
        if tail is not None and tail.matches(mark):
            self.marks += 1
        self.after = tail.end if tail is not None and tail.matches(mark) else mark.end
        self.spoilt += self.after == mark.end

    def _mark_at(self, at: int) -> Mark | None:
        self._stream.seek(at)
        return _mark(self._stream.read(_SIZE), 0, at)

    def _next_mark(self, at: int) -> Mark | None:
        """Return the next mark from a byte of the file on."""
        while at < self._size:
            self._stream.seek(at)
            data = self._stream.read(_PIECE)
            found = next(_marks_in(data, at), None)
            if found is not None:
                return found
            if len(data) < _SIZE:
                return None
            at += len(data) - _SIZE + 1
        return None

    def _between(self, before: Mark | None, begin: int, after: Mark | None) -> None:
        """Take what lies between two marks, or between one and an end of the file."""
        head = before if before is not None and not before.tail else None
        tail = after if after is not None and after.tail else None
        end = self._size if after is None else after.at
        if head is not None and tail is not None and head.matches(tail):
            self._bounded(head, begin, end)
            return
        self.spoilt += (head is not None and after is not None) + (tail is not None)
        last = None if tail is None else self._there(tail, max(begin, end - tail.length), end)
        if last is not None:
            end = last.at
        first = None if head is None else self._there(head, begin, min(end, begin + head.length))
        if first is not None:
            begin = first.at + first.size
        size = end - begin - 2 * _SIZE  # if nothing is missing
        if (
            head
            and tail
            and not first
            and not last
            and tail.sequence == head.sequence + 1
            and (size == head.length + tail.length)
        ):
            # Only changed: nothing is missing between the two.
            first = Chunk(head, begin, head.length, False)
            last = Chunk(tail, end - tail.length, tail.length, False)
        elif head is not None and first is None and not (head.number >= END and tail is not None and last is None):
            first = self._left_after(head, begin, end, after, found=last is not None)
        elif tail is not None and last is None:
            last = self._left_before(tail, begin, end, before)
        self.candidates += [one for one in (first, last) if one is not None]

    def _left_after(self, head: Mark, begin: int, end: int, after: Mark | None, *, found: bool) -> Chunk | None:
        """Return what is left of a chunk that cannot be repaired, from its head on.

        ``found``: the next chunk, whose tail ``after`` is, has been found.
        """
        both = after is not None and after.tail and not found
        sure = after is None or (after.sequence == head.sequence + 1 and (not both or after.number == head.number))
        size = min(end - begin, head.length + (after.length if both and after is not None else 0))
        return Chunk(head, begin, size, False, sure=sure) if size > 0 else None

    def _left_before(self, tail: Mark, begin: int, end: int, before: Mark | None) -> Chunk | None:
        """Return what is left of a chunk that cannot be repaired, and has no head."""
        # A chunk before it has been found, or is a description: if that is damaged, it is of no use, and does no harm.
        sure = tail.sequence == (0 if before is None else before.sequence + 1)
        size = min(end - begin - _SIZE, tail.length)
        return Chunk(tail, end - size, size, False, sure=sure) if size > 0 else None

    def _there(self, mark: Mark, begin: int, end: int) -> Chunk | None:
        """Return the chunk if it lies between two bytes of the file as it was written, or can be repaired."""
        return self._exact(mark, begin, end) or self._searched(mark, begin, end)

    def _bounded(self, mark: Mark, begin: int, end: int) -> None:
        """Take a chunk whose head and tail are there."""
        found = self._there(mark, begin, end) if end - begin <= mark.length + LONGEST_CHUNK else None
        self.candidates.append(found or Chunk(mark, begin, end - begin, False))

    def _exact(self, mark: Mark, begin: int, end: int) -> Chunk | None:
        """Return the chunk if it lies between two bytes of the file as it was written."""
        if end - begin != mark.length or zlib.crc32(self._read(begin, mark.length)) != mark.check:
            return None
        return Chunk(mark, begin, mark.length, True)

    def _searched(self, mark: Mark, begin: int, end: int) -> Chunk | None:
        """Return the chunk that is damaged between two bytes of the file, if it can be repaired."""
        if self._repairs >= _MOST_REPAIRS or end < begin:
            return None
        self._repairs += 1
        found = _repaired(self._read(begin, end - begin), mark)
        return None if found is None else Chunk(mark, begin, end - begin, True, repaired=True)

    def _read(self, at: int, size: int) -> bytes:
        self._stream.seek(at)
        return self._stream.read(size)
