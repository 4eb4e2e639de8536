"""Collecting from the sample buffers of 1,000 threads, 10 of them busy, 90 bursty and 900 idle, under each policy.

Each policy has a collector in a process of its own, and buffers of its own on each thread; all run at the same time on
the same threads. A look reads how full a buffer is; a useful drain takes half a buffer or more. The collector's
processor time is that of its loop alone, from when all threads are served to the end. After that the same policies run
on the reference machine, where figures are exact. Run it as root: ``python -m benchmarks.polling [SECONDS]``.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from headway.buffers.policies.fixed import Fixed
from headway.linux.perf.sample_buffer import Sampling
from headway.linux.perf.sampler import POLICIES, Policies, Sampler

from . import polling_machine
from .common import compiled, heading, load, table

SECOND = 1_000_000_000
MIX = 10, 90, 900
POLICY: dict[str, Policies] = {
    "fixed, 10 ms": POLICIES["fixed"],
    "fixed, 100 ms": lambda sampling: lambda: Fixed(sampling.capacity, period=SECOND // 10),
    "watermark": POLICIES["watermark"],
    "processor time": POLICIES["cpu-time"],
}
SAMPLINGS = (Sampling(frequency=499, pages=2), Sampling())
LARGE = 1 << 20
"""Bytes of samples that are passed on at once."""


@dataclass
class Collected:
    """The figures of collecting under one policy."""

    wall: int
    cpu: int
    looks: int
    drains: int
    useful: int
    clocks: int
    wakeups: int
    samples: int
    lost: int

    def row(self, name: str) -> list[str]:
        return [
            name,
            f"{self.samples:,}",
            f"{self.lost:,}",
            f"{self.looks:,}",
            f"{self.drains:,}",
            f"{self.looks / self.useful:,.2f}" if self.useful else "",
            f"{self.clocks:,}",
            f"{self.wakeups:,}",
            f"{100 * self.cpu / self.wall:.2f} %",
        ]


TITLES = ["policy", "samples", "lost", "looks", "drains", "looks per useful drain", "clocks", "wake-ups", "collector"]


def collect(pid: int, sampling: Sampling, policy: Policies, seconds: float) -> Collected:
    """Collect from all threads of a process for ``seconds``."""
    sampler = Sampler([pid], sampling, policy=policy)
    samples = 0
    began = time.monotonic_ns()
    until = began + int(seconds * SECOND)
    while time.monotonic_ns() < until:
        sampler.step(until)
        if len(sampler.tray) > LARGE:
            samples += len(sampler.tray.samples(sampling.fields).time)
            sampler.tray.clear()
    wall = time.monotonic_ns() - began
    figures = sampler.figures
    sampler.finish()
    samples += len(sampler.tray.samples(sampling.fields).time)
    lost = sampler.losses.samples
    sampler.close()
    return Collected(
        wall, figures.cpu_ns, figures.looks, figures.drains, figures.useful, figures.clock_reads, figures.wakeups,
        samples, lost,
    )  # fmt: skip


def elsewhere(measure: Callable[[], Collected]) -> Callable[[], Collected]:
    """Start a measurement in a process of its own; return a function that waits for its result."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with os.fdopen(write_end, "wb") as pipe:
                pickle.dump(measure(), pipe)
        finally:
            os._exit(0)
    os.close(write_end)

    def result() -> Collected:
        with os.fdopen(read_end, "rb") as pipe:
            found = pickle.load(pipe)
        os.waitpid(pid, 0)
        assert isinstance(found, Collected)
        return found

    return result


def on_linux(seconds: float) -> None:
    """Print the tables of the running Linux."""
    with compiled("polling") as program:
        process = subprocess.Popen([program, *map(str, MIX)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdout.readline()
            for sampling in SAMPLINGS:
                begun = {
                    name: elsewhere(partial(collect, process.pid, sampling, policy, seconds))
                    for name, policy in POLICY.items()
                }
                rows = [result().row(name) for name, result in begun.items()]
                print(
                    f"\n{sum(MIX):,} threads ({MIX[0]} busy, {MIX[1]} bursty, {MIX[2]} idle), {sampling.frequency} Hz, "
                    f"buffers of {sampling.capacity // 1024} KiB, {seconds:g} s; {load()}:\n"
                )
                print(table(TITLES, rows), flush=True)
        finally:
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            process.wait()


def main(seconds: float = 15.0) -> None:
    """Print the tables."""
    print(f"\n## Polling\n\n{heading()}")
    on_linux(seconds)
    polling_machine.main()


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
