"""The division of processor time by samples, checked: how often the truth lies within the interval that is printed.

A program computes and reads zeros in turn, in a mix drawn anew for each trial. ``headway stat --level switches``
measures it and divides its time by samples. Another measurement, at the level ``interrupts``, sees the same thread in
the same run, and every call, so it has the truth. The interval is meant to have it in 95 % of the trials.

``python -m benchmarks.split [--trials 200] [--seed 1]``, as root.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.progress import track

from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.model import Ledger
from headway.session.measure import observe

from .common import compiled, heading, table

TRIALS = 200
ROUNDS = 600
LOOPS = 600_000_000
"""About a second of loops in a trial, of which a random part is done."""
KIB = 16
"""Kibibytes of zeros for each thousand loops that are left out: they take about as long."""


@dataclass(frozen=True, slots=True)
class Trial:
    """KPI as a share of RPI: counted, estimated, and the limits of the interval."""

    truth: float
    estimate: float
    low: float
    high: float
    samples: int

    @property
    def holds(self) -> bool:
        """Whether the truth lies within the interval."""
        return self.low <= self.truth <= self.high


def _kernel_share(ledger: Ledger, name: str) -> float:
    (thread,) = [thread for thread in ledger.threads if thread.name == name]
    indices = ledger.indices(thread)
    assert indices.kpi is not None
    assert indices.rpi
    return indices.kpi / indices.rpi


def trial(program: Path, folder: Path, random_: random.Random) -> Trial:
    """Measure the program twice at once."""
    share = random_.uniform(0.05, 0.95)
    loops = round(LOOPS * share / ROUNDS)
    kib = max(1, round((LOOPS - loops * ROUNDS) * KIB / 1000 / ROUNDS))
    found = folder / "found.json"
    inner = [sys.executable, "-m", "headway", "stat", "--level", "switches", "--json", "-o", str(found), "--"]
    done = observe(
        Selection(),
        [*inner, str(program), str(ROUNDS), str(loops), str(kib)],
        options=MeasureOptions(level=Level.INTERRUPTS),
        prefer="bpf",
    )
    truth = _kernel_share(done.ledger, program.name)
    (row,) = [row for row in json.loads(found.read_text())["threads"] if row["name"] == program.name]
    rpi, (low, high) = row["indices"]["rpi"], row["interval"]["kpi"]
    samples = sum(state["samples"] for state in row["states"])
    return Trial(truth, row["indices"]["kpi"] / rpi, low / rpi, high / rpi, samples)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random_ = random.Random(options.seed)
    with compiled("split") as program, TemporaryDirectory() as folder:
        found = [trial(program, Path(folder), random_) for _ in track(range(options.trials), "measuring")]
    print(f"\n## The division by samples\n\n{heading()}\n")
    errors = [abs(one.estimate - one.truth) for one in found]
    rows = [
        ("the truth lies within the interval", f"{sum(one.holds for one in found)} of {len(found)}"),
        ("KPI of RPI, counted", f"{min(one.truth for one in found):.1%} to {max(one.truth for one in found):.1%}"),
        ("width of the interval, median", f"±{statistics.median((one.high - one.low) / 2 for one in found):.2%}"),
        ("error of the estimate, median and largest", f"{statistics.median(errors):.2%}, {max(errors):.2%}"),
        ("samples in a trial, median", f"{statistics.median(one.samples for one in found):.0f}"),
    ]
    print(table(("", ""), rows))


if __name__ == "__main__":
    main()
