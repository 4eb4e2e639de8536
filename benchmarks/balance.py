"""Progress of parties that compete for one processor: with equal weights, and held equal by ``headway balance``.

The parties (balance.c) count their own rounds, each of which is the same progress, so nothing here rests on what
headway measures. The cost is the processor time of headway and of the process that watches it, and the time in its eBPF
programs by the kernel's count (bpf_enable_stats), as a part of the processor. Run as root.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .common import compiled, heading, load, table

FAIR = 20.0
"""Seconds with equal weights."""
SETTLES = 15.0
"""Seconds that a balance is given before the time that counts."""
HELD = 30.0
"""Seconds that a balance is held."""
UNITS = 1_000_000
APART = 64
BPF, ENABLE_STATS = 321, 32
"""bpf(2) on x86-64 and its BPF_ENABLE_STATS."""


@dataclass(frozen=True)
class Worker:
    """A process: what it does besides work, how often in a round, and in how many threads."""

    kind: str
    times: int = 0
    threads: int = 1


MIXES = {
    "computes, and reads 1 MiB": (Worker("compute"), Worker("reads", 120)),
    "computes, and reads 64 KiB": (Worker("compute"), Worker("short-reads", 3000)),
    "computes, and polls": (Worker("compute"), Worker("polls", 400)),
    "1 thread, and a neighbour with 3": (Worker("compute"), Worker("compute", 0, 3)),
    "all of these": (Worker("compute"), Worker("reads", 120), Worker("polls", 400), Worker("compute", 0, 3)),
}


@contextmanager
def working(program: Path, workers: tuple[Worker, ...], folder: Path) -> Iterator[list[tuple[int, Path]]]:
    """Run the workers on the last processor. Yield their pids, and the files with their rounds."""
    cpu = {max(os.sched_getaffinity(0))}
    started: list[tuple[subprocess.Popen[bytes], Path]] = []
    try:
        for number, worker in enumerate(workers):
            file = folder / str(number)
            words: list[str | Path] = [program, worker.kind, str(UNITS), str(worker.times), str(worker.threads), file]
            process = subprocess.Popen(words, preexec_fn=lambda: os.sched_setaffinity(0, cpu))
            started.append((process, file))
        time.sleep(1)
        yield [(process.pid, file) for process, file in started]
    finally:
        for process, file in started:
            process.kill()
            process.wait()
            file.unlink(missing_ok=True)


def rounds(files: list[Path]) -> list[int]:
    """Return the rounds of each worker until now, its threads added up."""
    found = []
    for file in files:
        raw = file.read_bytes()
        found.append(sum(struct.unpack_from("<Q", raw, at)[0] for at in range(0, len(raw), APART)))
    return found


def made(files: list[Path], seconds: float) -> list[int]:
    """Return the rounds of each worker in so many seconds from now on."""
    before = rounds(files)
    time.sleep(seconds)
    return [after - earlier for earlier, after in zip(before, rounds(files), strict=True)]


def statistics() -> int:
    """Have the kernel count the time in eBPF programs. Return the descriptor until whose end it does."""
    attributes = ctypes.create_string_buffer(struct.pack("<I", 0), 64)
    fd = ctypes.CDLL(None, use_errno=True).syscall(BPF, ENABLE_STATS, attributes, 64)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "the kernel does not count the time in eBPF programs")
    return int(fd)


def spent(pid: int) -> float:
    """Return the processor time of a process, of its children, and of its eBPF programs, s."""
    total = 0.0
    for each in [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]:
        stat = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    programs: dict[str, int] = {}
    for entry in os.scandir(f"/proc/{pid}/fdinfo"):
        with suppress(OSError):
            text = Path(entry.path).read_text()
            ident, ran = re.search(r"^prog_id:\s*(\d+)", text, re.M), re.search(r"^run_time_ns:\s*(\d+)", text, re.M)
            if ident and ran:
                programs[ident[1]] = int(ran[1])
    return total + sum(programs.values()) / 1e9


def ratio(values: list[int]) -> str:
    """Return the largest of the values by the smallest."""
    return f"{max(values) / min(values):.2f}" if min(values) else "∞"


def measured(program: Path, workers: tuple[Worker, ...], options: list[str]) -> list[str]:
    """Measure one mix, and return its row without the name."""
    with TemporaryDirectory() as scratch, working(program, workers, Path(scratch)) as started:
        files = [file for _, file in started]
        fair = made(files, FAIR)
        pids = [f"-p{pid}" for pid, _ in started]
        words = [sys.executable, "-m", "headway", "balance", *pids, "--json", "-o", f"{scratch}/out", *options]
        balance = subprocess.Popen(words)
        try:
            while not (out := Path(scratch, "out")).exists() or not out.stat().st_size:
                time.sleep(0.1)
            time.sleep(SETTLES)
            before, began = spent(balance.pid), time.monotonic()
            held = made(files, HELD)
            cost = (spent(balance.pid) - before) / (time.monotonic() - began)
        finally:
            balance.terminate()
            balance.wait()
        last = json.loads(Path(scratch, "out").read_text().splitlines()[-1])
        nice = ", ".join(str(os.getpriority(os.PRIO_PROCESS, pid)) for pid, _ in started)
    if set(nice.split(", ")) != {"0"}:
        raise SystemExit(f"not everything was set back: nice {nice}")
    sets = ", ".join(row["set"].removeprefix("nice ") for row in sorted(last["parties"], key=lambda row: row["pid"]))
    return [ratio(fair), ratio(held), sets, f"{cost:.2%}"]


def main() -> None:
    """Print the table."""
    print(f"\n## Equal progress\n\n{heading()}; {load()}\n", flush=True)
    rows = []
    counting = statistics()
    with compiled("balance") as program:
        for name, workers in MIXES.items():
            rows.append([name, *measured(program, workers, sys.argv[1:])])
            print(f"{name}: {rows[-1]}", file=sys.stderr, flush=True)
    os.close(counting)
    titles = ["on one processor", "progress ratio, equal weights", "balanced", "nice values at the end", "cost"]
    print(table(titles, rows), flush=True)


if __name__ == "__main__":
    main()
