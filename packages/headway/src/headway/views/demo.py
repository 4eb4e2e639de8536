"""``headway demo``: one screen, a line for each thread with what it does, what was found, and whether the two agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headway.demo import Truth
from headway.demo.claims import Claim, Count, Part, claims
from headway.model import Ledger, Quality, violations

from .figures import MARKS, with_unit
from .lines import Line, cut
from .losses import named_losses

__all__ = ["WIDTH", "heading", "render"]

WIDTH = 80
FOUND = 43
"""Columns for what was found of a thread."""

_SOURCES = {"bpf": "by eBPF, every transition", "proc": "by /proc, sampled"}
_MARKS = {True: ("✓ ", "green"), False: ("✗ ", "red"), None: ("– ", "yellow")}


def heading(source: str, seconds: float) -> Line:
    """Return the first line, which is known before the program runs."""
    return [("threads that know what they do", "bold"), (f", for {seconds:g} s; measured {_named(source)}", "")]


def render(
    ledger: Ledger, truth: Truth, *, headway: str, page: str | None, sudo: bool, chosen: bool = False
) -> Iterator[Line]:
    """Yield the screen after its heading: at most 22 lines of at most 80 columns.

    ``headway``: how the user calls it; ``page``: the file with the page of this measurement; ``sudo``: whether the user
    must become root to measure by eBPF; ``chosen``: whether the user chose the source.
    """
    found = claims(ledger, truth)
    early = [[("interrupted: it ended early", "yellow")]] if truth.interrupted else []
    lines: list[Line] = [*map(_claim_line, found), [], *early, *_closing_lines(ledger, found)]
    lines += [[], *_next_lines(ledger, headway, page, sudo, chosen)]
    return (cut(line, WIDTH) for line in lines)


def _named(source: str) -> str:
    return _SOURCES.get(source, f"by {source}")


def _claim_line(claim: Claim) -> Line:
    style = {True: "", False: "red", None: "dim"}[claim.holds]
    return [_MARKS[claim.holds], (f"{claim.name:<9}", "bold cyan"), (f"{claim.does:<26}", ""), (_found(claim), style)]


def _found(claim: Claim) -> str:
    """Return what was found, and what is not seen: of the parts as many as there is room for."""
    said = _counts(claim.counts)
    unseen = [count.what for count in claim.counts if count.measured is None]
    if claim.words:
        (said if claim.seen else unseen).append(claim.words)
    end = f"unseen: {', '.join(unseen)}" if unseen else ""
    for part in map(_part, claim.parts):
        if len(", ".join([*said, part])) + (len(end) + 2 if end else 0) <= FOUND:
            said.append(part)
    return "; ".join(filter(None, [", ".join(said), end]))


def _counts(counts: Sequence[Count]) -> list[str]:
    """Return the counts beside the truth; of several that are right, the numbers alone."""
    if len(counts) > 1 and all(count.measured == count.truth for count in counts):
        return [f"{count.truth:,} {count.what}" for count in counts]
    return [f"{count.measured:,} of {count.truth:,} {count.what}" for count in counts if count.measured is not None]


def _part(part: Part) -> str:
    return f"{part.what} {MARKS[part.quality]}{with_unit(part.time, 'ns', 5)}"


def _closing_lines(ledger: Ledger, found: Sequence[Claim]) -> Iterator[Line]:
    """Yield what the signs mean, whether time was conserved, what was lost and what measuring cost."""
    verdicts = {claim.holds for claim in found}
    qualities = {part.quality for claim in found for part in claim.parts}
    signs = {
        "✓ as the thread itself knows": True in verdicts,
        "✗ not so": False in verdicts,
        "– not seen": None in verdicts,
        "≤ at most": Quality.BOUND in qualities,
        "~ sampled": Quality.SAMPLED in qualities,
    }
    yield [("   ".join(sign for sign, used in signs.items() if used), "dim")]
    broken = violations(ledger)
    if broken:
        yield [(f"not conserved ({len(broken)}): {broken[0]}", "red")]
    else:
        yield [(f"The states of each of {len(ledger.threads)} threads add up to its life, to the nanosecond.", "")]
    if lost := named_losses(ledger.losses):
        yield [(f"lost: {lost}", "yellow")]
    cost = ledger.overhead
    if cost.events is not None and cost.time is not None:
        yield [(f"Measured {cost.events:,} events, which cost {cost.time / 1e6:.1f} ms.", "")]


def _next_lines(ledger: Ledger, headway: str, page: str | None, sudo: bool, chosen: bool) -> Iterator[Line]:
    root = "sudo " if sudo else ""
    if ledger.source != "bpf" and (sudo or chosen):
        yield _next("all of it, exactly", f"{root}{headway} demo")
    elif ledger.source != "bpf":  # root has no eBPF
        yield _next("why not by eBPF", f"{headway} doctor")
    yield _next("your own program", f"{root}{headway} stat -- COMMAND")
    yield _next("all programs, live", f"{root}{headway} top -a")
    yield _next("why clocks differ", f"{root if ledger.source == 'bpf' else ''}{headway} demo -v")
    yield _next("this as a page", page or f"{headway} demo --html demo.html")


def _next(what: str, command: str) -> Line:
    return [(f"{what:<20}", ""), (command, "cyan")]
