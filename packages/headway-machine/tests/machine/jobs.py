"""What the examples of the machine must compute, computed independently."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator

MASK = 0xFFFF_FFFF


def numbers(state: int) -> Iterator[int]:
    """The numbers that the jobs start from (a linear congruential generator)."""
    while True:
        state = (state * 1664525 + 1013904223) & MASK
        yield state


def weighed(values: list[int]) -> int:
    """Sum of values by their places."""
    return sum(value * place for place, value in enumerate(values, 1)) & MASK


def matmul() -> int:
    """Product of two matrices, weighed."""
    source, size = numbers(1), 32
    pairs = [(next(source) >> 8, next(source) >> 8) for _ in range(size * size)]
    a, b = ([pair[side] for pair in pairs] for side in (0, 1))
    return weighed(
        [sum(a[r * size + k] * b[k * size + c] for k in range(size)) for r in range(size) for c in range(size)]
    )


def chase() -> int:
    """Two rounds through a ring; its second round meets every value with its lowest bit changed."""
    source, size = numbers(2), 2048
    values = [0] + [next(source) for _ in range(size - 1)]
    return sum(value + (value ^ 1) for value in values) & MASK


def integer() -> int:
    """Interpreter, words, divisors, bits."""
    words = ["effective", "memory", "kernel", "poll", "stall", "ready", "wait", "memory", "poll"]
    hashes = 0
    for word in words:
        value = 2166136261
        for byte in word.encode():
            value = ((value ^ byte) * 16777619) & MASK
        hashes += value
    source, total = numbers(3), 0
    for _ in range(40):
        number = next(source)
        x = number
        for n in range(9, 0, -1):
            x = (x * 5 & MASK) ^ n
        total = total * 33 + x + hashes + (len(words) - len(set(words)))
        total = (total ^ math.gcd(number >> 8, (number & 0xFFFF) + 1)) & MASK
        total = (total + (number.bit_count() << 16)) & MASK
    return total


def sort() -> int:
    """Sorted numbers, weighed."""
    source = numbers(4)
    return weighed(sorted(next(source) for _ in range(1024)))


def crc32() -> int:
    """Checksums of 16 blocks, folded into one word."""
    source, total = numbers(5), 0
    for _ in range(16):
        block = bytes(next(source) >> 24 for _ in range(512))
        total = ((total << 1 | total >> 31) & MASK) ^ zlib.crc32(block)
    return total
