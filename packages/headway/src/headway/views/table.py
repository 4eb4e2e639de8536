"""The table of threads: how much progress each made, and where the rest of its time went.

To the left of the bar is the time on a processor, to the right the time off it. The threads with most processor time
come first. Where there are more threads than lines, those of one name are one line, with the sums of their figures.
Threads without a line are summed up, never left out. Below the table are notes that explain the figures, and advice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headway.dataclass import dataclass
from headway.model import (
    READY,
    Amounts,
    Cell,
    Durations,
    Group,
    GroupBy,
    Indices,
    Kind,
    Ledger,
    Precision,
    Processor,
    Quality,
    Thread,
    add_times,
    grouped,
    indices_of,
    interrupt_time,
    is_interrupt,
    kind_of,
    observer_share,
    processor_time,
)

from .console import Console
from .divided import efficiency, exactness, how_divided, mark_of
from .durations import in_words, rows_of, what_is_shown
from .events_by_kind import events_in_words
from .figures import MARKS, NOTHING, share, with_unit
from .lines import Line, indented, show, text_of
from .listing import DEFAULT, Listing
from .losses import are_small, explained_losses, named_losses
from .printable import clean, fit, fit_name, width_of
from .tasks import tasks_table

if TYPE_CHECKING:
    from headway.advice import Advice

__all__ = ["print_table", "table"]

_NAMES = {"rpi": "RPI", "epi": "EPI", "mpi": "memory", "kpi": "kernel", "iopi": "poll"}
_WORDS = {
    Quality.EXACT: "",
    Quality.ESTIMATED: "estimated",
    Quality.BOUND: "at most",
    Quality.BY_MODE: "by cycles",
    Quality.SAMPLED: "sampled",
    Quality.PARTIAL: "at least",
    Quality.UNAVAILABLE: "unavailable",
}
_DIM, _HEAD, _LOST, _WORST = "dim", "bold", "yellow", "bold red"
_NOTABLE = 0.10
"""A loss of this share of the time in which a thread was able to run is highlighted."""
_BEHIND = 14
"""The column in which the causes of a state begin."""
_WITH_ERROR = 9
"""The width of the column TE where it has a sampling error: ~38 ±2 %."""
_ROOM = 72
"""The width from which on there is room for that."""
_TITLES = {GroupBy.PROCESS: "process", GroupBy.POD: "pod", GroupBy.CGROUP: "cgroup"}
"""What stands above the names of lines."""
_FEWEST = 3
"""The smallest number of lines of threads, however low the terminal is."""


def print_table(
    console: Console,
    ledger: Ledger,
    *,
    advice: Sequence[Advice] = (),
    listing: Listing = DEFAULT,
    verbose: bool = False,
    parts: Iterable[str] = (),
    durations: bool = False,
) -> GroupBy:
    """Print the table, as wide as the console, and return what a line of it is for.

    ``parts`` are the parts of time to explain (`views.why`). ``durations``: show those of every state, which
    ``verbose`` does with all else.
    """
    lines, by = _table(ledger, advice, console.width, listing, verbose, parts, durations)
    show(console, lines)
    return by


def table(
    ledger: Ledger,
    *,
    advice: Sequence[Advice] = (),
    width: int = 80,
    listing: Listing = DEFAULT,
    verbose: bool = False,
    parts: Iterable[str] = (),
    durations: bool = False,
) -> list[Line]:
    """Return the table in lines of at most ``width`` columns."""
    return _table(ledger, advice, width, listing, verbose, parts, durations)[0]


def _table(
    ledger: Ledger,
    advice: Sequence[Advice],
    width: int,
    listing: Listing,
    verbose: bool,
    parts: Iterable[str],
    durations: bool,
) -> tuple[list[Line], GroupBy]:
    # For all threads only sums are computed. What costs more is computed for those that are shown.
    times = [thread.times() for thread in ledger.threads]
    divided = ledger.amounts(*ledger.threads) if ledger.divided else None
    worth = ledger.precision if divided is None else divided.worth(ledger.precision)
    notes = [*_notes(ledger, times, worth, divided, width, None if verbose else _EVERY_MARK)]
    listed = _listed(ledger, times, listing, len(notes), width)
    lines = [*_threads(ledger, times, listed, worth if divided is not None else None, width, verbose, durations)]
    if not verbose:
        notes = [*_notes(ledger, times, worth, divided, width, "\n".join(map(text_of, lines)))]
    if ledger.events and ledger.threads:
        lines += [[], *_events(ledger, listed, width)]
    if parts and ledger.threads:
        from .why import why

        lines += [[], *why(ledger, parts, width=width, limit=listing.limit, verbose=verbose)]
    of_tasks = [*tasks_table(ledger, width=width, limit=listing.limit, verbose=verbose)]
    if of_tasks:
        lines += [[], *of_tasks]
    if verbose and ledger.processors:
        lines += [[], *_processors(ledger, width)]
    lines += [[], *listed.note, *notes]
    if verbose or durations:
        lines += _on_durations(ledger, width)
    if advice:
        from .advice import what_would_help

        lines += [[], *what_would_help(advice, width)]
    return lines, listed.by


# --- threads ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """The values of a line, for one thread or for several together."""

    times: Mapping[Kind, int]
    interrupts: int
    able: int
    """What a loss is compared with: all processor time that the thread had or could have had, in the indices' unit."""
    indices: Indices
    sampled: bool = False
    """Whether samples told time of an interrupt."""


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
    divided: bool
    """Whether processor time of a thread was divided by samples or cycles."""


