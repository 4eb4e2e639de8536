"""The rows of a recording as its source delivered them: batches, one for each part, in the order of time.

Rows can be selected by thread and by time. A row that extends beyond the selected time is cut. Of the time taken from
it (the observer's cost, for example) it keeps the same fraction as of its duration, because the position of that time
within the row is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headway.model import NO_STATE, Batch, ThreadSeen, Transitions, Window

from .format import part_name

if TYPE_CHECKING:
    from .contents import Contents
    from .parts import TransitionsPart

__all__ = ["Chosen", "batches"]

_MAX_STATES = NO_STATE
_FOREVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Chosen:
    """A selection of rows. None: no restriction."""

    threads: frozenset[int] | None = None
    """Only rows of these threads, by their numbers in the recording. Rows without a thread are left out."""
    window: Window | None = None
    """Only what lies in this time, ``end`` excluded."""


def batches(recording: Contents, chosen: Chosen | None = None) -> Iterator[Batch]:
    """Yield the batches of a recording.

    Damaged parts are skipped and noted in ``Contents.damaged``. The last batch also has the losses and the rows of the
    states that were still open at the end.
    """
    chosen = chosen or Chosen()
    whole = recording.window
    window = chosen.window
    if window is None and recording.dropped_parts:
        window = whole
    seen = recording.threads()
    news = _news(recording)
    losses = _losses(recording)
    known: dict[str, int] = {}
    reach = _Reach(seen, chosen.threads, window)
    for part in recording.parts:
        known = {**known, **losses.get(part.number, {})}
        if window is not None and part.end <= window.start:
            continue
        if window is not None and part.start >= window.end and reach.complete:
            if chosen.threads is not None:
                break
            if not _begins_before(recording, part, window.end):  # rows of processors may be in any part
                continue
        for _, table in recording.by_part("transitions", parts=[part]):
            rows = _transitions(table)
            if rows is None:
                recording.damaged[f"transitions/{part_name(part.number)}"] = f"it has more than {_MAX_STATES:,} states"
                continue
            reach.add(rows)
            yield Batch(
                part.start, part.end, _chosen(rows, chosen.threads, window), news.get(part.number, ()), (), known
            )
    opened = [state for state in recording.open_states() if chosen.threads is None or state.thread in chosen.threads]
    states = sorted({state.state for state in opened})[:_MAX_STATES]
    number = {state: at for at, state in enumerate(states)}
    rest = _rows(
        [(max(o.since, whole.start), whole.end, o.cpu, o.thread, number[o.state]) for o in opened if o.state in number],
        states,
    )
    yield Batch(whole.end, whole.end, _chosen(rest, None, window), (), (), {**known, **recording.losses()})


def _begins_before(recording: Contents, part: TransitionsPart, time: int) -> bool:
    """Return whether a part has rows that begin before ``time``."""
    for _, table in recording.by_part("transitions", ["time"], [part]):
        return bool(len(table)) and pc.min(table.column("time")).as_py() < time
    return False


class _Reach:
    """Tells when all rows of the threads in a window have been read. The rows of a thread have no gaps."""

    def __init__(self, seen: Mapping[int, ThreadSeen], threads: frozenset[int] | None, window: Window | None) -> None:
        self._missing: dict[int, int] = {}
        if window is not None:
            for number, thread in seen.items():
                end = window.end if thread.end is None else min(window.end, thread.end)
                if (threads is None or number in threads) and thread.start < window.end and end > window.start:
                    self._missing[number] = end

    @property
    def complete(self) -> bool:
        return not self._missing

    def add(self, rows: Transitions) -> None:
        if self._missing:
            for thread, end in _last(rows.thread, rows.time + rows.duration).items():
                if end >= self._missing.get(thread, _FOREVER):
                    del self._missing[thread]


def _last(numbers: NDArray[Any], ends: NDArray[np.int64]) -> dict[int, int]:
    """Return number -> the largest of its ends. Negative numbers are left out."""
    order = np.argsort(numbers, kind="stable")
    order = order[np.searchsorted(numbers, 0, sorter=order) :]
    if not len(order):
        return {}
    first = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    found = np.maximum.reduceat(ends[order], first)
    return dict(zip(numbers[order][first].tolist(), found.tolist(), strict=True))


def _news(recording: Contents) -> dict[int, list[ThreadSeen]]:
    """Return what was new of threads, by part number."""
    return {part.number: [ThreadSeen(**r) for r in table.to_pylist()] for part, table in recording.by_part("threads")}


def _losses(recording: Contents) -> dict[int, dict[str, int]]:
    """Return the losses at the end of each part, by part number."""
    return {
        part.number: {row["name"]: row["count"] for row in table.to_pylist()}
        for part, table in recording.by_part("losses")
    }


def _transitions(table: pa.Table) -> Transitions | None:
    """Return a part's rows as columns, or None if they have more states than can be numbered."""
    state, names = _words(table.column("state"))
    waker_state, wakers = _words(table.column("waker_state"))
    place: dict[str, int] = {}
    numbers = [[place.setdefault(name, len(place)) for name in words] for words in (names, wakers)]
    if len(place) > _MAX_STATES:
        return None
    by_state, by_waker = (np.array([*of, NO_STATE], np.uint16) for of in numbers)
    task, task_id, tasks = _tasks(table)
    return Transitions(
        time=_numbers(table, "time", np.int64),
        duration=_numbers(table, "duration", np.int64),
        taken=_numbers(table, "taken", np.int32),
        cpu=_numbers(table, "cpu", np.int16),
        thread=_numbers(table, "thread", np.int32),
        state=by_state[state],
        count=_numbers(table, "count", np.int32),
        waker=_numbers(table, "waker", np.int32),
        waker_tid=_numbers(table, "waker_tid", np.int32, 0),
        waker_state=by_waker[waker_state],
        states=tuple(place),
        task=task,
        task_id=task_id,
        tasks=tasks,
        futex=_numbers(table, "futex", np.uint64, 0) if table.column("futex").null_count < len(table) else None,
        stack=_some_numbers(table, "stack"),
        waker_stack=_some_numbers(table, "waker_stack"),
        traces=_traces(table, task_id),
    )


