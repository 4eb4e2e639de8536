"""``headway demo``: a small multi-threaded program with known behaviour, measured and explained."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator

import click
from rich.console import Console
from rich.text import Text

from headway.demo import Truth, program
from headway.demo.explain import ON_THE_PROCESSOR, FigureComparison, ThreadReport, TimePart, explain
from headway.errors import HeadwayError
from headway.model import Ledger, Quality, interrupt_time, violations
from headway.session.measure import observe_command
from headway.views.figures import MARKS
from headway.views.losses import named_losses

__all__ = ["command", "render"]

WIDTH = 80
SOURCES = {"bpf": "by eBPF, every transition", "proc": "by /proc"}
NEGLIGIBLE = 1_000_000
"""ns by which the switches of a few hundred waits may differ without an error on either side."""


@click.command("demo")
@click.option(
    "--seconds",
    type=click.FloatRange(0.2, 60),
    default=3.0,
    show_default=True,
    help="Run the program for this many seconds.",
)
@click.option(
    "--source",
    type=click.Choice(["bpf", "proc"]),
    help="Source of the figures.  [default: bpf if possible, else proc]",
)
def command(seconds: float, source: str | None) -> None:
    """\b
    headway demo
    headway demo --source proc

    Measure a program whose threads know what they do, and explain the figures.

    Its threads compute, follow pointers through memory, make system calls, wait for a lock, sleep, use the disk, poll
    and mark regions of their own code; one works only between the ticks at which the kernel samples who is running.
    Each thread measures itself. The report shows where its time went as headway measured it, beside what the thread
    itself knows, and the difference.
    """
    console = Console(highlight=False)
    with tempfile.TemporaryFile() as output:
        arguments = [str(program()), "--seconds", str(seconds)]
        ledger, status = observe_command(arguments, prefer=source, stdout=output.fileno())
        output.seek(0)
        text = output.read().decode(errors="replace")
    if status:
        raise HeadwayError(f"the demo program ended with status {status} before it could account for itself")
    for line in render(ledger, Truth.parse(text)):
        console.print(line)


def render(ledger: Ledger, truth: Truth) -> Iterator[Text]:
    """Yield the explanation in lines of at most 80 columns."""
    accounts = explain(ledger, truth)
    early = ", ended early" if truth.interrupted else ""
    source = SOURCES.get(ledger.source, ledger.source)
    yield Text.assemble(
        (f"{len(accounts)} threads that know what they do", "bold"),
        f", {truth.elapsed_ns / 1e9:.1f} s{early}; measured {source}",
    )
    yield Text(f"{'':36}{'measured':>14}{'the truth':>14}{'apart':>12}", style="dim")
    for account in accounts:
        yield Text()
        yield from _account_lines(account)
    yield Text()
    yield from _sum_lines(ledger, accounts)
    yield from _closing_lines(ledger, accounts)


def _account_lines(account: ThreadReport) -> Iterator[Text]:
    yield Text.assemble((f"{account.name:<10}", "bold cyan"), account.what)
    yield Text(f"  aims at   {account.aim}", style="dim")
    for line in _wrapped([_part(part) for part in account.parts]):
        yield Text(line)
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


def _note_lines(note: str) -> Iterator[Text]:
    line = "  "
    for word in note.split():
        if len(line) + 1 + len(word) > WIDTH:
            yield Text(line, style="italic")
            line = "  "
        line += word if line == "  " else " " + word
    yield Text(line, style="italic")


def _comparison_line(comparison: FigureComparison) -> Text:
    label = f"    {comparison.what:<32}"
    truth = _figure(comparison.truth, comparison.counts)
    if comparison.measured is None or comparison.apart is None:
        return Text(f"{label}{'not seen':>14}{truth:>14}")
    measured = _figure(comparison.measured, comparison.counts)
    return Text.assemble(f"{label}{measured:>14}{truth:>14}", (f"{_apart(comparison):>12}", _colour(comparison)))


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


def _sum_lines(ledger: Ledger, accounts: list[ThreadReport]) -> Iterator[Text]:
    """The processor time of all threads together, and why a single thread's may differ by more."""
    pairs = [(c.measured, c.truth) for a in accounts for c in a.comparisons if c.what == ON_THE_PROCESSOR]
    measured = [time for time, _ in pairs if time is not None]
    if not pairs or len(measured) < len(pairs):
        return
    yield Text("all together", style="bold")
    yield _comparison_line(FigureComparison(ON_THE_PROCESSOR, sum(measured), sum(truth for _, truth in pairs)))
    if ledger.source == "bpf":
        taken = sum(interrupt_time(thread.states) for thread in ledger.threads)
        yield from _note_lines(
            f"Interrupts took {taken / 1e9:.3f} s of the measured time. The kernel's clock, by which a thread knows "
            "its truth, gives part of the interrupt that wakes a thread to the woken one; headway gives all of it to "
            "the thread that was interrupted. And a thread's own clock has interrupts, and headway's part (overhead), "
            "in whatever it was doing."
        )
    yield Text()


def _closing_lines(ledger: Ledger, accounts: list[ThreadReport]) -> Iterator[Text]:
    if any(part.quality is not Quality.EXACT for account in accounts for part in account.parts):
        yield Text("≤ at most   ~ sampled", style="dim")
    for figure, reason in ledger.reasons.items():
        yield from _note_lines(f"{figure}: {reason}")
    broken = violations(ledger)
    if broken:
        for violation in broken:
            yield from _note_lines(f"not conserved: {violation}")
    else:
        yield Text(f"The times of each of {len(ledger.threads)} threads add up to its span, to the nanosecond.")
    if lost := named_losses(ledger.losses):
        yield from _note_lines(f"lost: {lost}")
    if ledger.overhead.events is not None and ledger.overhead.time is not None:
        cost = f"{ledger.overhead.events:,} events, which cost {ledger.overhead.time / 1e6:.1f} ms in all"
        yield from _note_lines(f"Seen: {cost}.")
