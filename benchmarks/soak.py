"""headway beside short-lived processes for hours: whether its memory stays flat, and its figures stay true.

Run it as root: ``python -m benchmarks.soak [MINUTES]``, or with MINUTES in the environment; without, two hours.
``headway serve -a`` and ``headway record -a --flight-recorder 60`` run beside a process that starts others, each with a
name and a control group of its own. The server forgets series after 60 s, too. The exit status is 1 if one of these
does not hold:

- Memory: after the first fifth of the time, the median resident memory of each tenth of the rest is within 5 % of the
  median of all.
- Counters: no counter of the metrics goes down from one scrape to the next, and none of the machine disappears.
- Sums: the states of each processor add up to the time measured, in each scrape and in the recording; and that time
  grows as the clock does.
"""

from __future__ import annotations

import http.client
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from headway.linux.procfs.mounts import mounts
from headway.model import violations
from headway.recording.reader import Recording
from headway.views.losses import named_losses

from .common import heading, load, table
from .serve import HEADWAY, Served, serving

MINUTES = float(os.environ.get("MINUTES", "120"))
SECONDS_OF_A_SCRAPE = 5.0
KEPT_SECONDS = 60
"""So long the flight recorder keeps rows, and the server the series of what has ended."""
BIRTHS_A_SECOND = 20
NAMES = 100_000
"""The processes have so many names in turn."""
FLAT = 0.05
"""How far the memory of a tenth of the time may be from that of all of it."""
WARMING = 0.2
"""The part of the time in which memory may grow."""
CLOCKS = 0.01
"""Seconds by which the time measured and the clock may differ between two scrapes: two clocks, and NTP."""
_LINE = re.compile(r"^(\w+_total)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_MAY_GO = re.compile(r"headway_(?:thread|task|process)_|headway_departed_thread_index_")
"""Counters that may disappear: of threads and processes, when those have ended, and of an index that cannot be had."""


class _Births:
    """A process that starts others, one after the other, each in a control group of its own where one can be made."""

    def __init__(self) -> None:
        self._top = next((Path(mount.point) for mount in mounts() if mount.kind == "cgroup2"), None)

    def run(self) -> None:
        """Start them until this process is ended, or nobody waits for it any more."""
        parent, due = os.getppid(), time.monotonic()
        for number in count():
            if os.getppid() != parent:
                return
            self._one(number)
            # The rate is to be the same all the time: the server's memory follows from it.
            due = max(due + 1 / BIRTHS_A_SECOND, time.monotonic() - 1)
            time.sleep(max(due - time.monotonic(), 0))

    def _one(self, number: int) -> None:
        group = None if self._top is None else self._top / f"headway-soak-{os.getpid()}-{number}"
        with suppress(OSError):
            if group is not None:
                group.mkdir()
        pid = os.fork()
        if pid == 0:
            self._live(number, group)
        os.waitpid(pid, 0)
        with suppress(OSError):
            if group is not None:
                group.rmdir()

    def _live(self, number: int, group: Path | None) -> None:
        with suppress(OSError):
            Path("/proc/self/comm").write_text(f"soak-{number % NAMES}")
            if group is not None:
                (group / "cgroup.procs").write_text("0")
        until = time.process_time() + 0.001
        while time.process_time() < until:
            pass
        os._exit(0)


@contextmanager
def _births() -> Iterator[None]:
    pid = os.fork()
    if pid == 0:
        try:
            _Births().run()
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, 15)
        os.waitpid(pid, 0)


@contextmanager
def _recording(path: Path) -> Iterator[int]:
    """Record the machine as a flight recorder does. Yields the recorder's PID, and has it close the recording."""
    words = [*HEADWAY, "record", "-a", "-q", "--flight-recorder", str(KEPT_SECONDS), "-o", str(path)]
    recorder = subprocess.Popen(words)
    try:
        yield recorder.pid
    finally:
        recorder.terminate()
        if recorder.wait():
            raise SystemExit(f"headway record ended with {recorder.returncode}")


@dataclass
class _Scrape:
    """What one scrape told."""

    at: float
    """When the reading was made: seconds since the epoch."""
    counters: dict[tuple[str, str], float]
    """By name and labels."""

    @classmethod
    def of(cls, text: str) -> _Scrape:
        found = re.search(r"^headway_reading_timestamp_seconds (\S+)$", text, re.MULTILINE)
        assert found
        return cls(float(found[1]), {(name, labels): float(value) for name, labels, value in _LINE.findall(text)})

    @property
    def measured(self) -> float:
        return self.counters["headway_measured_seconds_total", ""]

    def processors(self) -> dict[str, float]:
        """Return the sum of the states of each processor, s."""
        sums: Counter[str] = Counter()
        for (name, labels), value in self.counters.items():
            if name == "headway_processor_state_seconds_total":
                sums[labels.partition(",")[0]] += value  # type: ignore[assignment]
        return dict(sums)


