"""A comparison of the measured figures of the demo program with what its threads know. It does no input or output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from headway.model import Cell, Kind, Ledger, Quality, Thread, kind_of

from . import OwnFigures, ThreadTruth, Truth

__all__ = ["ON_THE_PROCESSOR", "FigureComparison", "ThreadReport", "TimePart", "explain"]

ON_THE_PROCESSOR = "on the processor"
"""The name of the comparison of a thread's processor time."""

MIN_WAIT = 0.02
"""The share of a thread's life below which a wait is not named."""

TICK_TOLERANCE = 0.1
"""The relative error up to which the kernel's accounting counts as not deceived."""

PARSING, SPINNING = "noneffective.parse", "poll.spin"
"""The states of the regions that the thread `marked` marks."""


@dataclass(frozen=True, slots=True)
class TimePart:
    """A measured part of a thread's time."""

    what: str
    time: int
    quality: Quality = Quality.EXACT


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """A measured figure beside the one that the thread itself knows."""

    what: str
    measured: int | None
    """None if the source cannot tell."""
    truth: int
    counts: bool = False
    """Whether the figure is a number of times; otherwise it is in nanoseconds."""

    @property
    def apart(self) -> int | None:
        """The measured figure minus the truth."""
        return None if self.measured is None else self.measured - self.truth

    @property
    def relative(self) -> float | None:
        """The difference as a share of the truth; None if the truth is 0 or nothing was measured."""
        return None if self.apart is None or not self.truth else self.apart / self.truth


@dataclass(frozen=True, slots=True)
class ThreadReport:
    """One thread of the demo program, measured and compared."""

    name: str
    what: str
    aim: str
    parts: tuple[TimePart, ...] = ()
    comparisons: tuple[FigureComparison, ...] = ()
    notes: tuple[str, ...] = ()


def explain(ledger: Ledger, truth: Truth) -> list[ThreadReport]:
    """Return the account of every thread of the demo program, in the program's order.

    A thread that did not work, or was not seen by the measurement, has a note that says so.
    """
    measured = {(t.tid, t.pid): t for t in sorted(ledger.threads, key=lambda t: t.birth)}
    accounts = []
    for thread in truth.threads:
        seen = measured.get((thread.tid, truth.pid))
        if thread.figures is None:
            notes: tuple[str, ...] = (f"did not work: {thread.skipped or 'it does not say why'}",)
            accounts.append(ThreadReport(thread.name, thread.what, thread.aim, notes=notes))
        elif seen is None:
            notes = ("was not seen by the measurement",)
            accounts.append(ThreadReport(thread.name, thread.what, thread.aim, notes=notes))
        else:
            accounts.append(_account(ledger, seen, thread, thread.figures))
    return accounts


def _account(ledger: Ledger, seen: Thread, thread: ThreadTruth, figures: OwnFigures) -> ThreadReport:
    compare = _COMPARISONS.get(thread.name, _processor_time)
    comparisons = tuple(compare(ledger, seen, figures))
    notes = tuple(_NOTES[thread.name](ledger, seen, figures)) if thread.name in _NOTES else ()
    return ThreadReport(thread.name, thread.what, thread.aim, tuple(_parts(ledger, seen)), comparisons, notes)


def _parts(ledger: Ledger, thread: Thread) -> Iterator[TimePart]:
    quality = ledger.indices(thread).quality
    of_kind = {Kind.EFFECTIVE: "epi", Kind.MEMORY: "mpi", Kind.KERNEL: "kpi", Kind.POLL: "iopi"}
    for kind, time in thread.times().items():
        if kind in (Kind.WAIT, Kind.UNKNOWN):
            continue
        worth = quality[of_kind[kind]] if kind in of_kind else Quality.EXACT
        if kind is Kind.POLL and time and worth is Quality.UNAVAILABLE:
            worth = quality["epi"]  # regions that the program itself marks, taken out of effective time
        if worth is not Quality.UNAVAILABLE and (time or kind in (Kind.EFFECTIVE, Kind.KERNEL, Kind.READY)):
            yield TimePart(kind.value, time, worth)
    off = [(state, cell.time) for state, cell in thread.states.items() if kind_of(state) in (Kind.WAIT, Kind.UNKNOWN)]
    reasons = quality["epi"] if quality["epi"] is Quality.SAMPLED else Quality.EXACT  # from the same samples
    for state, time in sorted(off, key=lambda wait: -wait[1]):
        if time >= MIN_WAIT * max(thread.span, 1):
            yield TimePart(state, time, reasons if "." in state else Quality.EXACT)


