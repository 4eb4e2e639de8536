"""The table of threads: how much progress each made, and where the rest of its time went.

To the left of the bar is the time on a processor, to the right the time off it. The threads with most processor time
come first. Threads without room are summed up, never left out. Below the table are notes that explain the figures, and
advice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, itemgetter

from rich.console import Console

from headway.advice import Advice
from headway.model import (
    Amounts,
    Cell,
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

from .advice import what_would_help
from .figures import MARKS, NOTHING, share, with_unit
from .lines import Line, indented, show
from .losses import explained_losses, named_losses
from .printable import clean, fit, width_of
from .why import in_a_line, why

__all__ = ["print_table", "table"]

_NAMES = {"rpi": "RPI", "epi": "EPI", "mpi": "memory", "kpi": "kernel", "iopi": "poll"}
_WORDS = {
    Quality.EXACT: "",
    Quality.BOUND: "at most",
    Quality.SAMPLED: "sampled",
    Quality.UNAVAILABLE: "unavailable",
}
_DIM, _HEAD, _LOST, _WORST = "dim", "bold", "yellow", "bold red"
_NOTABLE = 0.10
"""A loss of this share of the time in which a thread was able to run is highlighted."""
_BEHIND = 14
"""The column in which the causes of a state begin."""


def print_table(
    console: Console,
    ledger: Ledger,
    *,
    advice: Sequence[Advice] = (),
    limit: int | None = 25,
    verbose: bool = False,
    parts: Iterable[str] = (),
) -> None:
    """Print the table, as wide as the console. ``parts`` are the parts of time to explain (`views.why`)."""
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
    """Return the table in lines of at most ``width`` columns, with at most ``limit`` threads (None: all)."""
    # For all threads only sums are computed. What costs more is computed for those that are shown.
    times = [thread.times() for thread in ledger.threads]
    lines = [*_threads(ledger, times, width, limit, verbose)]
    if ledger.events and ledger.threads:
        lines += [[], *_events(ledger, times, width, limit)]
    if parts and ledger.threads:
        lines += [[], *why(ledger, parts, width=width, limit=limit, verbose=verbose)]
    if verbose and ledger.processors:
        lines += [[], *_processors(ledger, width)]
    lines += [[], *_notes(ledger, sum([found[Kind.UNKNOWN] for found in times]), width)]
    if advice:
        lines += [[], *what_would_help(ledger, advice, width)]
    return lines


# --- threads ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """The values of a line, for one thread or for several together."""

    times: Mapping[Kind, int]
    interrupts: int
    able: int
    """What a loss is compared with: all processor time that the thread had or could have had, in the indices' unit."""
    indices: Indices


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns and their widths."""

    figure: int
    gap: str
    name: int
    tid: int
    on: tuple[tuple[str, int], ...]
    """Title and width of the columns left of the bar, after the name and the tid."""
    off: tuple[tuple[str, int], ...]
    reason: int
    unit: str
    time_unit: str


_FIRST_TO_GO = ("pid", "memory", "poll", "reason", "stolen", "irq", "waiting", "ready", "kernel", "EPI", "RPI", "tid")
"""The columns in the order in which they are dropped if there is no room."""

_FIRST_TO_GO_COUNTED = ("pid", "irq", "stolen", "poll", *(c for c in _FIRST_TO_GO[3:] if c not in ("irq", "stolen")))
"""The same where hardware counted. Then memory is worth more room than interrupts."""

_FIRST_TO_GO_MACHINE = ("stolen", "irq", "IOE", "KE", "ME", "tid", "stall", "extern", "reason", *_FIRST_TO_GO[1:-1])
"""The same for the machine, which counts every cycle: every part of RPI is known, and threads have names."""


def _layout(ledger: Ledger, width: int, digits: int, longest: int, polls: bool) -> _Layout:
    quality = indices_of({}, ledger.precision).quality
    figure, gap = (5, "") if width < 100 else (6, " ") if width < 136 else (7, " ")

    def column(title: str, index: str = "") -> tuple[str, int]:
        mark = MARKS[quality[index]] if index else ""
        return title, max(figure + len(mark), len(title)) + (width >= 136)

    on = [column("RPI", "rpi"), column("EPI", "epi"), ("TE", 5)]
    on += [column("kernel", "kpi"), column("irq"), column("stolen")]
    if quality["iopi"] is not Quality.UNAVAILABLE and (polls or width >= 110):
        on.insert(4 if polls else 5, column("poll", "iopi"))
    order: Sequence[str] = _FIRST_TO_GO
    if _every_cycle(ledger):
        on = [column("RPI"), column("EPI"), ("TE", 5), column("memory"), column("extern"), column("kernel")]
        on += [column("poll"), column("stall"), ("ME", 5), ("KE", 5), ("IOE", 5), column("irq"), column("stolen")]
        order = _FIRST_TO_GO_MACHINE
    elif width >= 110:
        if quality["mpi"] is not Quality.UNAVAILABLE and not ledger.counted:
            on.insert(3, column("memory", "mpi"))
        on.insert(0, ("pid", digits))
    if quality["mpi"] is not Quality.UNAVAILABLE and ledger.counted and not _every_cycle(ledger):
        on.insert([title for title, _ in on].index("kernel"), column("memory", "mpi"))
        order = _FIRST_TO_GO_COUNTED
    if polls and not _every_cycle(ledger):  # polling is then worth more room than interrupts and stolen time
        first = ("pid", "memory", "stolen", "irq")
        order = (*first, *(c for c in order if c not in (*first, "poll", "kernel")), "poll", "kernel")
    off = [column("ready"), ("waiting", figure)]
    tid, reason, least = digits, 7, 10

    def left() -> int:
        bar = 2 if off else 0
        taken = sum(w + 1 for w in (tid, reason) if w)
        return width - taken - bar - sum(w + 1 for _, w in (*on, *off))

    for title in order:
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


def _every_cycle(ledger: Ledger) -> bool:
    """Return whether the figures are a machine's, which divides its time to the last cycle."""
    return bool(ledger.counted) and ledger.time_unit == "cycles"


