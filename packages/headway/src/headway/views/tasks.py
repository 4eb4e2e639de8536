"""The table of tasks: what threads worked on, and where the time of each went. Its lines add up to the threads'."""

from __future__ import annotations

from collections.abc import Iterator

from headway.model import NO_TASK, Kind, Ledger, Task, indices_of, kind_of, merged_by_name, time_by_kind

from .figures import MARKS, with_unit
from .lines import Line, cut
from .printable import clean, fit, fit_name, width_of

__all__ = ["tasks_table"]

_DIM, _HEAD = "dim", "bold"
_LINES = 20
"""Lines of tasks, where nobody says how many."""
_FIGURE = 6
_NARROWEST, _WIDEST = 8, 40
_SUM = "all tasks"


def tasks_table(ledger: Ledger, *, width: int, limit: int | None = _LINES, verbose: bool = False) -> Iterator[Line]:
    """Yield the lines of the tasks of all threads together; none where no thread had a task.

    Tasks of one name, or of one id, are one line. ``limit``: lines of tasks at most, the others are summed up; None:
    all. ``verbose``: with every state of each.
    """
    tasks = merged_by_name(task for thread in ledger.threads for task in thread.tiles())
    if not tasks:
        return
    between = [task for task in tasks if task.title == NO_TASK]
    named = [task for task in tasks if task.title != NO_TASK]
    shown = named if limit is None else named[:limit]
    room = max(width - 6 * (_FIGURE + 2) - 14, _NARROWEST)
    room = min(max(width_of(_title(task)) for task in (*shown, *between)), room, _WIDEST)
    room = max(room, len(_SUM), _NARROWEST)
    mark = MARKS[indices_of({}, ledger.precision).quality["epi"]]
    heads = ("changes", "RPI", f"{mark}EPI", "kernel", "poll")
    line = fit("task", room) + "".join(head.rjust(_FIGURE + 2) for head in heads)
    yield cut([(line, _HEAD), (" │", _DIM), ("  ready".rjust(_FIGURE + 1) + " waiting for", _HEAD)], width)
    for task in (*shown, *between):
        yield cut(_line(ledger, task, room), width)
        if verbose:
            yield from _states(ledger, task, width)
    rest = named[len(shown) :]
    if rest:
        words = f"… {len(rest):,} more"
        yield cut([(fit(words, room), _DIM), *_figures(ledger, rest)], width)
    yield cut([(fit(_SUM, room), _HEAD), *_figures(ledger, tasks)], width)


def _title(task: Task) -> str:
    if task.context is not None and not task.name:
        return task.context.span  # 16 digits have room in 80 columns
    return clean(task.title, 64)


def _line(ledger: Ledger, task: Task, room: int) -> Line:
    waits = {s: c.time for s, c in task.states.items() if kind_of(s) is Kind.WAIT and c.time}
    longest = max(waits, key=lambda state: waits[state]) if waits else ""
    title = fit_name(_title(task), room)
    style = _DIM if task.title == NO_TASK else ""
    return [(title, style), *_figures(ledger, [task]), (" " + longest.removeprefix("wait."), "")]


def _figures(ledger: Ledger, tasks: list[Task]) -> Line:
    times = dict.fromkeys(Kind, 0)
    for task in tasks:
        for kind, time in time_by_kind(task.states).items():
            times[kind] += time
    indices = indices_of(times, ledger.precision)

    def figure(value: int | None) -> str:
        return "–" if value is None else with_unit(value, ledger.time_unit, _FIGURE)

    changes = sum(task.changes for task in tasks)
    cells = [with_unit(changes, "", _FIGURE), figure(indices.rpi), figure(indices.epi), figure(indices.kpi)]
    cells.append(figure(indices.iopi))
    text = "".join(cell.rjust(_FIGURE + 2) for cell in cells)
    off = figure(times[Kind.READY]).rjust(_FIGURE + 1) + figure(times[Kind.WAIT]).rjust(_FIGURE + 1)
    return [(text, ""), (" │", _DIM), (off, "")]


def _states(ledger: Ledger, task: Task, width: int) -> Iterator[Line]:
    for state, cell in sorted(task.states.items(), key=lambda item: -item[1].time):
        if cell.time:
            time = with_unit(cell.time, ledger.time_unit, 9, " ")
            yield cut([(f"  {time:>10} {cell.count or 0:>10,} × {clean(state, 64)}", _DIM)], width)
