"""How well the cost of observing is known beside other programs: equal programs, measured again and again.

A program makes 300,000 system calls, which is the dearest thing to observe. Unmeasured, its own processor clock is the
truth. Measured, headway takes out what observing cost. Each measurement lies between two unmeasured runs. Where these
differ by more than `STEADY`, the round has no usable truth, and is left out. That is done beside nothing, beside busy
loops, and beside other headways, which attach their programs to the same events.

``python -m benchmarks.drift`` as root. ``ROUNDS`` (7) measurements beside each.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .common import compiled, heading, table

ROUNDS = int(os.environ.get("ROUNDS", "7"))
STEADY = 0.1
LOOP = [sys.executable, "-c", "while True: pass"]


@dataclass(frozen=True, slots=True)
class Round:
    """One measurement, ns."""

    truth: float
    """What the program takes unmeasured: the mean of the runs before and after."""
    drift: float
    """By how much of it they differ."""
    rpi: int
    limits: tuple[int, int] | None
    """Where RPI is, if what observing cost is not known well."""
    whole: float
    """RPI and overhead, as a part of the kernel's own clock of the thread."""


@contextmanager
def beside(command: Sequence[str], number: int) -> Iterator[None]:
    """Run so many of a command meanwhile."""
    others = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(number)]
    try:
        yield
    finally:
        for other in others:
            other.terminate()
        for other in others:
            other.wait()


@contextmanager
def other_headways(number: int) -> Iterator[None]:
    """Measure a process that sleeps, so many times at once."""
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        command = [sys.executable, "-m", "headway", "stat", "-p", str(sleeper.pid), "-I", "60"]
        with beside(command, number):
            subprocess.run(["sleep", str(3 + number)], check=True)  # until all have begun
            yield
            sleeper.terminate()


def alone(program: Path) -> int:
    """Run the program unmeasured. Returns its processor time, ns."""
    return int(subprocess.run([program], capture_output=True, check=True).stdout)


def rounds(program: Path) -> Iterator[Round]:
    """Measure the program again and again."""
    with TemporaryDirectory() as folder:
        document = Path(folder) / "ledger.json"
        for _ in range(ROUNDS):
            before = alone(program)
            command = [sys.executable, "-m", "headway", "stat", "--json", "-o", str(document), str(program)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            (thread,) = json.loads(document.read_text())["threads"]
            rpi, limits = thread["indices"]["rpi"], thread["interval"]["rpi"]
            overhead = sum(state["time"] for state in thread["states"] if state["state"] == "overhead")
            stolen = sum(state["time"] for state in thread["states"] if state["state"] == "stolen")
            whole = (rpi + overhead + stolen) / thread["kernel_clock"]["time"]
            after = alone(program)
            truth = (before + after) / 2
            drift = abs(after - before) / truth
            yield Round(truth, drift, rpi, None if limits is None else (limits[0], limits[1]), whole)


def row(name: str, every: Sequence[Round]) -> tuple[str, ...]:
    """The figures of the rounds beside something."""
    found = [each for each in every if each.drift <= STEADY]
    steady = f"{len(found)} / {len(every)}"
    if not found:
        return name, "–", "–", "–", "–", "–", "–", steady
    ratios = [each.rpi / each.truth for each in found]
    known = sum(each.limits is None for each in found)
    inside = sum(each.limits is not None and each.limits[0] <= each.truth <= each.limits[1] for each in found)
    return (
        name,
        f"{statistics.median(each.truth for each in found) / 1e6:.1f}",
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        f"{known}",
        f"{inside} of {len(found) - known}",
        f"{statistics.median(each.whole for each in found):.3f}",
        steady,
    )


def main() -> None:
    """Print the table."""
    places: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "nothing": lambda: beside(LOOP, 0),
        "4 busy loops": lambda: beside(LOOP, 4),
        "16 busy loops": lambda: beside(LOOP, 16),
        "8 headways": lambda: other_headways(8),
    }
    titles = (
        "beside",
        "alone, ms",
        "RPI / alone",
        "from … to",
        "exact",
        "alone in interval",
        "whole / kernel",
        "steady",
    )
    print(heading(), flush=True)
    with compiled("calls") as program:
        lines = []
        for name, place in places.items():
            with place():
                lines.append(row(name, list(rounds(program))))
    print(table(titles, lines))


if __name__ == "__main__":
    main()
