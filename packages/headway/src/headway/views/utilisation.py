"""The table of processors: how busy each was and with what, how fast it ran, and how good the reading was.

To the left of the bars is the time in which it was busy, between them its idle time, to the right its frequency and the
reading. Empty columns are left out. If the width does not suffice, so are the least important ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from headway.dataclass import dataclass
from headway.model import ALL, Kind, Quality, Sample, Utilisation, across, interrupt_time

from .console import Console
from .figures import MARKS, NOTHING, with_unit
from .lines import Line, indented, show
from .losses import named_losses
from .printable import clean, fit, width_of

__all__ = ["hertz", "print_sample", "sample_table"]

_DIM, _HEAD, _LOST, _WORST = "dim", "bold", "yellow", "bold red"
_WORDS = {
    Quality.EXACT: "",
    Quality.ESTIMATED: "estimated",
    Quality.BOUND: "at most",
    Quality.BY_MODE: "by cycles",
    Quality.SAMPLED: "sampled",
    Quality.PARTIAL: "at least",
    Quality.UNAVAILABLE: "not known",
}
_NOT_KNOWN = "–"
_BUSY_FROM = 0.9
"""A utilisation from this value on is highlighted."""
_MAX_STATES = 8
"""The largest number of columns for states of an idle processor."""


def print_sample(
    console: Console,
    sample: Sample,
    *,
    above: Sequence[Line] = (),
    below: Sequence[Line] = (),
    explanations: Mapping[str, str] | None = None,
    losses: Mapping[str, int] | None = None,
    verbose: bool = False,
    notes: bool = True,
) -> None:
    """Print the table, as wide as the console, between the lines ``above`` and ``below``."""
    table = sample_table(
        sample, width=console.width, explanations=explanations, losses=losses, verbose=verbose, notes=notes
    )
    show(console, [*above, *table, *below])


def sample_table(
    sample: Sample,
    *,
    width: int = 80,
    explanations: Mapping[str, str] | None = None,
    losses: Mapping[str, int] | None = None,
    verbose: bool = False,
    notes: bool = True,
) -> list[Line]:
    """Return the table in lines of at most ``width`` columns.

    ``explanations`` gives the meaning of each reason for dropping a reading. ``notes``: add notes on the quality of the
    figures.
    """
    marks = tuple([MARKS[sample.quality.get(figure, Quality.EXACT)] for figure in _MARKED])
    names = tuple(dict.fromkeys([name for row in sample.processors for name in row.idle]))
    every = _columns(marks, names)
    shown = [_texts(row, every) for row in sample.processors if row.dropped is None]
    wanted = tuple([_wanted(column, [texts[place] for texts in shown]) for place, column in enumerate(every)])
    places = _fitting(marks, names, wanted, width)
    columns = [every[place] for place in places]
    lines: list[Line] = [[(_join([column.title for column in columns], columns), _HEAD)]]
    everything = across(sample)
    if everything is not None:
        lines.append(_coloured(everything, _texts(everything, every), places, columns))
    good = iter(shown)
    for row in sample.processors:
        if row.dropped is None:
            lines.append(_coloured(row, next(good), places, columns))
        else:
            why = (explanations or {}).get(row.dropped, row.dropped)
            text = f"{row.cpu:>{columns[0].width}}  dropped: {clean(why)}"
            lines.append([(fit(text, width).rstrip(), _LOST)])
    if verbose:
        lines += [[], *_states(sample, width)]
    if notes:
        left_out = [column.title for place, column in enumerate(every) if wanted[place] and place not in places]
        lines += [[], *_notes(sample, left_out, losses or {}, width)]
    else:
        lines += _dropped(sample, width)
        lines += _lost(losses or {}, width)
    return lines


class _Row(NamedTuple):
    """The values of a line: a processor, and the sums of its states."""

    of: Utilisation
    utilisation: float | None
    busy: int | None
    halted: int | None
    stolen: int | None
    user: int
    kernel: int
    poll: int
    irq: int
    overhead: int
    other: int


@dataclass(frozen=True, slots=True)
class _Column:
    """One column: its title, text and rank. If there is no room, the column with the highest rank goes first."""

    title: str
    text: Callable[[_Row], str]
    rank: int = 0
    width: int = 7
    bar: bool = False
    """A bar is drawn before it."""


def _row(of: Utilisation) -> _Row:
    times, interrupts, span = of.times, interrupt_time(of.states), of.span
    halted = stolen = busy = None
    if span is not None:
        halted, stolen = times[Kind.WAIT], times[Kind.STOLEN]
        busy = span - halted - stolen
    return _Row(
        of,
        busy / span if span and busy is not None else None,
        busy,
        halted,
        stolen,
        times[Kind.EFFECTIVE] + times[Kind.MEMORY] + times[Kind.STALL],
        times[Kind.KERNEL] - interrupts,
        times[Kind.POLL],
        interrupts,
        times[Kind.OVERHEAD],
        times[Kind.UNKNOWN] + times[Kind.READY],
    )


def _texts(of: Utilisation, columns: Sequence[_Column]) -> list[str]:
    """Return the text of a processor in each column."""
    row = _row(of)
    return [column.text(row) for column in columns]


_MARKED = ("utilisation", "states", "effective_hz", "actual_hz")
"""The figures whose quality is marked in their columns' titles."""


