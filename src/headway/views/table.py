"""The table of threads: how much progress each made, and where the rest of its time went.

Left of the bar the time on a processor, right of it the time off it. The threads that had most of the processor come
first; what does not fit is summed up, never left out. Below it stands what must be known to read the figures, and what
would help.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from rich.console import Console

from headway.model import (
    Advice,
    Indices,
    Kind,
    Ledger,
    Processor,
    Quality,
    Thread,
    indices_of,
    interrupt_time,
    kind_of,
    processor_time,
)

from .figures import NOTHING, share, with_unit
from .lines import Line, show
from .losses import named_losses
from .printable import clean, fit, width_of, wrap
from .why import in_a_line, why

__all__ = ["print_table", "table"]

_NAMES = {"rpi": "RPI", "epi": "EPI", "mpi": "memory", "kpi": "kernel", "iopi": "poll"}
_MARKS = {Quality.EXACT: "", Quality.BOUND: "≤", Quality.SAMPLED: "~", Quality.UNAVAILABLE: ""}
_WORDS = {
    Quality.EXACT: "",
    Quality.BOUND: "at most",
    Quality.SAMPLED: "sampled",
    Quality.UNAVAILABLE: "unavailable",
}
_DIM, _HEAD, _LOST, _WORST = "dim", "bold", "yellow", "bold red"
_NOTABLE = 0.10
"""A loss of this share of the time that a thread was able to run is worth a colour."""
_BEHIND = 14
"""So far to the right stands what is behind a state."""


def print_table(
    console: Console,
    ledger: Ledger,
    *,
    advice: Sequence[Advice] = (),
    limit: int | None = 25,
    verbose: bool = False,
    parts: Iterable[str] = (),
) -> None:
    """Print the table, as wide as the console; ``parts``: of the time, that are to be explained (`views.why`)."""
    show(console, table(ledger, advice=advice, width=console.width, limit=limit, verbose=verbose, parts=parts))


def table(
    ledger: Ledger,
    *,
    advice: Sequence[Advice] = (),
    width: int = 80,
    limit: int | None = 25,
    verbose: bool = False,
    parts: Iterable[str] = (),
) -> list[Line]:
    """The table in lines of at most ``width`` columns, with ``limit`` threads at most (None: all of them)."""
    # All threads are only added up; what costs more is done for those that are shown.
    times = [thread.times() for thread in ledger.threads]
    lines = [*_threads(ledger, times, width, limit, verbose)]
    if parts and ledger.threads:
        lines += [[], *why(ledger, parts, width=width, limit=limit, verbose=verbose)]
    if verbose and ledger.processors:
        lines += [[], *_processors(ledger, width)]
    lines += [[], *_notes(ledger, sum([found[Kind.UNKNOWN] for found in times]), width)]
    if advice:
        lines += [[], *_advice(ledger, advice, width)]
    return lines


# --- threads ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """What a line shows: of a thread, or of many together."""

    times: Mapping[Kind, int]
    interrupts: int
    indices: Indices


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which columns there are, and how wide."""

    figure: int
    gap: str
    name: int
    tid: int
    on: tuple[tuple[str, int], ...]
    """Title and width of the columns of figures left of the bar, right of the name and the tid."""
    off: tuple[tuple[str, int], ...]
    reason: int
    unit: str
    time_unit: str


_FIRST_TO_GO = ("pid", "memory", "poll", "reason", "stolen", "irq", "waiting", "ready", "kernel", "EPI", "RPI", "tid")
"""What is left out first where there is no room."""


def _layout(ledger: Ledger, width: int, digits: int, longest: int) -> _Layout:
    quality = indices_of({}, ledger.precision).quality
    figure, gap = (5, "") if width < 100 else (6, " ") if width < 136 else (7, " ")

    def column(title: str, index: str = "") -> tuple[str, int]:
        mark = _MARKS[quality[index]] if index else ""
        return title, max(figure + len(mark), len(title)) + (width >= 136)

    on = [column("RPI", "rpi"), column("EPI", "epi"), ("TE", 5)]
    on += [column("kernel", "kpi"), column("irq"), column("stolen")]
    if width >= 110:
        if quality["iopi"] is not Quality.UNAVAILABLE:
            on.insert(5, column("poll", "iopi"))
        if quality["mpi"] is not Quality.UNAVAILABLE:
            on.insert(3, column("memory", "mpi"))
        on.insert(0, ("pid", digits))
    off = [column("ready"), ("waiting", figure)]
    tid, reason, least = digits, 7, 10

    def left() -> int:
        bar = 2 if off else 0
        taken = sum(w + 1 for w in (tid, reason) if w)
        return width - taken - bar - sum(w + 1 for _, w in (*on, *off))

    for title in _FIRST_TO_GO:
        if left() >= least:
            break
        on = [c for c in on if c[0] != title]
        off = [c for c in off if c[0] != title]
        if title in ("reason", "waiting"):
            reason = 0
        if title == "tid":
            tid = 0
    name = min(max(left(), 1), 15)
    if reason:
        extra = min(left() - name, len("waits most for") + figure - reason)
        reason += max(extra, 0)
    name = min(max(left(), 1), max(name, longest))
    return _Layout(figure, gap, name, tid, tuple(on), tuple(off), reason, ledger.unit, ledger.time_unit)


