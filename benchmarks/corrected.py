"""The corrected times of a program under measurement, compared with the same program unmeasured.

One process runs the same loop unmeasured, measured, and unmeasured again, repeatedly. Each measurement starts headway
anew, and so calibrates it anew. The truth is the process's own processor clock unmeasured, as the mean of before and
after. Figures are ratios to it, and medians over the rounds, so that a machine whose speed drifts favours none. A round
whose two unmeasured loops differ by more than `STEADY` has no usable truth: it is left out, and counted.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headway.linux.options import Selection
from headway.linux.sources.ebpf import BpfSource
from headway.model import Kind, Ledger, processor_time, since

from .common import compiled, heading, load, table

ROUNDS = int(os.environ.get("ROUNDS", "25"))
STEADY = 0.05
LOOPS = (
    ("computing only", "compute", 40_000_000),
    ("a read of 1 byte after each 0.3 µs of computing", "mixed", 120_000),
    ("page faults", "faults", 4096 * 8),
    ("read of 1 byte from /dev/zero", "read", 400_000),
    ("getppid", "getppid", 500_000),
    ("pipe ping-pong of two threads, one processor", "pingpong", 15_000),
)
"""The description of each loop, its name in loops.c, and its repetitions: some 50 ms unmeasured."""


@dataclass(frozen=True, slots=True)
class Round:
    """The processor time in ns of all threads of the program in one loop."""

    truth: float
    """The time by the program's own clock, unmeasured."""
    drift: float
    """How much longer the second unmeasured loop took than the first, as a fraction of the truth."""
    own: int
    """The time by the program's own clock, measured."""
    corrected: int
    """RPI by headway."""
    overhead: int
    """The overhead that headway took out."""

    @property
    def uncorrected(self) -> int:
        """RPI including the observer's overhead."""
        return self.corrected + self.overhead


class Program:
    """The program of loops.c on one processor. It waits for requests."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._ask: IO[str] = process.stdin
        self._answer: IO[str] = process.stdout

    def do(self, what: str, times: int) -> int:
        """Run a loop. Return the processor time that it took by the program's own clock, in ns."""
        print(what, times, file=self._ask, flush=True)
        cpu, _ = self._answer.readline().split()
        return int(cpu)


@contextmanager
def _running(path: Path) -> Iterator[Program]:
    cpu = max(os.sched_getaffinity(0))
    process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    os.sched_setaffinity(process.pid, {cpu})
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {cpu})
    try:
        yield Program(process)
    finally:
        process.kill()
        process.wait()


def _had(ledger: Ledger) -> tuple[int, int]:
    times = [thread.times() for thread in ledger.threads]
    return sum(map(processor_time, times)), sum(t[Kind.OVERHEAD] for t in times)


def measure(program: Program, what: str, times: int) -> Round:
    """Run a loop unmeasured, measured, and unmeasured again."""
    before = program.do(what, times)
    source = BpfSource(Selection(pids=(program.pid,)), intervals=True)
    source.begin()
    try:
        program.do(what, times // 100)  # so that each thread has been seen before the first reading
        start = source.read()
        own = program.do(what, times)
        corrected, overhead = _had(since(source.read(), start))
    finally:
        source.close()
    after = program.do(what, times)
    truth = (before + after) / 2
    return Round(truth, (after - before) / truth, own, corrected, overhead)


def _percent(values: list[float]) -> str:
    return f"{statistics.median(values) * 100:+.2f} %"


def _spread(values: list[float]) -> str:
    low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return f"{low * 100:+.1f} to {high * 100:+.1f} %"


def main() -> None:
    """Print the table."""
    rows = []
    with compiled("loops") as path, _running(path) as program:
        rounds: dict[str, list[Round]] = {what: [] for _, what, _ in LOOPS}
        for _, what, times in LOOPS:
            program.do(what, times)
        for _ in range(ROUNDS):
            for _, what, times in LOOPS:
                rounds[what].append(measure(program, what, times))
    for title, what, times in LOOPS:
        had = [r for r in rounds[what] if abs(r.drift) <= STEADY]
        if not had:
            rows.append([title, *["–"] * 6, f"0 / {ROUNDS}"])
            continue
        errors = [r.corrected / r.truth - 1 for r in had]
        rows.append(
            [
                title,
                f"{statistics.median(r.truth for r in had) / times:,.1f}",
                _percent([r.uncorrected / r.truth - 1 for r in had]),
                _percent(errors),
                _spread(errors),
                f"{statistics.median(abs(e) for e in errors) * 100:.2f} %",
                f"{statistics.median(r.overhead / (r.own - r.truth) for r in had):.3f}" if what != "compute" else "–",
                f"{len(had)} / {ROUNDS}",
            ]
        )
    print("\n## Corrected times\n")
    print(
        f"Medians of the steady ones (unmeasured before and after within {STEADY:.0%}) of {ROUNDS} rounds, each with a "
        "start of headway of its own.\nRequired: corrected within 2 % for loops of system calls.\n"
    )
    titles = ["loop", "ns unmeasured", "uncorrected", "corrected (RPI)", "its middle half", "typical error of a round"]
    print(table([*titles, "overhead / slow-down seen", "steady"], rows))
    print(f"\n({load()} at the end)", flush=True)


if __name__ == "__main__":
    print(heading())
    main()