@lru_cache(maxsize=64)
def _columns(marks: tuple[str, ...], names: tuple[str, ...]) -> tuple[_Column, ...]:
    """Return all columns. ``marks`` belong to the figures `_MARKED`; ``names`` are those of the idle states."""
    share, state, effective, actual = marks
    columns = [
        _Column("cpu", lambda row: "all" if row.of.cpu == ALL else str(row.of.cpu), width=4),
        _Column(f"{share}util", lambda row: _percent(row.utilisation)),
        _Column("busy", lambda row: _time(row.busy), rank=4),
        _Column(f"{state}user", lambda row: _time(row.user)),
        _Column(f"{state}kernel", lambda row: _time(row.kernel)),
        _Column(f"{state}poll", lambda row: _time(row.poll), rank=3),
        _Column(f"{state}irq", lambda row: _time(row.irq)),
        _Column("overhead", lambda row: _time(row.overhead), rank=8, width=8),
        _Column("other", lambda row: _time(row.other), rank=5),
        _Column("stolen", lambda row: _time(row.stolen), rank=2),
        _Column("idle", lambda row: _time(row.halted), bar=True),
    ]
    for place, name in enumerate(names[:_MAX_STATES]):
        shown = fit(clean(name), min(width_of(clean(name)), 10))
        columns.append(_Column(shown, partial(_idle, name), rank=10 + place, width=max(7, width_of(shown))))
    columns += [
        _Column(f"{effective}effective", lambda row: hertz(row.of.effective_hz), width=10, bar=True),
        _Column(f"{actual}actual", lambda row: hertz(row.of.actual_hz), width=8),
        _Column("smi", lambda row: _count(row.of.smi), rank=7, width=5),
        _Column("throttled", lambda row: _count(row.of.throttled), rank=6, width=9),
        _Column("stopped", lambda row: _time(row.of.stopped), rank=9),
        _Column("slowed", lambda row: _time(row.of.throttled_ns), rank=6),
        _Column("limit", lambda row: _limit(row.of), rank=6, width=8),
        _Column("skew", lambda row: _time(row.of.skew), rank=1),
    ]
    return tuple(columns)


def _wanted(column: _Column, texts: Sequence[str]) -> bool:
    """Return whether the column has anything to show. Some columns are always shown."""
    if column.rank < 1 or column.title == "busy":
        return True
    return any(text not in (NOTHING, _NOT_KNOWN) for text in texts)


@lru_cache(maxsize=64)
def _fitting(marks: tuple[str, ...], names: tuple[str, ...], wanted: tuple[bool, ...], width: int) -> tuple[int, ...]:
    """Return the indices into `_columns` of the wanted columns that fit."""
    every = _columns(marks, names)
    places = [place for place in range(len(every)) if wanted[place]]
    while len(places) > 2 and sum(every[p].width + 1 + 2 * every[p].bar for p in places) - 1 > width:
        least = max(places, key=lambda place: every[place].rank)
        places.remove(least if every[least].rank else places[-1])
    return tuple(places)


def _join(texts: Sequence[str], columns: Sequence[_Column]) -> str:
    line = ""
    for text, column in zip(texts, columns, strict=True):
        line += (" │" if column.bar and line else "") + (" " if line else "")
        line += fit(text, column.width, right=True)
    return line


