"""Packing of numbers for the page: varints and planes of bytes, which are then deflated.

The page unpacks them with a few lines of its own (web/src/packing.ts). Deflate works best if values that repeat the
previous one become 0 and values of one sort are together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["length", "low_and_high", "varints", "zigzag"]

Numbers = NDArray[Any]


def varints(values: Numbers) -> bytes:
    """Return numbers from 0 to 2^63 - 1 as LEB128: seven bits a byte, lowest first, highest bit set if more follow."""
    if not len(values):
        return b""
    values = values.astype(np.uint64)
    if int(values.max()) < 128:
        return values.astype(np.uint8).tobytes()
    sizes = np.ones(len(values), np.int64)
    for more in range(1, 10):
        sizes += values >= (np.uint64(1) << np.uint64(7 * more))
    ends = np.cumsum(sizes)
    found = np.zeros(int(ends[-1]), np.uint8)
    starts = ends - sizes
    for byte in range(int(sizes.max())):
        rows = np.flatnonzero(sizes > byte)
        part = (values[rows] >> np.uint64(7 * byte)) & np.uint64(127)
        found[starts[rows] + byte] = part.astype(np.uint8) | ((sizes[rows] > byte + 1).astype(np.uint8) << 7)
    return found.tobytes()


def zigzag(values: Numbers) -> Numbers:
    """Map signed numbers to unsigned ones: 0, -1, 1, -2 … become 0, 1, 2, 3 …"""
    values = values.astype(np.int64)
    return (values << 1) ^ (values >> 63)


def low_and_high(values: Numbers) -> bytes:
    """Return the lowest byte of each number, then varints of the rest. This separates noise from what repeats."""
    return (values & 0xFF).astype(np.uint8).tobytes() + varints(values >> 8)


def length(*values: int) -> bytes:
    """Return a few numbers as varints."""
    return varints(np.array(values, np.int64))
