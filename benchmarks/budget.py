"""Whether a budget holds while the load changes: what measuring costs in each second, by the kernel's own count.

Run it as root: ``python -m benchmarks.budget [MINUTES]``; without, half an hour. ``-a`` with a budget of 1 % is
measured, with a reading each second, while loads follow each other, each for a time between a tenth of a second and
ten seconds: nothing, threads that switch at several rates or without a pause, system calls, processes that begin and
end, loops. Ten times a second it is seen what headway has cost since: the processor time of its process, and the time
in its programs that run in the threads that they see (bpf_enable_stats). What looking takes is subtracted.

The exit status is 1 if the cost of the last second stays above the budget for longer than a second.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.choose import start_source
from headway.linux.sources.ebpf.budget import FLOOR
from headway.session.measure import patient_collector

from .common import compiled, heading, load, table
from .levels import in_programs, objects

MINUTES = 30.0
BUDGET = 0.01
SAMPLE = 0.1
SHORTEST, LONGEST = 0.1, 10.0
"""Seconds of a load."""
SEED = 1
STARTING = 2.0
"""Seconds before the time that counts: starting is not in the budget."""
SLACK = 0.2
"""Seconds: samples are a tenth apart."""


@dataclass(frozen=True)
class Sample:
    """What was seen since the one before, ns."""

    end: int
    elapsed: int
    cost: int
    busy: int
    load: str

    @property
    def base(self) -> int:
        """The processor time that the budget is a share of."""
        return max(self.busy, int(FLOOR * self.elapsed))


def busy_ns() -> int:
    """Return how long the processors were not idle since boot (proc_stat(5))."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1 : 1 + len(names)]
    ticks = dict(zip(names, map(int, words), strict=True))
    return sum(ticks[name] for name in names if name not in {"idle", "iowait"}) * 10**9 // os.sysconf("SC_CLK_TCK")


class Meter:
    """Samples the cost of a source."""

    def __init__(self, source: Any) -> None:
        self._source, self._looking = source, 0
        self._before = self._read()
        self.samples: list[Sample] = []

    def _read(self) -> tuple[int, int, int]:
        began = time.process_time_ns()
        programs, busy = in_programs(self._source), busy_ns()
        own = began - self._looking
        self._looking += time.process_time_ns() - began
        return time.monotonic_ns(), own + programs, busy

    def look(self, load: str) -> None:
        """Take a sample; ``load``: what goes on."""
        now = self._read()
        elapsed, cost, busy = (new - old for new, old in zip(now, self._before, strict=True))
        self.samples.append(Sample(now[0], elapsed, cost, busy, load))
        self._before = now


def loads(switches: Path) -> dict[str, list[list[str]]]:
    """Return the commands of each load: one for each processor."""
    cpus = sorted(os.sched_getaffinity(0))
    every: dict[str, list[list[str]]] = {"nothing": []}
    for pause in (1_000_000, 100_000, 10_000, 0):
        every[f"switches, {pause / 1000:g} µs apart"] = [[str(switches), str(cpu), str(pause)] for cpu in cpus]
    every["system calls"] = [["dd", "if=/dev/zero", "of=/dev/null", "bs=1"] for _ in cpus]
    every["processes"] = [["sh", "-c", "while :; do /bin/true; done"] for _ in cpus]
    every["computing"] = [["sh", "-c", "while :; do :; done"] for _ in cpus]
    return every


@contextmanager
def running(commands: Sequence[Sequence[str]]) -> Iterator[None]:
    """Have commands run meanwhile."""
    nothing = subprocess.DEVNULL
    started = [
        subprocess.Popen(command, start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing)
        for command in commands
    ]
    try:
        yield
    finally:
        for each in started:
            os.killpg(each.pid, 9)
            each.wait()


