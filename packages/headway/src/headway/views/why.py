"""The report on causes: by whom and by what threads lost time, most time first.

There is a section for each part of the time that the user asks about. It has a block for each thread or, if they are
many, for all threads of one name, and in the block a line for each state and cause. A share is of what the line belongs
to: a thread's life, all its waiting, or one state. What is not listed is summed up, and what was not seen is said to be
unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from headway.dataclass import dataclass
from headway.model import (
    READY,
    Behind,
    Cause,
    Cell,
    Estimate,
    Group,
    Kind,
    Ledger,
    Thread,
    add_causes,
    add_sampled,
    add_states,
    is_interrupt,
    kind_of,
    origin_of,
)
from headway.model.cause import FORGOTTEN, HIDDEN, IDLE, NOT_KNOWN, NOT_VISIBLE, STILL_READY, THROTTLED, WOKEN_BY

from .divided import mark_of
from .figures import share, with_unit
from .lines import Line
from .printable import clean, fit, fit_name, width_of, wrap

__all__ = ["PARTS", "in_a_line", "why"]

PARTS = ("kernel", "poll", "wait", "ready", "stolen")
"""The parts that can be asked about: values of `headway.model.kinds.Kind`."""

_TITLES = {
    "kernel": "why threads were in the kernel",
    "poll": "why threads polled",
    "wait": "why threads waited",
    "ready": "why threads that were ready did not run",
    "stolen": "what time was stolen from",
}
_NEVER = {
    "kernel": "no thread was in the kernel",
    "poll": "no thread polled",
    "wait": "no thread waited",
    "ready": "no thread had to wait for a processor",
    "stolen": "no time was stolen",
}
_REASONS = {"kernel": "kpi", "poll": "iopi"}
"""The index under which a ledger gives the reason why a part is not exact."""
_MANY = 8
"""The largest number of threads that are explained one by one; more are explained by name."""
_STATES, _CAUSES = 10, 5
"""The largest numbers of listed states of a thread, and causes of a state."""
_NOTABLE = 0.01
"""What has a smaller share is summed up instead of listed; an unseen rest smaller than this is not mentioned."""
_PLACE = re.compile(r"(?<=.)(0x[0-9a-f]+|\[[0-9]+\])$")
"""The end of a name that says where an object is: an offset, an address, an inode."""
_HEAD, _DIM, _UNKNOWN = "bold", "dim", "yellow"
_NOBODY = "nobody: the processor was idle"
"""A processor takes a while to wake up, or to find that there is work."""
_QUOTA = "throttled: the CPU quota was used up"
_WITHOUT_HOLDER = {
    FORGOTTEN: "not known: many had the processor later",
    NOT_KNOWN: NOT_KNOWN,
    STILL_READY: "not known: still ready at the end",
}
_RELATIONS = {Behind.OBJECT: "for ", Behind.HOLDER: "held by ", Behind.WAKER: "woken by ", Behind.PLACE: "in "}
"""In the order in which they are listed. Where holders of the processor are listed, the heading says so."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A line before layout: what it says, and the whole that its time is a part of."""

    depth: int
    label: str
    time: int
    whole: int
    count: int | None = None
    detail: str = ""
    """Printed dim after the label."""
    style: str = ""
    note: str = ""
    """Printed to the right of the figures, if there is room."""
    mark: str = ""
    """Printed before the time: what it is worth, if it is not exact."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """A thread, or the threads of one name."""

    name: str
    detail: str
    span: int
    pids: Collection[int]
    states: Mapping[str, Cell]
    causes: Sequence[Cause]
    sampled: Mapping[str, Estimate]
    time: int = 0
    """The time of the part that is asked about."""


@dataclass(slots=True)
class _Members:
    """The threads of one name."""

    names: set[str] = field(default_factory=set)
    threads: list[Thread] = field(default_factory=list)


def why(
    ledger: Ledger,
    parts: Iterable[str],
    *,
    width: int = 80,
    limit: int | None = 25,
    verbose: bool = False,
    only: Sequence[Thread] | None = None,
) -> Iterator[Line]:
    """Yield a section for each of ``parts`` (see `PARTS`), in lines of at most ``width`` columns.

    At most ``limit`` threads, or names of threads, have a line of their own (None: all). ``verbose``: each of these
    threads is explained, however many they are. ``only``: the threads of the ledger that are asked about.
    """
    pids = {thread.tid: thread.pid for thread in ledger.threads}
    asked = ledger.threads if only is None else only
    sections = {part: [*_section(asked, Kind(part), pids, limit, verbose)] for part in parts}
    layout = _layout([row for rows in sections.values() for row in rows], [_TITLES[part] for part in sections], width)
    recorded = any(thread.causes for thread in ledger.threads)
    for at, (part, rows) in enumerate(sections.items()):
        if at:
            yield []
        if not rows:
            yield from _sentence(f"{_NEVER[part]}{_as_far_as_known(ledger, part)}", width)
            continue
        yield _heading(_TITLES[part], layout)
        yield from (_line(row, layout, ledger.time_unit) for row in rows)
        if not recorded and part in ("wait", "ready", "stolen"):
            yield from _sentence(_not_recorded(ledger), width)


def in_a_line(subject: Thread | Group, state: str, room: int) -> str:
    """Return the largest causes of one state of a thread or group, in at most ``room`` columns; empty: not known."""
    time = subject.states[state].time
    text = ""
    for most in (3, 2, 1):
        words = []
        for behind in _RELATIONS:
            causes = [c for c in subject.causes if c.behind is behind and c.time and _explains(c, state, subject)]
            told = ", ".join(
                f"{' '.join(_label(cause)).strip()} {share(min(cause.time / time, 1.0))}" for cause in causes[:most]
            )
            if told:
                words.append(f"{_RELATIONS[behind]}{told}")
        text = "; ".join(words)
        if width_of(text) <= room:
            return text
    return fit(text, room)


def _explains(cause: Cause, state: str, subject: Thread | Group) -> bool:
    """Return whether a cause belongs to a state. The holders of time ready belong to its parts."""
    if not state.startswith(f"{READY}."):
        return cause.state == state
    if cause.state != READY:
        return False
    if cause.tid is None:
        return state == "ready.interrupt" and is_interrupt(cause.name)
    pids = {subject.pid} if isinstance(subject, Thread) else {thread.pid for thread in subject.threads}
    return state == ("ready.own" if cause.pid in pids else "ready.neighbour")


# --- what is said -----------------------------------------------------------------------------------------------------


def _section(
    asked: Sequence[Thread], kind: Kind, pids: Mapping[int, int], limit: int | None, verbose: bool
) -> Iterator[_Row]:
    had = [(_time_of(thread.states, kind), thread) for thread in asked]
    had = sorted(((time, t) for time, t in had if time), key=lambda pair: (-pair[0], pair[1].key))
    threads = [thread for _, thread in had]
    shown = threads if limit is None else threads[:limit]
    if len(threads) <= _MANY or verbose:
        for thread in shown:
            yield from _block(_of_thread(thread), kind, pids)
        yield from _rest([time for time, _ in had[len(shown) :]], "threads")
        return
    groups = sorted(
        (_of_threads(members, kind) for members in _by_name(threads)), key=lambda s: (-s.time, s.name, s.detail)
    )
    listed = groups if limit is None else groups[:limit]
    for subject in listed:
        yield from _block(subject, kind, pids)
    yield from _rest([subject.time for subject in groups[len(listed) :]], "names")
    yield _Row(0, "of these", 0, 0, style=_HEAD)
    for thread in shown:
        yield _one_line(thread, kind, pids)
    yield from _rest([time for time, _ in had[len(shown) :]], "threads", depth=1)


def _time_of(states: Mapping[str, Cell], kind: Kind) -> int:
    return sum([cell.time for state, cell in states.items() if kind_of(state) is kind])


def _of_thread(thread: Thread) -> _Subject:
    return _Subject(
        _named(thread.name), str(thread.tid), thread.span, {thread.pid}, thread.states, thread.causes, thread.sampled
    )


def _by_name(threads: Iterable[Thread]) -> Iterable[_Members]:
    """Group threads whose names differ only in numbers, such as those of a pool."""
    groups: dict[str, _Members] = {}
    for thread in threads:
        members = groups.setdefault(_pattern(thread.name), _Members())
        members.names.add(thread.name)
        members.threads.append(thread)
    return groups.values()


def _pattern(name: str) -> str:
    return re.sub(r"[0-9]+", "*", name)


def _of_threads(members: _Members, kind: Kind) -> _Subject:
    threads = members.threads
    if len(threads) == 1:
        return _with_time(_of_thread(threads[0]), kind)
    first = threads[0].name
    name = first if len(members.names) == 1 else _pattern(first)
    pids = {thread.pid for thread in threads}
    where = f"process {threads[0].pid}" if len(pids) == 1 else f"{len(pids):,} processes"
    causes = add_causes(*(thread.causes for thread in threads))
    states = add_states(*(thread.states for thread in threads))
    sampled: Mapping[str, Estimate] = {}
    for thread in threads:
        sampled = add_sampled(sampled, thread.sampled)
    span, detail = sum([thread.span for thread in threads]), f"({len(threads):,} threads, {where})"
    return _with_time(_Subject(_named(name), detail, span, pids, states, causes, sampled), kind)


def _with_time(subject: _Subject, kind: Kind) -> _Subject:
    return _Subject(
        subject.name,
        subject.detail,
        subject.span,
        subject.pids,
        subject.states,
        subject.causes,
        subject.sampled,
        _time_of(subject.states, kind),
    )


def _block(subject: _Subject, kind: Kind, pids: Mapping[int, int]) -> Iterator[_Row]:
    states = sorted(
        ((s, c) for s, c in subject.states.items() if kind_of(s) is kind and c.time), key=lambda i: (-i[1].time, i[0])
    )
    total = sum([cell.time for _, cell in states])
    marks = {state: mark_of(subject.sampled.get(state)) for state, _ in states}
    mark = min((mark for mark in marks.values() if mark), default="")
    yield _Row(
        0, subject.name, total, subject.span, _count(cell for _, cell in states), subject.detail, _HEAD, mark=mark
    )
    if kind is Kind.READY:
        yield from _holders(subject, total, pids)
        return
    if kind is Kind.STOLEN:
        taken = [cause for cause in subject.causes if kind_of(cause.state) is kind]
        if taken:
            yield from _causes(taken, Behind.OBJECT, total, 1)
        return
    listed = states[: _how_many([cell.time for _, cell in states], total, _STATES)]
    for state, cell in listed:
        yield _Row(1, clean(state, 256), cell.time, total, cell.count, mark=marks[state])
        for behind in _RELATIONS:
            causes = [c for c in subject.causes if c.state == state and c.behind is behind]
            if causes:
                found = _places(causes, cell.time) if behind is Behind.PLACE else _causes(causes, behind, cell.time, 2)
                yield from (replace(row, mark=marks[state]) for row in found)
    rest = states[len(listed) :]
    if rest:
        time = sum([cell.time for _, cell in rest])
        yield _Row(1, f"… {len(rest):,} more", time, total, _count(cell for _, cell in rest), style=_DIM)


def _places(causes: Sequence[Cause], whole: int) -> Iterator[_Row]:
    """Yield the places at which most of a wait began, each with the places of those who ended it."""
    wakers: dict[str, list[Cause]] = {}
    for cause in causes:
        place, _, waker = cause.name.partition(WOKEN_BY)
        wakers.setdefault(place, []).append(replace(cause, name=waker))
    places = add_causes(replace(one, name=place) for place, of in wakers.items() for one in of)
    for row in _causes(places, Behind.PLACE, whole, 2):
        yield row
        place = row.label.removeprefix(_RELATIONS[Behind.PLACE]).strip()
        known = [one for one in wakers.get(place, ()) if one.name]
        yield from _causes(known, Behind.WAKER, row.time, 3, unseen=False)


def _how_many(times: Sequence[int], whole: int, most: int) -> int:
    """Return how many of these times, which descend, are listed: the notable ones. A single rest is listed too."""
    number = min(max(sum(time >= _NOTABLE * whole for time in times), 1), most)
    return len(times) if len(times) - number == 1 else number


def _count(cells: Iterable[Cell]) -> int | None:
    counts = [cell.count for cell in cells]
    return None if None in counts else sum([count or 0 for count in counts])


def _causes(causes: Sequence[Cause], behind: Behind, whole: int, depth: int, unseen: bool = True) -> Iterator[_Row]:
    """Yield the largest causes. If there are many, similar ones are merged."""
    rows = [(*_label(cause), cause.time, cause.count) for cause in causes if cause.time or cause.count]
    if len(rows) > _CAUSES:
        rows = _together(rows, whole)
    # Whose thread it is says something of who had the processor, and nothing of who had a lock of the same process.
    notes = {} if unseen else {_label(cause): _place(cause) for cause in causes}
    listed = rows[: _how_many([row[2] for row in rows], whole, _CAUSES)]
    relation = _RELATIONS[behind] if depth > 2 or (depth == 2 and unseen) else ""
    blank = " " * len(relation)
    for at, (label, detail, time, count) in enumerate(listed):
        note = notes.get((label, detail), "")
        yield _Row(depth, (blank if at else relation) + label, time, whole, count, detail, note=note)
    rest = rows[len(listed) :]
    if rest:
        time, count = sum([row[2] for row in rest]), sum([row[3] for row in rest])
        yield _Row(depth, f"{blank}… {len(rest):,} more", time, whole, count, style=_DIM)
    missing = whole - sum([row[2] for row in rows])
    if unseen and missing > _NOTABLE * whole:
        yield _Row(depth, blank + NOT_KNOWN, missing, whole, style=_UNKNOWN)


_Told = tuple[str, str, int, int]
"""(label, detail, time, count)."""


def _together(rows: Iterable[_Told], whole: int) -> list[_Told]:
    """Merge threads whose names differ only in numbers, and small objects whose names differ only in their place."""
    groups: dict[tuple[str, bool], list[_Told]] = {}
    for row in rows:
        label, detail, time, _ = row
        pattern = _pattern(label) if detail else _PLACE.sub("…", label) if time < _NOTABLE * whole else label
        groups.setdefault((pattern, bool(detail)), []).append(row)
    found = []
    for (pattern, are_threads), members in groups.items():
        if len(members) == 1:
            found.append(members[0])
            continue
        label = members[0][0] if len({row[0] for row in members}) == 1 else pattern
        detail = f"({len(members):,} {'threads' if are_threads else 'of them'})"
        found.append((label, detail, sum([row[2] for row in members]), sum([row[3] for row in members])))
    return sorted(found, key=lambda row: (-row[2], row[0], row[1]))


def _holders(subject: _Subject, whole: int, pids: Mapping[int, int]) -> Iterator[_Row]:
    """Yield what had the processor: threads by whose they are, interrupts, nobody. Then what is not known."""
    holders = [c for c in subject.causes if c.behind is Behind.HOLDER and c.time and kind_of(c.state) is Kind.READY]
    if not holders:
        return
    classes: dict[str, list[Cause]] = {}
    for cause in holders:
        classes.setdefault(_class_of(cause, subject, pids), []).append(cause)
    not_known = [which for which in _WITHOUT_HOLDER.values() if which in classes]
    for which, causes in sorted(classes.items(), key=lambda item: (-sum([c.time for c in item[1]]), item[0])):
        if which in not_known:
            continue
        time, count = sum([c.time for c in causes]), sum([c.count for c in causes])
        yield _Row(1, which, time, whole, count)
        if which not in (_NOBODY, _QUOTA):
            yield from _causes(causes, Behind.HOLDER, time, 2, unseen=False)
    for which in not_known:
        yield _Row(1, which, sum([cause.time for cause in classes[which]]), whole, style=_UNKNOWN)
    missing = whole - sum([cause.time for cause in holders])
    if missing > _NOTABLE * whole:
        yield _Row(1, NOT_KNOWN, missing, whole, style=_UNKNOWN)


def _class_of(holder: Cause, subject: _Subject, pids: Mapping[int, int]) -> str:
    """Return the line below which a holder is listed, or the line that it is."""
    if holder.name.endswith(HIDDEN):
        return "held by threads hidden from tracing"
    if holder.tid is not None:
        pid = pids.get(holder.tid, holder.pid)
        own = "its own process" if len(subject.pids) == 1 else "their own processes"
        which = "threads that are not measured" if pid is None else own if pid in subject.pids else "other processes"
        return f"held by {which}"
    if is_interrupt(holder.name) and not holder.name.endswith(NOT_VISIBLE):
        return "held by interrupts"
    if holder.name == IDLE:
        return _NOBODY
    if holder.name == THROTTLED:
        return _QUOTA
    return _WITHOUT_HOLDER.get(holder.name, "held by threads that are not measured")


def _one_line(thread: Thread, kind: Kind, pids: Mapping[int, int]) -> _Row:
    """Return the line of one thread among many: its time, and its largest state and causes."""
    states = {s: c for s, c in thread.states.items() if kind_of(s) is kind and c.time}
    time, count = sum([c.time for c in states.values()]), _count(states.values())
    most = max(states, key=lambda state: (states[state].time, state))
    words = [clean(most.removeprefix("wait."), 256)] if kind in (Kind.KERNEL, Kind.POLL, Kind.WAIT) else []
    for behind in _RELATIONS:
        cause = next((c for c in thread.causes if c.state == most and c.behind is behind and c.time), None)
        if cause is not None:
            told = " ".join(_label(cause)).strip()
            words.append(told if behind is Behind.OBJECT else f"{_RELATIONS[behind]}{told}")
    return _Row(1, _named(thread.name), time, thread.span, count, str(thread.tid), note=" ".join(words))


def _label(cause: Cause) -> tuple[str, str]:
    return _named(cause.name), "" if cause.tid is None else str(cause.tid)


def _place(cause: Cause) -> str:
    """Return the process of a holder, and what its control group tells."""
    words = [] if cause.pid is None or cause.pid == cause.tid else [f"process {cause.pid}"]
    if cause.cgroup is not None and cause.cgroup.strip("/"):
        words.append(clean(origin_of(cause.cgroup).pod, 256))
    return ", ".join(words)


def _with(detail: str) -> str:
    return f" {detail}" if detail else ""


def _named(name: str) -> str:
    return clean(name, 64)


def _rest(times: Sequence[int], what: str, depth: int = 0) -> Iterator[_Row]:
    if times:
        yield _Row(depth, f"… {len(times):,} more {what if len(times) > 1 else what[:-1]}", sum(times), 0, style=_DIM)


def _as_far_as_known(ledger: Ledger, part: str) -> str:
    reason = ledger.reasons.get(_REASONS.get(part, part))
    return f", as far as is known: {reason}" if reason else ""


def _not_recorded(ledger: Ledger) -> str:
    if ledger.source == "proc":
        return "/proc does not show the causes; headway doctor says what the eBPF source needs"
    return "no cause was recorded: one is recorded when a wait ends, or when a thread gets its processor"


def _sentence(text: str, width: int) -> Iterator[Line]:
    yield from ([(line, _DIM)] for line in wrap(clean(text, 1000), max(width, 1)))


# --- how it is laid out -----------------------------------------------------------------------------------------------

_INDENT = 2
_COLUMNS = (("time", 8), ("share", 6), ("count", 9), ("mean", 8))
_FIRST_TO_GO = ("mean", "count", "share", "time")
_MIN_LABEL, _MIN_NOTE = 14, 16


@dataclass(frozen=True, slots=True)
class _Layout:
    label: int
    columns: tuple[tuple[str, int], ...]
    note: int
    width: int


def _layout(rows: Sequence[_Row], titles: Sequence[str], width: int) -> _Layout:
    columns = list(_COLUMNS)
    taken = sum(w for _, w in columns)
    for name in _FIRST_TO_GO:
        if width - taken >= _MIN_LABEL:
            break
        columns = [c for c in columns if c[0] != name]
        taken = sum(w for _, w in columns)
    wanted = max(*map(width_of, titles), *(width_of(_label_of(row)) for row in rows), 1)
    label = max(min(wanted, width - taken), 1)
    note = width - label - taken - 2
    return _Layout(label, tuple(columns), note if note >= _MIN_NOTE else 0, width)


def _label_of(row: _Row) -> str:
    return " " * (_INDENT * row.depth) + row.label + _with(row.detail)


def _heading(title: str, layout: _Layout) -> Line:
    text = fit(title, layout.label) + "".join(name.rjust(w) for name, w in layout.columns)
    return [(fit(text, min(width_of(text), layout.width)), _HEAD)]


def _line(row: _Row, layout: _Layout, unit: str) -> Line:
    text = _label_of(row)
    if not row.time:
        return [(fit(text, min(layout.label, width_of(text))), row.style)]
    figures: Mapping[str, Callable[[], str]] = {
        "time": lambda: row.mark + with_unit(row.time, unit, 7, " "),
        "share": lambda: _share(row.time, row.whole) if row.whole else "",
        "count": lambda: with_unit(row.count, "", 7) if row.count else "",
        "mean": lambda: with_unit(round(row.time / row.count), unit, 7, " ") if row.count and row.count > 1 else "",
    }
    line = _cut(text, row, layout.label)
    for name, width in layout.columns:
        style = row.style if row.style in (_DIM, _UNKNOWN) else _DIM if name in ("share", "mean") else row.style
        line.append((figures[name]().rjust(width), style))
    if row.note and layout.note:
        line.append(("  " + fit(row.note, layout.note), _DIM))
    return line


def _share(part: int, whole: int) -> str:
    if part > whole:  # such a ledger breaks the law of conservation
        return "> all"
    return "< 1 %" if part * 200 < whole else share(part / whole)


def _cut(text: str, row: _Row, width: int) -> Line:
    """Return label and detail in ``width`` columns. A label that is too long is shortened, its detail stays."""
    detail = _with(row.detail)
    room = width - width_of(detail)
    if not detail or room < _MIN_LABEL:
        return [(fit(text, width), row.style)]
    label = fit_name(text[: len(text) - len(detail)], min(room, width_of(text) - width_of(detail)))
    return [(label, row.style), (detail + " " * (room - width_of(label)), _DIM)]
