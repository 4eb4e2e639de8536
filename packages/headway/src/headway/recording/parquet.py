"""Parquet encoding of a table, with the encoding of each column that measured best (``benchmarks/recording.py``).

A row of ``transitions`` took 1.89 bytes, against 2.50 with plain times and 16.42 uncompressed (2026-11-22). A byte
stream split of durations would take 1.80, but not every reader knows it for integers.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from .format import SCHEMA

__all__ = ["ROW_GROUP", "encode"]

ROW_GROUP = 1 << 18
"""The number of rows of a row group."""
_NUMBERS = {"time": "DELTA_BINARY_PACKED", "duration": "PLAIN", "since": "PLAIN", "weight": "PLAIN", "address": "PLAIN"}
"""Columns whose values hardly repeat. Times are sorted, so their differences are small. Durations are left to zstd,
which compresses their bytes better than bit packing. All other columns have a dictionary.
"""


def encode(table: pa.Table, metadata: Mapping[bytes, bytes], first: int | None = None) -> pa.Buffer:
    """Return the bytes of a file with this table. Its ``first`` rows are in row groups of their own."""
    schema = table.schema.with_metadata({**metadata, b"headway.schema": SCHEMA.encode()})
    numbers = {name: encoding for name, encoding in _NUMBERS.items() if name in schema.names}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[path for path in _paths(schema) if path not in numbers],
        column_encoding=numbers or None,
        write_page_checksum=True,
    ) as writer:
        split = table.num_rows if first is None else first
        for part in (table.slice(0, split), table.slice(split)):
            if part.num_rows:
                writer.write_table(part.cast(schema) if part.schema != schema else part, row_group_size=ROW_GROUP)
    return sink.getvalue()


def _paths(schema: pa.Schema) -> list[str]:
    """Return the paths of the columns as Parquet names them."""
    inner = {"events": ["events.key_value.key", "events.key_value.value"], "frames": ["frames.list.element"]}
    return [path for name in schema.names for path in inner.get(name, [name])]