def _threads(
    ledger: Ledger, times: Sequence[Mapping[Kind, int]], width: int, limit: int | None, verbose: bool
) -> Iterator[Line]:
    if not ledger.threads:
        damaged = ledger.losses.get("files_damaged", 0)
        yield [(fit("no thread can be read" if damaged else "no thread was measured", min(width, 22)), "")]
        return
    had = [processor_time(found) for found in times]
    shown = _most(had, ledger.threads, limit)
    names = {i: clean(ledger.threads[i].name, 64) for i in shown}
    digits = max(5, len(str(max([t.tid if t.tid > t.pid else t.pid for t in ledger.threads]))))
    longest = max((width_of(name) for name in names.values()), default=0)
    polls = any(found[Kind.POLL] > _NOTABLE * processor_time(found) for found in times)
    layout = _layout(ledger, width, digits, min(longest, 32), polls)
    yield from _heading(layout, width)
    for i in shown:
        thread = ledger.threads[i]
        row = _row(ledger, times[i], interrupt_time(thread.states), ledger.amounts(thread))
        label: Line = [(fit(names[i], layout.name), "")]
        if layout.tid:
            label.append((" " + str(thread.tid).rjust(layout.tid), _DIM))
        reason = _waits_most_for(thread, layout)
        yield _crop([*label, *_cells(layout, row, thread.pid), *reason], width)
        if verbose:
            yield from _states(ledger, thread, width)
    if len(had) == 1:
        return
    room = layout.name + (layout.tid + 1 if layout.tid else 0)
    total = {kind: sum(map(itemgetter(kind), times)) for kind in Kind}
    amounts = _sum(map(ledger.amounts, ledger.threads)) if ledger.counted else Amounts(total)
    interrupts = sum([interrupt_time(thread.states) for thread in ledger.threads])
    rest = len(had) - len(shown)
    if rest:
        more = {kind: total[kind] - sum([times[i][kind] for i in shown]) for kind in Kind}
        of_rest = interrupts - sum([interrupt_time(ledger.threads[i].states) for i in shown])
        unseen = [ledger.threads[i] for i in sorted(set(range(len(had))) - set(shown))] if ledger.counted else []
        row = _row(ledger, more, of_rest, _sum(map(ledger.amounts, unseen)) if unseen else Amounts(more))
        text = f"… {rest:,} more threads" if rest > 1 else "… 1 more thread"
        yield _crop([(fit(text, room), _DIM), *_cells(layout, row, None)], width)
    row = _row(ledger, total, interrupts, amounts)
    yield _crop([(fit(f"all {len(had):,} threads", room), _HEAD), *_cells(layout, row, None)], width)


def _row(ledger: Ledger, times: Mapping[Kind, int], interrupts: int, had: Amounts) -> _Row:
    rpi = processor_time(had.by_kind)
    # There are no cycles off the processor. What was not had is added if the unit is time, else it is left out.
    waited = times[Kind.READY] + times[Kind.STOLEN] if ledger.unit == ledger.time_unit else 0
    indices = indices_of(had.by_kind, had.worth(ledger.precision), external=had.external)
    return _Row(times, interrupts, rpi + waited, indices)


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    return reduce(add, amounts, Amounts({}, 0))


