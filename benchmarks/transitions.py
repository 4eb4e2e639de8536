"""Transitions from the kernel: how many a second, what is lost, and the cost for the program and the tool.

The same loads run in turn unmeasured, measured by the source of `headway stat`, and with every transition recorded. The
rows are decoded and taken, but not written to disk. ``--seconds N``: the length of each run (2). ``--rounds N``: the
number of runs of each kind (3). After that, `headway record` writes to disk for ``--disk-seconds N`` (30), as a process
of its own: beside two threads at a fixed rate, and beside two that do nothing else. On the load that has switches,
`perf sched record` and `trace-cmd record` record the same events, if they are installed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headway.linux.bpf.costs._exercise import interrupted_calls as calls
from headway.linux.options import Selection
from headway.linux.sources.ebpf import BpfSource
from headway.recording.reader import Recording

from .common import heading, load, table

CALLS = 20_000
PACE = 1_050_000
"""Transitions a second of each thread at the fixed rate; a call is two transitions."""
TAKE_ROWS, TAKE_SECONDS = 1 << 19, 0.25
"""A batch is taken when it has this many rows, or after this many seconds."""


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one run."""

    per_call: float
    """Processor time in ns, so that the time of other programs does not show."""
    rows: int = 0
    lost: int = 0
    seconds: float = 0.0
    tool: float = 0.0
    """The tool's processor time in seconds."""
    fullest: float = 0.0


def call(seconds: float) -> tuple[int, int]:
    """Return the number of calls of getppid, and the processor time that they took in ns."""
    made, until, start = 0, time.monotonic() + seconds, time.process_time_ns()
    while time.monotonic() < until:
        calls(CALLS)
        made += CALLS
    return made, time.process_time_ns() - start


def paced_call(seconds: float) -> tuple[int, int]:
    """Do the same as `call`, at the rate `PACE`."""
    made, began, start = 0, time.monotonic(), time.process_time_ns()
    while (passed := time.monotonic() - began) < seconds:
        due = round(passed * PACE / 2) - made
        calls(max(due, 0))
        made += max(due, 0)
        time.sleep(0.001)
    return made, time.process_time_ns() - start


def pass_on(seconds: float) -> tuple[int, int]:
    """Pass bytes to another process and back through pipes; return their number and the processor time in ns.

    Both run on one processor, because waking an idle one takes ten times as long as all that is measured here.
    """
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    to, back = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(to[1])
        while os.read(to[0], 1):
            os.write(back[1], b"x")
        os._exit(0)
    os.close(to[0])
    made, until, start = 0, time.monotonic() + seconds, time.process_time_ns()
    while time.monotonic() < until:
        for _ in range(100):
            os.write(to[1], b"x")
            os.read(back[0], 1)
        made += 100
    taken = time.process_time_ns() - start
    os.close(to[1])
    _, _, used = os.wait4(child, 0)
    return made, taken + round(1e9 * (used.ru_utime + used.ru_stime))


class Workers:
    """Processes that wait for a start, do the work for a while, and report how much it was."""

    def __init__(self, work: Callable[[float], tuple[int, int]], n: int, seconds: float) -> None:
        self._go, go = os.pipe()
        self._answers, answer = os.pipe()
        self.pids = []
        for _ in range(n):
            pid = os.fork()
            if pid == 0:
                os.read(self._go, 1)
                made, taken = work(seconds)
                os.write(answer, f"{made} {taken}\n".encode())
                os._exit(0)
            self.pids.append(pid)
        self._start, self._n = go, n
        os.close(answer)

    def start(self) -> None:
        """Start the work of all processes."""
        os.write(self._start, b"!" * self._n)

    def working(self) -> bool:
        """Return whether any process is still working."""
        return any(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None for pid in self.pids)

    def figures(self) -> float:
        """Return the processor time in ns for a unit of work, over all processes."""
        for pid in self.pids:
            os.waitpid(pid, 0)
        with os.fdopen(self._answers) as answers:
            said = [line.split() for line in answers]
        os.close(self._go)
        os.close(self._start)
        return sum(float(taken) for _, taken in said) / sum(int(made) for made, _ in said)


def unmeasured(workers: Workers) -> Run:
    """Run the work unmeasured."""
    workers.start()
    return Run(workers.figures())


def added_up(workers: Workers) -> Run:
    """Run the work measured, with the sums kept in the kernel."""
    source = BpfSource(Selection(pids=tuple(workers.pids)))
    try:
        source.begin()
        workers.start()
        return Run(workers.figures())
    finally:
        source.close()


def recorded(workers: Workers) -> Run:
    """Run the work measured, with every transition taken."""
    source = BpfSource(Selection(pids=tuple(workers.pids)), record=True)
    try:
        source.begin()
        workers.start()
        rows, start, used, took = 0, time.monotonic(), time.process_time(), time.monotonic()
        while workers.working():
            pause = source.service() or TAKE_SECONDS
            if source.waiting > TAKE_ROWS or time.monotonic() - took > TAKE_SECONDS:
                took = time.monotonic()
                rows += len(source.take().transitions)
            time.sleep(pause)
        used, seconds = time.process_time() - used, time.monotonic() - start
        fullest = source.fullest
        ledger = source.end()
        rows += len(source.take().transitions)
        return Run(workers.figures(), rows, ledger.losses["transitions_lost"], seconds, used, fullest)
    finally:
        source.close()


WAYS: dict[str, Callable[[Workers], Run]] = {
    "unmeasured": unmeasured,
    "stat": added_up,
    "recorded": recorded,
}


