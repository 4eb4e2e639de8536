"""The accuracy of ``headway cpu``: known duty cycles, skew, injected disturbances, and its own cost.

A program keeps a processor busy in bursts and records when it was (bursts.c). The processor was busy at least that
long, because the kernel's work to wake it and to put it to sleep counts as well. It was busy at most as long as cpuidle
does not count as idle, plus interrupts, which cpuidle counts as idle where they end a HLT. The truth lies in between,
and the error of a tool is how far it is outside. Beside headway is the figure of /proc/stat for the same intervals,
which top, mpstat and psutil show. Intervals in which the two bounds are far apart, because something else ran, are
measured again, and counted.
"""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

from headway.linux.procfs.processors import online
from headway.model import Sample, interrupt_time
from headway.processors._meeting import Meeting
from headway.processors.busy import parse_stat
from headway.processors.frequency import by_chain
from headway.processors.observer import ProcessorObserver, clock

from .common import compiled, heading, load, table

INTERVAL = 300_000_000
REPEATS = 8
MAX_TRIES = 40
QUIET, WAKING = 0.01, 25_000
"""The distance that the bounds may have, and ns to add for each burst."""
MS = 1_000_000

SHAPES = (
    ("nothing", 0, 100 * MS),
    ("1 %, bursts of 50 µs", 50_000, 5 * MS),
    ("1 %, bursts of 1 ms", MS, 100 * MS),
    ("10 %, bursts of 50 µs", 50_000, 500_000),
    ("10 %, bursts of 1 ms", MS, 10 * MS),
    ("10 %, bursts of 10 ms", 10 * MS, 100 * MS),
    ("50 %, bursts of 50 µs", 50_000, 100_000),
    ("50 %, bursts of 1 ms", MS, 2 * MS),
    ("50 %, bursts of 50 ms", 50 * MS, 100 * MS),
    ("99 %, bursts of 50 ms", 49_500_000, 50 * MS),
    ("100 %", 100 * MS, 100 * MS),
)


class Bursts:
    """The running program, and its account of when it was busy."""

    def __init__(self, program: Path, cpu: int, burst: int, period: int, phase: int = 0) -> None:
        words = [str(program), *map(str, (cpu, burst, period, phase))]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def busy(self, since: int, until: int) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{since} {until}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def by_ticks(before: str, after: str, cpu: int) -> float:
    """Return what top computes from two readings of /proc/stat; stolen time is not idle."""
    old, new = parse_stat(before)[cpu], parse_stat(after)[cpu]
    busy = sum(getattr(new, name) - getattr(old, name) for name in ("user", "system", "irq", "softirq", "stolen"))
    idle = new.idle - old.idle
    return busy / (busy + idle) if busy + idle else 0.0


@contextmanager
def observing(**how: str) -> Iterator[ProcessorObserver]:
    observer = ProcessorObserver(online(), **how)  # type: ignore[arg-type]
    try:
        observer.begin()
        yield observer
    finally:
        observer.close()


def sampled(observer: ProcessorObserver) -> tuple[Sample, str, str]:
    """Return a sample of one interval, and /proc/stat at its ends."""
    start = observer.sample()
    before = Path("/proc/stat").read_text()
    moment = start.end + INTERVAL
    time.sleep(max(0.0, (moment - clock()) / 1e9 - 0.0006))
    sample = observer.sample(moment)
    return sample, before, Path("/proc/stat").read_text()


@dataclass(frozen=True, slots=True)
class Interval:
    """The figures for one interval: how much of it the processor was not idle, in per cent."""

    least: float
    """The program's own account."""
    most: float
    """The time that cpuidle does not count as idle, plus interrupts: one ends each HLT within the idle state's time."""
    ours: float
    """headway's figure, including stolen time, which the program cannot tell from its own."""
    ticks: float

    def outside(self, figure: float) -> float:
        """Return how far a figure is outside what can be true, in percentage points."""
        return max(0.0, self.least - figure, figure - self.most)