def _most(had: Sequence[int], threads: Sequence[Thread], limit: int | None) -> list[int]:
    """Return the indices of the threads with most processor time, most first, and with equal time by key."""
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
    """Return the figures of one line, from the first after the name to the time waited."""
    i, times = row.indices, row.times
    able = processor_time(times) + times.get(Kind.READY, 0) + times.get(Kind.STOLEN, 0)
    stalls = (i.rpi or 0) - sum(part or 0 for part in (i.epi, i.mpi, i.kpi, i.iopi))

    def index(name: str, value: int | None) -> str:
        if value is None:
            return "–"
        text = with_unit(value, layout.unit, layout.figure, layout.gap)
        return text if text == NOTHING else MARKS[i.quality[name]] + text

    def time(value: int) -> str:
        return with_unit(value, layout.time_unit, layout.figure, layout.gap)

    def loss(value: int | None, of: int = able) -> str:
        return _LOST if value and value > _NOTABLE * of else ""

    values = {
        "pid": ("" if pid is None else str(pid), _DIM),
        "RPI": (index("rpi", i.rpi), ""),
        "EPI": (index("epi", i.epi), ""),
        "TE": (share(i.te) if i.rpi != 0 else NOTHING, _efficiency_style(i.te)),
        "memory": (index("mpi", i.mpi), loss(i.mpi, row.able)),
        "extern": (index("mpi", i.mpi_external), loss(i.mpi_external, row.able)),
        "stall": (time(stalls), loss(stalls, row.able)),
        "ME": (share(i.me), ""),
        "KE": (share(i.ke), ""),
        "IOE": (share(i.ioe), ""),
        "kernel": (index("kpi", i.kpi), loss(i.kpi, row.able)),
        "irq": (time(row.interrupts), loss(row.interrupts)),
        "poll": (index("iopi", i.iopi), loss(i.iopi, row.able)),
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


def _states(ledger: Ledger, thread: Thread, width: int) -> Iterator[Line]:
    """Yield every state of a thread, by kind, most time first, with what was counted in it."""
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
            (" " + with_unit(cell.time, ledger.time_unit, 7, " ").rjust(7), ""),
            (" " + of_span, _DIM),
        ]
        if cell.count:
            line.append((f"  × {cell.count:<9,}", ""))
            if cell.time and cell.count > 1:
                each = with_unit(round(cell.time / cell.count), ledger.time_unit, 7, " ")
                line.append((f" {each.rjust(7)} each", _DIM))
        yield _crop(line, width)
        known = cell.events or {}
        there = [*_counted(cell), *(f"{event} {known[event]:,}" for event in ledger.events if known.get(event))]
        if there and ledger.counted:
            yield from ([(text, _DIM)] for text in indented(" · ".join(there), width, " " * 14, " " * 14))

        behind = in_a_line(thread, state, width - _BEHIND) if cell.time and width > 2 * _BEHIND else ""
        if behind:
            yield [(" " * _BEHIND + behind, _DIM)]
    yield from _kernel_clock(ledger, thread, name, width)


def _kernel_clock(ledger: Ledger, thread: Thread, name: int, width: int) -> Iterator[Line]:
    """Yield a line of the thread's processor time by the kernel's clock, beside the figure to compare it with."""
    clock = thread.kernel_clock
    if clock is None:
        return
    if clock.time is None:
        yield _crop([("  by the kernel's clock: not known, it ran when the window began or ended", _DIM)], width)
        return
    times = thread.times()
    own = processor_time(times) + times[Kind.OVERHEAD]
    text = MARKS[clock.quality] + with_unit(clock.time, ledger.time_unit, 7, " ")
    line: Line = [
        (fit("  by the kernel's clock", 12 + name), _DIM),
        (" " + text.rjust(7), ""),
        (f"  RPI and overhead {with_unit(own, ledger.time_unit, 7, ' ')}", _DIM),
    ]
    yield _crop(line, width)


def _counted(cell: Cell) -> Iterator[str]:
    """Yield what hardware counted in a state, as far as it is known: its cycles, and how many of them stalled."""
    cycles = cell.cycles
    if not cycles:
        return
    yield f"{with_unit(cycles, 'cycles', 7)} cycles"
    if cell.instructions is not None:
        yield f"{cell.instructions / cycles:.2f} instructions each"
    for words, part in (
        ("stalled", cell.stall_cycles),
        ("for memory", cell.memory_stall_cycles),
        ("for DRAM", cell.external_stall_cycles),
    ):
        if part:
            yield f"{words} {share(min(part / cycles, 1.0))}"


# --- events -----------------------------------------------------------------------------------------------------------


