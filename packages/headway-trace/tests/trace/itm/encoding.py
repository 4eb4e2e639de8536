"""An ITM and a DWT in Python, for tests: writes packets, and the trace of a program that it makes up."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.trace.encoding import number

SYNC = bytes(5) + b"\x80"
OVERFLOW = b"\x70"
_SIZES = {1: 1, 2: 2, 4: 3}


def source(which: int, data: bytes, *, hardware: bool = False) -> bytes:
    """A packet of a stimulus port (its five low bits), or of a hardware source."""
    return bytes([which << 3 | hardware << 2 | _SIZES[len(data)]]) + data


def page(high: int) -> bytes:
    """An extension: the high bits of the stimulus ports that follow."""
    return bytes([high << 4 | 0x08])


def local(ticks: int, relation: int = 0) -> bytes:
    """A local timestamp, in its short form if that goes."""
    if not relation and 1 <= ticks <= 6:
        return bytes([ticks << 4])
    return bytes([0xC0 | relation << 4]) + number(ticks, 4)


def global_low(time: int, *, wrap: bool = False, changed: bool = False) -> bytes:
    """A global timestamp, format 1, with all its bits."""
    rest = time >> 21 & 31 | changed << 5 | wrap << 6
    return b"\x94" + bytes([time & 0x7F | 0x80, time >> 7 & 0x7F | 0x80, time >> 14 & 0x7F | 0x80, rest])


def global_high(time: int) -> bytes:
    """A global timestamp, format 2, of 48 bits."""
    high = time >> 26
    return b"\xb4" + bytes([high & 0x7F | 0x80, high >> 7 & 0x7F | 0x80, high >> 14 & 0x7F | 0x80, high >> 21 & 1])


def exception(kind: int, function: int) -> bytes:
    """``function``: 1 entered, 2 exited, 3 returned to."""
    return source(1, (kind | function << 12).to_bytes(2, "little"), hardware=True)


def sample(address: int | None) -> bytes:
    """A sample of the program counter; None: asleep."""
    return source(2, b"\0" if address is None else address.to_bytes(4, "little"), hardware=True)


def data_value(comparator: int, data: bytes, *, write: bool) -> bytes:
    return source(16 | comparator << 1 | write, data, hardware=True)


def data_place(comparator: int, address: int) -> bytes:
    """The program counter of an access."""
    return source(8 | comparator << 1, address.to_bytes(4, "little"), hardware=True)


def data_offset(comparator: int, offset: int) -> bytes:
    return source(9 | comparator << 1, offset.to_bytes(2, "little"), hardware=True)


def counters(which: int) -> bytes:
    return source(0, bytes([which]), hardware=True)


def packets(draw: random.Random, count: int = 300, ports: Sequence[int] = (0, 1, 31)) -> bytes:
    """Any packets, in the order of a program that writes text, with exceptions and samples in between."""
    found, time = bytearray(SYNC), draw.randrange(1 << 40)
    for _ in range(count):
        chance = draw.random()
        if chance < 0.35:
            found += source(draw.choice(ports), draw.randbytes(draw.choice((1, 1, 1, 2, 4))))
        elif chance < 0.5:
            found += exception(draw.choice((3, 11, 15, 16, 40)), draw.choice((1, 2, 3)))
        elif chance < 0.65:
            found += sample(draw.choice((None, 0x08000000 | draw.randrange(1 << 16) << 1)))
        elif chance < 0.75:
            found += data_place(draw.randrange(4), draw.randrange(1 << 31))
            found += data_value(draw.randrange(4), draw.randbytes(4), write=draw.random() < 0.5)
        elif chance < 0.78:
            found += counters(1 << draw.randrange(6))
        elif chance < 0.8:
            time += draw.randrange(1 << 20)
            found += global_low(time, wrap=True) + global_high(time)
        elif chance < 0.81:
            found += OVERFLOW
        elif chance < 0.83:
            found += SYNC
        else:
            found += local(draw.choice((3, 100, 5000)), draw.choice((0, 0, 0, 1, 2)))
    return bytes(found)
