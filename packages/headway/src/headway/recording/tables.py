"""The Arrow tables of a recording, with the columns of `format`, made from what sources hand over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headway.model import Cell, Estimate, OpenState, Processor, Thread, ThreadSeen, Transitions
from headway.text import valid

from .format import LONG, LOSSES, OPEN, PROCESSORS, STACKED, STATES, THREADS, TRANSITIONS

__all__ = [
    "columns_table",
    "losses_table",
    "open_table",
    "processors_table",
    "states_table",
    "threads_table",
    "transitions_table",
]

Integers = NDArray[Any]


def transitions_table(batches: Sequence[Transitions], *, stacks: bool = False) -> tuple[pa.Table, int]:
    """Return the rows of the batches in the format's order, and the number of short rows, which are first.

    ``stacks``: with the columns of stacks.
    """
    columns: dict[str, Integers] = {
        field.name: np.concatenate([np.empty(0, _numpy_type(field.type)), *(getattr(b, field.name) for b in batches)])
        for field in TRANSITIONS
        if not pa.types.is_dictionary(field.type) and field.name not in ("task_id", "futex")
    }
    words, names = _words_of(batches)
    with_tasks = any(batch.task is not None for batch in batches)
    order, short = _order(columns["time"], columns["duration"], columns["cpu"])
    arrays = []
    for field in TRANSITIONS:
        if field.name == "trace_id":
            traced = any(batch.traces for batch in batches)
            arrays.append(_traces(batches, order) if traced else pa.nulls(len(order), field.type))
        elif field.name in ("task", "task_id"):
            arrays.append(_tasks(field, batches, order) if with_tasks else pa.nulls(len(order), field.type))
        elif field.name == "futex":
            arrays.append(_numbers(field.name, batches, order))
        elif field.name in words:
            arrays.append(_words(words[field.name], names, order))
        elif field.nullable:
            arrays.append(_column(columns[field.name], 0 if field.name == "waker_tid" else -1, order))
        else:
            arrays.append(pa.array(columns[field.name][order]))
    if not stacks:
        return pa.Table.from_arrays(arrays, schema=TRANSITIONS), short
    arrays += [_numbers(name, batches, order, np.int32, -1) for name in ("stack", "waker_stack")]
    return pa.Table.from_arrays(arrays, schema=STACKED), short


def _tasks(field: pa.Field[Any], batches: Sequence[Transitions], order: Integers) -> pa.Array:
    """Return the column of the tasks' names, or of their ids."""
    if field.name == "task_id":
        return _numbers(field.name, batches, order)
    names: dict[str, int] = {}
    numbers = []
    for batch in batches:
        if batch.task is None:
            numbers.append(np.full(len(batch), -1, np.int32))
            continue
        table = np.array([names.setdefault(name, len(names)) if name else -1 for name in batch.tasks] + [-1], np.int32)
        numbers.append(table[batch.task])
    return _words(np.concatenate(numbers), list(names), order)


def _numbers(
    name: str, batches: Sequence[Transitions], order: Integers, kind: Any = np.uint64, none: int = 0
) -> pa.Array:
    """Return a column that not every batch has, and in which ``none`` is null."""
    columns = [getattr(batch, name) for batch in batches]
    whole = [np.full(len(b), none, kind) if c is None else c for b, c in zip(batches, columns, strict=True)]
    return _column(np.concatenate([np.empty(0, kind), *whole]), none, order)


def _traces(batches: Sequence[Transitions], order: Integers) -> pa.Array:
    """Return the column of the ids of the tasks' traces, in hexadecimal digits."""
    names: dict[str, int] = {}
    numbers = []
    for batch in batches:
        if batch.task_id is None or not batch.traces:
            numbers.append(np.full(len(batch), -1, np.int32))
            continue
        ids, place = np.unique(batch.task_id, return_inverse=True)
        known = [batch.traces.get(id) for id in ids.tolist()]
        table = [-1 if trace is None else names.setdefault(f"{trace:032x}", len(names)) for trace in known]
        numbers.append(np.array(table, np.int32)[place])
    return _words(np.concatenate(numbers), list(names), order)


def _numpy_type(kind: pa.DataType) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return found


def _order(time: Integers, duration: Integers, cpu: Integers) -> tuple[Integers, int]:
    """Return the order of the rows and the number of short ones.

    Short rows are sorted by processor (those off the processors first) and time. The long rows follow, sorted by time.
    """
    long = duration >= LONG
    if not long.any():
        return np.lexsort((time, cpu)), len(time)
    short, rest = np.flatnonzero(~long), np.flatnonzero(long)
    by_time = rest[np.argsort(time[rest], kind="stable")]
    return np.concatenate([short[np.lexsort((time[short], cpu[short]))], by_time]), len(short)


