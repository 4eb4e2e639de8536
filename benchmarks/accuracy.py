"""The difference between headway's figures and those that a program, or the kernel, knows itself.

Each thread reads its own clock as its last act and then blocks. The kernel's sum_exec_runtime (schedstat) and headway's
reading can then be taken while nothing moves. All three cover the same span, from the thread's birth to that block; the
thread's own clock covers a microsecond or two less.
"""

from __future__ import annotations

import signal
import statistics
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from headway.demo import Truth, program
from headway.linux.options import Selection
from headway.linux.sources.ebpf import BpfSource
from headway.model import Kind, Ledger, Thread, interrupt_time, processor_time, violations
from headway.session.child import SuspendedChild
from headway.session.measure import observe_command

from .common import compiled, heading, load, table

SCENARIOS = (
    ("one computing", "compute", 1),
    ("two computing, a processor each", "apart-compute", 2),
    ("16 computing and yielding", "yield", 16),
    ("16 computing 0.2 ms, sleeping 1 ms", "wake", 16),
    ("pipe ping-pong on one processor", "pingpong", 2),
    ("pipe ping-pong across two", "apart-pingpong", 2),
    ("one sleeping, one computing, one processor", "beside", 2),
    ("one sleeping 5 ms at a time", "sleep", 1),
)
MILLISECONDS = 3000
ROUNDS = 5
CALLS, PAGES = 300_000, 20_000
"""The same numbers as in workers.c."""


@dataclass
class Conservation:
    """How often the law of conservation was checked and broken, and what was lost."""

    threads: int = 0
    processors: int = 0
    readings: int = 0
    broken: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)

    def check(self, ledger: Ledger) -> None:
        """Check one more ledger, and add up its losses."""
        self.readings += 1
        self.threads += len(ledger.threads)
        self.processors += len(ledger.processors)
        self.broken += violations(ledger)
        for name, count in ledger.losses.items():
            if count:
                self.lost[name] = self.lost.get(name, 0) + count


@dataclass(frozen=True)
class Compared:
    """The processor time of one thread in ns by each clock, and what the thread counted itself."""

    headway: int
    stolen: int
    kernel: int
    own: int
    wakes: int
    switches: int
    faults: int
    calls: int
    ready: int
    """The time in which it was ready, by headway."""
    seen: Thread


def run(path: Path, scenario: str, threads: int, checks: Conservation) -> list[Compared]:
    """Run one scenario under headway. Return its threads, all of which block after their work."""
    with tempfile.TemporaryFile("w+") as output:
        child = SuspendedChild([str(path), scenario, str(threads), str(MILLISECONDS)], output.fileno())
        source = BpfSource(Selection(command=child.pid), intervals=True)
        source.begin()
        try:
            child.release()
            text = ""
            while "done" not in text:
                source.service()
                time.sleep(0.05)
                output.seek(0)
                text = output.read()
            rows = [[int(word) for word in line.split()] for line in text.splitlines() if line != "done"]
            ledger = source.read()
            checks.check(ledger)
            by_tid = {thread.tid: thread for thread in ledger.threads}
            result = [_compare(by_tid[row[0]], row) for row in rows]
            child.send(signal.SIGTERM)
            while not child.has_ended:
                time.sleep(0.01)
            source.wait_until_exit_is_seen(child.pid)
            checks.check(source.end())
            child.wait()
        finally:
            source.close()
    return result


def _compare(seen: Thread, row: list[int]) -> Compared:
    tid, own, faults, calls = row
    folder = Path(f"/proc/{seen.pid}/task/{tid}")
    runtime, _, _ = map(int, (folder / "schedstat").read_text().split())
    status = dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line)
    wakes = int(status["voluntary_ctxt_switches"])
    switches = wakes + int(status["nonvoluntary_ctxt_switches"])
    times = seen.times()
    stolen = times[Kind.STOLEN]
    had = processor_time(times) + times[Kind.OVERHEAD] + stolen
    return Compared(had, stolen, runtime, own, wakes, switches, faults, calls, times[Kind.READY], seen)


def _difference(apart: int, of: int) -> str:
    return f"{apart / 1000:+,.1f} µs ({apart / of * 100:+.3f} %)"


