"""headway serve under many scrapes: its cost, the time of an answer, and the bound of its memory.

headway runs as its users run it. Its cost is the processor time of both of its processes (schedstat, all threads),
which does not include what its eBPF programs cost the measured threads: see cost.py. The scrapes come from this
process, over loopback, at fixed moments. The time of each is counted from the moment at which it was due, so that a
slow answer is not hidden by asking later.
"""

from __future__ import annotations

import gzip
import http.client
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.linux.procfs.cgroups import read_origin
from headway.model import Cell, Ledger, Overhead, Thread, Window
from headway.views.metrics.families import families
from headway.views.metrics.openmetrics import write
from headway.views.metrics.totals import By, Totals

from .common import compiled, heading, living, load, table

HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
SCRAPES = 50
"""Scrapes a second."""
SECONDS = 15.0
THREADS = 2_000
BIRTHS = 100_000


@dataclass(frozen=True)
class Served:
    """A running server."""

    pids: tuple[int, ...]
    """The process that measures, and the one that serves."""
    port: int

    def cost(self) -> list[int]:
        """Return the processor time of each process in ns."""
        return [
            sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))
            for pid in self.pids
        ]

    def memory(self) -> list[int]:
        """Return the resident memory of each process in bytes."""
        return [_status(pid, "VmRSS") for pid in self.pids]