def _threads(
    ledger: Ledger, times: Sequence[Mapping[Kind, int]], width: int, limit: int | None, verbose: bool
) -> Iterator[Line]:
    if not ledger.threads:
        yield [(fit("no thread was measured", min(width, 22)), "")]
        return
    had = [processor_time(found) for found in times]
    shown = _most(had, ledger.threads, limit)
    names = {i: clean(ledger.threads[i].name, 64) for i in shown}
    digits = max(5, len(str(max([t.tid if t.tid > t.pid else t.pid for t in ledger.threads]))))
    longest = max((width_of(name) for name in names.values()), default=0)
    layout = _layout(ledger, width, digits, min(longest, 32))
    yield from _heading(layout, width)
    for i in shown:
        thread = ledger.threads[i]
        row = _Row(times[i], interrupt_time(thread.states), indices_of(times[i], ledger.precision))
        label: Line = [(fit(names[i], layout.name), "")]
        if layout.tid:
            label.append((" " + str(thread.tid).rjust(layout.tid), _DIM))
        reason = _waits_most_for(thread, layout)
        yield _crop([*label, *_cells(layout, row, thread.pid), *reason], width)
        if verbose:
            yield from _states(thread, ledger.time_unit, width)
    if len(had) == 1:
        return
    room = layout.name + (layout.tid + 1 if layout.tid else 0)
    total = {kind: sum(map(itemgetter(kind), times)) for kind in Kind}
    interrupts = sum([interrupt_time(thread.states) for thread in ledger.threads])
    rest = len(had) - len(shown)
    if rest:
        more = {kind: total[kind] - sum([times[i][kind] for i in shown]) for kind in Kind}
        of_rest = interrupts - sum([interrupt_time(ledger.threads[i].states) for i in shown])
        row = _Row(more, of_rest, indices_of(more, ledger.precision))
        text = f"… {rest:,} more threads" if rest > 1 else "… 1 more thread"
        yield _crop([(fit(text, room), _DIM), *_cells(layout, row, None)], width)
    row = _Row(total, interrupts, indices_of(total, ledger.precision))
    yield _crop([(fit(f"all {len(had):,} threads", room), _HEAD), *_cells(layout, row, None)], width)


def _most(had: Sequence[int], threads: Sequence[Thread], limit: int | None) -> list[int]:
    """The threads with most processor time, most first; those with the same in the order of their keys."""
    order: Iterable[int] = range(len(had))
    if limit is not None and limit < len(had):
        least = sorted(had, reverse=True)[limit - 1]
        order = [i for i in order if had[i] >= least]
    return sorted(order, key=lambda i: (-had[i], threads[i].key))[:limit]


def _heading(layout: _Layout, width: int) -> Iterator[Line]:
    text = fit("thread", layout.name) + (" " + "tid".rjust(layout.tid) if layout.tid else "")
    text += "".join(" " + title.rjust(w) for title, w in layout.on)
    line: Line = [(text, _HEAD)]
    if layout.off:
        line.append((" │", _DIM))
        titles = dict(layout.off)
        text = " " + "ready".rjust(titles["ready"]) if "ready" in titles else ""
        if layout.reason and titles["waiting"] < len("waiting"):
            text += " " + "waiting for"
        elif "waiting" in titles:
            text += " " + "waiting".rjust(titles["waiting"])
            text += " waits most for" if layout.reason >= len("waits most for") else " for" if layout.reason else ""
        line.append((text, _HEAD))
    yield _crop(line, width)