def _within(apart: int, of: int) -> bool:
    return abs(apart) <= max(50_000, of / 1000)


def processor_times(path: Path, checks: Conservation) -> None:
    """Print RPI + stolen beside the two clocks, for each thread and for all together."""
    rows = []
    details = []
    beside = []
    for title, scenario, threads in SCENARIOS:
        runs = [run(path, scenario, threads, checks) for _ in range(3)]
        every = [thread for found in runs for thread in found]
        within = sum(_within(t.headway - t.own, t.own) for t in every)
        within_kernel = sum(_within(t.headway - t.kernel, t.kernel) for t in every)
        worst = max(every, key=lambda t: abs(t.headway - t.own) / t.own)
        sums = [
            (sum(t.headway for t in r), sum(t.own for t in r), sum(t.kernel for t in r), sum(t.stolen for t in r))
            for r in runs
        ]
        middle = sorted(sums, key=lambda s: (s[0] - s[1]) / s[1])[1]
        rows.append(
            [
                title,
                f"{within} / {len(every)}",
                f"{within_kernel} / {len(every)}",
                _difference(worst.headway - worst.own, worst.own),
                _difference(middle[0] - middle[1], middle[1]),
                f"{statistics.median((h - s - o) / o for h, o, _, s in sums) * 100:+.3f} %",
                _difference(middle[0] - middle[2], middle[2]),
            ]
        )
        wakes, switches = sum(t.wakes for t in every), sum(t.switches for t in every)
        missing = sum(t.own - t.headway for t in every)
        details.append(
            [
                title,
                f"{statistics.median(t.own for t in every) / 1e6:,.1f} ms",
                f"{wakes:,}",
                f"{switches:,}",
                f"{missing / wakes / 1000:+.2f} µs" if wakes else "–",
                f"{missing / switches / 1000:+.2f} µs" if switches else "–",
                f"{sum(t.ready for t in every) / switches / 1000:.2f} µs" if switches else "–",
                f"{sum(t.stolen for t in every) / 1e6:.3f} ms",
                f"{sum(interrupt_time(t.seen.states) for t in every) / 1e6:.1f} ms",
            ]
        )
        if scenario == "beside":
            wake_ups = sum(sleeper.wakes for _, sleeper in runs)
            for who, number in (("the one computing", 0), ("the one sleeping", 1)):
                had = [found[number] for found in runs]
                apart = sum(t.headway - t.stolen - t.own for t in had)
                own = statistics.median(t.own for t in had)
                beside.append([who, f"{own / 1e6:,.1f} ms", f"{apart / wake_ups / 1000:+.2f} µs"])
    print("\n### RPI + stolen against the thread's own clock and sum_exec_runtime\n")
    print("Within: 0.1 % or 50 µs, whichever is more. All together: the median of three runs.\n")
    titles = [
        "threads",
        "within, own",
        "within, kernel",
        "worst thread, own",
        "all together, own",
        "…, RPI only",
        "…, sum_exec_runtime",
    ]
    print(table(titles, rows))
    print("\nWhere the difference comes from (own clock less headway, over all threads and runs):\n")
    titles = [
        "threads",
        "each had",
        "waits",
        "switches",
        "difference per wait",
        "per switch",
        "ready per switch",
        "stolen",
        "in interrupts",
    ]
    print(table(titles, details))
    print("\nOne sleeping, one computing, one processor: RPI less own clock, for each time the sleeping one wakes:\n")
    print(table(["thread", "had", "difference per wake-up"], beside))


