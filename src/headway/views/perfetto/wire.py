"""Fields of protobuf messages as bytes: for the few packets that name things; the many are written by `_events`.

Source: protobuf.dev, Encoding.
"""

from __future__ import annotations

import struct

from headway.text import valid

__all__ = ["bits64", "integer", "message", "text"]

_LARGEST = (1 << 64) - 1


def _varint(value: int) -> bytes:
    found = bytearray()
    value &= _LARGEST  # a negative number has all ten bytes
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def integer(number: int, value: int) -> bytes:
    """A field with an integer (int32, int64, uint32, uint64, bool, enum) below 2^64."""
    return _varint(number << 3) + _varint(value)


def bits64(number: int, value: float) -> bytes:
    """A field with a double."""
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def message(number: int, *fields: bytes) -> bytes:
    """A field with a message of these fields, or with bytes."""
    data = b"".join(fields)
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def text(number: int, value: str) -> bytes:
    """A field with text; what UTF-8 cannot hold is written as its number."""
    return message(number, valid(value).encode())