def _words_of(batches: Sequence[Transitions]) -> tuple[dict[str, Integers], list[str]]:
    """Return the columns of states as numbers into one list of names (-1: none), and that list."""
    names: dict[str, int] = {}
    tables: dict[tuple[int, int], Integers] = {}
    found: dict[str, list[Integers]] = {"state": [np.empty(0, np.int32)], "waker_state": [np.empty(0, np.int32)]}
    for batch in batches:
        key = id(batch.states), len(batch.states)  # the same list object may have grown
        if key not in tables:
            numbers = [names.setdefault(name, len(names)) for name in batch.states]
            tables[key] = np.array([*numbers, -1], np.int32)
        table = tables[key]
        found["state"].append(table[batch.state])
        wakers = np.minimum(batch.waker_state, len(table) - 1)  # NO_STATE is mapped to the last element, which is -1
        found["waker_state"].append(table[wakers])
    return {column: np.concatenate(parts) for column, parts in found.items()}, list(names)


def _words(numbers: Integers, names: Sequence[str], order: Integers) -> pa.Array:
    """Return a dictionary column of names. The dictionary has only the names that are used."""
    used = np.flatnonzero(np.bincount(numbers + 1, minlength=1)[1:])
    table = np.full(len(names) + 1, -1, np.int32)
    table[used] = np.arange(len(used), dtype=np.int32)
    words = pa.array([valid(names[number]) for number in used.tolist()], pa.string())
    # -1 selects the last element, which is -1
    return pa.DictionaryArray.from_arrays(_column(table[numbers], -1, order), words)


def _column(column: Integers, none: int, order: Integers) -> pa.Array:
    """Return a column in which ``none`` is null."""
    mask = column == none
    if mask.all():
        return pa.nulls(len(column), pa.from_numpy_dtype(column.dtype))
    return pa.array(column[order], mask=mask[order] if mask.any() else None)


def threads_table(threads: Iterable[ThreadSeen]) -> pa.Table:
    """Return the table ``threads``: what was new of threads."""
    rows = [
        (t.thread, t.tid, t.pid, valid(t.name), t.birth, t.start, t.end, None if t.cgroup is None else valid(t.cgroup))
        for t in threads
    ]
    return _table(rows, THREADS)


def open_table(states: Iterable[OpenState]) -> pa.Table:
    """Return the table ``open``: the states that threads were in."""
    rows = [(s.thread, None if s.cpu < 0 else s.cpu, valid(s.state), s.since) for s in states]
    return _table(rows, OPEN)


def losses_table(losses: Mapping[str, int]) -> pa.Table:
    """Return the table ``losses``: what could not be seen so far."""
    return _table([(valid(name), count) for name, count in losses.items()], LOSSES)


def states_table(threads: Iterable[Thread], numbers: Mapping[tuple[int, int], int]) -> pa.Table:
    """Return the table ``states``. ``numbers`` has each thread's number in the recording, by (tid, birth)."""
    return _table([(numbers[t.key], *_cell(s, c, t.sampled)) for t in threads for s, c in t.states.items()], STATES)


def processors_table(processors: Iterable[Processor]) -> pa.Table:
    """Return the table ``processors``."""
    return _table([(p.cpu, *_cell(s, c, p.sampled)) for p in processors for s, c in p.states.items()], PROCESSORS)


_EXACT = Estimate()


def _cell(state: str, cell: Cell, sampled: Mapping[str, Estimate]) -> tuple[object, ...]:
    estimate = sampled.get(state, _EXACT)
    events = None if cell.events is None else [(valid(name), number) for name, number in cell.events.items()]
    return (
        valid(state),
        cell.time,
        cell.count,
        cell.cycles,
        cell.instructions,
        cell.stall_cycles,
        cell.memory_stall_cycles,
        cell.external_stall_cycles,
        events,
        estimate.time,
        estimate.samples,
        estimate.by_mode,
        estimate.mode_samples,
    )


def _table(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    return columns_table(list(zip(*rows, strict=True)) if rows else [()] * len(schema), schema)


def columns_table(columns: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Return a small table from columns of Python values."""
    arrays = []
    for column, field in zip(columns, schema, strict=True):
        if pa.types.is_dictionary(field.type):
            arrays.append(pa.array(column, pa.string()).dictionary_encode())
        else:
            arrays.append(pa.array(column, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
