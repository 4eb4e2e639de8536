"""Why threads were ready and did not run: for which time measured threads had all processors, and for which others did.

Time ready is divided into what a replay decides anew (measured threads compete for processors) and what it cannot: what
is not measured had a processor, or one was on its way out of idle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .rows import Activity, Ints, Rows

__all__ = ["divide_ready"]


@dataclass(frozen=True, slots=True)
class _Busy:
    """The times in which all processors were busy, as arrays of begins and ends."""

    begin: Ints
    end: Ints
    before: Ints
    """The sum of all such times before each, shape (n + 1,)."""

    def until(self, time: Ints) -> tuple[Ints, Ints]:
        """Return how much of the time before ``time`` all processors were busy, and since when none was idle last."""
        if not len(self.begin):
            return np.zeros(len(time), np.int64), np.full(len(time), np.iinfo(np.int64).min)
        place = np.searchsorted(self.begin, time, side="left") - 1
        known = np.maximum(place, 0)
        last = np.minimum(self.end[known], time)
        total = np.where(place >= 0, self.before[known] + last - self.begin[known], 0)
        return total, np.where(place >= 0, last, np.iinfo(np.int64).min)


def _all_busy(cpu: Ints, begin: Ints, end: Ints, processors: int, until: int) -> _Busy:
    """Return when all processors had something of these spans."""
    order = np.lexsort((begin, cpu))
    cpu, begin, end = cpu[order], begin[order], end[order]
    new = np.ones(len(cpu), np.bool_)
    new[1:] = (cpu[1:] != cpu[:-1]) | (begin[1:] > end[:-1])
    at = np.flatnonzero(new)
    begin, end = begin[at], end[np.append(at[1:], len(cpu)) - 1] if len(at) else end
    times = np.concatenate([begin, end])
    change = np.concatenate([np.ones(len(begin), np.int64), np.full(len(end), -1)])
    order = np.lexsort((-change, times))  # where one span ends and another begins, the processor is never idle
    times, busy = times[order], np.cumsum(change[order])
    full = busy >= processors
    rises = np.flatnonzero(full & ~np.concatenate([[False], full[:-1]])) if len(full) else np.zeros(0, np.int64)
    falls = np.flatnonzero(~full & np.concatenate([[False], full[:-1]])) if len(full) else rises
    begin, end = times[rises], times[falls]
    end = np.append(end, until)[: len(begin)]
    kept = end > begin
    begin, end = begin[kept], end[kept]
    return _Busy(begin, end, np.concatenate([[0], np.cumsum(end - begin)]))


def divide_ready(rows: Rows, begin: Ints, end: Ints, next_row: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Divide times ready, from ``begin`` until ``end``, all of shape (n,).

    Returns `WaitGraph.contended`, ``early``, ``late`` and ``by_others``. ``next_row``: the row with which each thread
    went on; -1: none. From when on no other measured thread had its processor, that was kept for it.
    """
    runs = np.flatnonzero((rows.activity == Activity.RUNS) & (rows.cpu >= 0))
    runs = runs[np.lexsort((rows.begin[runs], rows.cpu[runs]))]
    cpu, first, last = rows.cpu[runs].astype(np.int64), rows.begin[runs], rows.end[runs]
    left = np.full(len(rows), rows.window.start, np.int64)
    left[runs[1:]] = np.where(cpu[1:] == cpu[:-1], last[:-1], rows.window.start)
    row = np.maximum(next_row, 0)
    placed = (next_row >= 0) & (end > begin) & (rows.cpu[row] >= 0)
    free = np.where(placed, np.clip(left[row], begin, end), end)
    late = end - free
    kept = np.flatnonzero(late > 0)
    of = rows.cpu[row[kept]].astype(np.int64)
    own = _all_busy(
        np.concatenate([cpu, of]),
        np.concatenate([first, free[kept]]),
        np.concatenate([last, end[kept]]),
        rows.cpus,
        rows.window.end,
    )
    others = rows.others
    anything = _all_busy(
        np.concatenate([cpu, others.cpu]),
        np.concatenate([first, others.begin]),
        np.concatenate([last, others.end]),
        rows.cpus,
        rows.window.end,
    )
    contended = own.until(free)[0] - own.until(begin)[0]
    early = np.maximum(free - begin - contended, 0)
    busy = anything.until(free)[0] - anything.until(begin)[0]
    by_others = np.clip(busy - contended, 0, early)
    by_others[kept] += _of_others(rows, of, free[kept], end[kept])
    return contended, early, late, by_others


def _of_others(rows: Rows, cpu: Ints, begin: Ints, end: Ints) -> Ints:
    """Return how much of each time a processor ran what is not measured."""
    others, span = rows.others, rows.window.duration + 2
    if not len(others.cpu):
        return np.zeros(len(cpu), np.int64)
    keys = others.cpu * span + (others.begin - rows.window.start)
    before = np.concatenate([[0], np.cumsum(others.end - others.begin)])

    def until(time: Ints) -> Ints:
        place = np.searchsorted(keys, cpu * span + (time - rows.window.start), side="left") - 1
        known = np.maximum(place, 0)
        here = (place >= 0) & (others.cpu[known] == cpu)
        part = np.where(here, np.clip(time - others.begin[known], 0, (others.end - others.begin)[known]), 0)
        sums: Ints = before[np.maximum(place, 0)] + part
        return np.asarray(np.where(place >= 0, np.where(here, sums, before[known + 1]), 0), np.int64)

    found: Ints = np.clip(until(end) - until(begin), 0, end - begin)
    return found
