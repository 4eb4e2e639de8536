"""Packets of GDB's remote protocol: framing, checksums, escapes ("Debugging with GDB", appendix E.1)."""

from __future__ import annotations

import socket
from typing import Literal

from headway.readable import is_readable

__all__ = ["Connection", "ConnectionBrokenError", "binary", "text_of"]

MAX_PACKET = 1 << 16
"""The largest number of bytes of a packet that is taken."""
_INTERRUPT = 0x03
_ESCAPE, _ESCAPED = 0x7D, 0x20


class ConnectionBrokenError(Exception):
    """The connection has ended, or what comes is no packet."""


class Connection:
    """A connection to a debugger: packets in and out."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._received = bytearray()
        self._last = b""
        self.acknowledges = True
        """Whether each packet is acknowledged, as it is until the debugger asks for it no longer."""

    def packet(self, seconds: float | None) -> bytes | Literal["interrupt"] | None:
        """Return the next packet's data, or "interrupt"; None: nothing came within so many seconds.

        Raises ConnectionBrokenError if the connection has ended.
        """
        while True:
            found = self._taken()
            if found is not None:
                return found
            if not is_readable(self._socket, seconds):
                return None
            try:
                more = self._socket.recv(1 << 16)
            except OSError as error:
                raise ConnectionBrokenError(str(error)) from None
            if not more:
                raise ConnectionBrokenError("the debugger has gone")
            self._received += more

    def _taken(self) -> bytes | Literal["interrupt"] | None:
        """Take a packet out of what has been received; None: none is complete."""
        data = self._received
        while data and data[0] not in (_INTERRUPT, ord("$")):
            if data[0] == ord("-") and self._last:
                self._put(self._last)
            del data[0]
        if not data:
            return None
        if data[0] == _INTERRUPT:
            del data[0]
            return "interrupt"
        end = data.find(b"#")
        if end < 0 or len(data) < end + 3:
            if len(data) > MAX_PACKET:
                raise ConnectionBrokenError(f"a packet has more than {MAX_PACKET} bytes")
            return None
        body, check = bytes(data[1:end]), bytes(data[end + 1 : end + 3])
        del data[: end + 3]
        try:
            right = int(check, 16) == sum(body) & 0xFF
        except ValueError:
            right = False
        if self.acknowledges:
            self._put(b"+" if right else b"-")
        return _unescaped(body) if right or not self.acknowledges else self._taken()

    def send(self, body: bytes | str) -> None:
        """Send a packet. Raises ConnectionBrokenError if the connection has ended."""
        self._last = _framed(b"$", body)
        self._put(self._last)

    def notify(self, body: str) -> None:
        """Send a notification, which nothing acknowledges. Raises ConnectionBrokenError if the connection has ended."""
        self._put(_framed(b"%", body))

    def _put(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionBrokenError(str(error)) from None


def _framed(first: bytes, body: bytes | str) -> bytes:
    data = body.encode("ascii", "replace") if isinstance(body, str) else body
    return first + data + b"#%02x" % (sum(data) & 0xFF)


def _unescaped(data: bytes) -> bytes:
    if _ESCAPE not in data:
        return data
    found = bytearray()
    bytes_of = iter(data)
    for byte in bytes_of:
        found.append(next(bytes_of, 0) ^ _ESCAPED if byte == _ESCAPE else byte)
    return bytes(found)


def binary(data: bytes) -> bytes:
    """Return binary data with the bytes escaped that have a meaning in packets."""
    found = bytearray()
    for byte in data:
        if byte in b"#$}*":
            found += bytes((_ESCAPE, byte ^ _ESCAPED))
        else:
            found.append(byte)
    return bytes(found)


def text_of(data: bytes) -> str:
    """Return the text that hexadecimal digits stand for; empty if they are none."""
    try:
        return bytes.fromhex(data.decode("ascii", "replace")).decode("utf-8", "replace")
    except ValueError:
        return ""
