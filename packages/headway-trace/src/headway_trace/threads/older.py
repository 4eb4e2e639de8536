"""Chunks of trace files of versions 2 and 3, which have a number and a length in front, and no check.

Where a chunk does not begin where the one before it ends, the next one is searched for: a number of a core and a length
from which one chunk leads to the other up to the end of the file. What is in between is of the chunk before it, unless
it could be of another core.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

__all__ = ["HEAD", "OlderChunks"]

HEAD = struct.Struct("<BI")
_END = HEAD.pack(0xFE, 0)
_MAX_CHUNK = 1 << 24
_PIECE = 1 << 20
_NEAR = 64
"""Bytes that may be missing, or too many, in what is surely of one chunk."""
_STEPS = 4
"""Chunks in a row that are certainly chunks."""
_MOST = 1 << 16
"""Places at which a chunk is searched for, so that a hostile file is read in a bounded time."""


@dataclass(slots=True)
class OlderChunks:
    """The places of each core's stream in the file, in order: (core, first byte, bytes)."""

    places: list[tuple[int, int, int]] = field(default_factory=list)
    complete: bool = False
    damaged: int = 0
    """Chunks that are longer or shorter than they were, or whose head is damaged."""
    skipped: int = 0
    """Bytes of the file that are of no chunk."""

    @classmethod
    def of(cls, stream: BinaryIO, begin: int, size: int, cores: int) -> OlderChunks:
        """Find the chunks of a file of ``size`` bytes, the first of which begins at ``begin``. Raises OSError."""
        return _Search(stream, size, cores).find(begin)


class _Search:
    def __init__(self, stream: BinaryIO, size: int, cores: int) -> None:
        self._stream, self._size, self._cores = stream, size, cores
        stream.seek(max(size - len(_END), 0))
        self._closed = stream.read(len(_END)) == _END
        self._last = size - len(_END) if self._closed else size
        """Where the streams end in the file."""
        self._tried = 0
        self._found = OlderChunks()

    def find(self, at: int) -> OlderChunks:
        """Follow the chunks from a byte of the file on."""
        found = self._found
        while True:
            raw = self._raw(at)
            if raw == _END or len(raw) < HEAD.size:
                found.complete = raw == _END
                return found
            number, length = HEAD.unpack(raw)
            body, end = at + HEAD.size, at + HEAD.size + length
            possible = number < self._cores and length <= _MAX_CHUNK
            if possible and end > self._last - HEAD.size and not self._closed:
                found.places.append((number, body, min(end, self._last) - body))
                if end >= self._last:
                    return found
                at = end
            elif possible and self._plausible(end):
                found.places.append((number, body, length))
                at = end
            else:
                at = self._beyond(number, body, length)

    def _raw(self, at: int) -> bytes:
        self._stream.seek(at)
        return self._stream.read(HEAD.size)

    def _begins(self, at: int) -> bool:
        """Return whether a chunk, or the end, can begin at a byte of the file."""
        raw = self._raw(at)
        if at == self._last or raw == _END:
            return True
        if len(raw) < HEAD.size:
            return False
        number, length = HEAD.unpack(raw)
        return bool(number < self._cores and 0 < length <= _MAX_CHUNK)

    def _plausible(self, at: int) -> bool:
        """Return whether a chunk begins at a byte of the file, if its number or one bit of its length may be wrong."""
        if self._begins(at):
            return True
        raw = self._raw(at)
        if len(raw) < HEAD.size:
            return False
        number, length = HEAD.unpack(raw)
        return self._begins(at + HEAD.size + length) or (
            number < self._cores and self._by_one_bit(at + HEAD.size, length) is not None
        )

    def _by_one_bit(self, body: int, length: int) -> int | None:
        """Return where the only chunk begins to which a length leads if one bit of it is wrong."""
        places = [body + (length ^ 1 << bit) for bit in range(32)]
        found = [place for place in places if place <= self._last and self._begins(place) and self._leads(place)]
        return found[0] if len(found) == 1 else None

    def _beyond(self, number: int, body: int, length: int) -> int:
        """Take the damaged chunk with this head, and its bytes from ``body`` on. Return where the next one begins."""
        found = self._found
        found.damaged += 1
        following = self._next(body, length)
        size = following - body
        cores = [number] if number < self._cores else []
        if not cores:
            cores = [one for one in range(self._cores) if (one ^ number).bit_count() == 1]
        sure = abs(size - length) <= _NEAR or (size ^ length).bit_count() == 1
        if self._cores == 1 or (len(cores) == 1 and sure):
            found.places.append(((cores or [0])[0], body, size))
        else:
            found.skipped += size
        return following

    def _next(self, body: int, length: int) -> int:
        """Return where the next chunk begins: as near as possible to where it should, if it is near; else the first."""
        expected = body + length
        if expected <= self._last and self._begins(expected) and self._leads(expected):
            return expected
        places = [place for place in self._places(body) if self._leads(place)]
        nearest = min([*places, self._last], key=lambda place: abs(place - expected))
        if abs(nearest - expected) <= _NEAR:
            return nearest
        flipped = self._by_one_bit(body, length)
        return flipped if flipped is not None else min([*places, self._last])

    def _places(self, begin: int) -> Iterator[int]:
        """Yield where the file has a number of a core, and a length that can be."""
        pattern = re.compile(rb"(?=[\x00-%c]..[\x00-\xff][\x00\x01])" % (self._cores - 1), re.DOTALL)
        at = begin
        while at < self._last and self._tried < _MOST:
            self._stream.seek(at)
            data = self._stream.read(_PIECE)
            for match in pattern.finditer(data):
                self._tried += 1
                if self._tried >= _MOST or at + match.start() >= self._last:
                    return
                yield at + match.start()
            if len(data) < HEAD.size:
                return
            at += max(len(data) - HEAD.size + 1, 1)

    def _leads(self, at: int) -> bool:
        """Return whether the chunks from there on lead to the end of the file."""
        steps = 0
        while at < self._last and steps <= _STEPS:
            raw = self._raw(at)
            if raw == _END:
                return True
            if not self._begins(at):
                return False
            at += HEAD.size + HEAD.unpack(raw)[1]
            steps += 1
        return at == self._last or steps > _STEPS or (steps > 1 and not self._closed)