def to_disk(work: Callable[[float], tuple[int, int]], n: int, seconds: float) -> tuple[str, ...]:
    """Return a row on `headway record` beside ``n`` processes that work."""
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "run.hw"
        workers = Workers(work, n, seconds + 5)
        own = [sys.executable, "-c", "from headway.commands import main; main()", "record", "-o", str(path)]
        recorder = subprocess.Popen(
            [*own, "-p", ",".join(map(str, workers.pids)), "-d", str(seconds)], stderr=subprocess.DEVNULL
        )
        while not path.exists() and recorder.poll() is None:
            time.sleep(0.01)
        workers.start()
        _, _, used = os.wait4(recorder.pid, 0)
        workers.figures()
        with Recording(path) as recording:
            ledger = recording.kept_ledger()
            assert ledger is not None
            rows, took = recording.rows, ledger.window.duration / 1e9
            lost = ledger.losses["transitions_lost"]
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    tool = used.ru_utime + used.ru_stime
    return (
        f"{took:.1f} s",
        f"{rows / took / 1e6:.2f} M",
        f"{lost:,}",
        f"{tool / took:.2f}",
        f"{1e9 * tool / rows:.0f} ns",
        f"{size / rows:.2f}",
        f"{used.ru_maxrss / 1024:.0f} MiB",
    )


OTHERS: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "headway record": (sys.executable, "-c", "from headway.commands import main; main()", "record", "-q", "-o"),
    "perf sched record": ("perf", "sched", "record", "-o"),
    "trace-cmd record": ("trace-cmd", "record", "-q", "-e", "sched_switch", "-e", "sched_wakeup", "-o"),
}
"""Tools that record which thread ran when, without file and command. headway records system calls in addition."""


def beside(name: str, recorder: tuple[str, ...], seconds: float) -> tuple[str, ...]:
    """Return a row on one of them, recorded while bytes are passed on."""
    if recorder and shutil.which(recorder[0]) is None:
        return (name, "not installed", "", "", "")
    with TemporaryDirectory() as scratch:
        target = Path(scratch) / "file.hw"
        loop = [sys.executable, "-m", "benchmarks.transitions", "--pass-on", str(seconds)]
        command = [*recorder, str(target), *(["--"] if "headway" in name else []), *loop] if recorder else loop
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = [line for line in done.stdout.splitlines() if line.startswith("passed")]
        if not said:
            why = next(iter(done.stderr.splitlines()), f"status {done.returncode}")
            return (name, f"does not run here ({why})", "", "", "")
        _, each, made = said[0].split()
        files = [target, *target.rglob("*")] if target.is_dir() else [target]
        size = sum(file.stat().st_size for file in files if file.is_file())
        lost = [line.strip() for line in done.stderr.splitlines() if re.search(r"lost|overrun: [1-9]", line, re.I)]
        return (name, each, f"{int(made) / seconds:,.0f}", f"{size / int(made):.1f}", "; ".join(lost) or "none said")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--disk-seconds", type=float, default=30.0)
    parser.add_argument("--pass-on", type=float)
    options, _ = parser.parse_known_args()
    if options.pass_on:
        made, taken = pass_on(options.pass_on)
        print(f"passed {taken / made:.0f} {made}")
        return
    loads: dict[str, tuple[Callable[[float], tuple[int, int]], int]] = {
        "getppid, 1 thread": (call, 1),
        "getppid, 2 threads": (call, 2),
        "a byte there and back": (pass_on, 1),
    }
    print(f"\n## Transitions out of the kernel\n\n{heading()}; {load()}\n")
    rows = []
    for name, (work, n) in loads.items():
        runs: dict[str, list[Run]] = {way: [] for way in WAYS}
        for _ in range(options.rounds):
            for way, measure in WAYS.items():
                runs[way].append(measure(Workers(work, n, options.seconds)))
        median = {way: statistics.median(run.per_call for run in found) for way, found in runs.items()}
        full = runs["recorded"]
        rows.append(
            (
                name,
                *(f"{median[way]:,.0f}" for way in WAYS),
                f"{statistics.median(run.rows / run.seconds for run in full) / 1e6:.2f} M",
                f"{sum(run.lost for run in full):,}",
                f"{100 * statistics.median(run.tool / run.seconds for run in full):.0f} %",
                f"{statistics.median(1e9 * run.tool / run.rows for run in full):.0f} ns",
                f"{100 * max(run.fullest for run in full):.0f} %",
            )
        )
    titles: tuple[str, ...] = (
        "load",
        "ns unmeasured",
        "ns with stat",
        "ns recorded",
        "rows/s",
        "lost",
        "tool",
        "a row",
        "fullest ring",
    )
    print(table(titles, rows))
    disk: dict[str, Callable[[float], tuple[int, int]]] = {
        f"getppid, 2 threads at {PACE / 1e6:.2f} M": paced_call,
        "getppid, 2 threads": call,
    }
    print("\n`headway record` to the disk, start and end of the tool included in what it takes:\n")
    titles = ("load", "for", "rows/s", "lost", "processors", "a row", "bytes a row", "memory")
    print(table(titles, [(name, *to_disk(work, 2, options.disk_seconds)) for name, work in disk.items()]), flush=True)
    print("\nA byte there and back, recorded:\n")
    titles = ("recorder", "ns a round trip", "round trips/s", "bytes each", "lost")
    print(table(titles, [beside(name, recorder, options.seconds) for name, recorder in OTHERS.items()]))


if __name__ == "__main__":
    main()
