"""Protobuf fields as bytes, for the few packets with names. `_events` writes the many others.

Source: protobuf.dev, Encoding.
"""

from __future__ import annotations

from headway.text import valid

__all__ = ["integer", "message", "text"]

_LARGEST = (1 << 64) - 1


def _varint(value: int) -> bytes:
    found = bytearray()
    value &= _LARGEST  # a negative number takes all ten bytes
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def integer(number: int, value: int) -> bytes:
    """Return a field with an integer (int32, int64, uint32, uint64, bool, enum) below 2^64."""
    return _varint(number << 3) + _varint(value)


def message(number: int, *fields: bytes) -> bytes:
    """Return a field with a message made of these fields, or with bytes."""
    data = b"".join(fields)
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def text(number: int, value: str) -> bytes:
    """Return a field with text. Characters that UTF-8 cannot hold become escapes."""
    return message(number, valid(value).encode())
