"""A trace unit in Python, for tests: writes ETMv3 packets, and CoreSight frames of several streams."""

from __future__ import annotations

from collections.abc import Iterable

ALIGNMENT = bytes(5) + b"\x80"


def number(value: int, most: int = 5) -> bytes:
    """With continuation bits, as short as it goes."""
    found = bytearray()
    while True:
        found.append(value & 0x7F)
        value >>= 7
        if not value or len(found) == most:
            return bytes(found)
        found[-1] |= 0x80


def sync(
    address: int, *, thumb: bool = True, cycles: int | None = None, reason: int = 0, context: bytes = b""
) -> bytes:
    head = b"\x08" if cycles is None else b"\x70" + number(cycles)
    return head + context + bytes([reason << 5 | 0x09]) + (address | thumb).to_bytes(4, "little")


def branch(
    address: int, *, thumb: bool = True, size: int = 5, exception: int | None = None, cancel: bool = False
) -> bytes:
    """Of ``size`` bytes, exception information not counted."""
    bits = address >> (1 if thumb else 2)
    found = bytearray([bits << 1 & 0x7E | 1])
    bits >>= 6
    for _ in range(1, min(size, 4)):
        found[-1] |= 0x80
        found.append(bits & 0x7F)
        bits >>= 7
    if size == 5:
        found[-1] |= 0x80
        found.append((bits & 15 | 0x10) if thumb else (bits & 7 | 0x08))
        if exception is not None:
            found[-1] |= 0x40
            found.append(exception << 1 | cancel << 5 | 1)
    return bytes(found)


def timestamp(time: int, size: int = 9) -> bytes:
    found = bytearray(b"\x42")
    for at in range(size):
        if at == 8:
            found.append(time >> 56 & 0xFF)
        else:
            found.append(time >> 7 * at & 0x7F | (0x80 if at + 1 < size else 0))
    return bytes(found)


def atom(executed: bool, cycles: int) -> bytes:
    """One instruction, ``cycles`` after the one before."""
    found = bytearray()
    while cycles > 8 or (cycles > 1 and not executed):
        wait = min(cycles - (not executed), 8)
        found.append(0xA0 | wait - 1 << 2)
        cycles -= wait
    if executed:
        found.append(0xE0 | cycles - 1 << 2 if cycles else 0x92)
    else:
        found.append(0xC0 if cycles else 0x96)
    return bytes(found)


def frames(pieces: Iterable[tuple[int, bytes]]) -> bytes:
    """Frames of pieces of streams, padded at the end with the null source."""
    left = [(stream, byte) for stream, data in pieces for byte in data]
    out, at, current = bytearray(), 0, -1
    while at < len(left):
        frame, low = bytearray(), 0
        while len(frame) < 15:
            stream, byte = left[at] if at < len(left) else (0, 0)
            behind = left[at + 1][0] if at + 1 < len(left) else 0
            if len(frame) % 2:
                frame.append(byte)
                at += 1
            elif stream != current:
                frame.append(stream << 1 | 1)
                current = stream
            elif behind != current and len(frame) < 14:  # the ID's bit in byte 15: one more byte of the old one
                low |= 1 << (len(frame) >> 1)
                frame += bytes([behind << 1 | 1, byte])
                at += 1
                current = behind
            else:
                low |= (byte & 1) << (len(frame) >> 1)
                frame.append(byte & 0xFE)
                at += 1
        out += frame
        out.append(low)
    return bytes(out)
