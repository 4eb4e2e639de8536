"""Messages between this process and one that works on hostile data, which may send anything: JSON, and Arrow's bytes.

A message is a letter, the number of its bytes (unsigned, 64 bits, little-endian) and these.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections.abc import Callable
from io import RawIOBase
from typing import Any

__all__ = ["ARROW", "JSON", "LARGEST", "ArrowBytes", "Channel", "LateError", "LostError"]

JSON, ARROW = b"J", b"A"
LARGEST = 64 << 20
"""The largest message, in bytes."""
_HEAD = struct.Struct("<cQ")
_PIECE = 1 << 18


class LateError(Exception):
    """An answer takes longer than its time limit."""


class LostError(Exception):
    """The other process has ended, or sends what is no message."""


class Channel:
    """One end of the connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, option, _PIECE)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def send(self, kind: bytes, *parts: bytes | memoryview[int]) -> None:
        """Send a message. Raises LostError."""
        try:
            self._connection.sendall(_HEAD.pack(kind, sum(map(len, parts))))
            for part in parts:
                self._connection.sendall(part)
        except OSError:
            raise LostError from None

    def say(self, message: Any) -> None:
        """Send a value as JSON. Raises LostError."""
        self.send(JSON, json.dumps(message, ensure_ascii=False).encode())

    def receive(self, seconds: float | None = None) -> tuple[bytes, bytearray]:
        """Return the kind and the bytes of the next message. Raises LateError, LostError."""
        late = None if seconds is None else time.monotonic() + seconds
        kind, size = _HEAD.unpack(self._read(_HEAD.size, late))
        if kind not in (JSON, ARROW) or size > LARGEST:
            raise LostError
        return kind, self._read(size, late)

    def hear(self, seconds: float | None = None) -> Any:
        """Return the next message, which must be JSON. Raises LateError, LostError."""
        kind, data = self.receive(seconds)
        try:
            return json.loads(data) if kind == JSON else None
        except (ValueError, RecursionError):
            raise LostError from None

    def _read(self, size: int, late: float | None) -> bytearray:
        data = bytearray(size)  # no more than `LARGEST`
        left = memoryview(data)
        while left:
            if late is not None and not self._poll.poll(max(late - time.monotonic(), 0) * 1000):
                raise LateError
            try:
                got = self._connection.recv_into(left)
            except OSError:
                raise LostError from None
            if not got:
                raise LostError
            left = left[got:]
        return data


class ArrowBytes(RawIOBase):
    """The Arrow messages that follow, as one stream of bytes. ``ending`` is given the JSON that ends them."""

    def __init__(self, channel: Channel, seconds: float | None, most: int, ending: Callable[[Any], None]) -> None:
        self._channel, self._seconds, self._left, self._ending = channel, seconds, most, ending
        self._data = memoryview(b"")
        self._over = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, into: Any) -> int:
        """Fill a buffer as far as the next message reaches. Raises LateError, LostError, and what ``ending`` raises."""
        while not self._data and not self._over:
            self._next()
        size = min(len(into), len(self._data))
        into[:size] = self._data[:size]
        self._data = self._data[size:]
        return size

    def _next(self) -> None:
        kind, data = self._channel.receive(self._seconds)
        self._over = kind == JSON
        if self._over:
            self._ending(json.loads(data))
            return
        self._left -= len(data)
        if self._left < 0:
            self._ending({"error": "memory"})
        self._data = memoryview(data)
