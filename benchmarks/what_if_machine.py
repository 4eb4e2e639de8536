"""``headway what-if`` on the reference machine: predicted against what the changed program really takes, to the cycle.

The programs of ``what_if_guest.c`` run on the guest kernel and are recorded. The effect of a change is predicted from
the recording, and the changed program, or the changed machine, is run. Nothing is random there, so each runs once.
Needs a RISC-V compiler (Debian's ``gcc-riscv64-unknown-elf``).

``python -m benchmarks.what_if_machine``
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import headway_machine
from headway.recording.reader import Recording
from headway.replay.changes import Change, Faster, LockFree, Processors
from headway.replay.graph import build
from headway.replay.path import find_end
from headway.replay.predict import Model
from headway.replay.rows import load
from headway.replay.wakeups import find_wakeups
from headway_machine.config import Config
from headway_machine.machine import Machine

from .common import table

COMPILER = "riscv64-unknown-elf-gcc"
GUEST = Path(headway_machine.__file__).with_name("guest")
HERE = Path(__file__).parent
MAX_CYCLES = 500_000_000
GOAL = 0.1
"""A prediction hits if the real time lies at most this far outside its range, as a share."""
HALF, THIRD, QUARTER = Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)
TWO, FOUR, ONE = (Config.of(cores=cores, threads=1) for cores in (2, 4, 1))


@dataclass(frozen=True, slots=True)
class Trial:
    """A program, how it is changed, and the same change for headway."""

    task: str
    what: str
    change: Change
    before: Config = FOUR
    after: Config | None = None
    """The machine after the change; None: the same, and the program is another one."""


TRIALS = (
    Trial("function", "a marked function takes half the time", Faster("parse", HALF)),
    Trial("pipeline", "the slow stage is four times as fast", Faster("parse", QUARTER)),
    Trial("lock", "one lock becomes two", LockFree("worker")),
    Trial("computing", "four harts instead of two", Processors(4, False), TWO, FOUR),
    Trial("computing", "one hart instead of two", Processors(1, False), TWO, ONE),
    Trial("sleep", "a sleep of 4,000 ticks instead of 8,000", Faster("wait.sleep", HALF)),
    Trial("balance", "the slower of two threads has a third of the work", Faster("parse", THIRD)),
)


@contextmanager
def _program() -> Iterator[Path]:
    """Build what_if_guest.c as the machine's programs in policies/ are built."""
    with TemporaryDirectory() as folder:
        examples = Path(folder)
        (examples / "machine" / "policies").mkdir(parents=True)
        shutil.copytree(HERE.parent / "packages/headway-machine/examples/machine/jobs", examples / "machine" / "jobs")
        shutil.copy(HERE / "what_if_guest.c", examples / "machine" / "policies")
        words = ["make", "-s", "-C", str(GUEST), f"EXAMPLES={examples}", f"OUT={examples}"]
        subprocess.run(words, check=True, env={**os.environ, "MAKEFLAGS": ""})
        yield examples / "what_if_guest.elf"


def _run(program: Path, task: str, config: Config, *, changed: bool, recording: Path) -> None:
    arguments = [f"task={task}", f"changed={int(changed)}"]
    result = Machine(config).run(program, arguments=arguments, max_cycles=MAX_CYCLES, recording=recording)
    if result.ended != "exit" or result.exit_status:
        raise SystemExit(f"{task}: {result.ended} {result.exit_status}: {result.output!r}")


def _model(path: Path) -> Model:
    with Recording(path) as recording:
        rows = load(recording)
    main = min(thread.tid for thread in rows.threads if thread.name == "main")
    return Model(build(rows, find_wakeups(rows), find_end(rows, command=False, tid=main)))


def main() -> None:
    """Print the table."""
    if shutil.which(COMPILER) is None:
        print(f"\nWithout what-if on the reference machine: {COMPILER} is not installed.")
        return
    rows, hits = [], 0
    with _program() as program, TemporaryDirectory() as folder:
        for number, trial in enumerate(TRIALS):
            before, after = (Path(folder) / f"{number}-{what}.hw" for what in ("before", "after"))
            _run(program, trial.task, trial.before, changed=False, recording=before)
            _run(program, trial.task, trial.after or trial.before, changed=trial.after is None, recording=after)
            model, real = _model(before), _model(after).recorded
            found = model.predict([trial.change])
            off = max(found.low - real, real - found.high, 0) / real
            hits += off <= GOAL
            ratios = [value / found.recorded for value in (real, found.low, found.high)]
            shown = "inside" if not off else f"{off:.1%}"
            predicted = f"{ratios[1]:.3f}" if found.low == found.high else f"{ratios[1]:.3f} to {ratios[2]:.3f}"
            rows.append([trial.what, f"{found.recorded:,}", f"{ratios[0]:.3f}", predicted, shown, f"{model.error:.1%}"])
    print("\n## What if, on the reference machine\n")
    print(table(["change", "cycles before", "really", "predicted", "outside by", "model's error"], rows))
    print(f"\n{hits} of {len(TRIALS)} within {GOAL:.0%}.")


if __name__ == "__main__":
    main()