@dataclass
class _Laws:
    """What was wrong, by law."""

    scrapes: int = 0
    lower: list[str] = field(default_factory=list)
    """Counters that went down, or of the machine and disappeared."""
    sums: list[str] = field(default_factory=list)
    """Processors whose states do not add up to the time measured, and readings that grew unlike the clock."""
    before: _Scrape | None = None

    def check(self, scrape: _Scrape) -> None:
        """Compare a scrape with the last one, and with itself."""
        self.scrapes += 1
        if self.before is not None:
            self._compare(self.before, scrape)
        for cpu, total in scrape.processors().items():
            if abs(total - scrape.measured) > 1e-6:
                self.sums.append(f"{cpu}: {total} s of {scrape.measured} s")
        self.before = scrape

    def _compare(self, before: _Scrape, now: _Scrape) -> None:
        for key, value in before.counters.items():
            found = now.counters.get(key)
            if found is None and not _MAY_GO.match(key[0]):
                self.lower.append(f"{key[0]}{{{key[1]}}} is gone")
            if found is not None and found < value:
                self.lower.append(f"{key[0]}{{{key[1]}}}: {value} and then {found}")
        elapsed, measured = now.at - before.at, now.measured - before.measured
        if abs(elapsed - measured) > CLOCKS:
            self.sums.append(f"{measured} s measured in {elapsed} s")


def _scrape(server: Served) -> _Scrape:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        return _Scrape.of(answer.read().decode())
    finally:
        connection.close()


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _tenths(sizes: Sequence[int]) -> tuple[float, list[float]]:
    """Return the median after warming up, and that of each tenth of the time."""
    warm = sizes[int(len(sizes) * WARMING) :]
    edges = [len(warm) * number // 10 for number in range(11)]
    return statistics.median(warm), [statistics.median(warm[a:b]) for a, b in pairwise(edges) if a < b]


def _soak(seconds: float, path: Path) -> tuple[dict[str, list[int]], _Laws]:
    """Return the sizes in bytes by process, and what was wrong with the metrics."""
    sizes: dict[str, list[int]] = {}
    laws = _Laws()
    with _births(), serving(["-a", "--metric-expiration", str(KEPT_SECONDS)]) as server, _recording(path) as recorder:
        processes = {"serve, measuring": server.pids[0], "serve, serving": server.pids[1], "record": recorder}
        end = time.monotonic() + seconds
        while (due := time.monotonic() + SECONDS_OF_A_SCRAPE) < end:
            laws.check(_scrape(server))
            for name, pid in processes.items():
                sizes.setdefault(name, []).append(_resident(pid))
            time.sleep(max(due - time.monotonic(), 0))
    return sizes, laws


def _recorded(path: Path) -> tuple[list[str], str]:
    """Return what is wrong with the recording, and what it has in words."""
    with Recording(path) as recording:
        ledger = recording.ledger()
        window = ledger.window.duration
        wrong = [*map(str, violations(ledger)), *(f"{name}: {why}" for name, why in recording.damaged.items())]
        for processor in ledger.processors:
            total = sum(cell.time for cell in processor.states.values())
            if total != window:
                wrong.append(f"processor {processor.cpu}: {total} ns of {window} ns")
        lost = named_losses(recording.losses()) or "0"
        return wrong, f"{recording.rows:,} rows, {window / 1e9:.1f} s; lost: {lost}"


def main(minutes: float = MINUTES) -> None:
    """Print the table. Raises SystemExit if a law does not hold."""
    print(f"\n## A soak of {minutes:g} minutes\n\n{heading()} ({load()} at the beginning)\n", flush=True)
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "run.hw"
        sizes, laws = _soak(minutes * 60, path)
        wrong, words = _recorded(path)
    rows, flat = [], True
    for name, found in sizes.items():
        median, tenths = _tenths(found)
        low, high = min(tenths) / median - 1, max(tenths) / median - 1
        flat &= -FLAT <= low <= high <= FLAT
        rows.append([f"{name}, resident", f"{median / 2**20:.1f} MiB", f"{low * 100:+.1f} % to {high * 100:+.1f} %"])
    rows.append(["counters that went down", f"{len(laws.lower)}", f"{laws.scrapes} scrapes"])
    rows.append(["sums that are not the time", f"{len(laws.sums)}", f"{laws.scrapes} scrapes"])
    rows.append(["laws that the recording breaks", f"{len(wrong)}", words])
    print(table(["what", "found", "within"], rows))
    for one in (*laws.lower[:5], *laws.sums[:5], *wrong[:5]):
        print(one)
    if not flat or laws.lower or laws.sums or wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else MINUTES)
