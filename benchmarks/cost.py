"""The cost that measuring adds to a system call and to a context switch, beside the floor and beside other tools.

The floor is two programs (four with the scheduler's hooks) that are empty, or that only read the clock. All
configurations are run in turn many times, so that a machine whose speed drifts favours none. The tables show medians.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from headway.linux.bpf.costs._exercise import interrupted_calls as calls
from headway.linux.bpf.programs.compile import compile_bpf
from headway.linux.bpf.programs.libbpf import Library, Object
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.ebpf import BpfSource

CALLS = 200_000
TRIPS = 20_000
ROUNDS = 7
NO_OPTIONS = MeasureOptions()


def _floor_object() -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "floor.bpf.o"
        compile_bpf(Path(__file__).parent / "floor.bpf.c", target, Path(scratch))
        return target.read_bytes()


@contextmanager
def floor(image: bytes, kind: str, hooks: tuple[str, ...]) -> Iterator[None]:
    """Attach programs of this kind (``empty`` or ``clock``) to these hooks."""
    wanted = {f"{kind}_{hook}" for hook in hooks}
    with Object(Library(), image) as programs:
        for program in programs.programs.values():
            if program.name not in wanted:
                program.leave_out()
        programs.load()
        for name in wanted:
            programs.attach(programs.programs[name])
        yield


@contextmanager
def headway(selection: Selection, options: MeasureOptions = NO_OPTIONS) -> Iterator[None]:
    """Let headway measure this selection."""
    source = BpfSource(selection, options)
    source.begin()
    try:
        yield
    finally:
        source.close()


@contextmanager
def nothing() -> Iterator[None]:
    """Measure nothing."""
    yield


def call() -> float:
    """Return the nanoseconds of one getppid call."""
    return calls(CALLS) / CALLS


def switch() -> float:
    """Return the nanoseconds of a round trip of a byte between two processes on one processor: 2 switches, 4 calls."""
    to, back = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        for _ in range(TRIPS + 100):
            os.read(to[0], 1)
            os.write(back[1], b"x")
        os._exit(0)
    for _ in range(100):
        os.write(to[1], b"x")
        os.read(back[0], 1)
    start = time.perf_counter_ns()
    for _ in range(TRIPS):
        os.write(to[1], b"x")
        os.read(back[0], 1)
    taken = time.perf_counter_ns() - start
    os.waitpid(child, 0)
    for fd in (*to, *back):
        os.close(fd)
    return taken / TRIPS


class Worker:
    """A process that does the work on request, and is measured or not."""

    def __init__(self, work: Callable[[], float]) -> None:
        ask, self._ask = os.pipe()
        self._answer, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            while os.read(ask, 1):
                os.write(answer, f"{work()}\n".encode())
            os._exit(0)
        os.close(ask)
        os.close(answer)

    def work(self) -> float:
        """Let the process work once; return its figure."""
        os.write(self._ask, b"!")
        return float(os.read(self._answer, 64))

    def close(self) -> None:
        """End the process."""
        os.close(self._ask)
        os.close(self._answer)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


def compare(work: Callable[[], float], hooks: tuple[str, ...], image: bytes) -> dict[str, float]:
    """Return the median cost of the work under each configuration."""
    worker, other = Worker(work), Worker(work)
    configurations: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "nothing": nothing,
        "empty programs": lambda: floor(image, "empty", hooks),
        "clock read only": lambda: floor(image, "clock", hooks),
        "headway, thread measured": lambda: headway(Selection(pids=(worker.pid,))),
        "headway, with durations": lambda: headway(Selection(pids=(worker.pid,)), MeasureOptions(durations=1)),
        "headway, thread not measured": lambda: headway(Selection(pids=(other.pid,))),
    }
    results: dict[str, list[float]] = {name: [] for name in configurations}
    try:
        for _ in range(ROUNDS):
            for name, configuration in configurations.items():
                with configuration():
                    worker.work()
                    results[name].append(min(worker.work() for _ in range(3)))
    finally:
        worker.close()
        other.close()
    return {name: statistics.median(values) for name, values in results.items()}


def show(title: str, results: dict[str, float]) -> None:
    """Print the absolute cost, the added cost, and its ratios to the floors."""
    base = results["nothing"]
    clock = results["clock read only"] - base
    empty = results["empty programs"] - base
    print(f"\n{title}\n{'':32}{'ns':>9}{'added':>9}{'/ clock floor':>15}{'/ empty':>9}")
    for name, value in results.items():
        added = value - base
        print(f"{name:32}{value:9.1f}{added:9.1f}{added / clock:15.2f}{added / empty:9.2f}")


def peers() -> None:
    """Print what other tools add to one call of the same loop, if they are installed."""
    loop = [sys.executable, "-m", "benchmarks.cost", "--loop"]
    tools = {
        "strace -c": ["strace", "-c", "-o", "/dev/null"],
        "perf trace -s": ["perf", "trace", "-s", "-o", "/dev/null"],
        "bpftrace": ["bpftrace", "-o", "/dev/null", "-e", _BPFTRACE, "-c"],
    }
    print(f"\nother tools, the same loop\n{'':32}{'ns':>9}{'added':>9}")
    base = _loop_time(loop)
    print(f"{'nothing':32}{base:9.1f}{0:9.1f}")
    for name, command in tools.items():
        if shutil.which(command[0]) is None:
            print(f"{name:32} not installed")
            continue
        full = [*command, " ".join(loop)] if name == "bpftrace" else [*command, *loop]
        taken = _loop_time(full)
        print(f"{name:32}{taken:9.1f}{taken - base:9.1f}" if taken else f"{name:32} does not run here")


_BPFTRACE = (
    "tracepoint:raw_syscalls:sys_enter { @s[tid] = nsecs; } "
    "tracepoint:raw_syscalls:sys_exit /@s[tid]/ { @t[tid] = sum(nsecs - @s[tid]); delete(@s[tid]); }"
)


def _loop_time(command: list[str]) -> float:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"loop (\d+)", run.stdout)
    return int(found.group(1)) / 20_000 if found else 0.0


def main() -> None:
    """Print the tables."""
    if "--loop" in sys.argv:
        print("loop", min(calls(20_000) for _ in range(3)))
        return
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    image = _floor_object()
    show("a system call (getppid, entry and exit)", compare(call, ("sys_enter", "sys_exit"), image))
    hooks = ("sys_enter", "sys_exit", "sched_switch", "sched_wakeup")
    show("a round trip through two pipes (2 switches, 2 wake-ups, 4 calls)", compare(switch, hooks, image))
    peers()


if __name__ == "__main__":
    main()