def _tasks(table: pa.Table) -> tuple[NDArray[np.int32] | None, NDArray[np.uint64] | None, Sequence[str]]:
    """Return the columns of tasks: numbers into the names, ids, and the names. Without tasks the first two are None."""
    name, number = table.column("task"), table.column("task_id")
    if name.null_count == len(name) and number.null_count == len(number):
        return None, None, ()
    task, names = _words(name)
    ids = _numbers(table, "task_id", np.uint64, 0)
    unnamed = (task < 0) & (ids != 0)
    return np.where(unnamed, len(names), task).astype(np.int32), ids, (*names, "")


def _traces(table: pa.Table, task_id: NDArray[np.uint64] | None) -> dict[int, int]:
    """Return the ids of the traces of tasks, by the ids of the tasks."""
    if task_id is None or table.column("trace_id").null_count == len(table):
        return {}
    trace, words = _words(table.column("trace_id"))
    there = np.flatnonzero(trace >= 0)
    ids, first = np.unique(task_id[there], return_index=True)
    found = zip(ids.tolist(), trace[there][first].tolist(), strict=True)
    return {id: int(words[number], 16) for id, number in found if _TRACE.fullmatch(words[number])}


def _numbers(table: pa.Table, name: str, kind: Any, none: int = -1) -> NDArray[Any]:
    column = table.column(name)
    if column.null_count == len(column):
        return np.full(len(column), none, kind)
    if column.null_count:
        column = column.fill_null(none)
    found: NDArray[Any] = column.to_numpy()
    return found.astype(kind, copy=False)


def _some_numbers(table: pa.Table, name: str) -> NDArray[np.int32] | None:
    """Return a column that not all recordings have; None: it is null everywhere."""
    return None if table.column(name).null_count == len(table) else _numbers(table, name, np.int32)


def _words(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], list[str]]:
    """Return a column of words as indices, -1 for null, and the words."""
    if column.null_count == len(column):
        return np.full(len(column), -1, np.int32), []
    one = column.combine_chunks()
    if isinstance(one, pa.ChunkedArray):
        one = pa.concat_arrays(one.chunks)
    numbers = one.indices.fill_null(-1) if one.null_count else one.indices
    return numbers.to_numpy(zero_copy_only=False), one.dictionary.to_pylist()


def _rows(rows: Sequence[tuple[int, int, int, int, int]], states: Sequence[str]) -> Transitions:
    """Return rows for states that have not ended, from (time, end, cpu, thread, state)."""
    table = np.array([row for row in rows if row[0] < row[1]], np.int64).reshape(-1, 5)
    count = len(table)
    return Transitions(
        time=table[:, 0].copy(),
        duration=table[:, 1] - table[:, 0],
        taken=np.zeros(count, np.int32),
        cpu=table[:, 2].astype(np.int16),
        thread=table[:, 3].astype(np.int32),
        state=table[:, 4].astype(np.uint16),
        count=np.zeros(count, np.int32),
        waker=np.full(count, -1, np.int32),
        waker_tid=np.zeros(count, np.int32),
        waker_state=np.full(count, NO_STATE, np.uint16),
        states=tuple(states),
    )


def _chosen(rows: Transitions, threads: frozenset[int] | None, window: Window | None) -> Transitions:
    """Return the selected rows, cut to the window."""
    wanted = np.ones(len(rows), np.bool_)
    if threads is not None:
        wanted &= np.isin(rows.thread, np.array(sorted(threads), np.int32))
    end = rows.time + rows.duration
    if window is not None:
        inside = (rows.time < window.end) & (end > window.start)
        wanted &= np.where(rows.duration == 0, (rows.time >= window.start) & (rows.time < window.end), inside)
    if not wanted.all():
        present = [name for name in (*_COLUMNS, *_SOMETIMES) if getattr(rows, name) is not None]
        columns = {name: getattr(rows, name)[wanted] for name in present}
        rows, end = replace(rows, **columns), end[wanted]
    if window is None:
        return rows
    begin = np.maximum(rows.time, window.start)
    until = np.where(rows.duration == 0, end, np.minimum(end, window.end))
    begin = np.where(rows.duration == 0, rows.time, begin)
    cut = (begin != rows.time) | (until != end)
    if not cut.any():
        return rows
    left = until - begin
    part = (rows.taken.astype(np.float64) * left / np.maximum(rows.duration, 1)).astype(np.int64)
    late = until != end
    return replace(
        rows,
        time=begin,
        duration=left,
        taken=np.where(cut, part, rows.taken).astype(np.int32),
        count=np.where(late, 0, rows.count).astype(np.int32),
        waker=np.where(late, -1, rows.waker).astype(np.int32),
        waker_tid=np.where(late, 0, rows.waker_tid).astype(np.int32),
        waker_state=np.where(late, NO_STATE, rows.waker_state).astype(np.uint16),
        waker_stack=None if rows.waker_stack is None else np.where(late, -1, rows.waker_stack).astype(np.int32),
    )


_SOMETIMES = ("task", "task_id", "futex", "stack", "waker_stack")
"""Columns that not all batches have."""
_TRACE = re.compile(r"[0-9a-f]{32}")
_COLUMNS = ("time", "duration", "taken", "cpu", "thread", "state", "count", "waker", "waker_tid", "waker_state")
