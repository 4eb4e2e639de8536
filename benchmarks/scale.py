"""Many threads: what is kept of them, and the cost of watching them.

headway runs as its users run it, as a process of its own. Its processor time is the kernel's account of all its threads
(schedstat, ns). This does not include what its eBPF programs cost the measured threads; cost.py measures that.
"""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .common import compiled, heading, living, load, table

HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
STORM = 100_000
INTERVALS = 10
ROUNDS = 3


def _wait(process: subprocess.Popen[str]) -> tuple[int, int]:
    """Wait for a process. Return its exit status and its (or its child's) peak resident memory in bytes."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss * 1024


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"


def _storm(command: list[str]) -> tuple[int, int]:
    """Return the ns that the program reports, and the peak memory in bytes."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    status, memory = _wait(process)
    assert status == 0, f"{command} ended with {status}"
    return int(output), memory


def storm(path: Path) -> None:
    """Print how 100,000 threads that are started and ended in one run are measured."""
    alone: list[int] = []
    watched: list[int] = []
    told: list[int] = []
    memory_table = memory_json = 0
    rows: list[list[str]] = []
    program = [str(path), "storm", str(STORM)]
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report"
        for _ in range(ROUNDS):
            alone.append(_storm(program)[0])
            time_taken, memory_table = _storm([*HEADWAY, "stat", "-o", str(report), "--", *program])
            watched.append(time_taken)
            time_taken, memory_json = _storm([*HEADWAY, "stat", "--json", "-o", str(report), "--", *program])
            told.append(time_taken)
        document = json.loads(report.read_text())
    threads = document["threads"]
    complete = sum(thread["end"] is not None for thread in threads)
    exact = sum(sum(state["time"] for state in t["states"]) == t["end"] - t["start"] for t in threads if t["end"])
    losses = {name: count for name, count in document["losses"].items() if count}
    before, table_time, json_time = (statistics.median(times) / STORM / 1000 for times in (alone, watched, told))
    rows = [
        ["threads in the report", f"{len(threads):,} of {STORM + 1:,}"],
        ["of these with their end", f"{complete:,}"],
        ["of these whose states add up to their life", f"{exact:,}"],
        ["losses", ", ".join(f"{name} {count}" for name, count in losses.items()) or "none"],
        ["most memory of headway, table", _mebibytes(memory_table)],
        ["most memory of headway, JSON", _mebibytes(memory_json)],
        ["a thread's start and end, unmeasured", f"{before:.2f} µs"],
        ["…, measured (table)", f"{table_time:.2f} µs, {table_time / before:.2f} × as long"],
        ["…, measured (JSON)", f"{json_time:.2f} µs, {json_time / before:.2f} × as long"],
    ]
    print(f"\n### {STORM:,} threads started and ended, at most 50 at a time\n")
    print(table(["what", "result"], rows))


def _processor_time(pid: int) -> int:
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def _kernel_memory(pid: int) -> int:
    """Return the bytes of all eBPF maps that the process has open; each map is counted once."""
    sizes = {}
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        found = dict(re.findall(r"^(map_id|memlock):\s*(\d+)$", path.read_text(), re.MULTILINE))
        if len(found) == 2:
            sizes[found["map_id"]] = int(found["memlock"])
    return sum(sizes.values())


def _watch(target: int, options: list[str]) -> tuple[float, int, int]:
    """Return the share of one processor in per cent over ten intervals, the resident memory, and that of the maps."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report"
        command = [*HEADWAY, "stat", "-p", str(target), "-I", "1000", *options, "-o", str(report)]
        process = subprocess.Popen(command)
        while not report.exists() or not report.stat().st_size:
            time.sleep(0.05)
        time.sleep(1.5)  # so that the measurement begins between two reports
        before, start = _processor_time(process.pid), time.monotonic()
        time.sleep(INTERVALS)
        share = (_processor_time(process.pid) - before) / 1e7 / (time.monotonic() - start)
        status = Path(f"/proc/{process.pid}/status").read_text()
        resident = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
        maps = _kernel_memory(process.pid)
        process.send_signal(signal.SIGINT)
        process.wait()
    return share, int(resident.group(1)) * 1024 if resident else 0, maps


def share(path: Path) -> None:
    """Print the share of a processor that watching threads takes."""
    rows = []
    for threads, options, goal in (
        (2000, [], "≤ 2 %"),
        (2000, ["--every-thread"], "–"),
        (2000, ["--json"], "–"),
        (1000, ["--source", "proc", "-q"], "≤ 5 %"),
        (1000, ["--source", "proc", "--json", "-q"], "–"),
    ):
        with living(path, threads) as pid:
            runs = [_watch(pid, options) for _ in range(ROUNDS if goal != "–" else 1)]
        shares = [share for share, _, _ in runs]
        rows.append(
            [
                f"{threads:,} threads, {' '.join(['-I 1000', *options])}",
                f"{statistics.median(shares):.2f} %",
                f"{min(shares):.2f}–{max(shares):.2f} %",
                goal,
                _mebibytes(max(resident for _, resident, _ in runs)),
                _mebibytes(max(maps for _, _, maps in runs)),
            ]
        )
    print("\n### Watching threads that wake ten times a second each\n")
    print(
        f"Of one processor, over {INTERVALS} intervals, start-up and the first interval left out; "
        f"{ROUNDS} runs where there is a goal.\n"
    )
    print(table(["watched", "median", "range", "goal", "resident memory", "eBPF maps"], rows))


def main() -> None:
    """Print the tables."""
    print("\n## Scale")
    with compiled("many") as path:
        storm(path)
        share(path)
    print(f"\n({load()} at the end)")


if __name__ == "__main__":
    print(heading())
    main()