def _cells(layout: _Layout, row: _Row, pid: int | None) -> Line:
    """The figures of one line, from the first right of the name to the time waited."""
    i, times = row.indices, row.times
    rpi = processor_time(times)
    able = rpi + times.get(Kind.READY, 0) + times.get(Kind.STOLEN, 0)

    def index(name: str, value: int | None) -> str:
        if value is None:
            return "–"
        text = with_unit(value, layout.unit, layout.figure, layout.gap)
        return text if text == NOTHING else _MARKS[i.quality[name]] + text

    def time(value: int) -> str:
        return with_unit(value, layout.time_unit, layout.figure, layout.gap)

    def loss(value: int | None) -> str:
        return _LOST if value and value > _NOTABLE * able else ""

    values = {
        "pid": ("" if pid is None else str(pid), _DIM),
        "RPI": (index("rpi", i.rpi), ""),
        "EPI": (index("epi", i.epi), ""),
        "TE": (share(i.te) if rpi else NOTHING, _efficiency_style(i.te)),
        "memory": (index("mpi", i.mpi), loss(i.mpi)),
        "kernel": (index("kpi", i.kpi), loss(i.kpi)),
        "irq": (time(row.interrupts), loss(row.interrupts)),
        "poll": (index("iopi", i.iopi), loss(i.iopi)),
        "stolen": (time(times.get(Kind.STOLEN, 0)), loss(times.get(Kind.STOLEN, 0))),
        "ready": (time(times.get(Kind.READY, 0)), loss(times.get(Kind.READY, 0))),
        "waiting": (time(times.get(Kind.WAIT, 0)), ""),
    }
    line: Line = []

    def add(title: str, width: int) -> None:
        text, style = values[title]
        style = _DIM if text in (NOTHING, "–") else style
        text = " " + text.rjust(width)
        if line and line[-1][1] == style:
            line[-1] = (line[-1][0] + text, style)
        else:
            line.append((text, style))

    for title, width in layout.on:
        add(title, width)
    if layout.off:
        line.append((" │", _DIM))
    for title, width in layout.off:
        add(title, width)
    return line


def _efficiency_style(te: float | None) -> str:
    if te is None:
        return _DIM
    return "bold green" if te >= 0.9 else "bold yellow" if te >= 0.6 else _WORST


def _waits_most_for(thread: Thread, layout: _Layout) -> Line:
    if not layout.reason:
        return []
    waits = [(cell.time, state) for state, cell in thread.states.items() if cell.time and kind_of(state) is Kind.WAIT]
    if not waits:
        return []
    time, state = max(waits)
    name = clean(state.removeprefix("wait."), 64)
    room = layout.reason - layout.figure - 1
    if room < 5:
        return [(" " + fit(name, layout.reason), "")]
    figure = with_unit(time, layout.time_unit, layout.figure, layout.gap)
    return [(" " + fit(name, min(room, max(width_of(name), 5))), ""), (" " + figure.rjust(layout.figure), _DIM)]


def _states(thread: Thread, unit: str, width: int) -> Iterator[Line]:
    """Every state of a thread, by kind, most time first."""
    kinds = list(Kind)
    rows = sorted(thread.states.items(), key=lambda item: (kinds.index(kind_of(item[0])), -item[1].time, item[0]))
    name = max(12, min(28, width - 54))
    before = None
    for state, cell in rows:
        kind = kind_of(state)
        label = kind.value if kind is not before else ""
        before = kind
        of_span = f"{cell.time / thread.span * 100:5.1f} %" if thread.span else " " * 7
        line: Line = [
            (f"  {label:<10}", _DIM),
            (fit(clean(state, 256), name), ""),
            (" " + with_unit(cell.time, unit, 7, " ").rjust(7), ""),
            (" " + of_span, _DIM),
        ]
        if cell.count:
            line.append((f"  × {cell.count:<9,}", ""))
            if cell.time and cell.count > 1:
                line.append((f" {with_unit(round(cell.time / cell.count), unit, 7, ' ').rjust(7)} each", _DIM))
        yield _crop(line, width)
        behind = in_a_line(thread, state, width - _BEHIND) if cell.time and width > 2 * _BEHIND else ""
        if behind:
            yield [(" " * _BEHIND + behind, _DIM)]


# --- processors -------------------------------------------------------------------------------------------------------


def _processors(ledger: Ledger, width: int) -> Iterator[Line]:
    """What each processor did; a line adds up to the time in which it was measured."""
    figure = 7 if width >= 80 else 5
    titles = ("measured", "irq", "stolen", "overhead", "unmeasured", "idle")
    widths = [max(figure, len(title)) for title in titles]
    heading = "processor" + "".join("  " + title.rjust(w) for title, w in zip(titles, widths, strict=True))
    yield _crop([(heading, _HEAD)], width)
    for processor in sorted(ledger.processors, key=lambda p: p.cpu):
        line: Line = [(str(processor.cpu).rjust(len("processor")), "")]
        for time, w in zip(_shares(processor), widths, strict=True):
            text = with_unit(time, ledger.time_unit, figure, " " if figure > 5 else "")
            line.append(("  " + text.rjust(w), _DIM if text == NOTHING else ""))
        yield _crop(line, width)