def serve(source: Any, meter: Meter | None, until: float, load: str = "") -> None:
    """Serve a source, and sample what it costs, until a moment of `time.monotonic`."""
    look = reading = time.monotonic()
    while (now := time.monotonic()) < until:
        pause = source.service()
        if meter is not None and now >= look:
            meter.look(load)
            look = max(look + SAMPLE, now)
        if now >= reading:
            source.interval()
            reading = max(reading + 1.0, now)
        due = min(look if meter is not None else until, reading, until) - time.monotonic()
        time.sleep(max(0.0, due if pause is None else min(due, pause)))


def shares(samples: Sequence[Sample]) -> list[tuple[int, float]]:
    """Return, for each sample that a second precedes, its end and what that second cost of the processor time."""
    found: list[tuple[int, float]] = []
    window: deque[Sample] = deque()
    elapsed = cost = base = 0
    for sample in samples:
        window.append(sample)
        elapsed, cost, base = elapsed + sample.elapsed, cost + sample.cost, base + sample.base
        while elapsed - window[0].elapsed >= 10**9:
            old = window.popleft()
            elapsed, cost, base = elapsed - old.elapsed, cost - old.cost, base - old.base
        if elapsed >= 10**9:
            found.append((sample.end, cost / base))
    return found


def excesses(found: Sequence[tuple[int, float]]) -> list[float]:
    """Return how long the cost of the last second was above the budget, s, each time."""
    spans: list[float] = []
    began: int | None = None
    for end, share in found:
        if share <= BUDGET:
            began = None
        elif began is None:
            began = end
            spans.append(0.0)
        else:
            spans[-1] = (end - began) / 1e9
    return spans


def measure(minutes: float) -> bool:
    """Print the table. Return whether the budget held."""
    chance, times = random.Random(SEED), Counter[str]()
    deadline = time.monotonic() + STARTING + 60 * minutes
    source, _ = start_source(
        Selection(everything=True), "bpf", intervals=True, forget=True, options=MeasureOptions(budget=BUDGET)
    )
    # What only switches has a lower priority. No command inherits this one.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(3))
    with closing(source), objects(source)[0].statistics(), patient_collector(), compiled("switches") as switches:
        serve(source, None, time.monotonic() + STARTING)
        meter, every = Meter(source), loads(switches)
        while (now := time.monotonic()) < deadline:
            name = chance.choice(list(every))
            seconds = min(SHORTEST * (LONGEST / SHORTEST) ** chance.random(), deadline - now)
            with running(every[name]):
                serve(source, meter, now + seconds, name)
            times[name] += 1
        said = source.interval().reasons.get("budget", "")
    found = shares(meter.samples)
    above = excesses(found)
    rows = [
        ["minutes, and loads one after the other", f"{minutes:g}, {sum(times.values()):,}"],
        ["what measuring cost in all, of the processor time", f"{_share(meter.samples):.2%}"],
        [
            "of a second: the median, the dearest of a hundred, the dearest",
            "{:.2%}, {:.2%}, {:.2%}".format(*_ranks(found)),
        ],
        ["times the last second was above the budget", f"{len(above)}"],
        ["for how long: the median, the longest", _lasted(above)],
        ["levels", said.partition("time at each level: ")[2]],
    ]
    print(table(["what", f"budget {BUDGET:.0%}"], rows))
    print(
        table(
            ["while", "it cost"],
            [[name, f"{_share([s for s in meter.samples if s.load == name]):.2%}"] for name in every],
        )
    )
    return max(above, default=0.0) <= 1.0 + SLACK


def _share(samples: Sequence[Sample]) -> float:
    return sum(sample.cost for sample in samples) / (sum(sample.base for sample in samples) or 1)


def _ranks(found: Sequence[tuple[int, float]]) -> tuple[float, float, float]:
    ordered = sorted(share for _, share in found)
    return statistics.median(ordered), ordered[int(0.99 * (len(ordered) - 1))], ordered[-1]


def _lasted(above: Sequence[float]) -> str:
    return f"{statistics.median(above):.1f} s, {max(above):.1f} s" if above else "–"


def main() -> None:
    """Print everything."""
    print(heading())
    print(load())
    sys.exit(0 if measure(float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES) else 1)


if __name__ == "__main__":
    main()