def _status(pid: int, name: str) -> int:
    found = re.search(rf"^{name}:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


@contextmanager
def serving(options: Sequence[str]) -> Iterator[Served]:
    with started([*HEADWAY, "serve", "--listen", "127.0.0.1:0", *options]) as server:
        yield server


@contextmanager
def started(words: Sequence[str]) -> Iterator[Served]:
    """Run a server that reports its address on standard error. Yields it with its serving child, if it has one."""
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = ""
        while "serving http" not in line:
            line = process.stderr.readline()
            assert line, "headway serve did not start"
        found = re.search(r":(\d+)/", line)
        assert found
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield Served((process.pid, *map(int, children[:1])), int(found[1]))
    finally:
        process.terminate()
        process.wait()


FLOOR = """
import asyncio, socket, sys
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Length: 2048\\r\\n\\r\\n" + bytes(2048)
class Constant(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(ANSWER)
async def main():
    server = await asyncio.get_running_loop().create_server(Constant, "127.0.0.1", 0)
    print("serving http://127.0.0.1:%d/" % server.sockets[0].getsockname()[1], file=sys.stderr, flush=True)
    await server.serve_forever()
asyncio.run(main())
"""
PEER = """
import sys, time
from prometheus_client import Counter, start_http_server
seconds = Counter("thread_state_seconds", "Time.", ["pid", "state"])
for state in range(20):
    seconds.labels("1", str(state)).inc(1.5)
server, _ = start_http_server(0, "127.0.0.1")
print("serving http://127.0.0.1:%d/" % server.server_port, file=sys.stderr, flush=True)
time.sleep(600)
"""


def beside() -> None:
    """Print the cost of answering: the least that Python can do, prometheus_client with 20 series, and headway."""
    rows = []
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        for name, words in (
            ("asyncio, a constant answer to whatever comes", [sys.executable, "-c", FLOOR]),
            ("prometheus_client's server, 20 series", [sys.executable, "-c", PEER]),
            ("headway serve, one thread", [*HEADWAY, "serve", "--listen", "127.0.0.1:0", "-p", str(sleeper.pid)]),
        ):
            with started(words) as server:
                scraped(server, SCRAPES, 2)
                before, start = server.cost(), time.monotonic()
                scraped(server, SCRAPES, 8)
                share = (server.cost()[-1] - before[-1]) / 1e7 / (time.monotonic() - start)
            rows.append([name, f"{share:.2f} %", f"{share / SCRAPES * 1e4:.0f} µs"])
    finally:
        sleeper.kill()
        sleeper.wait()
    print(f"\n### The process that answers {SCRAPES} scrapes a second, in turn\n")
    print(table(["server", "of a processor", "a scrape"], rows))


def scrape(connection: http.client.HTTPConnection) -> bytes:
    """Make a scrape as Prometheus does: compressed, on a kept connection."""
    accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
    connection.request("GET", "/metrics", headers={"Accept": accept, "Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200
    return body


def scraped(server: Served, rate: float, seconds: float) -> tuple[list[float], int]:
    """Return how long each scrape took in ms, and the size of the last answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    took, size = [], 0
    start = time.monotonic()
    for number in range(int(rate * seconds)):
        due = start + number / rate
        time.sleep(max(due - time.monotonic(), 0))
        size = len(scrape(connection))
        took.append((time.monotonic() - due) * 1000)
    connection.close()
    return took, size


def many_scrapes(path: Path) -> None:
    """Print the cost of 50 scrapes a second with 2,000 threads."""
    rows = []
    for options in (["--by", "process"], ["--by", "thread"], ["--by", "process", "--source", "proc"]):
        with living(path, THREADS) as pid, serving(["-p", str(pid), *options]) as server:
            scraped(server, SCRAPES, 2)  # the first readings differ from later ones
            before, start = server.cost(), time.monotonic()
            took, size = scraped(server, SCRAPES, SECONDS)
            took_s = time.monotonic() - start
            shares = [(b - a) / 1e7 / took_s for a, b in zip(before, server.cost(), strict=True)]
            memory = server.memory()
        took.sort()
        rows.append(
            [
                " ".join(options),
                f"{sum(shares):.2f} %",
                f"{shares[0]:.2f} %",
                f"{shares[1]:.2f} %",
                f"{statistics.median(took):.1f} ms",
                f"{took[int(len(took) * 0.99)]:.1f} ms",
                f"{took[-1]:.1f} ms",
                f"{size / 1024:.0f} KiB",
                f"{memory[0] >> 20} + {memory[1] >> 20} MiB",
            ]
        )
    print(
        f"\n### {SCRAPES} scrapes a second for {SECONDS:.0f} s, {THREADS:,} threads that wake ten times a second each\n"
    )
    titles = ["options", "of a processor", "measuring", "serving", "median", "p99", "worst", "answer", "resident"]
    print(table(titles, rows))


def births(path: Path) -> None:
    """Print series and memory while 100,000 threads are born and end, four times, with two scrapes a second."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        gate = Path(scratch) / "gate"
        os.mkfifo(gate)
        # The measured process exists from the beginning; the threads are started through the gate.
        storms = f'while read -r _ < "{gate}"; do "{path}" storm {BIRTHS} > /dev/null; done'
        for options in (["--by", "process"], ["--by", "thread"]):
            shell = subprocess.Popen(["sh", "-c", storms])
            try:
                with serving(["-p", str(shell.pid), "--metric-expiration", "5", *options]) as server:
                    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                    found = [_births(scrape(connection), server, 0)]
                    for number in range(1, 5):
                        gate.write_text("go\n")
                        while True:
                            time.sleep(0.5)
                            body = scrape(connection)
                            if _value(body, "headway_threads_ended_total") >= number * BIRTHS:
                                break
                        found.append(_births(body, server, number * BIRTHS))
            finally:
                shell.kill()
                shell.wait()
            rows += [[" ".join(options), *row] for row in found]
    print(f"\n### {BIRTHS:,} threads born and ended, and again, with series expiring after 5 s\n")
    print(table(["options", "births", "series", "series gone", "measuring resident", "serving resident"], rows))


def _births(body: bytes, server: Served, number: int) -> list[str]:
    memory = server.memory()
    return [
        f"{number:,}",
        f"{_value(body, 'headway_series'):,.0f}",
        f"{_value(body, 'headway_series_departed_total'):,.0f}",
        f"{memory[0] / 2**20:.1f} MiB",
        f"{memory[1] / 2**20:.1f} MiB",
    ]


def _value(body: bytes, name: str) -> float:
    text = (gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body).decode()
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert found, name
    return float(found[1])


def writing() -> None:
    """Print the cost of writing the text, beside prometheus_client."""
    try:
        from prometheus_client.core import CounterMetricFamily
        from prometheus_client.openmetrics.exposition import generate_latest
    except ImportError:
        print("\n(prometheus_client is not installed)")
        return
    names = ("user", "kernel.read", "kernel.futex", "ready", "wait.futex", "irq.timer")
    states = {name: Cell(1_234_567_891, 5) for name in names}
    threads = tuple(Thread(tid, 1, f"worker-{tid}", 0, 0, None, 1, 1, states) for tid in range(1, THREADS + 1))
    totals = Totals(By.THREAD)
    totals.add(Ledger("bpf", Window(0, 1), threads, overhead=Overhead(0, 0)))
    snapshot = totals.snapshot()
    (family,) = (one for one in families(snapshot) if one.name == "headway_thread_state_seconds")
    samples = list(family.samples)

    written_by: Any = generate_latest

    class Collected:
        def collect(self) -> Iterator[CounterMetricFamily]:
            labels = [name for name, _ in (*samples[0][0], *samples[0][1])]
            found = CounterMetricFamily(family.name, family.help, labels=labels)
            for common, own, value in samples:
                found.add_metric([text for _, text in (*common, *own)], value)
            yield found

    ours, theirs = [], []
    for _ in range(5):
        start = time.process_time()
        write(one for one in families(snapshot) if one.name == "headway_thread_state_seconds")
        ours.append(time.process_time() - start)
        start = time.process_time()
        written_by(Collected())
        theirs.append(time.process_time() - start)
    each = [statistics.median(times) / len(samples) * 1e6 for times in (ours, theirs)]
    print(f"\n### Writing {len(samples):,} samples as text (medians of five, in turn)\n")
    rows = [
        ["headway", f"{each[0]:.2f} µs", "1.0"],
        ["prometheus_client", f"{each[1]:.2f} µs", f"{each[1] / each[0]:.1f}"],
    ]
    print(table(["writer", "a sample", "times as long"], rows))


def places() -> None:
    """Print the cost of labels of control groups: 2,000 processes, without and with labels, a reading each second."""
    pod, container = "1b1b4d9c-6c39-4f0e-9a6b-2f0f3c7d5%03d", "3f1c5e0b" * 7 + "%08x"

    def place_of(pid: int) -> tuple[tuple[str, str], ...]:
        """Return labels of 300 containers in 100 pods, after reading a file as long as each process has."""
        read_origin(os.getpid())
        return (("k8s_pod_uid", pod % (pid % 100)), ("container_id", container % (pid % 300)))

    ways = {"without": Totals(By.PROCESS), "with": Totals(By.PROCESS, place_of=place_of)}
    took: dict[str, list[float]] = {name: [] for name in ways}
    written: dict[str, list[float]] = {name: [] for name in ways}
    sizes: dict[str, int] = {}
    names = ("user", "kernel.read", "kernel.futex", "ready", "wait.futex", "irq.timer")
    for second in range(61):
        start, end = second * 10**9, (second + 1) * 10**9
        threads = tuple(
            Thread(tid, tid, f"worker-{tid % 50}", 0, start, None, end, end - start, {n: Cell(1000, 5) for n in names})
            for tid in range(1, THREADS + 1)
        )
        ledger = Ledger("bpf", Window(start, end), threads, overhead=Overhead(0, 0))
        for name, totals in ways.items():
            before = time.process_time()
            totals.add(ledger)
            took[name].append((time.process_time() - before) * 1000)
            if second % 10 == 0:
                snapshot = totals.snapshot()
                before = time.process_time()
                text = write(families(snapshot))
                written[name].append((time.process_time() - before) * 1000)
                sizes[name] = len(gzip.compress(text.encode(), 1))
    rows = [
        [
            name,
            f"{took[name][0]:.1f} ms",
            f"{statistics.median(took[name][1:]):.1f} ms",
            f"{statistics.median(written[name]):.1f} ms",
            f"{sizes[name] / 1024:.0f} KiB",
        ]
        for name in ("without", "with")
    ]
    print(f"\n### Labels of control groups: {THREADS:,} processes, a reading each second for a minute\n")
    print(table(["labels", "adding up, the first time", "later (median)", "writing", "an answer, compressed"], rows))


def main() -> None:
    """Print the tables."""
    print("\n## Serving")
    with compiled("many") as path:
        many_scrapes(path)
        births(path)
    beside()
    writing()
    places()
    print(f"\n({load()} at the end)")


if __name__ == "__main__":
    print(heading())
    main()