def _shares(processor: Processor) -> tuple[int, int, int, int, int, int]:
    idle = sum(cell.time for state, cell in processor.states.items() if state.partition(".")[0] == "idle")
    interrupts = interrupt_time(processor.states)
    times = dict.fromkeys(Kind, 0)
    for state, cell in processor.states.items():
        times[kind_of(state)] += cell.time
    stolen, overhead, unmeasured = times[Kind.STOLEN], times[Kind.OVERHEAD], times[Kind.UNKNOWN]
    measured = sum(times.values()) - idle - interrupts - stolen - overhead - unmeasured
    return measured, interrupts, stolen, overhead, unmeasured, idle


# --- below the table --------------------------------------------------------------------------------------------------


def _notes(ledger: Ledger, unseen: int, width: int) -> Iterator[Line]:
    quality = indices_of({}, ledger.precision).quality
    hidden = [_NAMES[index] for index in ("mpi", "kpi", "iopi") if quality[index] is Quality.UNAVAILABLE]
    alike: dict[tuple[str, str], list[str]] = {}
    for index, name in _NAMES.items():
        reason = ledger.reasons.get(index, "")
        if index == "epi" and hidden and not reason:
            reason = f"{' and '.join(hidden)} {'is' if len(hidden) == 1 else 'are'} in it"
        if quality[index] is not Quality.EXACT:
            alike.setdefault((_WORDS[quality[index]], reason), []).append(name)
    for name, reason in ledger.reasons.items():
        if name not in _NAMES:
            alike.setdefault(("", reason), []).append(name)
    for (word, reason), names in alike.items():
        text = f"{', '.join(names)}: {word} ({reason})" if word and reason else f"{', '.join(names)}: {word or reason}"
        yield from ([(line, _DIM)] for line in _indented(text, width, "", "  "))
    if unseen:
        time = with_unit(unseen, ledger.time_unit, 7, " ")
        yield from ([(line, _DIM)] for line in _indented(f"not seen: {time} of the threads' time", width, "", "  "))
    cost = ledger.overhead
    text = f"measured {cost.events:,} transitions, " if cost.events is not None else ""
    text += f"cost {with_unit(cost.time, ledger.time_unit, 7, ' ')}" if cost.time else f"cost {_cost(cost.time)}"
    lost = named_losses(ledger.losses)
    if not lost:
        yield from ([(line, _DIM)] for line in _indented(text + ", lost 0", width, "", "  "))
        return
    yield from ([(line, _DIM)] for line in _indented(text, width, "", "  "))
    yield from ([(line, _WORST)] for line in _indented(f"lost: {lost}", width, "", "  "))


def _cost(time: int | None) -> str:
    return "not known" if time is None else "0"


def _advice(ledger: Ledger, advice: Sequence[Advice], width: int) -> Iterator[Line]:
    threads = {thread.tid: thread for thread in ledger.threads}
    yield _crop([("what would help", _HEAD)], width)
    for piece in advice:
        who = "the machine"
        if piece.thread is not None:
            thread = threads.get(piece.thread)
            name = fit(clean(thread.name, 64), 15).rstrip() if thread else ""
            who = f"{name} {piece.thread}".lstrip()
        first, *more = _indented(f"{who}: {piece.text}", width, "  ", "    ")
        cut = len(first) - len(first[2 + len(who) :]) if first.startswith(f"  {who}") else 0
        yield [(first[:cut], _HEAD), (first[cut:], "")]
        yield from ([(line, "")] for line in more)
        if piece.command is not None:
            for line in _indented(piece.command, width, "    $ ", "        ", " \\"):
                yield [(line, "cyan")]


def _indented(text: str, width: int, first: str, others: str, end: str = "") -> Iterable[str]:
    """Text in lines with an indent, which is left out where there is hardly any room."""
    if width < len(others) + 20:
        first = others = ""
    room = width - max(len(first), len(others))
    head, *tail = wrap(clean(text, 1000), max(room, 1), end if room > 20 else "")
    return [first + head, *(others + line for line in tail)]


def _crop(line: Line, width: int) -> Line:
    """The line as it is, or cut where it is wider than there is room."""
    if sum(width_of(text) for text, _ in line) <= width:
        return line
    kept: Line = []
    for text, style in line:
        size = width_of(text)
        if size > width:
            kept.append((fit(text, width), style))
            break
        kept.append((text, style))
        width -= size
    return kept
