"""The machines that the units are compared with."""

from __future__ import annotations

from tests.machine.examples import Shape
from tests.rtl.whole import WHOLE

__all__ = ["SHAPES", "THREADS"]

SHAPES: tuple[Shape, ...] = ((1, 1, "strict"), (1, 2, "skip"), (2, 6, "strict"), (1, 8, "skip"))
"""Cores, threads of each, issue."""
THREADS: tuple[tuple[int, str], ...] = ((1, "strict"), (2, "skip"), (6, "strict"), (8, "skip"))
"""The units that are compiled."""
if WHOLE:
    SHAPES += ((1, 1, "skip"), (1, 2, "strict"), (1, 6, "skip"), (1, 8, "strict"))
    THREADS += ((1, "skip"), (2, "strict"), (6, "skip"), (8, "strict"))
