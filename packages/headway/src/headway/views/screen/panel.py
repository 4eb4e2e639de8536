"""The panel: everything that is known of one thread or one group in this interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headway.advice import Advice
from headway.model import Cell, GroupBy, Kind, Ledger, Thread, add_sampled, add_states, kind_of
from headway.views.advice import what_would_help
from headway.views.divided import efficiency, how_divided, mark_of
from headway.views.figures import MARKS, NOTHING, share, with_unit
from headway.views.lines import Line, cut, indented
from headway.views.palette import ORDER, PALETTE
from headway.views.printable import clean, fit, width_of
from headway.views.why import why

from .bar import bar, ground, spark
from .columns import per_cent
from .roster import KEPT, GroupRow, Picture, ThreadRow

__all__ = ["panel"]

_CALLS = 8
"""The number of system calls listed in the section before all states."""
_INDICES = (
    ("RPI", "rpi"),
    ("EPI", "epi"),
    ("TE", "te"),
    ("MPI", "mpi"),
    ("KPI", "kpi"),
    ("IOPI", "iopi"),
    ("Td", "td"),
)
_EFFICIENCIES = (("TE", "te"), ("ME", "me"), ("KE", "ke"), ("IOE", "ioe"))


def panel(
    picture: Picture, row: ThreadRow, width: int, *, advice: Sequence[Advice] = (), letters: bool = False
) -> list[Line]:
    """Return the panel of a row in lines of at most ``width`` columns. ``advice`` is that for the whole ledger."""
    ledger = picture.ledger
    chosen = row.threads
    states = chosen[0].states if len(chosen) == 1 else add_states(*(thread.states for thread in chosen))
    lines = [*_head(ledger, row, width, letters), *_indices(ledger, chosen, width)]
    for section in (
        _calls(ledger, states, chosen, width),
        _waits(ledger, chosen, width),
        _states(ledger, states, chosen, width),
        _advice(ledger, chosen, advice, width),
        _notes(ledger, width),
    ):
        found = list(section)
        if found:
            lines += [[], *found]
    return [cut(line, width) for line in lines]


def _title(text: str) -> Line:
    return [(text, "title")]


def _head(ledger: Ledger, row: ThreadRow, width: int, letters: bool) -> Iterator[Line]:
    who = f"tid {row.tid}, process {row.pid}"
    if isinstance(row, GroupRow):
        who = _whose(row)
    name = clean(row.name, 64)
    room = max(width - width_of(who) - 2, 8)
    line: Line = [(fit(name, min(width_of(name), room)), "title"), (f"  {who}", "dim")]
    if row.members == 1 and row.thread.end is not None:
        line.append((", it has ended", "bad"))
    yield line
    yield bar(row.times, width, letters=letters)
    line, taken = [], 0
    for kind in sorted((k for k in ORDER if row.times.get(k)), key=lambda k: (-row.times[k], ORDER.index(k))):
        text = f" {kind.value} {per_cent(row.share(row.times[kind]))}  "
        if taken + 1 + len(text) > width and line:
            yield line
            line, taken = [], 0
        line += [(PALETTE[kind].letter, ground(kind)), (text, "")]
        taken += 1 + len(text)
    if line:
        yield line
    yield [("EPI before ", "dim"), (spark(row.history, min(KEPT, max(width - 11, 0))).strip(), Kind.EFFECTIVE.value)]


def _whose(row: GroupRow) -> str:
    if row.group.by is GroupBy.PROCESS:
        return f"process {row.pid}, {row.members:,} threads"
    processes = len({thread.pid for thread in row.threads})
    return f"{row.members:,} threads of " + (f"process {row.pid}" if processes == 1 else f"{processes:,} processes")


def _indices(ledger: Ledger, chosen: Sequence[Thread], width: int) -> Iterator[Line]:
    """Yield the indices of the threads together."""
    indices = ledger.indices(*chosen)
    unit = ledger.unit
    words = []
    for title, name in _INDICES:
        value = getattr(indices, name)
        if name == "te":
            continue
        text = "–" if value is None else MARKS[indices.quality[name]] + with_unit(value, unit, 7, " ")
        words.append(f"{title} {text}")
    if unit == "cycles" and ledger.time_unit == "ns":
        words.append("in cycles")
    words += [
        f"{title} {efficiency(indices, width) if name == 'te' else MARKS[indices.quality[name]] + share(value)}"
        for title, name in _EFFICIENCIES
        if (value := getattr(indices, name)) is not None
    ]
    yield from ([(line, "")] for line in indented(" · ".join(words), width, "", "  "))
    if ledger.divided:
        text = f"processor time: {how_divided(ledger.amounts(*chosen))}"
        yield from ([(line, "dim")] for line in indented(text, width, "", "  "))


def _calls(ledger: Ledger, states: Mapping[str, Cell], chosen: Sequence[Thread], width: int) -> Iterator[Line]:
    """Yield the system calls with most time in the kernel, not counting waits."""
    calls = [(cell, name.partition(".")[2]) for name, cell in states.items() if name.startswith("kernel.")]
    calls = sorted((row for row in calls if row[0].time or row[0].count), key=lambda row: (-row[0].time, row[1]))
    if not calls:
        return
    yield _title(_columns("top system calls, faults", width))
    sampled = add_sampled(*[thread.sampled for thread in chosen if thread.sampled])
    for cell, name in calls[:_CALLS]:
        yield _row(name, cell, ledger, width, mark_of(sampled.get(f"kernel.{name}")))
    if len(calls) > _CALLS:
        yield [(f"… {len(calls) - _CALLS} more", "dim")]


def _waits(ledger: Ledger, chosen: Sequence[Thread], width: int) -> Iterator[Line]:
    """Yield what the threads wait for, who ends their waits, and who has the processor while they are ready."""
    if not any(thread.causes for thread in chosen):
        if ledger.source == "bpf":
            text = "who ends its waits, and has the processor meanwhile, is recorded with --why wait"
            yield from ([(line, "dim")] for line in indented(text, width, "", "  "))
        return
    times = [ledger.times(thread) for thread in chosen]
    parts = [part for part in ("wait", "ready", "kernel") if any(found[Kind(part)] for found in times)]
    if parts:
        yield from why(ledger, parts, width=width, limit=4, only=chosen)


def _states(ledger: Ledger, states: Mapping[str, Cell], chosen: Sequence[Thread], width: int) -> Iterator[Line]:
    """Yield every state, by kind, most time first."""
    sampled = add_sampled(*[thread.sampled for thread in chosen if thread.sampled])
    yield _title(_columns("all states", width))
    rows = sorted(states.items(), key=lambda item: (ORDER.index(kind_of(item[0])), -item[1].time, item[0]))
    for name, cell in rows:
        if not cell.empty:
            kind = kind_of(name)
            yield [
                (PALETTE[kind].letter, ground(kind)),
                (" ", ""),
                *_row(name, cell, ledger, width - 2, mark_of(sampled.get(name))),
            ]


_FIGURES = (("share", 6), ("time", 8), ("count", 8), ("each", 8))
_MIN_NAME = 16


def _shown(width: int) -> tuple[tuple[str, int], ...]:
    """Return the columns of figures that fit beside the name."""
    shown: tuple[tuple[str, int], ...] = _FIGURES
    while shown and width - sum([w for _, w in shown]) < _MIN_NAME:
        shown = shown[:-1]
    return shown


def _columns(title: str, width: int) -> str:
    shown = _shown(width)
    return fit(title, width - sum([w for _, w in shown])) + "".join(text.rjust(w) for text, w in shown)


def _row(name: str, cell: Cell, ledger: Ledger, width: int, mark: str = "") -> Line:
    count = "–" if cell.count is None else with_unit(cell.count, "", 7)
    each = with_unit(round(cell.time / cell.count), ledger.time_unit, 7) if cell.count and cell.time else ""
    figures = per_cent(ledger.share(cell.time)), mark + with_unit(cell.time, ledger.time_unit, 7), count, each
    shown = _shown(width)
    line: Line = [(fit(clean(name, 256), width - sum([w for _, w in shown])), "")]
    for text, (_, w) in zip(figures, shown, strict=False):
        line.append((text.rjust(w), "dim" if text in (NOTHING, "–") else ""))
    return line


def _advice(ledger: Ledger, chosen: Sequence[Thread], advice: Sequence[Advice], width: int) -> Iterator[Line]:
    tids = {thread.tid for thread in chosen}
    found = [piece for piece in advice if piece.thread is None or piece.thread in tids]
    if found:
        yield from what_would_help(found, width)


def _notes(ledger: Ledger, width: int) -> Iterator[Line]:
    """Yield why figures are not exact."""
    for name, reason in ledger.reasons.items():
        yield from ([(line, "dim")] for line in indented(f"{name}: {reason}", width, "", "  "))