_FIRST_TO_GO = ("pid", "memory", "poll", "reason", "stolen", "irq", "waiting", "ready", "kernel", "EPI", "RPI", "tid")
"""The columns in the order in which they are dropped if there is no room."""

_FIRST_TO_GO_COUNTED = ("pid", "irq", "stolen", "poll", *(c for c in _FIRST_TO_GO[3:] if c not in ("irq", "stolen")))
"""The same where hardware counted. Then memory is worth more room than interrupts."""

_FIRST_TO_GO_EVERY_CYCLE = ("stolen", "irq", "IOE", "KE", "ME", "tid", "stall", "extern", "reason", *_FIRST_TO_GO[1:-1])
"""The same where every cycle is divided: every part of RPI is known, and threads have names."""


def _layout(
    ledger: Ledger, divided: Precision | None, by: GroupBy, width: int, digits: int, longest: int, polls: bool
) -> _Layout:
    quality = indices_of({}, ledger.precision if divided is None else divided).quality
    figure, gap = (5, "") if width < 100 else (6, " ") if width < 136 else (7, " ")

    def column(title: str, index: str = "") -> tuple[str, int]:
        mark = MARKS[quality[index]] if index else ""
        return title, max(figure + len(mark), len(title)) + (width >= 136)

    on = [column("RPI", "rpi"), column("EPI", "epi"), ("TE", 5 if divided is None or width < _ROOM else _WITH_ERROR)]
    on += [column("kernel", "kpi"), column("irq", "epi" if divided is not None else ""), column("stolen")]
    if quality["iopi"] is not Quality.UNAVAILABLE and (polls or width >= 110):
        on.insert(4 if polls else 5, column("poll", "iopi"))
    order: Sequence[str] = _FIRST_TO_GO
    if ledger.divides_every_cycle:
        on = [column("RPI"), column("EPI"), ("TE", 5), column("memory"), column("extern"), column("kernel")]
        on += [column("poll"), column("stall"), ("ME", 5), ("KE", 5), ("IOE", 5), column("irq"), column("stolen")]
        order = _FIRST_TO_GO_EVERY_CYCLE
    elif width >= 110:
        if quality["mpi"] is not Quality.UNAVAILABLE and not ledger.counted:
            on.insert(3, column("memory", "mpi"))
        if by is not GroupBy.PROCESS:  # there the pid stands beside the name
            on.insert(0, ("pid", digits))
    if quality["mpi"] is not Quality.UNAVAILABLE and ledger.counted and not ledger.divides_every_cycle:
        on.insert([title for title, _ in on].index("kernel"), column("memory", "mpi"))
        order = _FIRST_TO_GO_COUNTED
    if polls and not ledger.divides_every_cycle:  # polling is then worth more room than interrupts and stolen time
        first = ("pid", "memory", "stolen", "irq")
        order = (*first, *(c for c in order if c not in (*first, "poll", "kernel")), "poll", "kernel")
    if divided is not None:  # what a thread waits for is worth more room than stolen time
        order = ("stolen", *(c for c in order if c != "stolen"))
    off = [column("ready"), ("waiting", figure)]
    tid, reason = digits if not by.needs_cgroups else 0, 7
    least = 10
    if by.needs_cgroups:  # a pod's UID and a path are long, and no other column lends its room to the line of sums
        least = max(min(longest, 28), len(_all(ledger.threads)))

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
    usual = 15 if by in (GroupBy.THREAD, GroupBy.NAME) else max(15, min(longest, 20))  # with the number of its threads
    name = min(max(left(), 1), usual)
    if reason:
        extra = min(left() - name, len("waits most for") + figure - reason)
        reason += max(extra, 0)
    name = min(max(left(), 1), max(name, longest))
    units = ledger.unit, ledger.time_unit
    return _Layout(figure, gap, name, tid, tuple(on), tuple(off), reason, *units, divided is not None)


