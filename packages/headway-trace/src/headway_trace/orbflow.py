"""Orbflow (OFLOW), in which Orbuculum and ORBTrace probes send the streams of several sources: messages in COBS frames.

A frame ends with a byte 0, and has none otherwise: each block of it begins with its length, and stands for its bytes
and a byte 0. A message is the tag of its stream, data, and a byte with which the sum of all its bytes is 0 modulo 256.
A frame that is damaged is a loss, reported to the stream of the message before it.

Source: S. Cheshire, M. Baker, "Consistent Overhead Byte Stuffing", IEEE/ACM Transactions on Networking 7 (1999);
README of Orbuculum 2.2.0. The places of tag and sum are as Orbuculum reads them.
"""

from __future__ import annotations

from array import array
from typing import Any

__all__ = ["Orbflow", "message_of"]

_LONGEST = 1 << 16
"""Bytes of a frame, beyond which it is damaged."""
_STREAMS = 128


class Orbflow:
    """A reader of messages, as `_coresight.Deformatter` is one of frames. ``only``: the tag of the stream to give."""

    def __init__(self, only: int | None = None) -> None:
        self._only, self._rest, self._position = only, b"", 0
        self._sizes: dict[int, int] = {}
        self._current = -1
        self.first = -1
        """The stream of the first message; -1: there is none yet."""
        self.good = self.bad = 0
        """Messages so far whose sum is right, and frames that are damaged."""

    @property
    def sizes(self) -> dict[int, int]:
        """The number of bytes so far of each stream that has any."""
        return dict(self._sizes)

    def feed(self, data: bytes) -> list[tuple[int, bytes, array[int]]]:
        """Take more bytes. Return pieces (tag, bytes, places); one without bytes is a loss, as of `Deformatter`."""
        found: list[tuple[int, bytes, array[int]]] = []
        *frames, rest = (self._rest + data).split(b"\0")
        for frame in frames:
            if frame:
                self._take(frame, found)
            self._position += len(frame) + 1
        if len(rest) > _LONGEST:
            self._lose(found)
            self._position += len(rest)
            rest = b""
        self._rest = rest
        return found

    def _take(self, frame: bytes, found: list[tuple[int, bytes, array[int]]]) -> None:
        message = message_of(frame)
        if message is None or message[0] >= _STREAMS:
            self._lose(found)
            return
        self.good += 1
        stream, data = message[0], message[1:]
        self._current = stream
        if self.first < 0:
            self.first = stream
        offset = self._sizes.get(stream, 0)
        self._sizes[stream] = offset + len(data)
        if data and self._only in (None, stream):
            found.append((stream, data, array("Q", (offset, self._position))))

    def _lose(self, found: list[tuple[int, bytes, array[int]]]) -> None:
        self.bad += 1
        if self._current >= 0 and self._only in (None, self._current):
            found.append((self._current, b"", array("Q", (self._sizes[self._current], self._position))))

    def save(self) -> list[Any]:
        """Return the state between two calls of `feed`, in values that JSON has."""
        return [self._rest.hex(), self._position, self._current, self.first, [*self._sizes.items()]]

    def load(self, state: list[Any]) -> None:
        """Go on where `save` was called. Raises ValueError or TypeError if it is no state."""
        rest, position, current, first, sizes = state
        found = {int(stream): int(size) for stream, size in sizes}
        if not 0 <= position < 1 << 63 or (current >= 0 and current not in found):
            raise ValueError("position")
        self._rest, self._position, self._current, self.first = bytes.fromhex(rest), position, current, first
        self._sizes = found


def message_of(frame: bytes) -> bytes | None:
    """Return the message of a COBS frame, without its sum; None: it is damaged."""
    out, at = bytearray(), 0
    while at < len(frame):
        after = at + frame[at]
        if after > len(frame) or after == at:
            return None
        out += frame[at + 1 : after]
        if frame[at] < 0xFF and after < len(frame):
            out.append(0)
        at = after
    return bytes(out[:-1]) if len(out) > 1 and not sum(out) & 0xFF else None
