"""``headway demo -v``: what each thread knows of its own time, beside what was measured, and why the two differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headway.demo import Truth
from headway.demo.explain import ON_THE_PROCESSOR, FigureComparison, ThreadReport, TimePart, explain
from headway.model import Ledger, Quality, interrupt_time, violations

from .figures import MARKS
from .lines import Line
from .losses import named_losses

__all__ = ["render"]

WIDTH = 80
NEGLIGIBLE = 1_000_000
"""ns by which the switches of a few hundred waits may differ without an error on either side."""


def render(ledger: Ledger, truth: Truth) -> Iterator[Line]:
    """Yield the comparison in lines of at most 80 columns."""
    accounts = explain(ledger, truth)
    early = ", ended early" if truth.interrupted else ""
    yield [(f"{len(accounts)} threads in {truth.elapsed_ns / 1e9:.1f} s{early}", "")]
    yield []
    yield from _clock_lines(ledger)
    yield []
    yield [(f"{'':36}{'measured':>14}{'the truth':>14}{'apart':>12}", "dim")]
    for account in accounts:
        yield []
        yield from _account_lines(account)
    yield []
    yield from _sum_lines(ledger, accounts)
    yield from _closing_lines(ledger, accounts)


def _clock_lines(ledger: Ledger) -> Iterator[Line]:
    """Say why two right clocks differ."""
    if ledger.source != "bpf":
        yield from _note_lines(
            "The truth is by each thread's own clocks. This source looks at a thread now and then, and takes what it "
            "is doing then for all of the time since it looked last: its figures differ by chance, and by more on a "
            "busy machine."
        )
        return
    yield from _note_lines(
        "The truth is by each thread's own clocks, which begin and end elsewhere than headway's: a thread's clock of "
        "processor time goes on in interrupts and in headway's own handlers, and a thread that sleeps believes that it "
        "waits from before its call until the moment it asked for. headway has a wait from the moment at which the "
        "thread leaves the processor until the kernel wakes it; what follows is ready. So times differ, the more the "
        "busier the machine is. Counts do not."
    )


def _account_lines(account: ThreadReport) -> Iterator[Line]:
    yield [(f"{account.name:<10}", "bold cyan"), (account.what, "")]
    yield [(f"  aims at   {account.aim}", "dim")]
    for line in _wrapped([_part(part) for part in account.parts]):
        yield [(line, "")]
    for comparison in account.comparisons:
        yield _comparison_line(comparison)
    for note in account.notes:
        yield from _note_lines(note)


def _part(part: TimePart) -> str:
    return f"{part.what} {MARKS[part.quality]}{part.time / 1e9:.3f} s"


def _wrapped(words: Iterable[str]) -> Iterator[str]:
    line = "  headway  "
    for word in words:
        if len(line) + 2 + len(word) > WIDTH:
            yield line
            line = " " * 11
        line += (" " if len(line) == 11 else ", ") + word
    yield line


def _note_lines(note: str) -> Iterator[Line]:
    line = "  "
    for word in note.split():
        if len(line) + 1 + len(word) > WIDTH:
            yield [(line, "italic")]
            line = "  "
        line += word if line == "  " else " " + word
    yield [(line, "italic")]


def _comparison_line(comparison: FigureComparison) -> Line:
    label = f"    {comparison.what:<32}"
    truth = _figure(comparison.truth, comparison.counts)
    if comparison.measured is None or comparison.apart is None:
        return [(f"{label}{'not seen':>14}{truth:>14}", "")]
    measured = _figure(comparison.measured, comparison.counts)
    return [(f"{label}{measured:>14}{truth:>14}", ""), (f"{_apart(comparison):>12}", _colour(comparison))]


def _figure(value: int, counts: bool) -> str:
    return f"{value:,}" if counts else f"{value / 1e9:.4f} s"


def _apart(comparison: FigureComparison) -> str:
    if comparison.relative is None or abs(comparison.relative) >= 10:
        return _figure(comparison.apart or 0, comparison.counts)
    return f"{comparison.relative:+.2%}"


def _colour(comparison: FigureComparison) -> str:
    apart = abs(comparison.relative or 0)
    if apart <= 0.01 or (not comparison.counts and abs(comparison.apart or 0) <= NEGLIGIBLE):
        return "green"
    return "yellow" if apart <= 0.05 else "red"


def _sum_lines(ledger: Ledger, accounts: list[ThreadReport]) -> Iterator[Line]:
    """The processor time of all threads together, and why a single thread's may differ by more."""
    pairs = [(c.measured, c.truth) for a in accounts for c in a.comparisons if c.what == ON_THE_PROCESSOR]
    measured = [time for time, _ in pairs if time is not None]
    if not pairs or len(measured) < len(pairs):
        return
    yield [("all together", "bold")]
    yield _comparison_line(FigureComparison(ON_THE_PROCESSOR, sum(measured), sum(truth for _, truth in pairs)))
    if ledger.source == "bpf":
        taken = sum(interrupt_time(thread.states) for thread in ledger.threads)
        yield from _note_lines(
            f"Interrupts took {taken / 1e9:.3f} s of the measured time. The kernel's clock, by which a thread knows "
            "its truth, gives part of the interrupt that wakes a thread to the woken one; headway gives all of it to "
            "the thread that was interrupted. And a thread's own clock has interrupts, and headway's part (overhead), "
            "in whatever it was doing."
        )
    yield []


def _closing_lines(ledger: Ledger, accounts: list[ThreadReport]) -> Iterator[Line]:
    if any(part.quality is not Quality.EXACT for account in accounts for part in account.parts):
        yield [("≤ at most   ~ sampled", "dim")]
    for figure, reason in ledger.reasons.items():
        yield from _note_lines(f"{figure}: {reason}")
    broken = violations(ledger)
    if broken:
        for violation in broken:
            yield from _note_lines(f"not conserved: {violation}")
    else:
        yield [(f"The times of each of {len(ledger.threads)} threads add up to its span, to the nanosecond.", "")]
    if lost := named_losses(ledger.losses):
        yield from _note_lines(f"lost: {lost}")
    if ledger.overhead.events is not None and ledger.overhead.time is not None:
        cost = f"{ledger.overhead.events:,} events, which cost {ledger.overhead.time / 1e6:.1f} ms in all"
        yield from _note_lines(f"Seen: {cost}.")
