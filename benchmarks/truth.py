"""Is what headway says of a program what the program did? Programs whose doing is known, each beside its row.

Each program goes one way into the kernel, or waits for one thing, and does next to nothing of its own
(``ways_into_the_kernel.c``, ``waits_around_calls.c``, ``deadline.c`` of the tests). So progress (EPI) is to be small
beside what the kernel did, and the wait or the end is to have its name. A row is right where its state is there and EPI
is at most a fifth of the thread's time in the kernel or, of short ways, at most `EDGE` for each time that the
thread goes.

``python -m benchmarks.truth``, as root. The exit status is 1 if a row is wrong.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headway.linux.options import Selection
from headway.model import Kind, Ledger, Thread
from headway.session.measure import observe

from .common import heading, load, table

PROGRAMS = Path(__file__).parents[1] / "packages/headway/tests/programs"
EDGE, EDGE_CALLS = 2_000, 14
"""ns, or on a slower machine so many times what a call that does next to nothing (getppid) has in EPI: what is outside
the kernel's tracepoints at up to four calls, a fault and a signal, with the program's own code around them."""
_TRAPS = "trap_handled", "ill_handled", "division_handled", "gp_handled", "single_step", "int_80", "vsyscall"
BOUNDS = {
    **dict.fromkeys(_TRAPS, "the trap is in EPI"),
    **dict.fromkeys(("unmap_last_file", "dup2_over"), "short task work is in EPI, beyond what it takes at least"),
}
"""Ways of which EPI is only a bound, and why: no tracepoint shows where they begin or end."""

STATES = {
    **dict.fromkeys(("kill", "term", "segv", "abort", "seccomp_kill"), "kernel.exit"),
    **dict.fromkeys(("exit_group", "exit_among_idle"), "kernel.exit_group"),
    **dict.fromkeys(("file_unmapped", "file_replaced", "unmap_last_file", "dup2_over"), "kernel.task_work"),
    **dict.fromkeys(("signal", "signal_queued", "signal_unblocked", "pipe_broken", "segv_handled"), "kernel.signal"),
    **dict.fromkeys(("bus_handled", "trap_handled", "ill_handled", "division_handled"), "kernel.signal"),
    **dict.fromkeys(("gp_handled", "single_step", "seccomp_trap", "rseq_abort", "userfault"), "kernel.signal"),
    "timer_signal": "kernel.signal",
    "traced_call": "stopped",
    "big_unmap": "kernel.munmap",
    "main_first": "kernel.exit",
}
"""The state that a way is to have."""

WAITS = {
    "notified": ("asking", "wait.mkdirat"),
    "sleep": ("stopped", "wait.sleep"),
    "poll": ("stopped", "wait.poll"),
    "futex": ("stopped", "wait.futex"),
}
"""Waits around calls: the thread's name, and the wait."""


@dataclass(frozen=True)
class Row:
    """What is said of a program."""

    program: str
    times: int
    effective: int
    """ns."""
    kernel: int
    most: str
    """Where most of the time went."""
    right: bool
    why: str = ""

    def cells(self) -> list[str]:
        """Return the row of the table."""
        verdict = f"wrong: {self.why}" if not self.right else f"a bound: {self.why}" if self.why else "right"
        times = f"{self.effective / 1e6:.2f} ms", f"{self.kernel / 1e6:.2f} ms"
        return [self.program, f"{self.times:,}", *times, self.most, verdict]


def main() -> None:
    """Print the table."""
    rows = [*_ways(), *_waits(), *_throttled()]
    names = ["program", "times", "EPI", "in the kernel", "most of the time in", "verdict"]
    print(table(names, [row.cells() for row in rows]))
    if not all(row.right for row in rows):
        sys.exit(1)


def _measured(program: str, *words: str) -> tuple[Ledger, list[str]]:
    """Compile and measure a program. Return the words that it wrote, too."""
    with TemporaryDirectory() as scratch:
        path, said = Path(scratch) / program, Path(scratch) / "said"
        command = ["cc", "-O1", "-w", "-pthread", "-o", str(path), str(PROGRAMS / f"{program}.c")]
        subprocess.run(command, check=True)
        with said.open("wb") as output:
            done = observe(Selection(), [str(path), *words], prefer="bpf", stdout=output.fileno())
        return done.ledger, said.read_text().split()


def _ways() -> Iterator[Row]:
    ledger, words = _measured("ways_into_the_kernel")
    edge = 0.0
    for way, times in zip(words[::2], map(int, words[1::2]), strict=True):
        threads = [thread for thread in ledger.threads if thread.name == ("exe" if way == "exec" else way[:15])]
        if not threads:
            yield Row(way, times, 0, 0, "", False, "not seen")
            continue
        effective = sum(thread.times().get(Kind.EFFECTIVE, 0) for thread in threads)
        kernel = sum(thread.times().get(Kind.KERNEL, 0) for thread in threads)
        if way == "getppid":
            edge = max(EDGE, EDGE_CALLS * effective / times)
        state = STATES.get(way)
        why = ""
        if state and not any(state in thread.states for thread in threads):
            why = f"no {state}"
        elif effective > max(0.2 * kernel, times * edge) and way not in BOUNDS:
            why = "EPI has more than the program's own code"
        yield Row(way, times, effective, kernel, _most(threads), not why, why or BOUNDS.get(way, ""))


def _waits() -> Iterator[Row]:
    for how, (name, state) in WAITS.items():
        ledger, _ = _measured("waits_around_calls", how)
        threads = [thread for thread in ledger.threads if thread.name == name]
        other = {s for thread in threads for s in thread.states if s in ("wait.other", "wait.restart_syscall")}
        right = bool(threads) and any(state in thread.states for thread in threads) and not other
        times = [thread.times() for thread in threads]
        effective, kernel = (sum(each.get(kind, 0) for each in times) for kind in (Kind.EFFECTIVE, Kind.KERNEL))
        yield Row(f"{how}, around a call", 1, effective, kernel, _most(threads), right, "" if right else f"no {state}")


def _throttled() -> Iterator[Row]:
    ledger, words = _measured("deadline")
    if words == ["0"]:
        return
    thread = ledger.threads[0]
    throttled = thread.states["ready.throttled"].time if "ready.throttled" in thread.states else 0
    right = throttled > 0.8 * int(words[0])
    times = thread.times()
    yield Row(
        "10 ms of each 100 ms (SCHED_DEADLINE)", 1, times[Kind.EFFECTIVE], times.get(Kind.KERNEL, 0), _most([thread]),
        right, "" if right else "not throttled",
    )  # fmt: skip


def _most(threads: Sequence[Thread]) -> str:
    sums: dict[str, int] = {}
    for thread in threads:
        for state, cell in thread.states.items():
            sums[state] = sums.get(state, 0) + cell.time
    return ", ".join(sorted(sums, key=lambda state: -sums[state])[:2])


if __name__ == "__main__":
    print(heading())
    main()
    print(f"\n({load()} at the end)")