def _coloured(of: Utilisation, texts: Sequence[str], places: Sequence[int], columns: Sequence[_Column]) -> Line:
    line: Line = []
    busy = texts[1] not in (NOTHING, _NOT_KNOWN) and (of.utilisation or 0) >= _BUSY_FROM
    for place, column in zip(places, columns, strict=True):
        text = texts[place]
        style = _HEAD if place == 1 and busy else _DIM if text in (NOTHING, _NOT_KNOWN) else ""
        line.append(((" │" if column.bar and place else "") + (" " if place else ""), ""))
        line.append((fit(text, column.width, right=True), style))
    return line


def _idle(state: str, row: _Row) -> str:
    return _time(row.of.idle.get(state))


def _percent(value: float | None) -> str:
    return _NOT_KNOWN if value is None else f"{value * 100:.1f} %"


def _time(value: int | None) -> str:
    return _NOT_KNOWN if value is None else with_unit(value, "ns", 7, " ")


def _count(value: int | None) -> str:
    return _NOT_KNOWN if value is None else f"{value:,}" if value else NOTHING


def _limit(of: Utilisation) -> str:
    """Return the limit of the frequency where it is lower than what the processor can do."""
    if of.limit_hz is None:
        return _NOT_KNOWN
    return hertz(of.limit_hz) if of.limit_hz < (of.highest_hz or 0) else NOTHING


def hertz(value: float | None) -> str:
    """Return a frequency in few columns.

    >>> hertz(3.4123e9), hertz(25.04e6), hertz(None)
    ('3.41 GHz', '25.0 MHz', '–')
    """
    if value is None:
        return _NOT_KNOWN
    for unit, scale in (("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3)):
        if value >= scale * 0.9995:
            scaled = value / scale
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f} {unit}"
    return f"{value:.0f} Hz" if value else NOTHING


def _states(sample: Sample, width: int) -> Iterator[Line]:
    """Yield every state of each processor, the longest first."""
    for row in sample.processors:
        if row.span is None:
            continue
        yield [(fit(f"processor {row.cpu}", width).rstrip(), _HEAD)]
        for state, cell in sorted(row.states.items(), key=lambda item: (-item[1].time, item[0])):
            share = f"{cell.time / row.span * 100:6.2f} %" if row.span else ""
            count = "" if cell.count is None else f"{cell.count:>10,} ×"
            text = f"  {fit(clean(state), 28)} {_time(cell.time):>8} {share}{count}"
            yield [(fit(text, width).rstrip(), "")]


def _dropped(sample: Sample, width: int) -> Iterator[Line]:
    if sample.dropped:
        counts = ", ".join(f"{clean(name)} {count:,}" for name, count in sorted(sample.dropped.items()))
        text = f"readings dropped and tried again: {counts}"
        yield from ([(line, _DIM)] for line in indented(text, width, "", "  "))


def _notes(sample: Sample, left_out: Sequence[str], losses: Mapping[str, int], width: int) -> Iterator[Line]:
    alike: dict[tuple[str, str], list[str]] = {}
    for figure, worth in sample.quality.items():
        if worth is not Quality.EXACT:
            alike.setdefault((_WORDS[worth], sample.reasons.get(figure, "")), []).append(figure.removesuffix("_hz"))
    for (word, reason), names in alike.items():
        text = f"{', '.join(names)}: {word}" + (f" ({reason})" if reason else "")
        yield from ([(line, _DIM)] for line in indented(text, width, "", "  "))
    parts = [f"busy time by {sample.source}"]
    if sample.counter:
        parts.append(f"busy ticks by {sample.counter}")
    if sample.skew is not None:
        parts.append(f"skew {_time(sample.skew)}")
    if sample.held is not None:
        parts.append(f"processors held {_time(sample.held)} at most")
    yield from ([(line, _DIM)] for line in indented(", ".join(parts), width, "", "  "))
    yield from _dropped(sample, width)
    if left_out:
        text = f"no room for: {', '.join(left_out)}"
        yield from ([(line, _DIM)] for line in indented(text, width, "", "  "))
    yield from _lost(losses, width)


def _lost(losses: Mapping[str, int], width: int) -> Iterator[Line]:
    lost = named_losses(losses)
    if lost:
        yield from ([(line, _WORST)] for line in indented(f"lost: {lost}", width, "", "  "))
