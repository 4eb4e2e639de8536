"""The cost of marking a region in C and in Python: ns for a pair of set and clear, beside two readings of the clock.

Each round measures everything once; the table shows medians of the rounds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable

import headway

from .common import compiled, table

TIMES = 200_000
ROUNDS = 7
FLOOR = "two readings of the clock"


def _pair() -> float:
    begin, end = headway.set_noneffective, headway.clear_noneffective
    start = time.perf_counter_ns()
    for _ in range(TIMES):
        begin("parse")
        end()
    return (time.perf_counter_ns() - start) / TIMES


def _manager() -> float:
    region = headway.noneffective("parse")
    start = time.perf_counter_ns()
    for _ in range(TIMES):
        with region:
            pass
    return (time.perf_counter_ns() - start) / TIMES


def _new_manager() -> float:
    noneffective = headway.noneffective
    start = time.perf_counter_ns()
    for _ in range(TIMES):
        with noneffective("parse"):
            pass
    return (time.perf_counter_ns() - start) / TIMES


def _decorator() -> float:
    def plain() -> None:
        pass

    marked = headway.noneffective("parse")(plain)
    start = time.perf_counter_ns()
    for _ in range(TIMES):
        marked()
    return (time.perf_counter_ns() - start) / TIMES


PYTHON: dict[str, Callable[[], float]] = {
    "Python: set and clear": _pair,
    "Python: with, a kept region": _manager,
    "Python: with, a new region": _new_manager,
    "Python: a decorated function's call": _decorator,
}


def main() -> None:
    """Print the table."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rounds: dict[str, list[float]] = {}
    with compiled("regions") as program:
        for _ in range(ROUNDS):
            told = subprocess.run([program], capture_output=True, text=True, check=True).stdout
            for line in told.splitlines():
                name, _, figure = line.partition("\t")
                rounds.setdefault(name, []).append(float(figure))
            for name, measure in PYTHON.items():
                rounds.setdefault(name, []).append(measure())
    floor = statistics.median(rounds[FLOOR])
    results = {name: statistics.median(figures) for name, figures in rounds.items()}
    rows = [(name, f"{cost:.0f}", f"{cost / floor:.1f}") for name, cost in results.items()]
    print(f"\n## Marked regions\n\n{table(('a pair', 'ns', '/ clock'), rows)}", flush=True)


if __name__ == "__main__":
    main()