def split(checks: Conservation) -> None:
    """Print user and kernel time of the thread that works between ticks, by headway and by the kernel's accounting."""
    rows = []
    errors: list[tuple[float, float, float, float]] = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryFile("w+") as output:
            ledger, _ = observe_command(
                [str(program()), "--only", "dodger", "--seconds", "4"], prefer="bpf", stdout=output.fileno()
            )
            output.seek(0)
            truth = Truth.parse(output.read())
        checks.check(ledger)
        figures = truth.threads[0].figures
        assert figures is not None
        assert figures.user_ns
        assert figures.kernel_ns
        assert figures.tick_user_ns is not None
        assert figures.tick_kernel_ns is not None
        (seen,) = (t for t in ledger.threads if t.tid == truth.threads[0].tid)
        times = seen.times()
        user = times[Kind.EFFECTIVE]
        kernel = times[Kind.KERNEL] + times[Kind.OVERHEAD]
        interrupts = interrupt_time(seen.states)
        errors.append(
            (
                user / figures.user_ns - 1,
                kernel / figures.kernel_ns - 1,
                figures.tick_user_ns / figures.user_ns - 1,
                figures.tick_kernel_ns / figures.kernel_ns - 1,
            )
        )
        rows.append(
            [
                *(f"{value / 1e6:.2f}" for value in (figures.user_ns, user)),
                f"{errors[-1][0] * 100:+.2f} %",
                f"{figures.tick_user_ns / 1e6:.0f} ({errors[-1][2] * 100:+.0f} %)",
                *(f"{value / 1e6:.2f}" for value in (figures.kernel_ns, kernel)),
                f"{errors[-1][1] * 100:+.2f} %",
                f"{figures.tick_kernel_ns / 1e6:.0f} ({errors[-1][3] * 100:+.0f} %)",
                f"{interrupts / 1e6:.2f}",
                f"{times[Kind.READY] / 1e6:.2f}",
                f"{(user - figures.user_ns) / 1000 / (figures.bursts or 1):.1f} µs",
            ]
        )
    print("\n### User and kernel time of a thread that works only between two ticks (ms)\n")
    titles = ["user: truth", "headway", "error", "getrusage", "kernel: truth", "headway", "error", "getrusage"]
    print(table([*titles, "in interrupts", "ready", "user error per burst"], rows))
    medians = [statistics.median(abs(e[i]) for e in errors) * 100 for i in range(4)]
    print(
        f"\nMedian error of {ROUNDS} runs: user {medians[0]:.2f} %, kernel {medians[1]:.2f} %; "
        f"of the kernel's own accounting: user {medians[2]:.0f} %, kernel {medians[3]:.0f} %."
    )


def counts(path: Path, checks: Conservation) -> None:
    """Print the numbers of system calls and page faults by headway, and as known otherwise."""
    rows = []
    (calls,) = run(path, "calls", 1, checks)
    getppid = calls.seen.states["kernel.getppid"].count
    rows.append(["getppid calls", f"{CALLS:,} (its loop)", f"{getppid:,}"])
    for title, scenario in (
        ("page faults, 20,000 fresh pages", "faults"),
        ("page faults of a thread of calls", "calls"),
    ):
        (faults,) = run(path, scenario, 1, checks)
        counted = sum(cell.count or 0 for state, cell in faults.seen.states.items() if state.startswith("kernel.fault"))
        rows.append([title, f"{faults.faults:,} (getrusage)", f"{counted:,}"])
    (pair, other) = run(path, "apart-pingpong", 2, checks)
    reads = other.seen.states["kernel.read"].count or 0
    writes = pair.seen.states["kernel.write"].count
    rows.append(["writes of one, reads of the other", f"{reads:,} (reads)", f"{writes:,} (writes)"])
    print("\n### Counts\n")
    print(table(["what", "known", "headway"], rows))


def conservation(checks: Conservation) -> None:
    """Print the result of all checks of conservation."""
    print("\n### Conservation\n")
    print(
        f"{checks.readings} readings: {checks.threads:,} threads and {checks.processors:,} processors, whose states "
        f"must add up to their spans to the nanosecond: {len(checks.broken)} do not."
    )
    for line in checks.broken[:10]:
        print(f"- {line}")
    lost: Iterable[str] = (f"{name} {count:,}" for name, count in checks.lost.items())
    print(f"Lost: {', '.join(lost) or 'nothing'}.")


def main() -> None:
    """Print the tables."""
    print("\n## Accuracy")
    checks = Conservation()
    with compiled("workers") as path:
        processor_times(path, checks)
        split(checks)
        counts(path, checks)
    conservation(checks)
    print(f"\n({load()} at the end)")


if __name__ == "__main__":
    print(heading())
    main()
