"""How much two sequences of instructions have in common: what a damaged trace lost, and what it made up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence


def in_common(a: Sequence[object], b: Sequence[object]) -> int:
    """Length of the longest common subsequence, bit-parallel (Crochemore et al. 2001)."""
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    a, b = a[head : len(a) - tail], b[head : len(b) - tail]
    masks = defaultdict[object, int](int)
    for at, one in enumerate(a):
        masks[one] |= 1 << at
    ones = (1 << len(a)) - 1
    row = ones
    for one in b:
        row = ((row + (row & masks[one])) | (row & ~masks[one])) & ones
    return head + tail + len(a) - row.bit_count()