def interval(bursts: Bursts, observer: ProcessorObserver, cpu: int) -> Interval | None:
    """Return one interval; None if headway dropped it, or if cpuidle gives nothing."""
    sample, before, after = sampled(observer)
    row = next(row for row in sample.processors if row.cpu == cpu)
    if row.halted is None or not row.span or not row.idle or None in row.idle.values():
        return None
    least = bursts.busy(sample.end - row.span, sample.end) / row.span
    asleep = sum(time for time in row.idle.values() if time is not None) - interrupt_time(row.states)
    most = 1 - asleep / row.span
    ours, ticks = 1 - row.halted / row.span, by_ticks(before, after, cpu)
    return Interval(least * 100, most * 100, ours * 100, ticks * 100)


def is_quiet(each: Interval, burst: int, period: int) -> bool:
    return each.most - each.least <= 100 * (QUIET + (WAKING / period if 0 < burst < period else 0))


def duty(program: Path, cpu: int, burst: int, period: int, phase: int = 0) -> tuple[list[Interval], int]:
    """Return the quiet intervals, and the number of those that were not quiet."""
    found: list[Interval] = []
    noisy = 0
    bursts = Bursts(program, cpu, burst, period, phase)
    try:
        with observing() as observer:
            while len(found) < REPEATS and noisy < MAX_TRIES:
                each = interval(bursts, observer, cpu)
                if each is not None and is_quiet(each, burst, period):
                    found.append(each)
                else:
                    noisy += 1
    finally:
        bursts.close()
    return found, noisy


TITLES = ("busy", "at least", "at most", "headway", "/proc/stat", "headway outside", "/proc/stat outside", "intervals")


def row_of(name: str, found: list[Interval], noisy: int) -> list[str]:
    count = f"{len(found)} of {len(found) + noisy}"
    if not found:
        return [name, *["–"] * 6, count]
    means = (mean(getattr(each, figure) for each in found) for figure in ("least", "most", "ours", "ticks"))
    worst = (max(each.outside(each.ours) for each in found), max(each.outside(each.ticks) for each in found))
    return [name, *(f"{value:.2f}" for value in (*means, *worst)), count]


