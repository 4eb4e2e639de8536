"""A table as the bytes of a Parquet file, encoded as its figures say is best (docs/recordings.md)."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from .format import SCHEMA

__all__ = ["ROW_GROUP", "encode"]

ROW_GROUP = 1 << 18
"""Rows of a row group."""
_NUMBERS = {"time": "DELTA_BINARY_PACKED", "duration": "PLAIN", "since": "PLAIN", "weight": "PLAIN", "address": "PLAIN"}
"""Columns that hardly repeat themselves. Times are in order, so their differences are small; durations are left to
zstd, which finds more in their bytes than packing to a width does. All others have a dictionary."""


def encode(table: pa.Table, metadata: Mapping[bytes, bytes], first: int | None = None) -> pa.Buffer:
    """The bytes of a file with this table; its ``first`` rows are in row groups of their own."""
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
    """The columns as Parquet calls them."""
    inner = {"events": ["events.key_value.key", "events.key_value.value"], "frames": ["frames.list.element"]}
    return [path for name in schema.names for path in inner.get(name, [name])]
