"""What ``-a`` costs at a level of detail, or with a budget, by how often threads switch.

Two threads on each processor switch to each other, at several rates. The cost is headway's own processor time, which
has the iterators of the level clocks in it, and the time in all other programs of its, by the kernel's count
(bpf_enable_stats). The kernel's count leaves out the call of a program, and makes each run dearer. A reading is taken
each second. Where the threads do nothing but switch they have real-time priority, and headway has a higher one.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from headway.linux.bpf.programs.libbpf import Object
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.choose import start_source

from .common import compiled, heading, load, table

SECONDS = 4
BEFORE = 2
"""Seconds before the time that counts: a budget has found its level by then."""
PAUSES = (None, 1_000_000, 100_000, 10_000, 0)
"""Between two round trips, in ns; None: nothing switches."""
BUDGET = 0.01


def objects(source: Any) -> list[Object]:
    """Return the loaded eBPF objects of a source."""
    measurement = source._measurement
    if hasattr(measurement, "_clock_programs"):
        return [measurement._clock_programs._object, measurement._prepared.programs.object]
    programs = measurement._programs
    return [programs._object if hasattr(programs, "_object") else programs.object]


def in_programs(source: Any) -> int:
    """Return the time in the programs that run in the threads that they see, ns."""
    every = [program for each in objects(source) for program in each.programs.values()]
    return sum(p.run_time()[0] for p in every if p.wanted and not p.section.startswith("iter"))


def switches() -> int:
    """Return how often processors have switched to another thread since boot (proc_stat(5))."""
    lines = Path("/proc/stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("ctxt"))


@contextmanager
def switching(program: Path, pause: int | None) -> Iterator[None]:
    """Have threads switch on each processor meanwhile."""
    started = []
    before = os.sched_getscheduler(0)
    try:
        if pause == 0:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(3))
        if pause is not None:
            for cpu in sorted(os.sched_getaffinity(0)):
                started.append(subprocess.Popen([program, str(cpu), str(pause)]))
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()
        with suppress(OSError):
            os.sched_setscheduler(0, before, os.sched_param(0))


def serve(source: Any, until: float) -> None:
    """Serve a source until a moment of `time.monotonic`."""
    while (left := until - time.monotonic()) > 0:
        pause = source.service()
        time.sleep(max(0.0, min(left if pause is None else pause, until - time.monotonic())))


def row(program: Path, pause: int | None, options: MeasureOptions, name: str) -> list[str]:
    """Measure one combination, and return its row."""
    source, _ = start_source(Selection(everything=True), "bpf", intervals=True, forget=True, options=options)
    with closing(source), objects(source)[0].statistics(), switching(program, pause):
        begin = time.monotonic() + BEFORE
        serve(source, begin)
        source.interval()
        seen = time.process_time_ns(), in_programs(source), switches(), time.monotonic()
        for second in range(1, SECONDS + 1):
            serve(source, begin + second)
            said = source.interval().reasons.get("budget", "")
        own, programs, switched, ended = time.process_time_ns(), in_programs(source), switches(), time.monotonic()
    elapsed = ended - seen[3]
    capacity = elapsed * len(os.sched_getaffinity(0)) * 1e9
    parts = (own - seen[0]) / capacity, (programs - seen[1]) / capacity
    return [
        name,
        f"{(switched - seen[2]) / elapsed:,.0f}",
        *(f"{part:.2%}" for part in (*parts, sum(parts))),
        said.partition("time at each level: ")[2],
    ]


def measure() -> None:
    """Print the table."""
    kinds = {
        "`clocks`": MeasureOptions(level=Level.CLOCKS),
        "`switches`": MeasureOptions(level=Level.SWITCHES),
        f"`--budget {BUDGET:.0%}`": MeasureOptions(budget=BUDGET),
    }
    with compiled("switches") as program:
        rows = [row(program, pause, options, name) for pause in PAUSES for name, options in kinds.items()]
    titles = ["level", "switches a second", "headway itself", "its programs", "together", "levels since the beginning"]
    print(table(titles, rows))


def main() -> None:
    """Print everything."""
    print(heading())
    print(load())
    measure()


if __name__ == "__main__":
    main()
