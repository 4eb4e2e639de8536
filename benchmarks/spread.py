"""How much a thread's figures for the same work vary with what runs beside it.

A program does the same work alone, beside a neighbour that thrashes the caches, beside system calls and processes that
start and end without pause, and on a machine with four times as many busy threads as processors. The spread of a figure
is its coefficient of variation over all runs of all situations together: its standard deviation divided by its mean.
The situations are run in turn, so that a machine whose speed drifts favours none.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions, Selection
from headway.model import Kind, processor_time
from headway.session.measure import observe

from .common import compiled, heading, load, table

ROUNDS = int(os.environ.get("ROUNDS", "7"))
SCALE = float(os.environ.get("SCALE", "1"))
"""The amount of work; 1 is about 0.3 s."""
INSTRUCTIONS = "instructions:u"


@dataclass(frozen=True, slots=True)
class Run:
    """The time that one run of the work took, in ns; instructions of user code, if they are counted."""

    epi: float
    cpu: float
    """The processor time by the kernel's account: user and system time of the process (getrusage(2))."""
    wall: float
    instructions: float | None


@dataclass(frozen=True, slots=True)
class Situation:
    """The neighbours of the work: commands of work.c, and the processor to which each is bound (None: any)."""

    title: str
    neighbours: tuple[tuple[str, int | None], ...]
    pinned: bool = True
    """Whether the work is bound to the processor `HERE`."""


CPUS = sorted(os.sched_getaffinity(0))
HERE, THERE = CPUS[-1], CPUS[0]
MANY = tuple(("spin", None) for _ in range(4 * len(CPUS)))
SITUATIONS = (
    Situation("alone", ()),
    Situation("cache thrashed from another processor", (("thrash", THERE),)),
    Situation("cache thrashed on the same processor", (("thrash", HERE),)),
    Situation("calls and forks on another processor", (("calls", THERE), ("calls", THERE))),
    Situation("calls and forks on the same processor", (("calls", HERE), ("calls", HERE))),
    Situation("4 × as many threads as processors, bound", MANY),
    Situation("4 × as many threads as processors, not bound", MANY, pinned=False),
)


@contextmanager
def _beside(program: Path, situation: Situation) -> Iterator[None]:
    processes = []
    try:
        for name, cpu in situation.neighbours:
            processes.append(subprocess.Popen([program, name]))
            os.sched_setaffinity(processes[-1].pid, CPUS if cpu is None else {cpu})
        if processes:
            time.sleep(0.2)  # until the neighbours are working
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def _why_not_counted() -> str:
    """Return why instructions cannot be counted; empty if they can."""
    try:
        observe(Selection(), ["true"], options=MeasureOptions(events=(INSTRUCTIONS,)), prefer="bpf")
    except HeadwayError as error:
        return str(error)
    return ""


def measure(program: Path, command: Sequence[str], situation: Situation, counted: bool) -> Run:
    """Run the work once and measure it."""
    options = MeasureOptions(events=(INSTRUCTIONS,) if counted else ())
    whole = [str(program), "run", str(HERE if situation.pinned else -1), *command]
    with tempfile.TemporaryFile("w+") as output:
        observation = observe(Selection(), whole, options=options, prefer="bpf", stdout=output.fileno())
        assert observation.exit_status == 0, f"{command} failed"
        output.seek(0)
        cpu, wall = map(int, output.read().split())
    ledger = observation.ledger
    thread = max(ledger.threads, key=lambda thread: processor_time(thread.times()))
    user = thread.states["user"]
    instructions = user.events.get(INSTRUCTIONS) if user.events is not None else None
    return Run(thread.times()[Kind.EFFECTIVE], cpu, wall, instructions)


def _works(program: Path, scratch: Path) -> Iterator[tuple[str, list[str]]]:
    yield "arithmetic in registers", [str(program), "compute", str(round(SCALE * 3e8))]
    yield "a walk through 16 MiB", [str(program), "chase", str(round(SCALE * 6e6))]
    text = scratch / "text"
    words = random.Random(1)
    vocabulary = ["".join(words.choices("etaoinshrdlu", k=words.randint(2, 9))) for _ in range(3000)]
    text.write_text(" ".join(words.choices(vocabulary, k=round(SCALE * 700_000))))
    for packer, *options in (("xz", "-1"), ("gzip", "-6")):
        if shutil.which(packer):
            yield f"{packer} of {text.stat().st_size / 1e6:.1f} MB", [packer, *options, "-k", "-c", str(text)]


def _variation(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.stdev(known) / statistics.mean(known) if len(known) > 1 else None


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value * 100:.2f} %"


def main() -> None:
    """Print the tables."""
    why_not = _why_not_counted()
    runs: dict[str, dict[str, list[Run]]] = {}
    with compiled("work") as program, tempfile.TemporaryDirectory() as scratch:
        works = dict(_works(program, Path(scratch)))
        for _ in range(ROUNDS):
            for situation in SITUATIONS:
                with _beside(program, situation):
                    for work, command in works.items():
                        found = measure(program, command, situation, not why_not)
                        runs.setdefault(work, {}).setdefault(situation.title, []).append(found)
    rows = []
    for work, situations in runs.items():
        every = [run for had in situations.values() for run in had]
        epi, cpu, wall = (_variation(getattr(run, name) for run in every) for name in ("epi", "cpu", "wall"))
        assert epi is not None
        assert cpu is not None
        assert wall is not None
        rows.append(
            [
                work,
                *map(_percent, (epi, cpu, wall, _variation(run.instructions for run in every))),
                f"{epi / wall:.2f} ({'yes' if epi <= wall / 3 else 'no'})",
                f"{epi / cpu:.2f} ({'yes' if epi <= cpu else 'no'})",
            ]
        )
    print("\n## The same work, whatever runs beside it\n")
    print(f"Coefficients of variation over {ROUNDS} runs in each of {len(SITUATIONS)} situations, all together.\n")
    print(table(["work", "EPI", "CPU time", "wall time", "instructions", "EPI ≤ ⅓ wall", "EPI ≤ CPU"], rows))
    print(f"\nInstructions: {why_not or 'of user code, counted'}.")
    print("\nMedians of each situation, EPI / CPU time / wall time, as parts of those of the work alone:\n")
    rows = []
    for situation in SITUATIONS:
        row = [situation.title]
        for situations in runs.values():
            alone, here = situations[SITUATIONS[0].title], situations[situation.title]
            ratios = (_median(here, name) / _median(alone, name) for name in ("epi", "cpu", "wall"))
            row.append(" / ".join(f"{ratio:.3f}" for ratio in ratios))
        rows.append(row)
    print(table(["situation", *runs], rows))
    print(f"\n({load()} at the end)", flush=True)


def _median(runs: list[Run], name: str) -> float:
    values: list[float] = [getattr(run, name) for run in runs]
    return statistics.median(values)


if __name__ == "__main__":
    print(heading())
    main()