def _events(ledger: Ledger, times: Sequence[Mapping[Kind, int]], width: int, limit: int | None) -> Iterator[Line]:
    """Yield a table of the count of each event in each thread, in as many blocks of columns as are needed."""
    shown = _most([processor_time(found) for found in times], ledger.threads, limit)
    every = [_events_of(ledger, [thread]) for thread in ledger.threads]
    who: list[tuple[str, str]] = [(clean(ledger.threads[i].name, 64), str(ledger.threads[i].tid)) for i in shown]
    rows = [every[i] for i in shown]
    if len(shown) < len(every):
        rest = len(every) - len(shown)
        who.append((f"… {rest:,} more", ""))
        rows.append(_events_of(ledger, [ledger.threads[i] for i in sorted(set(range(len(every))) - set(shown))]))
    if len(every) > 1:
        who.append((f"all {len(every):,}", ""))
        rows.append(_events_of(ledger, ledger.threads))
    texts = [["–" if n is None else f"{n:,}" if n else NOTHING for n in row] for row in rows]
    name = max(6, min(15, max(width_of(text) for text, _ in who)))
    tid = max(5, *(len(text) for _, text in who))
    label = name + 1 + tid
    heads = [clean(event, 64) for event in ledger.events]
    title = max(min(24, width - label - 2), 1)
    widths = [max(min(width_of(head), title), *(len(row[n]) for row in texts)) + 2 for n, head in enumerate(heads)]
    for first, last in _blocks(widths, width - label):
        if first:
            yield []
        columns = range(first, last)
        head = fit("events", name) + " " + "tid".rjust(tid)
        for n in columns:
            text = fit(heads[n], min(width_of(heads[n]), widths[n] - 2)).rstrip()
            head += " " * (widths[n] - width_of(text)) + text
        yield _crop([(head, _HEAD)], width)
        for (text, number), row in zip(who, texts, strict=True):
            line: Line = [(fit(text, name), "" if number else _DIM), (" " + number.rjust(tid), _DIM)]
            line += [(row[n].rjust(widths[n]), _DIM if row[n] in (NOTHING, "–") else "") for n in columns]
            yield _crop(line, width)


def _events_of(ledger: Ledger, threads: Iterable[Thread]) -> list[int | None]:
    """Return the total of each event over all states in which it is known; None: it is known in none."""
    found: dict[str, int] = {}
    for thread in threads:
        for cell in thread.states.values():
            for name, count in (cell.events or {}).items():
                if count is not None:
                    found[name] = found.get(name, 0) + count
    return [found.get(name) for name in ledger.events]


def _blocks(widths: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of the columns that fit beside each other; at least one."""
    first, used = 0, 0
    for n, width in enumerate(widths):
        if n > first and used + width > room:
            yield first, n
            first, used = n, 0
        used += width
    yield first, len(widths)


# --- processors -------------------------------------------------------------------------------------------------------


def _processors(ledger: Ledger, width: int) -> Iterator[Line]:
    """Yield a line for each processor. It adds up to the time in which the processor was measured."""
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
    if ledger.precision.stall is not Quality.UNAVAILABLE and _NAMES["mpi"] in hidden:
        hidden.remove(_NAMES["mpi"])
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
        yield from ([(line, _DIM)] for line in indented(text, width, "", "  "))
    shared = [f"{name} {share(c.share)}" for name, c in ledger.counted.items() if not c.whole]
    if shared:
        text = f"counted part of the time and scaled to all of it, the counters were shared: {', '.join(shared)}"
        yield from ([(line, _LOST)] for line in indented(text, width, "", "  "))
    if unseen:
        time = with_unit(unseen, ledger.time_unit, 7, " ")
        yield from ([(line, _DIM)] for line in indented(f"not seen: {time} of the threads' time", width, "", "  "))
    cost = ledger.overhead
    if _every_cycle(ledger):
        text = f"in cycles, of {ledger.window.duration:,}; extern: the part of memory that is outside the processor"
        yield from ([(line, _DIM)] for line in indented(text, width, "", "  "))
    text = f"measured {cost.events:,} events, " if cost.events is not None else ""
    text += f"cost {with_unit(cost.time, ledger.time_unit, 7, ' ')}" if cost.time else f"cost {_cost(cost.time)}"
    lost = named_losses(ledger.losses)
    if not lost:
        yield from ([(line, _DIM)] for line in indented(text + ", lost 0", width, "", "  "))
        return
    yield from ([(line, _DIM)] for line in indented(text, width, "", "  "))
    yield from ([(line, _WORST)] for line in indented(f"lost: {lost}", width, "", "  "))
    for words in explained_losses(ledger.losses):
        yield from ([(line, _DIM)] for line in indented(words, width, "  ", "    "))


def _cost(time: int | None) -> str:
    return "not known" if time is None else "0"


def _crop(line: Line, width: int) -> Line:
    """Return the line, cut if it is wider than ``width``."""
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
