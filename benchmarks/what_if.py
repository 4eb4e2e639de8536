"""``headway what-if``: predicted against measured, of programs that are really changed in one way. Needs root.

``python -m benchmarks.what_if [PROGRAM ...]``. Each program is recorded unchanged, the effect of the change is
predicted from the recording, and both versions are measured in turns, without headway. All run at nice -20, so that
other programs disturb them little.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from headway.recording.reader import Recording
from headway.replay.changes import Change, Faster, LockFree, MoreThreads, Processors, Without
from headway.replay.graph import build
from headway.replay.path import find_end
from headway.replay.predict import Model
from headway.replay.rows import load
from headway.replay.wakeups import find_wakeups

from .common import compiled, heading, table

ROUNDS = 5
RECORDINGS = 3
GOAL = 0.1
"""A prediction hits if the measured time lies at most this far outside its range, as a share."""
HALF, THIRD, QUARTER = Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)
ONE = ("taskset", "-c", "0")


@dataclass(frozen=True, slots=True)
class Trial:
    """A program, how it is changed, and the same change for headway."""

    name: str
    what: str
    changes: tuple[Change, ...]
    before: tuple[str, ...] = ()
    """What the unchanged program is run with, and ..."""
    after: tuple[str, ...] = ()
    """... the changed one."""
    program: str = ""
    changed: bool = True
    """Whether the program itself is another one after the change."""


TRIALS = (
    Trial("function", "a marked function takes half the time", (Faster("parse", HALF),)),
    Trial("pipeline", "the slow stage is four times as fast", (Faster("parse", QUARTER),)),
    Trial("lock", "one lock becomes two", (LockFree("worker-*"),)),
    Trial("fewer", "one processor instead of two", (Processors(1, False),), (), ONE, "processors", False),
    Trial("more", "two processors instead of one", (Processors(2, False),), ONE, (), "processors", False),
    Trial("pool", "four threads in a pool instead of two", (MoreThreads("worker", 2),)),
    Trial("sleep", "a sleep of 1 ms instead of 2", (Faster("wait.sleep", HALF),)),
    Trial("neighbour", "a process that computes is gone", (Without("neighbour"),)),
    Trial("device", "a device answers after 1 ms instead of 2", (Faster("device:wait.sleep", HALF),)),
    Trial("call", "a system call reads half as much", (Faster("kernel.read", HALF),)),
    Trial("balance", "the slower of two threads has a third of the work", (Faster("slow", THIRD),)),
    Trial("server", "a server answers four times as fast", (Faster("parse", QUARTER),)),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured and predicted, all as ratios of the wall time after the change to the one before."""

    trial: Trial
    measured: float
    spread: float
    """Half the distance between the lowest and the highest ratio of a round."""
    low: float
    high: float
    error: float
    """The error of the unchanged replay."""
    slowdown: float
    """The wall time of the recorded run, as a multiple of the one without headway."""

    @property
    def off(self) -> float:
        """How far the measured time lies outside the range, as a share of it; 0: inside."""
        outside = max(self.low - self.measured, self.measured - self.high, 0.0)
        return outside / self.measured


def _seconds(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - began


def _predict(command: Sequence[str], changes: Sequence[Change], folder: Path) -> tuple[float, float, float, float]:
    """Record the command. Return the predicted range as ratios, the error of the model, and the seconds recorded."""
    path = folder / "run.hw"
    shutil.rmtree(path, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "headway", "record", "-q", "-o", str(path), "--", *command], check=True)
    with Recording(path) as recording:
        rows = load(recording)
    model = Model(build(rows, find_wakeups(rows), find_end(rows, command=True)))
    found = model.predict(changes)
    return found.low / found.recorded, found.high / found.recorded, model.error, found.recorded / 1e9


def _try(trial: Trial, program: Path, folder: Path) -> Result:
    before = [*trial.before, str(program), trial.program or trial.name]
    after = [*trial.after, str(program), trial.program or trial.name, *(["changed"] if trial.changed else [])]
    rounds = [(_seconds(before), _seconds(after)) for _ in range(ROUNDS)]
    ratios = [b / a for a, b in rounds]
    alone = median(a for a, _ in rounds)
    predictions = [_predict(before, trial.changes, folder) for _ in range(RECORDINGS)]
    low, high, error, recorded = (median(values) for values in zip(*predictions, strict=True))
    return Result(trial, median(ratios), (max(ratios) - min(ratios)) / 2, low, high, error, recorded / alone)


def results(names: Sequence[str] = ()) -> Iterator[Result]:
    """Try the programs of these names, or all."""
    with compiled("what_if") as program, TemporaryDirectory() as folder:
        for trial in TRIALS:
            if not names or trial.name in names:
                yield _try(trial, program, Path(folder))


def main(names: Sequence[str] = ()) -> None:
    """Print the table."""
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    print(f"\n## What if: predicted and measured\n\n{heading()}\n", flush=True)
    rows = []
    hits = 0
    for one in results(names):
        hits += one.off <= GOAL
        verdict = "inside" if not one.off else f"{one.off:.1%} off"
        rows.append(
            (
                one.trial.what,
                f"{one.measured:.3f} ± {one.spread:.3f}",
                f"{one.low:.3f} to {one.high:.3f}",
                verdict if one.off <= GOAL else f"**{verdict}**",
                f"{one.error:+.2%}",
                f"{one.slowdown:.2f}",
            )
        )
        print(f"{one.trial.name} done", file=sys.stderr, flush=True)
    titles = ("change", "measured", "predicted", "the measured ratio is", "model's error", "recorded / alone")
    print(table(titles, rows))
    print(f"\n{hits} of {len(rows)} within {GOAL:.0%}")


if __name__ == "__main__":
    main(sys.argv[1:])
