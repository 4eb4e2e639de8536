"""The demo program's account of itself, and the ledgers of measurements that agree with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.ledgers import ledgers

from headway.demo import OwnFigures, ThreadTruth, Truth
from headway.model import EXACT, Behind, Cause, Cell, KernelClock, Ledger, Overhead, Precision, Quality, Thread, Window

SECOND = 1_000_000_000
SAMPLED = Precision(Quality.SAMPLED, Quality.SAMPLED, Quality.UNAVAILABLE, Quality.SAMPLED, Quality.UNAVAILABLE)

_OWN: Mapping[str, Mapping[str, int]] = {
    "compute": {},
    "memory": {},
    "syscalls": {"calls": 1_342_976},
    "lock": {"locks": 294, "lock_ns": 2 * SECOND},
    "holder": {"calls": 402},
    "sleeper": {"calls": 419},
    "dodger": {"calls": 570, "bursts": 220},
    "disk": {"syncs": 218, "reads": 3487},
    "poller": {"checks": 87_856, "found": 120},
    "marked": {"regions": 20},
}
NAMES = list(_OWN)

TRUTH = Truth(
    pid=100,
    elapsed_ns=3 * SECOND,
    interrupted=False,
    tick_ns=4_000_000,
    threads=tuple(
        ThreadTruth(name, 101 + place, "works", "all the time", OwnFigures(cpu_ns=SECOND, elapsed_ns=3 * SECOND, **own))
        for place, (name, own) in enumerate(_OWN.items())
    ),
)

_STATES: Mapping[str, Mapping[str, tuple[int, int | None]]] = {
    "compute": {"ready": (SECOND, 7)},
    "memory": {"ready.neighbour": (SECOND, 7)},
    "syscalls": {"kernel.getppid": (SECOND, 1_342_976)},
    "lock": {"wait.futex": (SECOND, 200), "wait.sleep": (SECOND, 294), "kernel.clock_nanosleep": (9, 294)},
    "holder": {"wait.sleep": (SECOND, 402), "kernel.clock_nanosleep": (9, 402)},
    "sleeper": {"wait.sleep": (SECOND, 419), "kernel.clock_nanosleep": (9, 419)},
    "dodger": {"kernel.getrandom": (SECOND, 570), "kernel.clock_nanosleep": (9, 300)},
    "disk": {"kernel.pwrite64": (9, 218), "kernel.pread64": (9, 3487), "wait.disk": (SECOND, 3705)},
    "poller": {"poll.epoll_wait.epoll": (SECOND, 87_832), "kernel.epoll_wait": (9, 144)},
    "marked": {"noneffective.parse": (SECOND, 10), "poll.spin": (SECOND, 10)},
}


def cells(states: Mapping[str, tuple[int, int | None]]) -> dict[str, Cell]:
    """States by their times and counts."""
    return {state: Cell(time, count) for state, (time, count) in states.items()}


def _thread(truth: ThreadTruth, states: dict[str, Cell]) -> Thread:
    span = sum(cell.time for cell in states.values())
    return Thread(truth.tid, TRUTH.pid, truth.name, 0, 0, span, span, span, states)


def right() -> Ledger:
    """What eBPF measures: every count as the program has it."""
    threads = []
    for truth in TRUTH.threads:
        start = {"user": (SECOND, 9), "kernel.gettid": (5, 1)}
        thread = _thread(truth, cells({**start, **_STATES[truth.name]}))
        threads.append(replace(thread, kernel_clock=KernelClock(SECOND, Quality.EXACT)))
    holder = next(t.tid for t in TRUTH.threads if t.name == "holder")
    waker = Cause("wait.futex", Behind.WAKER, "holder", SECOND, 200, tid=holder)
    threads = [replace(t, causes=(waker,)) if t.name == "lock" else t for t in threads]
    window = Window(0, max(t.span for t in threads))
    return Ledger("bpf", window, tuple(threads), precision=EXACT, overhead=Overhead(1_500_000, 1234))


def sampled() -> Ledger:
    """What /proc tells: times, and how often of nothing."""
    threads = []
    for truth in TRUTH.threads:
        times: dict[str, tuple[int, int | None]] = {"user": (SECOND, None), "kernel": (SECOND, None)}
        times |= {s: (time, None) for s, (time, _) in _STATES[truth.name].items() if s.startswith(("wait.", "ready"))}
        threads.append(_thread(truth, cells(times)))
    window = Window(0, max(t.span for t in threads))
    return Ledger("proc", window, tuple(threads), precision=SAMPLED, overhead=Overhead(80_000_000, 658))


any_ledgers = ledgers(tids=[t.tid for t in TRUTH.threads if t.name in ("compute", "lock", "poller")]).map(
    lambda ledger: replace(ledger, threads=tuple(replace(t, pid=TRUTH.pid) for t in ledger.threads))
)
"""Any measurements of some of the program's threads."""