def _sum(thread: Thread, *kinds: Kind) -> int:
    times = thread.times()
    return sum(times.get(kind, 0) for kind in kinds)


def _states(thread: Thread, *names: str) -> int:
    return sum(cell.time for state, cell in thread.states.items() if state in names)


def _count(cells: Iterable[Cell]) -> int | None:
    """Return how often the states were entered; None if none was seen, or if the source does not count entries."""
    counts = [cell.count for cell in cells]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _processor_time(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[FigureComparison]:
    rpi = ledger.indices(seen).rpi
    measured = None if rpi is None else rpi + _sum(seen, Kind.OVERHEAD)
    yield FigureComparison(ON_THE_PROCESSOR, measured, figures.cpu_ns)


def _turn(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[FigureComparison]:
    yield from _processor_time(ledger, seen, figures)
    if figures.ready_ns is not None:
        yield FigureComparison("waiting for its turn", _sum(seen, Kind.READY, Kind.STOLEN), figures.ready_ns)


def _calls(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[FigureComparison]:
    yield from _turn(ledger, seen, figures)
    if figures.calls is not None:
        cell = seen.states.get("kernel.getppid")
        yield FigureComparison("calls of getppid", cell.count if cell else None, figures.calls, counts=True)


def _lock(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[FigureComparison]:
    if figures.lock_ns is not None:
        told = any(state.startswith("wait.") for state in seen.states)
        yield FigureComparison("waiting for the mutex", _states(seen, "wait.futex") if told else None, figures.lock_ns)
    yield from _waits(ledger, seen, figures)


def _waits(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[FigureComparison]:
    if figures.wait_ns is not None:
        yield FigureComparison("waiting, all in all", _sum(seen, Kind.WAIT), figures.wait_ns)
    yield from _processor_time(ledger, seen, figures)


def _away(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[FigureComparison]:
    if figures.away_ns is not None:
        away = _sum(seen, Kind.WAIT, Kind.READY, Kind.STOLEN)
        yield FigureComparison("off the processor", away, figures.away_ns)
    yield from _processor_time(ledger, seen, figures)


def _dodger(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[FigureComparison]:
    indices = ledger.indices(seen)
    if figures.user_ns is not None:
        yield FigureComparison("outside the kernel", indices.epi, figures.user_ns)
    if figures.kernel_ns is not None:
        kernel = None if indices.kpi is None else indices.kpi + _sum(seen, Kind.OVERHEAD)
        yield FigureComparison("in the kernel", kernel, figures.kernel_ns)
    yield from _processor_time(ledger, seen, figures)


def _poller(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[FigureComparison]:
    indices = ledger.indices(seen)
    if figures.poll_ns is not None:
        # The observer's overhead fell almost entirely into the polling of this thread, which counts it as polling.
        polling = None if indices.iopi is None else indices.iopi + _sum(seen, Kind.OVERHEAD)
        yield FigureComparison("polling", polling, figures.poll_ns)
    if figures.user_ns is not None:
        yield FigureComparison("its work", indices.epi, figures.user_ns)
    if figures.checks is not None:
        polling_cells = (cell for state, cell in seen.states.items() if kind_of(state) is Kind.POLL)
        yield FigureComparison("checks that found nothing", _count(polling_cells), figures.checks, counts=True)
    yield from _processor_time(ledger, seen, figures)


def _marked(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[FigureComparison]:
    inside = {state: seen.states[state] for state in (PARSING, SPINNING) if state in seen.states}
    for state, truth in ((PARSING, figures.parse_ns), (SPINNING, figures.poll_ns)):
        if truth is not None:
            yield FigureComparison(f"in {state}", inside[state].time if state in inside else None, truth)
    if figures.user_ns is not None:
        yield FigureComparison("its work", ledger.indices(seen).epi, figures.user_ns)
    if figures.regions is not None:
        yield FigureComparison("regions entered", _count(inside.values()), figures.regions, counts=True)
    yield from _processor_time(ledger, seen, figures)


def _memory_notes(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[str]:
    if figures.access_ns is not None and figures.buffer_bytes is not None:
        cache = f"the caches hold {_bytes(figures.cache_bytes)}" if figures.cache_bytes else "the caches are unknown"
        yield f"{figures.access_ns:.0f} ns per access in {_bytes(figures.buffer_bytes)}; {cache}"
    if ledger.indices(seen).mpi is None:
        yield "without hardware counters its stalls count as effective (headway doctor says why)"


def _calls_notes(_ledger: Ledger, _seen: Thread, figures: OwnFigures) -> Iterator[str]:
    if figures.call_ns is not None:
        yield f"{figures.call_ns:.0f} ns of processor time per call, observed"


def _dodger_notes(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[str]:
    user, kernel = figures.tick_user_ns, figures.tick_kernel_ns
    if user is None or kernel is None or figures.user_ns is None or figures.kernel_ns is None:
        return
    wrong = abs(kernel - figures.kernel_ns)
    yield f"the kernel's accounting (/proc, top, time) says: user {user / 1e9:.3f} s, system {kernel / 1e9:.3f} s"
    if wrong <= TICK_TOLERANCE * figures.kernel_ns:
        yield "which is right: this kernel's accounting does not go by the tick, or the dodging failed"
        return
    yield f"which is wrong by {wrong / 1e9:.3f} s of {figures.cpu_ns / 1e9:.3f} s, because it looks at the tick only"
    if Quality.SAMPLED in (ledger.indices(seen).quality["epi"], ledger.indices(seen).quality["kpi"]):
        yield "and so is this source, which has nothing else to go by; eBPF would see it (headway doctor)"


def _disk_notes(_ledger: Ledger, _seen: Thread, figures: OwnFigures) -> Iterator[str]:
    yield f"{figures.syncs} syncs, {figures.reads} reads" + (" (its file is in memory)" if figures.in_memory else "")


def _poller_notes(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[str]:
    if figures.poll_ns is None or figures.cpu_ns <= 0:
        return
    share = f"{figures.poll_ns / figures.cpu_ns:.0%} of its processor time is asking for what is not there yet"
    if ledger.indices(seen).iopi is None:
        yield f"{share}; this source takes it for work: only eBPF sees what the calls return"
    else:
        yield f"{share}: it is busy, and makes no progress (IOPI)"


def _marked_notes(ledger: Ledger, seen: Thread, figures: OwnFigures) -> Iterator[str]:
    if figures.parse_ns is None or figures.poll_ns is None:
        return
    if PARSING not in seen.states and SPINNING not in seen.states:
        yield "its marks were not seen, so all of it counts as work (headway doctor says what may be read)"
    elif ledger.indices(seen).quality["epi"] is Quality.SAMPLED:
        yield "its marks are in its memory: what of them is certain between two looks is taken out of its work"
    else:
        yield "all three are its own code: its marks tell what is no progress (KPI) and what is polling (IOPI)"


def _bytes(size: int | None) -> str:
    return f"{(size or 0) / 2**20:.0f} MiB"


_COMPARISONS: dict[str, Callable[[Ledger, Thread, OwnFigures], Iterable[FigureComparison]]] = {
    "compute": _turn,
    "memory": _turn,
    "syscalls": _calls,
    "lock": _lock,
    "holder": _waits,
    "sleeper": _waits,
    "dodger": _dodger,
    "disk": _away,
    "poller": _poller,
    "marked": _marked,
}

_NOTES: dict[str, Callable[[Ledger, Thread, OwnFigures], Iterable[str]]] = {
    "memory": _memory_notes,
    "syscalls": _calls_notes,
    "dodger": _dodger_notes,
    "disk": _disk_notes,
    "poller": _poller_notes,
    "marked": _marked_notes,
}
