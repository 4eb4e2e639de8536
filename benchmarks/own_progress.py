"""The cost of reading progress in C and in Python, and of publishing it: ns a call, beside a reading of the clock.

Each round measures everything once, in batches, and takes the median batch, so that what else the machine does changes
little. The table shows medians of the rounds, and of their ratios within a round.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import headway

from .common import compiled, table

TIMES, BATCHES = 1_000, 101
ROUNDS = 15
CLOCK = "a reading of the clock"


def _python(call: Callable[[], object]) -> float:
    batches = []
    for _ in range(BATCHES):
        start = time.perf_counter_ns()
        for _ in range(TIMES):
            call()
        batches.append((time.perf_counter_ns() - start) / TIMES)
    return statistics.median(batches)


def _lines(program: Path, measured: str) -> dict[str, float]:
    told = subprocess.run([program, measured], capture_output=True, text=True, check=True).stdout
    return {name: float(figure) for name, _, figure in (line.partition("\t") for line in told.splitlines())}


def main() -> None:
    """Print the table."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rounds: list[dict[str, float]] = []
    with TemporaryDirectory() as scratch, compiled("own_progress") as program:
        os.environ["HEADWAY_PROGRESS"] = f"{scratch}/progress"
        for _ in range(ROUNDS):
            figures = _lines(program, "0")
            with headway.observe(os.getpid(), source="bpf"):
                figures["getppid, measured"] = _lines(program, "0")["getppid"]
            with headway.observe(os.getpid(), source="bpf", publish=True):
                told = _lines(program, "1")
                figures["getppid, measured and published"] = told.pop("getppid")
                figures |= told
                while headway.progress() is None:
                    time.sleep(0.01)
                figures["Python"], figures["Python, by state"] = _python(headway.progress), _python(headway.states)
            rounds.append(figures)
    states = statistics.median(each.pop("states") for each in rounds)
    names = rounds[0].keys()
    rows = [
        (
            name,
            f"{statistics.median(each[name] for each in rounds):.1f}",
            f"{statistics.median(each[name] / each[CLOCK] for each in rounds):.1f}",
        )
        for name in names
    ]
    print(f"\n## One's own progress\n\n{table(('a call', 'ns', '/ clock'), rows)}", flush=True)
    print(f"\nA thread had {states:.0f} states (median).")


if __name__ == "__main__":
    main()