def duties(program: Path, cpu: int) -> None:
    rows = [row_of(name, *duty(program, cpu, burst, period)) for name, burst, period in SHAPES]
    tick = 1_000_000_000 // tick_rate()
    for name, burst in (("between the ticks", tick * 3 // 4), ("at the ticks", tick // 4)):
        seen = [(_ticks_seen(program, cpu, burst, tick, phase), phase) for phase in range(0, tick, tick // 8)]
        phase = (min if name.startswith("between") else max)(seen)[1]
        rows.append(row_of(f"{burst / tick:.0%}, {name}", *duty(program, cpu, burst, tick, phase)))
    print("Per cent not idle, means of the quiet intervals; outside what can be true: percentage points, the worst.\n")
    print(table(TITLES, rows), flush=True)


def tick_rate() -> int:
    """Return the timer ticks a second, from CONFIG_HZ if that can be read; otherwise 250."""
    for path in (Path("/proc/config.gz"), Path(f"/boot/config-{os.uname().release}")):
        with suppress(OSError):
            data = path.read_bytes()
            text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="replace")
            for line in text.splitlines():
                if line.startswith("CONFIG_HZ="):
                    return int(line.partition("=")[2])
    return 250


def _ticks_seen(program: Path, cpu: int, burst: int, period: int, phase: int) -> float:
    bursts = Bursts(program, cpu, burst, period, phase)
    try:
        time.sleep(0.05)
        before = Path("/proc/stat").read_text()
        time.sleep(0.4)
        return by_ticks(before, Path("/proc/stat").read_text(), cpu)
    finally:
        bursts.close()


def in_turn() -> int:
    """Return the skew in ns of a reader that goes to one processor after the other."""
    allowed = os.sched_getaffinity(0)
    stamps = []
    for cpu in sorted(allowed):
        os.sched_setaffinity(0, {cpu})
        stamps.append(clock())
    os.sched_setaffinity(0, allowed)
    return stamps[-1] - stamps[0]


def by_threads(meeting: Meeting) -> int:
    """Return the skew in ns of threads, one a processor, that are woken together without waiting for each other."""
    meeting.attempt(clock() + 250_000)
    there = [s.arrived for s in meeting.stamps() if s is not None]
    return max(there) - min(there)


def distribution(values: Sequence[float], scale: float = 1e3) -> list[str]:
    ordered = sorted(values)
    picked = (median(ordered), ordered[int(0.99 * (len(ordered) - 1))], ordered[-1])
    return [f"{value / scale:.2f}" for value in picked]


def skews(count: int = 200) -> None:
    rows = []
    for name, how in (("headway, root", {}), ("headway, unprivileged", {"source": "proc", "fifo": False})):
        with observing(**how) as observer:  # type: ignore[arg-type]
            samples = []
            for _ in range(count):
                time.sleep(0.02)
                samples.append(observer.sample())
        skew = [sample.skew for sample in samples if sample.skew is not None]
        held = [sample.held for sample in samples if sample.held is not None]
        rows.append([f"{name}: skew", *distribution(skew), str(len(skew))])
        rows.append([f"{name}: held", *distribution(held), str(len(held))])
        dropped = sum(sum(sample.dropped.values()) for sample in samples)
        print(f"{name}: {dropped} meetings tried again for {count} readings")
    rows.append(["one processor after the other", *distribution([in_turn() for _ in range(count)]), str(count)])
    with closing(Meeting(online())) as meeting:
        meeting.start()
        meeting.set_limits(patience=0, wait=0, chain=0)
        rows.append(["threads woken together", *distribution([by_threads(meeting) for _ in range(count)]), str(count)])
    print("\n" + table(("µs", "median", "99 %", "worst", "readings"), rows), flush=True)


def frequencies(samples: Sequence[Sample]) -> list[float]:
    return [row.actual_hz for sample in samples for row in sample.processors if row.actual_hz is not None]


def disturbed(count: int = 12) -> None:
    """Print how many readings are dropped, and how many wrong figures remain, if a reader is disturbed on purpose."""
    with observing() as observer:
        undisturbed = []
        for _ in range(20):
            time.sleep(0.03)
            undisturbed.append(observer.sample())
        usual = median(frequencies(undisturbed))
        rows = []
        for name, inject, reasons in (
            ("reader's process stopped", _stop, ("late", "skew")),
            ("reader bound elsewhere", _move, ("moved",)),
            ("its processor taken (SCHED_FIFO 99)", _take, ("absent", "preempted", "interrupted", "late")),
            ("the same for 60 µs, in the meeting", _prick, ("absent", "preempted", "interrupted", "late", "skew")),
        ):
            hit = dropped = wrong = accepted = 0
            for _ in range(count):
                observer.sample()
                moment = clock() + 40 * MS
                undo = inject(observer, moment)
                time.sleep(max(0.0, (moment - clock()) / 1e9 - 0.0006))
                sample = observer.sample(moment, 15 * MS)
                undo()
                hit += 1
                dropped += any(sample.dropped.get(reason) for reason in reasons)
                for row in sample.processors:
                    accepted += row.dropped is None
                    wrong += row.actual_hz is not None and abs(row.actual_hz / usual - 1) > 0.1
                time.sleep(0.02)
                observer.sample()
            rows.append([name, str(hit), str(dropped), str(accepted), str(wrong)])
    titles = ("injected", "times", "a reading dropped", "figures after trying again", "frequencies off by 10 %")
    print(table(titles, rows), flush=True)


def _stop(observer: ProcessorObserver, moment: int) -> Callable[[], None]:
    """Let another process stop this one across the moment of the reading."""
    return _forked(lambda: _stop_and_go(os.getppid(), moment))


def _stop_and_go(pid: int, moment: int) -> None:
    time.sleep(max(0.0, (moment - 10 * MS - clock()) / 1e9))
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.06)
    os.kill(pid, signal.SIGCONT)


def _forked(work: Callable[[], None]) -> Callable[[], None]:
    """Do the work in a process of its own; return a function that waits for its end."""
    pid = os.fork()
    if pid == 0:
        with suppress(OSError):
            work()
        os._exit(0)

    def wait() -> None:
        os.waitpid(pid, 0)

    return wait


def _move(observer: ProcessorObserver, moment: int) -> Callable[[], None]:
    cpus = online()
    cpu = random.choice(cpus)
    os.sched_setaffinity(observer.tids()[cpu], {other for other in cpus if other != cpu})
    return lambda: None


def _hog(cpu: int, start: int, length: int) -> Callable[[], None]:
    def work() -> None:
        os.sched_setaffinity(0, {cpu})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
        time.sleep(max(0.0, (start - clock()) / 1e9))
        while clock() < start + length:
            pass

    return _forked(work)


def _take(observer: ProcessorObserver, moment: int) -> Callable[[], None]:
    return _hog(random.choice(online()), moment - 5 * MS, 40 * MS)


def _prick(observer: ProcessorObserver, moment: int) -> Callable[[], None]:
    return _hog(random.choice(online()), moment + random.randrange(-60_000, 10_000), 60_000)


def probe(count: int = 60) -> None:
    """Print how the chain timed in a meeting differs from one a thousand times as long, right after it."""
    ratios = []
    with closing(Meeting(online()[-1:])) as meeting:
        meeting.start()
        for _ in range(count):
            found = []
            for length in (6_144, 6_144_000):
                meeting.set_limits(patience=10_000, wait=400_000, chain=length)
                meeting.attempt(clock() + 250_000, deadline=50 * MS)
                stamps = meeting.stamps()[0]
                found.append(by_chain(stamps.chains, length) if stamps is not None and stamps.met else None)
            if found[0] is not None and found[1] is not None:
                ratios.append(abs(found[0] / found[1] - 1) * 100)
            time.sleep(0.01)
    rows = [["off by, %", *distribution(ratios, 1.0), f"{len(ratios)} of {count}"]]
    print(table(("frequency by a chain of 1.5 µs", "median", "99 %", "worst", "both undisturbed"), rows), flush=True)


FLOOR = """
import select, sys
with open(sys.argv[1], "w") as report:
    while True:
        select.select([], [], [], 0.3)
        report.write("x" * 1000 + "\\n")
        report.flush()
"""
"""A process that only sleeps and writes a line each 300 ms, which no Python program can undercut."""


def own_use(seconds: float = 5.0, rounds: int = 3) -> None:
    programs = {
        "a line each 300 ms, nothing else": [sys.executable, "-c", FLOOR],
        "headway, JSON": ["headway", "cpu", "-I", "300", "--json", "-o"],
        "headway, table": ["headway", "cpu", "-I", "300", "-o"],
        "headway, table, unprivileged": ["headway", "cpu", "-I", "300", "--source", "proc", "-o"],
    }
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, command in programs.items():
            found[name].append(_share(command, seconds))
    rows = [[name, f"{median(each) * 0.3 * 1e6:.0f} µs", f"{median(each):.2%}"] for name, each in found.items()]
    print(table(("report each 300 ms", "processor time a report", "of one processor"), rows), flush=True)


def _share(command: Sequence[str], seconds: float) -> float:
    """Return the share of a processor that all threads of a program take, once it writes reports to the given file."""
    with TemporaryDirectory() as folder:
        report = Path(folder, "report")
        process = subprocess.Popen([*command, str(report)], stderr=subprocess.DEVNULL)
        try:
            while not report.exists() or report.stat().st_size < 1000:
                time.sleep(0.1)
            time.sleep(1.0)
            before, start = _run_time(process.pid), time.monotonic()
            time.sleep(seconds)
            return (_run_time(process.pid) - before) / (time.monotonic() - start)
        finally:
            process.terminate()
            process.wait()


def _run_time(pid: int) -> float:
    """Return the run time of all threads of a process in s (from schedstat, in ns)."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def main() -> None:
    """Print all tables as Markdown."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(f"\n## Utilisation of processors\n\n{heading()}; {load()}\n", flush=True)
    with compiled("bursts") as program:
        duties(program, online()[-1])
    print(f"\n{load()}\n", flush=True)
    skews()
    print(flush=True)
    disturbed()
    print(flush=True)
    probe()
    print(f"\n{load()}\n", flush=True)
    own_use()


if __name__ == "__main__":
    main()