def _all(threads: Sequence[Thread]) -> str:
    """Return the name of the line of sums."""
    return f"all {len(threads):,} threads"


@dataclass(frozen=True, slots=True)
class _Listed:
    """The lines of threads."""

    by: GroupBy
    groups: Sequence[Sequence[int]]
    """The places of the threads of each line, the line with most processor time first."""
    rest: Sequence[int]
    """The places of the threads without a line."""
    note: Sequence[Line]


def _listed(ledger: Ledger, times: Sequence[Mapping[Kind, int]], listing: Listing, notes: int, width: int) -> _Listed:
    """Choose the lines of threads. ``notes`` is the number of lines of notes below the table."""
    number = len(ledger.threads)
    room = number if listing.limit is None else listing.limit
    if listing.height is not None:  # the others are the heading, the sum of all, and a blank line
        room = max(listing.height - 3 - notes, _FEWEST)
    by, note = listing.by, list[Line]()
    groups = grouped(ledger.threads, by or GroupBy.THREAD)
    if by is None and number > (room // 2 if listing.before is GroupBy.NAME else room):
        by, groups = GroupBy.NAME, grouped(ledger.threads, GroupBy.NAME)
        if len(groups) < number:
            text = "× n: n threads of one name, added up; --by thread lists each"
            note = [[(line, _DIM)] for line in indented(text, width, "", "  ")]
            room = max(room - len(note), _FEWEST) if listing.height is not None else room
    had = [processor_time(found) for found in times]
    sums = [sum([had[i] for i in places]) for places in groups]
    if listing.height is not None and len(groups) > room:
        room -= 1  # for the sum of the rest
    order = _most(sums, [ledger.threads[places[0]].key for places in groups], room)
    chosen = [groups[at] for at in order]
    shown = {i for places in chosen for i in places}
    return _Listed(by or GroupBy.THREAD, chosen, [i for i in range(number) if i not in shown], note)


def _threads(
    ledger: Ledger,
    times: Sequence[Mapping[Kind, int]],
    listed: _Listed,
    divided: Precision | None,
    width: int,
    verbose: bool,
    durations: bool,
) -> Iterator[Line]:
    """Yield the lines of threads. ``divided``: the precision of all, if time was divided by samples."""
    threads = ledger.threads
    if not threads:
        damaged = ledger.losses.get("files_damaged", 0)
        yield [(fit("no thread can be read" if damaged else "no thread was measured", min(width, 22)), "")]
        return
    groups = [Group(tuple([threads[i] for i in places]), listed.by) for places in listed.groups]
    digits = max(5, len(str(max([t.tid if t.tid > t.pid else t.pid for t in threads]))))
    longest = max((width_of(_name(group)) - (digits + 1) * (not _id(group)) for group in groups), default=0)
    polls = any(found[Kind.POLL] > _NOTABLE * processor_time(found) for found in times)
    layout = _layout(ledger, divided, listed.by, width, digits, min(longest, 32), polls)
    yield from _heading(layout, listed.by, width)
    for places, group in zip(listed.groups, groups, strict=True):
        yield _crop([*_label(group, layout.name, layout.tid), *_line(ledger, times, places, layout, group)], width)
        if verbose:
            yield from _states(ledger, group, width)
        elif durations:
            yield from _durations(ledger, group, width)
    if len(threads) == 1:
        return
    room = layout.name + (layout.tid + 1 if layout.tid else 0)
    if listed.rest:
        rest = len(listed.rest)
        text = f"… {rest:,} more threads" if rest > 1 else "… 1 more thread"
        yield _crop([(fit(text, room), _DIM), *_line(ledger, times, listed.rest, layout)], width)
    every = range(len(threads))
    whole = _all(threads) if width_of(_all(threads)) <= room else f"all {len(threads):,}"
    yield _crop([(fit(whole, room), _HEAD), *_line(ledger, times, every, layout)], width)


def _name(group: Group) -> str:
    name, number = clean(group.name, 64), len(group.threads)
    return f"{name} × {number:,}" if number > 1 else name


def _id(group: Group) -> str:
    """Return the tid of the only thread, or the pid of the process; empty for threads of one name, pod or cgroup."""
    if group.by is GroupBy.PROCESS:
        return str(group.threads[0].pid)
    return str(group.threads[0].tid) if len(group.threads) == 1 and not group.by.needs_cgroups else ""


def _label(group: Group, width: int, tid: int) -> Line:
    """Return the name in ``width`` columns and the id in ``tid`` (0: none).

    Without an id the name has its room too. The number of threads is never cut.
    """
    found = _id(group) if tid else ""
    room = width if found or not tid else width + 1 + tid
    count = f" × {len(group.threads):,}" if len(group.threads) > 1 else ""
    left = room - width_of(count)
    if left < 1:  # no room for a name
        return [(fit(count.strip(), room), _DIM)]
    name = clean(group.name, 64)
    name = fit_name(name, min(width_of(name), left))
    line: Line = [(name, ""), (fit(count, room - width_of(name)), _DIM)]
    return [*line, (" " + found.rjust(tid), _DIM)] if found else line


def _line(
    ledger: Ledger,
    times: Sequence[Mapping[Kind, int]],
    places: Sequence[int],
    layout: _Layout,
    group: Group | None = None,
) -> Line:
    """Return the figures of the threads in these places together. A ``group`` has a process and a wait too."""
    threads = [ledger.threads[i] for i in places]
    total = times[places[0]] if len(places) == 1 else add_times([times[i] for i in places])
    interrupts = sum([interrupt_time(thread.states) for thread in threads])
    had = ledger.amounts(*threads) if ledger.counted or layout.divided else Amounts(total)
    by_samples = layout.divided and any(is_interrupt(state) for thread in threads for state in thread.sampled)
    row = _row(ledger, total, interrupts, by_samples, had)
    if group is None:
        return _cells(layout, row, None)
    return [*_cells(layout, row, group.pid), *_waits_most_for(group, layout)]


def _row(ledger: Ledger, times: Mapping[Kind, int], interrupts: int, by_samples: bool, had: Amounts) -> _Row:
    rpi = processor_time(had.by_kind)
    # There are no cycles off the processor. What was not had is added if the unit is time, else it is left out.
    waited = times[Kind.READY] + times[Kind.STOLEN] if ledger.unit == ledger.time_unit else 0
    return _Row(times, interrupts, rpi + waited, had.indices(ledger.precision), by_samples)


def _most(had: Sequence[int], keys: Sequence[tuple[int, int]], limit: int) -> list[int]:
    """Return the places of the ``limit`` largest times, the largest first, and equal ones by key."""
    order: Iterable[int] = range(len(had))
    if limit < len(had):
        least = sorted(had, reverse=True)[limit - 1]
        order = [i for i in order if had[i] >= least]
    return sorted(order, key=lambda i: (-had[i], keys[i]))[:limit]


def _heading(layout: _Layout, by: GroupBy, width: int) -> Iterator[Line]:
    what, number = _TITLES.get(by, "thread"), "pid" if by is GroupBy.PROCESS else "tid"
    text = fit(what, layout.name) + (" " + number.rjust(layout.tid) if layout.tid else "")
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
        if text == NOTHING:  # that no sample fell into a state does not mean that it had no time
            return f"{MARKS[i.quality[name]]}0" if i.interval[name] is not None else text
        return MARKS[i.quality[name]] + text

    def time(value: int) -> str:
        return with_unit(value, layout.time_unit, layout.figure, layout.gap)

    def loss(value: int | None, of: int = able) -> str:
        return _LOST if value and value > _NOTABLE * of else ""

    def lost(name: str) -> str:
        value, mark = getattr(i, name), MARKS[i.quality[name]]
        return mark + share(value).replace(" ", "" if mark else " ")

    interrupts = (MARKS[Quality.SAMPLED] if row.sampled and row.interrupts else "") + time(row.interrupts)
    values = {
        "pid": ("" if pid is None else str(pid), _DIM),
        "RPI": (index("rpi", i.rpi), ""),
        "EPI": (index("epi", i.epi), ""),
        "TE": (efficiency(i, dict(layout.on).get("TE", 0)) if i.rpi != 0 else NOTHING, _efficiency_style(i.te)),
        "memory": (index("mpi", i.mpi), loss(i.mpi, row.able)),
        "extern": (index("mpi", i.mpi_external), loss(i.mpi_external, row.able)),
        "stall": (time(stalls), loss(stalls, row.able)),
        "ME": (lost("me"), ""),
        "KE": (lost("ke"), ""),
        "IOE": (lost("ioe"), ""),
        "kernel": (index("kpi", i.kpi), loss(i.kpi, row.able)),
        "irq": (interrupts, loss(row.interrupts)),
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


def _waits_most_for(group: Group, layout: _Layout) -> Line:
    if not layout.reason:
        return []
    waits = [(time, state) for state, time in group.times().items() if time and kind_of(state) is Kind.WAIT]
    if not waits:
        return []
    time, state = max(waits)
    name = clean(state.removeprefix("wait."), 64)
    room = layout.reason - layout.figure - 1
    if room < 5:
        return [(" " + fit(name, layout.reason), "")]
    figure = with_unit(time, layout.time_unit, layout.figure, layout.gap)
    return [(" " + fit(name, min(room, max(width_of(name), 5))), ""), (" " + figure.rjust(layout.figure), _DIM)]


def _states(ledger: Ledger, group: Group, width: int) -> Iterator[Line]:
    """Yield every state of a line, by kind, most time first: with its share of the window, and what was counted."""
    from .why import in_a_line

    kinds = list(Kind)
    rows = sorted(group.states.items(), key=lambda item: (kinds.index(kind_of(item[0])), -item[1].time, item[0]))
    name = max(12, min(28, width - 54))
    lasted = group.durations or {}
    before = None
    last_ready = next((state for state, _ in reversed(rows) if kind_of(state) is Kind.READY), None)
    for state, cell in rows:
        kind, estimate = kind_of(state), group.sampled.get(state)
        label = kind.value if kind is not before else ""
        before = kind
        part = ledger.share(cell.time) * 100
        of_window = f"{part:5.1f} %" if part < 999.95 else f"{part:5.0f} %"
        line: Line = [
            (f"  {label:<10}", _DIM),
            (fit(clean(state, 256), name), ""),
            ((mark_of(estimate) + with_unit(cell.time, ledger.time_unit, 7, " ")).rjust(8), ""),
            (" " + of_window, _DIM),
        ]
        if estimate is not None and not cell.count:
            line.append((f"  {exactness(cell, estimate)}", _DIM))
        if cell.count:
            line.append((f"  × {cell.count:<9,}", ""))
            if cell.time and cell.count > 1:
                each = with_unit(round(cell.time / cell.count), ledger.time_unit, 7, " ")
                line.append((f" {each.rjust(7)} each", _DIM))
        yield _crop(line, width)
        if estimate is not None and cell.count:
            yield _crop([(" " * _BEHIND + exactness(cell, estimate), _DIM)], width)
        if state in lasted:
            yield from _lasted(ledger, lasted[state], width)
        known = cell.events or {}
        there = [*_counted(cell), *(f"{event} {known[event]:,}" for event in ledger.events if known.get(event))]
        if there and ledger.counted:
            yield from ([(text, _DIM)] for text in indented(" · ".join(there), width, " " * 14, " " * 14))

        behind = in_a_line(group, state, width - _BEHIND) if cell.time and width > 2 * _BEHIND else ""
        if behind:
            yield [(" " * _BEHIND + behind, _DIM)]
        if state == last_ready and READY in lasted and READY not in group.states:
            yield _crop([(f"  {'':<10}{READY}, its parts together", _DIM)], width)
            yield from _lasted(ledger, lasted[READY], width)
    yield from _lost(ledger, group, name, width)
    yield from _kernel_clock(ledger, group, name, width)


def _lasted(ledger: Ledger, durations: Durations, width: int) -> Iterator[Line]:
    """Yield how long the single occurrences of a state lasted."""
    if width > 2 * _BEHIND and (words := in_words(durations, ledger, width - _BEHIND)):
        yield [(" " * _BEHIND + words, "")]


def _durations(ledger: Ledger, group: Group, width: int) -> Iterator[Line]:
    """Yield how long the single occurrences of each state of a line lasted."""
    name = max(10, min(20, width - 60))
    for state, durations in rows_of(group.durations or {}):
        words = in_words(durations, ledger, width - name - 3)
        if words:
            yield _crop([("  " + fit(clean(state, 256), name), _DIM), (" " + words, "")], width)


def _on_durations(ledger: Ledger, width: int) -> Iterator[Line]:
    """Yield the note on durations, if there are any."""
    for thread in ledger.threads:
        for durations in (thread.durations or {}).values():
            yield from ([(line, _DIM)] for line in indented(what_is_shown(durations), width, "", "  "))
            return


def _lost(ledger: Ledger, group: Group, name: int, width: int) -> Iterator[Line]:
    """Yield a line of Td and of what the parts of it say, each with its mark; none where Td is not known."""
    indices = ledger.indices(*group.threads)
    if not indices.td:
        return

    def of(title: str, index: str) -> str:
        value = getattr(indices, index)
        return f"{title} –" if value is None else f"{title} {MARKS[indices.quality[index]]}{share(value)}"

    text = MARKS[indices.quality["td"]] + with_unit(indices.td, ledger.unit, 7, " ")
    parts = "  ".join(of(title, index) for title, index in (("ME", "me"), ("KE", "ke"), ("IOE", "ioe")))
    line: Line = [(fit("  lost, Td", 12 + name), _DIM), (" " + text.rjust(7), ""), ("  " + parts, _DIM)]
    yield _crop(line, width)


def _kernel_clock(ledger: Ledger, group: Group, name: int, width: int) -> Iterator[Line]:
    """Yield a line of the processor time by the kernel's clock, beside the figure to compare it with."""
    clock = group.kernel_clock
    if clock is None:
        return
    if clock.time is None:
        who = "it" if len(group.threads) == 1 else "one of them"
        text = f"by the kernel's clock: not known, {who} ran when the window began or ended"
        yield from ([(line, _DIM)] for line in indented(text, width, "  ", "    "))
        return
    times = add_times(thread.times() for thread in group.threads)
    own = processor_time(times) + times[Kind.OVERHEAD]
    if not clock.time and not own:
        return
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


def _events(ledger: Ledger, listed: _Listed, width: int) -> Iterator[Line]:
    """Yield a table of the count of each event in each line, in as many blocks of columns as are needed."""
    groups = [Group(tuple([ledger.threads[i] for i in places]), listed.by) for places in listed.groups]
    rows = [_events_of(ledger, group.threads) for group in groups]
    sums = []
    if listed.rest:
        sums.append(f"… {len(listed.rest):,} more")
        rows.append(_events_of(ledger, [ledger.threads[i] for i in listed.rest]))
    if len(ledger.threads) > 1:
        sums.append(f"all {len(ledger.threads):,}")
        rows.append(_events_of(ledger, ledger.threads))
    texts = [["–" if n is None else f"{n:,}" if n else NOTHING for n in row] for row in rows]
    tid = max([5, *(len(_id(group)) for group in groups)])
    longest = [width_of(_name(group)) - (tid + 1) * (not _id(group)) for group in groups]
    name = max(6, min(15, max([*longest, *map(width_of, sums)])))
    label = name + 1 + tid
    who = [_label(group, name, tid) for group in groups] + [[(fit(text, label), _DIM)] for text in sums]
    heads = [clean(event, 64) for event in ledger.events]
    title = max(min(24, width - label - 2), 1)
    widths = [max(min(width_of(head), title), *(len(row[n]) for row in texts)) + 2 for n, head in enumerate(heads)]
    for first, last in _blocks(widths, width - label):
        if first:
            yield []
        columns = range(first, last)
        head = fit("events", name) + " " + ("pid" if listed.by is GroupBy.PROCESS else "tid").rjust(tid)
        for n in columns:
            text = fit(heads[n], min(width_of(heads[n]), widths[n] - 2)).rstrip()
            head += " " * (widths[n] - width_of(text)) + text
        yield _crop([(head, _HEAD)], width)
        for found, row in zip(who, texts, strict=True):
            line = [*found]
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

_MUCH = 0.05
"""The share of the threads' processor time above which a report says what measuring took."""
_NOT_KNOWN = "–"
_EVERY_MARK = "".join([*_NAMES.values(), *MARKS.values(), _NOT_KNOWN])
_OF_OPTIONS = frozenset({"budget", "depth", "division", "marked functions", "seccomp", "spinning", "tasks"})
"""The reasons that follow from what the user asked for, or from the program. All others are told with -v."""
_CHEAPER = "--budget 1% or --level switches takes less"


def _notes(
    ledger: Ledger,
    times: Sequence[Mapping[Kind, int]],
    worth: Precision,
    divided: Amounts | None,
    width: int,
    above: str | None,
) -> Iterator[Line]:
    """Yield the notes.

    ``times``: those of each thread; ``worth``: the precision of all threads; ``divided``: their amounts, if samples or
    cycles divided any. ``above``: the table, whose marks are explained, in a line each; None: all there is to know.
    """
    verbose = above is None
    unseen = sum([found[Kind.UNKNOWN] for found in times])
    quality = indices_of({}, worth).quality
    hidden = [_NAMES[index] for index in ("mpi", "kpi", "iopi") if quality[index] is Quality.UNAVAILABLE]
    if ledger.precision.stall is not Quality.UNAVAILABLE and _NAMES["mpi"] in hidden:
        hidden.remove(_NAMES["mpi"])
    alike: dict[tuple[str, str], list[str]] = {}
    for index, name in _NAMES.items():
        reason = ledger.reasons.get(index, "")
        if index == "epi" and hidden and not reason:
            reason = f"{' and '.join(hidden)} {'is' if len(hidden) == 1 else 'are'} in it"
        if divided is not None and not reason:
            reason = _why_divided(index, quality[index], divided)
        if quality[index] is not Quality.EXACT and (above is None or _is_marked(name, quality[index], above)):
            alike.setdefault((_WORDS[quality[index]], reason), []).append(name)
    for name, reason in ledger.reasons.items():
        if name not in _NAMES and (verbose or name in _OF_OPTIONS):
            alike.setdefault(("", reason), []).append(name)
    for (word, reason), names in alike.items():
        text = f"{', '.join(names)}: {word} ({reason})" if word and reason else f"{', '.join(names)}: {word or reason}"
        every = [*indented(text, width, "", "  ")]
        if word and not verbose and len(every) > 1:
            every = [fit(text, width)]
        yield from ([(line, _DIM)] for line in every)
    if divided is not None:
        text = f"processor time: {how_divided(divided)}"
        yield from ([(line, _DIM)] for line in indented(text, width, "", "  "))
    shared = [f"{name} {share(c.share)}" for name, c in ledger.counted.items() if not c.whole]
    if shared:
        text = f"counted part of the time and scaled to all of it, the counters were shared: {', '.join(shared)}"
        yield from ([(line, _LOST)] for line in indented(text, width, "", "  "))
    if unseen:
        time = with_unit(unseen, ledger.time_unit, 7, " ")
        yield from ([(line, _DIM)] for line in indented(f"not seen: {time} of the threads' time", width, "", "  "))
    cost = ledger.overhead
    if ledger.divides_every_cycle:
        text = f"in cycles, of {ledger.window.duration:,}; extern: the part of memory that is outside the processor"
        yield from ([(line, _DIM)] for line in indented(text, width, "", "  "))
    text = f"measured {cost.events:,} events, " if cost.events is not None else ""
    text += f"cost {with_unit(cost.time, ledger.time_unit, 7, ' ')}" if cost.time else f"cost {_cost(cost.time)}"
    parts = (("headway itself", "", cost.own), ("other threads", "≈", cost.others))
    known = [f"{who} {mark}{with_unit(time, ledger.time_unit, 7, ' ').strip()}" for who, mark, time in parts if time]
    if known:
        text += f" in {'all' if cost.others is None else 'these'} threads; {', '.join(known)}"
    if ledger.source == "bpf" and (observed := observer_share(times) or 0.0) > _MUCH:
        words = f"measuring took {share(observed)} of the threads' processor time"
        if not {"level", "budget"} & ledger.reasons.keys() and ledger.uses is None:  # those tables need all calls
            words += f": {_CHEAPER}"
        yield from ([(line, _DIM)] for line in indented(words, width, "", "  "))
    if verbose and cost.time and (kinds := events_in_words(ledger)):
        words = f"the cost is that of the events of these threads: {kinds}"
        yield from ([(line, _DIM)] for line in indented(words, width, "", "  "))
    lost = named_losses(ledger.losses)
    if not lost:
        yield from ([(line, _DIM)] for line in indented(text + ", lost 0", width, "", "  "))
        return
    yield from ([(line, _DIM)] for line in indented(text, width, "", "  "))
    style = _DIM if are_small(ledger) else _WORST
    yield from ([(line, style)] for line in indented(f"lost: {lost}", width, "", "  "))
    for words in explained_losses(ledger.losses):
        yield from ([(line, _DIM)] for line in indented(words, width, "  ", "    "))


def _is_marked(name: str, quality: Quality, above: str) -> bool:
    """Return whether the table has the column, and the mark of its quality."""
    return name in above and (MARKS[quality] or _NOT_KNOWN) in above


def _why_divided(index: str, quality: Quality, had: Amounts) -> str:
    """Return why an index is not exact because time was divided, if there is more to say than that."""
    if index == "iopi" and quality is Quality.PARTIAL:
        return "samples do not tell it" if had.by_samples or had.undivided else "cycles do not tell it"
    if index == "kpi" and quality is Quality.UNAVAILABLE and had.undivided:
        return "part of the time is not divided"
    return ""


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
