"""The rows of a recording as one self-contained table, CSV or Parquet, with names and ids of threads.

Over the rows of one ``thread`` and ``state``, sum(duration - taken) is the ledger's time, and sum(count) its count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headway.model import NO_STATE, Batch, Transitions, kind_of
from headway.text import csv_text, valid

from .exported import Exported, Shown

__all__ = ["SCHEMA", "write_csv", "write_parquet"]

_WORD = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("host", _WORD),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("realtime", pa.timestamp("ns", "UTC")),
        pa.field("duration", pa.int64(), nullable=False),
        pa.field("taken", pa.int32(), nullable=False),
        pa.field("cpu", pa.int16()),
        pa.field("thread", pa.int32()),
        pa.field("tid", pa.int32()),
        pa.field("pid", pa.int32()),
        pa.field("name", _WORD),
        pa.field("state", _WORD, nullable=False),
        pa.field("kind", _WORD, nullable=False),
        pa.field("count", pa.int32(), nullable=False),
        pa.field("waker", _WORD),
        pa.field("waker_tid", pa.int32()),
        pa.field("waker_state", _WORD),
    ]
)
"""The columns. docs/export.md describes them."""
_GROUP = 1 << 18
"""The number of rows of a row group."""
_LINES = 1 << 16
"""The number of rows that are converted to text at once."""
_WORDS = [field.name for field in SCHEMA if pa.types.is_dictionary(field.type)] + ["cpu", "thread", "tid", "pid"]
"""The columns whose values repeat."""


def write_parquet(
    exported: Exported, batches: Iterable[Batch], stream: BinaryIO, shown: Shown = lambda rows: None
) -> None:
    """Write the rows as one Parquet file."""
    facts = {"host": exported.host, "time unit": exported.time_unit, **exported.facts}
    known = {f"headway.{name}": valid(str(value)) for name, value in facts.items()}
    schema = SCHEMA.with_metadata(known)
    with pq.ParquetWriter(
        stream, schema, compression="zstd", compression_level=1, use_dictionary=_WORDS, write_page_checksum=True
    ) as writer:
        rows = 0
        for table in _tables(exported, batches):
            writer.write_table(table.cast(schema), row_group_size=_GROUP)
            rows += table.num_rows
            shown(rows)


def write_csv(exported: Exported, batches: Iterable[Batch], stream: BinaryIO, shown: Shown = lambda rows: None) -> None:
    """Write the rows as CSV (RFC 4180), with a header line. Unknown values are empty."""
    plain = pa.schema(
        [
            pa.field(f.name, pa.string() if pa.types.is_dictionary(f.type) or f.name == "realtime" else f.type)
            for f in SCHEMA
        ]
    )
    options = pyarrow.csv.WriteOptions(include_header=True, quoting_style="needed")
    with pyarrow.csv.CSVWriter(stream, plain, write_options=options) as writer:
        rows = 0
        for table in _tables(exported, batches):
            for at in range(0, table.num_rows, _LINES):
                writer.write_table(_plain(table.slice(at, _LINES), plain))
            rows += table.num_rows
            shown(rows)


def _plain(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with dictionaries decoded, in which all names are, and times of day in ISO 8601."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, _harmless(table.column(at)))
    at = table.schema.get_field_index("realtime")
    naive = table.column(at).cast(pa.timestamp("ns")).cast(pa.string())
    return table.set_column(at, "realtime", pc.binary_join_element_wise(naive, "Z", "")).cast(schema)


def _harmless(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of names as CSV has them."""
    chunks = []
    for chunk in column.chunks:
        words = [None if word is None else csv_text(word) for word in chunk.dictionary.to_pylist()]
        chunks.append(pa.DictionaryArray.from_arrays(chunk.indices, pa.array(words, pa.string())))
    return pa.chunked_array(chunks, column.type) if chunks else column


def _tables(exported: Exported, batches: Iterable[Batch]) -> Iterable[pa.Table]:
    threads = _Threads(exported)
    for batch in batches:
        if len(batch.transitions):
            yield _table(batch.transitions, exported, threads)


class _Threads:
    """What is known of threads, as columns by index. The last element has only nulls."""

    def __init__(self, exported: Exported) -> None:
        numbers = sorted(exported.threads)
        self._numbers = np.array(numbers, np.int64)
        known = [exported.threads[number] for number in numbers]
        self.tids = pa.array([*(thread.tid for thread in known), None], pa.int32())
        self.pids = pa.array([*(thread.pid for thread in known), None], pa.int32())
        names: dict[str, int] = {}
        numbered = [names.setdefault(valid(thread.name), len(names)) for thread in known]
        self._names = pa.array([*numbered, None], pa.int32())
        self._words = pa.array(list(names), pa.string())

    def places(self, numbers: NDArray[np.int32]) -> pa.Array:
        """Return the indices of threads with these numbers."""
        last = len(self._numbers)
        place = np.minimum(np.searchsorted(self._numbers, numbers), max(last - 1, 0))
        known = self._numbers[place] == numbers if last else np.zeros(len(numbers), np.bool_)
        return pa.array(np.where(known, place, last))

    def names(self, places: pa.Array) -> pa.Array:
        """Return the names of threads with these indices."""
        return pa.DictionaryArray.from_arrays(self._names.take(places), self._words)


def _table(rows: Transitions, exported: Exported, threads: _Threads) -> pa.Table:
    order = np.argsort(rows.time, kind="stable")
    time = rows.time[order]
    thread, waker = rows.thread[order], rows.waker[order]
    who, whose = threads.places(thread), threads.places(waker)
    waker_tid = rows.waker_tid[order]
    unmeasured = pa.array(waker_tid, mask=waker_tid == 0)
    state = rows.state[order]
    kinds: dict[str, int] = {}
    kind_numbers = np.array(
        [kinds.setdefault(kind_of(name).value, len(kinds)) for name in rows.states] or [0], np.int32
    )
    words = pa.array([valid(name) for name in rows.states], pa.string())
    columns: Mapping[str, Any] = {
        "host": pa.DictionaryArray.from_arrays(np.zeros(len(time), np.int32), pa.array([valid(exported.host)])),
        "time": time,
        "realtime": _days(exported, time),
        "duration": rows.duration[order],
        "taken": rows.taken[order],
        "cpu": _masked(rows.cpu[order]),
        "thread": _masked(thread),
        "tid": threads.tids.take(who),
        "pid": threads.pids.take(who),
        "name": threads.names(who),
        "state": pa.DictionaryArray.from_arrays(state.astype(np.int32), words),
        "kind": pa.DictionaryArray.from_arrays(kind_numbers[state], pa.array(list(kinds), pa.string())),
        "count": rows.count[order],
        "waker": threads.names(whose),
        "waker_tid": pc.coalesce(threads.tids.take(whose), unmeasured),
        "waker_state": _states(rows.waker_state[order], words),
    }
    return pa.Table.from_arrays([_array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def _array(column: Any, kind: pa.DataType) -> pa.Array:
    return pa.array(column, kind) if isinstance(column, np.ndarray) else column


def _masked(column: NDArray[Any]) -> pa.Array:
    return pa.array(column, mask=column < 0)


def _states(numbers: NDArray[np.uint16], words: pa.Array) -> pa.Array:
    there = numbers != NO_STATE
    return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32), mask=~there), words)


def _days(exported: Exported, time: NDArray[np.int64]) -> pa.Array:
    kind = pa.timestamp("ns", "UTC")
    if exported.realtime is None:
        return pa.nulls(len(time), kind)
    return pa.array(exported.realtime(time)).cast(kind)
