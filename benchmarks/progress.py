"""Polling time, and time in marked regions, compared with what the program knows itself.

Polling: a program does so much work, and so many status checks that find nothing, that these have a known share of its
time by its own thread clock, unmeasured. Measured it does the same again, between two unmeasured runs. The error is
headway's IOPI minus that time, as a fraction of RPI. Beside it is the clock of the measured run itself. That clock
includes the observer's overhead, so it is compared with the sum of IOPI and overhead. Rounds whose unmeasured runs
differ by more than `STEADY` are left out, and counted.

Regions: the program reads a clock just inside each mark (marks.c). headway shows more by the marks' own work between
their readings of the clock and the program's. It shows less by interrupts, which the thread's clock includes in the
region and headway shows apart. A separate column therefore adds back the thread's interrupts and overhead, in
proportion to its time in regions.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.model import Kind, Thread, interrupt_time, processor_time
from headway.session.child import SuspendedChild
from headway.session.measure import observe_command

from .common import compiled, heading, load, table

ROUNDS = int(os.environ.get("ROUNDS", "9"))
SHARES = (0, 10, 50, 90, 100)
CALLS = ("recv", "epoll_wait", "read", "sched_yield")
CYCLE = 2_000_000
"""ns of one cycle of work and polling."""
CYCLES = 150
STEADY = 0.05
LENGTHS = (("1 µs", 1_000), ("10 µs", 10_000), ("1 ms", 1_000_000), ("100 ms", 100_000_000))
MARKED = 300_000_000
"""The approximate time in regions in all, ns."""


def _unmeasured(command: Sequence[str]) -> tuple[int, int]:
    with tempfile.TemporaryFile("w+") as output:
        child = SuspendedChild(command, output.fileno())
        child.release()
        assert child.wait() == 0
        output.seek(0)
        first, second = map(int, output.read().split())
    return first, second


def _measured(command: Sequence[str]) -> tuple[Thread, int, int]:
    """Return the thread with the most processor time, and the two figures that it printed."""
    with tempfile.TemporaryFile("w+") as output:
        ledger, status = observe_command(command, prefer="bpf", stdout=output.fileno())
        assert status == 0
        output.seek(0)
        first, second = map(int, output.read().split())
    return max(ledger.threads, key=lambda thread: processor_time(thread.times())), first, second


@dataclass(frozen=True, slots=True)
class Polled:
    """One round; errors are fractions of RPI."""

    share: float
    """The share of checks that found nothing in the unmeasured program's time."""
    found: float
    """IOPI / RPI."""
    error: float
    """IOPI minus the unmeasured program's time in these checks."""
    drift: float
    beside: float
    """IOPI and overhead minus the measured program's time in these checks."""
    counted: float
    """The share of these checks that count as polling; the first of a row does not."""


def _poll(program: Path, call: str, share: int) -> Polled:
    checking, working = _unmeasured([str(program), call, "10000", "0", "10"])[0] / 100_000, 0.0
    working = _unmeasured([str(program), call, "0", "100000", "10"])[1] / 1_000_000
    checks, units = round(CYCLE * share / 100 / checking), round(CYCLE * (100 - share) / 100 / working)
    command = [str(program), call, str(checks), str(units), str(CYCLES)]
    before = _unmeasured(command)
    thread, own, _ = _measured(command)
    after = _unmeasured(command)
    polled, all_ = (before[0] + after[0]) / 2, sum(before + after) / 2
    counts = (cell.count or 0 for state, cell in thread.states.items() if state.startswith("poll."))
    times = thread.times()
    rpi, overhead, iopi = processor_time(times), times[Kind.OVERHEAD], times[Kind.POLL]
    # The observer's overhead in the work is that of a few calls a cycle, which is negligible.
    return Polled(
        share=polled / all_,
        found=iopi / rpi,
        error=(iopi - polled) / rpi,
        drift=abs(sum(after) - sum(before)) / all_,
        beside=(iopi + overhead - own) / (rpi + overhead),
        counted=sum(counts) / (checks * CYCLES) if checks else 1.0,
    )


