"""Throughput of servers at saturation while a tool watches them, as a part of what they serve without it.

Server, load generator and tool share the machine. Each trial loads the server three times: without a tool, with it,
and without it again; its ratio is the second figure by the mean of the other two, so that a drift of the machine's
speed falls out. The load without a tool that ends one trial begins the next. A tool that adapts to the load (a budget)
sees it for two seconds before it counts. A trial counts only if no other program and no other virtual machine took more
than 2 % of the processors meanwhile; the others are made again, and counted. The table has the median of the trials,
and the interval that has the true median with at least 95 % (order statistics: binomial, no assumption about the
distribution).

``python -m benchmarks.servers [--seconds 2] [--trials 7] [--load WORD] [--tool WORD]``, as root. WORD is part of a
name; both may be given more than once.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.progress import Progress

from .common import heading, load, table
from .server_loads import LOADS, Load, Running, descendants
from .server_tools import TOOLS, Tool

SECONDS = 2.0
TRIALS = 7
ADAPTED = 2.0
"""Seconds of load after which a tool that adapts has done so."""
DISTURBED = 0.02
"""The part of the processors above which what others took spoils a trial."""
TRIES = 3
"""A trial is made this often at most until nobody disturbs it."""
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Others:
    """Processor time in seconds of what is not part of the benchmark, at a moment."""

    at: float
    processes: dict[int, float]
    stolen: float

    @staticmethod
    def now() -> Others:
        """Read it from /proc."""
        ours = {os.getpid(), *descendants(os.getpid())}
        processes: dict[int, float] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                words = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            kernel_thread = int(words[6]) & 0x00200000  # PF_KTHREAD: they work for whoever makes them
            if int(path.parent.name) not in ours and not kernel_thread:
                processes[int(path.parent.name)] = (int(words[11]) + int(words[12])) / _TICK
        steal = int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]) / _TICK
        return Others(time.monotonic(), processes, steal)

    def share_since(self, before: Others) -> float:
        """Return the part of the processors that others had since then."""
        taken = sum(max(0.0, now - before.processes.get(pid, 0.0)) for pid, now in self.processes.items())
        taken += self.stolen - before.stolen
        return taken / ((self.at - before.at) * (os.cpu_count() or 1))


@dataclass
class Ratios:
    """The trials of one tool with one load."""

    ratios: list[float]
    disturbed: int = 0
    """Trials that did not count."""
    failed: str | None = None

    def text(self) -> str:
        """Return the median and its interval, or why there is none."""
        if self.failed is not None:
            return "failed"
        if not self.ratios:
            return "disturbed"
        low, high = interval(self.ratios)
        return f"{statistics.median(self.ratios):.2f} ({low:.2f}–{high:.2f})"


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return the narrowest symmetric interval of order statistics that has the median with this probability.

    With few values it is all of them, whatever their probability is (5 values: 94 %).
    """
    ordered, n = sorted(values), len(values)
    left = 0
    while left + 1 < (n + 1) // 2:
        outside = 2 * sum(math.comb(n, k) for k in range(left + 2)) / 2**n
        if 1 - outside < confidence:
            break
        left += 1
    return ordered[left], ordered[n - 1 - left]


class Trials:
    """Trials of tools one after the other, beside one server."""

    def __init__(self, server: Running, seconds: float) -> None:
        self.server = server
        self.seconds = seconds
        self._before, self._without = Others.now(), server.serve(seconds)

    def make(self, tool: Tool) -> tuple[float, float]:
        """Return the ratio of one trial, and the part of the processors that others had."""
        before, first = self._before, self._without
        with TemporaryDirectory() as scratch, tool.watching(self.server.pids(), Path(scratch)):
            if tool.adapts:
                self.server.serve(ADAPTED)
            watched = self.server.serve(self.seconds)
        self._before, self._without = Others.now(), self.server.serve(self.seconds)
        return 2 * watched / (first + self._without), Others.now().share_since(before)


def measure(chosen: Load, tools: Sequence[Tool], *, seconds: float, trials: int, progress: Progress) -> list[Ratios]:
    """Try all tools in turn with one load."""
    results = [Ratios([]) for _ in tools]
    task = progress.add_task(chosen.name, total=trials * len(tools))
    with TemporaryDirectory() as scratch, chosen.running(Path(scratch)) as server:
        server.serve(seconds)
        made = Trials(server, seconds)
        for _ in range(trials):
            for tool, result in zip(tools, results, strict=True):
                for _ in range(TRIES if result.failed is None else 0):
                    try:
                        ratio, others = made.make(tool)
                    except RuntimeError as error:
                        result.failed = str(error)
                        break
                    if others <= DISTURBED:
                        result.ratios.append(ratio)
                        break
                    result.disturbed += 1
                progress.advance(task)
    return results


def main(words: Sequence[str] = ()) -> None:
    """Print the table; load by load, so that a run that is ended early has shown what it has."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.servers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--load", action="append", default=[])
    parser.add_argument("--tool", action="append", default=[])
    given = parser.parse_args(words)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tools end by it, and would inherit that it is ignored
    tools = [tool for tool in TOOLS if not tool.missing() and _chosen(tool.name, given.tool)]
    loads = [one for one in LOADS if _chosen(one.name, given.load)]
    print(
        f"\n## Servers at saturation\n\n{heading()}; {load()} at the beginning; "
        f"{given.trials} trials of {given.seconds} s\n"
    )
    columns: dict[str, list[Ratios]] = {}
    with Progress(disable=not sys.stderr.isatty()) as progress:
        for one in loads:
            if missing := one.missing():
                print(f"Without {one.name}: {', '.join(missing)} not installed.", flush=True)
                continue
            results = columns[one.name] = measure(
                one, tools, seconds=given.seconds, trials=given.trials, progress=progress
            )
            shown = ", ".join(f"{tool.name} {result.text()}" for tool, result in zip(tools, results, strict=True))
            print(f"{one.name}: {shown}", file=sys.stderr, flush=True)
    for tool in TOOLS:
        if tool.missing():
            print(f"Without {tool.name}: {tool.program} is not installed.")
    print()
    print(
        table(
            ["tool", *columns],
            [[tool.name, *(column[i].text() for column in columns.values())] for i, tool in enumerate(tools)],
        )
    )
    for name, column in columns.items():
        for tool, result in zip(tools, column, strict=True):
            if result.failed is not None:
                print(f"\n{tool.name} with {name} failed: {result.failed}")
    print(
        f"\nTrials that others disturbed: {sum(result.disturbed for column in columns.values() for result in column)}."
    )


def _chosen(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


if __name__ == "__main__":
    main(sys.argv[1:])
