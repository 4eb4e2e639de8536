"""The regions of marks.c in Python: ``python -m benchmarks.marks UNITS TIMES``; it prints ``INSIDE_NS 0``."""

from __future__ import annotations

import statistics
import sys
import time

import headway

LONG = 10_000
"""The number of units from which on the thread's own clock is read; see marks.c."""


def _work(units: int) -> None:
    for _ in range(units):
        pass


def main() -> None:
    """Mark regions, and print how long they took in all."""
    units, times = int(sys.argv[1]), int(sys.argv[2])
    now = time.thread_time_ns if units >= LONG else time.perf_counter_ns
    inside = []
    for _ in range(times):
        with headway.noneffective("inner"):
            start = now()
            _work(units)
            end = now()
        inside.append(end - start)
        _work(units)
    if units < LONG:
        median = statistics.median_low(inside)
        inside = [median if taken > 1.5 * median else taken for taken in inside]
    print(sum(inside), 0)


if __name__ == "__main__":
    main()