def polling() -> None:
    """Print the table of calls and shares."""
    rows = []
    with compiled("polls") as program:
        for call in CALLS:
            for share in SHARES:
                had = [p for p in (_poll(program, call, share) for _ in range(ROUNDS)) if p.drift <= STEADY]
                if not had:
                    rows.append([call, f"about {share} %", *["–"] * 5, f"0 / {ROUNDS}"])
                    continue
                errors = [p.error for p in had]
                rows.append(
                    [
                        call,
                        f"{statistics.median(p.share for p in had) * 100:.1f} %",
                        f"{statistics.median(p.found for p in had) * 100:.1f} %",
                        f"{statistics.median(errors) * 100:+.2f} %",
                        f"{max(errors, key=abs) * 100:+.2f} %",
                        f"{statistics.median(p.beside for p in had) * 100:+.2f} %",
                        f"{statistics.median(p.counted for p in had) * 100:.2f} %" if share else "–",
                        f"{len(had)} / {ROUNDS}",
                    ]
                )
    print("\n### Polling\n")
    print(f"Medians of {ROUNDS} rounds. Errors in % of RPI; required: at most 2 %.\n")
    titles = ["call", "share, unmeasured", "IOPI / RPI", "IOPI error", "worst round"]
    print(table([*titles, "IOPI and overhead, its clock measured", "checks counted", "steady"], rows), flush=True)


def _regions(title: str, command: Sequence[str], times: int) -> list[str]:
    inside, around, whole, extra = [], [], [], []
    for _ in range(ROUNDS):
        thread, in_it, around_it = _measured(command)
        found = {name: cell.time for name, cell in thread.states.items()}
        inner, outer = found.get("noneffective.inner", 0), found.get("noneffective.outer", 0)
        inside.append(inner / in_it - 1)
        extra.append((inner - in_it) / times)
        user = inner + outer + found["user"]
        beside = interrupt_time(thread.states) + found["overhead"]
        whole.append((inner + beside * inner / user) / in_it - 1)
        if around_it:
            around.append(outer / around_it - 1)
    return [
        title,
        f"{times:,}",
        f"{statistics.median(inside) * 100:+.3f} %",
        f"{max(inside, key=abs) * 100:+.3f} %",
        f"{statistics.median(whole) * 100:+.3f} %",
        f"{statistics.median(around) * 100:+.3f} %" if around else "–",
        f"{statistics.median(extra):+,.0f} ns",
    ]


def regions() -> None:
    """Print the table of region lengths."""
    rows = []
    with compiled("marks") as program:
        unit = _unmeasured([str(program), "1000000", "20"])[0] / 20_000_000
        for kind in ((), ("nested",)):
            for length, ns in LENGTHS:
                times = max(3, MARKED // ns)
                command = [str(program), str(round(ns / unit)), str(times), *kind]
                rows.append(_regions(f"C, {length}{', nested' if kind else ''}", command, times))
    python = [sys.executable, "-m", "benchmarks.marks"]
    unit = _unmeasured([*python, "1000000", "5"])[0] / 5_000_000
    for length, ns in LENGTHS:
        times = max(3, min(100_000, MARKED // ns))
        rows.append(_regions(f"Python, {length}", [*python, str(round(ns / unit)), str(times)], times))
    print("\n### Time in marked regions\n")
    print(f"Medians of {ROUNDS} rounds, against the program's own clock; required: at most 1 %.\n")
    titles = ["regions of", "how many", "error", "worst round", "with interrupts", "the outer one", "more in each"]
    print(table(titles, rows), flush=True)


def main() -> None:
    """Print the tables."""
    print("\n## Polling and marked regions")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    polling()
    regions()
    print(f"\n({load()} at the end)", flush=True)


if __name__ == "__main__":
    print(heading())
    main()
