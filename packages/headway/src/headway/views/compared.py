"""Two commands compared: the table of ``headway compare``, and its JSON document (headway.compare/1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headway.comparison.compared import LEAST, ComparedFigure, ComparedRuns
from headway.comparison.differences import Difference
from headway.comparison.figures import CommandRun
from headway.comparison.turns import Order
from headway.comparison.verdicts import Verdict
from headway.conditions import Change
from headway.dataclass import dataclass
from headway.model import Quality
from headway.text import valid

from .console import Console
from .figures import MARKS, with_unit
from .lines import Line, indented, show
from .losses import explained_losses, named_losses
from .printable import clean, fit

__all__ = ["ComparedCommand", "ComparedSession", "print_compared", "to_document"]

SCHEMA = "headway.compare/1"
_SHOWN = 8
"""The number of states that the table has besides those that differ."""
_NAME = 24
_WORDS = {1: "more", -1: "less", 0: ""}
_MEANINGS = {
    Quality.ESTIMATED: "± estimated: what observing cost is not known well",
    Quality.BOUND: "≤ at most: the difference is that of the bounds",
    Quality.BY_MODE: "≈ by the cycles of user and kernel mode",
    Quality.SAMPLED: "~ sampled: the sampling error is in the interval",
    Quality.PARTIAL: "≥ at least: of a part of the time",
}
_SOURCES = {"bpf": "by eBPF", "proc": "by /proc, sampled"}


@dataclass(frozen=True, slots=True)
class ComparedCommand:
    """A command that was compared, and what it is called."""

    name: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparedSession:
    """Two commands, how they were run, and what was found."""

    commands: tuple[ComparedCommand, ComparedCommand]
    found: ComparedRuns
    verdicts: tuple[Verdict, ...]
    source: str
    reasons: Mapping[str, str]
    """Why figures are not exact, as in a ledger."""
    seed: int
    warmup: int
    """The number of runs of each command before the first round."""


# --- the table --------------------------------------------------------------------------------------------------------


def print_compared(console: Console, session: ComparedSession, *, verbose: bool = False) -> None:
    """Print the table, as wide as the console. ``verbose``: with every figure that was looked at."""
    show(console, _lines(session, console.width, verbose))


def _lines(session: ComparedSession, width: int, verbose: bool) -> Iterator[Line]:
    found = session.found
    for letter, command in zip("AB", session.commands, strict=True):
        yield from _words(f"{letter}  {clean(command.name, 200)}", width, "   ")
    rounds = len(found.a)
    order = "in random order" if found.order is Order.RANDOM else "in turns ABBA or BAAB, by chance"
    before = f" after {session.warmup} to warm up" if session.warmup else ""
    how = _SOURCES.get(session.source, session.source)
    yield from _words(f"{rounds} rounds {order} (seed {session.seed}){before}, measured {how}", width)
    yield []
    shown, hidden = _chosen(found, verbose)
    percent = f"{100 * found.confidence:.5g} %"
    name = max([len("figure"), *(len(_title(figure)) for figure in shown)])
    name = min(name, _NAME)
    yield [(f"{'figure':<{name}} {'A':>8} {'B':>8} {'B less A':>9}  {'from … to at ' + percent:<22}", "bold")]
    for figure in shown:
        yield _row(figure, name, found.confidence)
    yield []
    for text in _notes(session, shown, hidden):
        yield from _words(text, width)
    for verdict in session.verdicts:
        yield from _words(_said(verdict), width, style="bold red" if verdict.proven else "")


def _words(text: str, width: int, others: str = "  ", style: str = "") -> Iterator[Line]:
    yield from ([(line, style)] for line in indented(text, width, "", others))


def _chosen(found: ComparedRuns, verbose: bool) -> tuple[list[ComparedFigure], int]:
    """Return the figures to show, and the number of states that are not shown."""
    known = [figure for figure in found.figures if figure.medians is not None]
    if verbose:
        return known, 0
    shown = [
        figure
        for figure in known
        if figure.group != "state" and (any(figure.medians or ()) or figure.differs(found.confidence))
    ]
    states = [figure for figure in known if figure.group == "state"]
    kept = [figure for at, figure in enumerate(states) if at < _SHOWN or figure.differs(found.confidence)]
    return [*shown, *kept], len(states) - len(kept)


def _title(figure: ComparedFigure) -> str:
    if figure.name == "wall":
        return "wall time"
    return figure.name.upper() if figure.group == "index" else clean(figure.name, 200)


def _row(figure: ComparedFigure, name: int, confidence: float) -> Line:
    assert figure.medians is not None
    mark = MARKS[figure.quality]
    a, b = (mark + with_unit(round(value), figure.unit, 7) for value in figure.medians)
    difference = figure.relative or figure.absolute
    unit = "%" if figure.relative else figure.unit
    if difference is None:
        estimate, span = "", ""
    else:
        estimate = _change(difference.estimate, unit)
        span = "too few rounds"
        if difference.low is not None and difference.high is not None:
            span = f"{_change(difference.low, unit):>9} … {_change(difference.high, unit):<9}"
    word = _WORDS[figure.differs(confidence)]
    cells = f"{fit(_title(figure), name)} {a:>8} {b:>8} {estimate:>9}  {span:<22}"
    return [(cells if word else cells.rstrip(), ""), (f" {word}" if word else "", "bold")]


def _change(value: float, unit: str) -> str:
    """Return a change with its sign: a share of one as per cent, or an amount of the unit."""
    sign = "−" if value < 0 else "+"
    if unit == "%":
        percent = abs(100 * value)
        digits = 2 if percent < 1 else 1 if percent < 1000 else 0
        return f"{sign}{percent:.{digits}f} %"
    amount = round(abs(value))
    return f"{sign}{with_unit(amount, unit, 7)}" if amount else "0"


def _notes(session: ComparedSession, shown: Sequence[ComparedFigure], hidden: int) -> Iterator[str]:
    found = session.found
    percent = f"{100 * found.confidence:.5g} %"
    yield (
        f"more, less: certain to {percent}, for all words together, though {found.looked_at} figures were looked at "
        "(Holm's correction); no word: not certain"
    )
    for quality, meaning in _MEANINGS.items():
        names = [_title(figure) for figure in shown if figure.quality is quality]
        if names:
            reasons = {session.reasons.get(figure.name, "") for figure in shown if figure.quality is quality} - {""}
            yield f"{', '.join(names)} {meaning}" + (f" ({'; '.join(sorted(reasons))})" if reasons else "")
    if "level" in session.reasons:
        yield f"level {session.reasons['level']}"
    lacking = [figure for figure in found.figures if figure.medians is None]
    for figure in lacking:
        if figure.group != "count":
            yield f"{_title(figure)}: unavailable ({session.reasons.get(figure.name, figure.reason)})"
    if hidden:
        yield f"{hidden} more states that do not differ (-v shows them)"
    if found.left_out:
        yield f"{found.left_out} states with less than {100 * LEAST:g} % of the wall time were not looked at"
    for letter, runs in (("A", found.a), ("B", found.b)):
        outlived = sum(run.outlived for run in runs)
        if outlived:
            yield f"{letter}: {outlived} threads outlived the command; what they did after it is in no figure"
    if any(found.losses.values()):
        yield f"lost in all runs together: {clean(named_losses(found.losses), 1000)}"
        yield from explained_losses(found.losses)


def _said(verdict: Verdict) -> str:
    percent = f"{100 * verdict.confidence:.6g} %"
    parts = []
    for change in verdict.condition.changes:
        interval, why_not = verdict.interval(change), verdict.why_not(change)
        unit = "%" if change.relative else "ns"
        if why_not or interval is None or interval.low is None or interval.high is None:
            parts.append(f"{change.name}: {why_not}")
        else:
            parts.append(f"{change.name} {_change(interval.low, unit)} … {_change(interval.high, unit)}")
    return (
        f"fail if {verdict.condition}: {'PROVEN' if verdict.proven else 'not proven'} ({', '.join(parts)} at {percent})"
    )


# --- the document -----------------------------------------------------------------------------------------------------


def to_document(session: ComparedSession) -> dict[str, Any]:
    """Return the comparison as plain dicts and lists, in the order of the schema."""
    found = session.found
    a, b = (
        {
            "name": valid(command.name),
            "command": [valid(word) for word in command.argv],
            "runs": [_run(run) for run in runs],
        }
        for command, runs in zip(session.commands, (found.a, found.b), strict=True)
    )
    return {
        "schema": SCHEMA,
        "source": session.source,
        "time_unit": "ns",
        "rounds": len(found.a),
        "warmup": session.warmup,
        "order": found.order.value,
        "seed": session.seed,
        "confidence": found.confidence,
        "correction": "holm",
        "figures_looked_at": found.looked_at,
        "states_left_out": found.left_out,
        "a": a,
        "b": b,
        "figures": [_figure(figure, found.confidence) for figure in found.figures],
        "fail_if": [_verdict(verdict) for verdict in session.verdicts],
        "losses": {valid(name): number for name, number in found.losses.items()},
        "reasons": {valid(name): valid(reason) for name, reason in session.reasons.items()},
    }


def _run(run: CommandRun) -> dict[str, Any]:
    return {
        "wall": run.wall,
        "unit": run.unit,
        "indices": {name: getattr(run.indices, name) for name in ("rpi", "epi", "mpi", "kpi", "iopi")},
        "counts": {valid(name): count for name, count in run.counts.items()},
        "states": {valid(state): time for state, time in run.times.items()},
        "outlived": run.outlived,
    }


def _figure(figure: ComparedFigure, confidence: float) -> dict[str, Any]:
    medians = figure.medians
    return {
        "name": valid(figure.name),
        "group": figure.group,
        "unit": figure.unit,
        "quality": figure.quality.value,
        "a": None if medians is None else medians[0],
        "b": None if medians is None else medians[1],
        "relative": _difference(figure.relative),
        "absolute": _difference(figure.absolute),
        "probability": figure.probability,
        "corrected": figure.corrected,
        "differs": _WORDS[figure.differs(confidence)] or None,
        "reason": figure.reason or None,
    }


def _difference(found: Difference | None) -> dict[str, float | None] | None:
    return None if found is None else {"estimate": found.estimate, "low": found.low, "high": found.high}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "condition": str(verdict.condition),
        "proven": verdict.proven,
        "confidence": verdict.confidence,
        "changes": [_compared(verdict, change) for change in verdict.condition.changes],
    }


def _compared(verdict: Verdict, change: Change) -> dict[str, Any]:
    return {
        "name": valid(change.name),
        "sign": change.sign,
        "limit": change.limit,
        "unit": "1" if change.relative else "ns",
        "interval": _difference(verdict.interval(change)),
        "reason": verdict.why_not(change) or None,
    }
