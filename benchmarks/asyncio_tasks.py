"""What tasks cost a server of asyncio's: its processor time for a request with `headway.asyncio`, beside that without.

The same server runs with and without, in turns, beside nobody, and measured by ``headway stat`` with and without
``--tasks``. The load comes from another process over loopback. Processor time is the kernel's (schedstat), so that what
else the machine does counts little. Ratios are of neighbours in time; shown are medians.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.ebpf import BpfSource

SERVER = Path(__file__).with_name("asyncio_server.py")
CONNECTIONS = 32
SECONDS = 2.0
ROUNDS = 15


@contextmanager
def server(*words: str) -> Iterator[tuple[int, int]]:
    """Run the server; give its process and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(SERVER), str(port), *words], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid, port
    finally:
        process.kill()
        process.wait()


async def _ask(port: int, until: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    done = 0
    while time.monotonic() < until:
        writer.write(b'{"path": "/items", "page": 1}\n')
        await reader.readline()
        done += 1
    writer.close()
    return done


async def _load(port: int) -> int:
    """Ask for a while; return how many requests were answered."""
    until = time.monotonic() + SECONDS
    return sum(await asyncio.gather(*(_ask(port, until) for _ in range(CONNECTIONS))))


def _used(pid: int) -> int:
    """Return the processor time of a process by the kernel's clock, ns (Documentation/scheduler/sched-stats)."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())


def cost(measured: MeasureOptions | None, *words: str) -> float:
    """Return the server's processor time for a request, ns; ``measured``: how headway measures meanwhile."""
    with server(*words) as (pid, port):
        asyncio.run(_load(port))  # it is warm then
        source = None
        if measured is not None:
            source = BpfSource(Selection(pids=(pid,)), measured)
            source.begin()
        try:
            before = _used(pid)
            answered = asyncio.run(_load(port))
            return (_used(pid) - before) / answered
        finally:
            if source is not None:
                source.end()
                source.close()


def compared(measured: bool) -> tuple[float, float, list[float]]:
    """Return the median costs without tasks and with, and the ratio of each pair."""
    plain, tasks, ratios = [], [], []
    for turn in range(ROUNDS):
        pair = {}
        for with_tasks in (False, True) if turn % 2 else (True, False):
            options = MeasureOptions(tasks=with_tasks) if measured else None
            pair[with_tasks] = cost(options, *(["tasks"] if with_tasks else []))
        plain.append(pair[False])
        tasks.append(pair[True])
        ratios.append(pair[True] / pair[False])
    return statistics.median(plain), statistics.median(tasks), ratios


def main() -> None:
    """Print the table."""
    print("| | µs a request without | with tasks | ratio: median (quartiles) |\n|---|---:|---:|---:|")
    for measured in (False, True) if os.geteuid() == 0 else (False,):
        without, with_tasks, ratios = compared(measured)
        low, median, high = statistics.quantiles(ratios, n=4)
        what = "measured by headway" if measured else "measured by nobody"
        figures = f"{without / 1000:.1f} | {with_tasks / 1000:.1f} | {median:.3f} ({low:.3f} to {high:.3f})"
        print(f"| {what} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
