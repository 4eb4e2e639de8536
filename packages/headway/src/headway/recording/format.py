"""The format of a recording: its version, its files, the columns of its tables. docs/recordings.md has the units.

A recording is a folder. ``recording.json`` describes it. Each table is a folder of parts, which are Parquet files. A
file gets its final name when it is complete. Part k of every table covers the same span of time.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

__all__ = [
    "ANCHOR",
    "BESIDE",
    "DOCUMENT",
    "FRAMES",
    "FROM",
    "LAST",
    "LATER",
    "LONG",
    "LOSSES",
    "NAME",
    "OPEN",
    "PART",
    "PROCESSORS",
    "ROWS",
    "SAMPLES",
    "SCHEMA",
    "SCHEMAS",
    "STACKED",
    "STACKS",
    "STATES",
    "THREADS",
    "TRANSITIONS",
    "UNTIL",
    "VERSION",
    "part_name",
    "part_number",
]

NAME = "headway.recording"
VERSION = 1
SCHEMA = f"{NAME}/{VERSION}"
"""A change of meaning raises the version. A reader ignores fields and tables that it does not know."""
DOCUMENT = "recording.json"
"""The file that makes a folder a recording."""
LONG = 100_000_000
"""Rows whose duration is at least this are in row groups of their own. To find what happened at an instant, a reader
needs only the rows that begin less than this before the instant, and the long rows.
"""

PART = b"headway.part"
"""The keys of each part's own metadata: its number; the time in which its rows were written, from (included) and until
(excluded); its number of rows; and ``headway.schema``. All values except the schema are decimal text.
"""
FROM = b"headway.from"
UNTIL = b"headway.until"
ROWS = b"headway.rows"
BESIDE = b"headway.beside"
"""Metadata of a part of ``transitions``: the other tables that have a part of this number, separated by commas."""
ANCHOR = b"headway.anchor"
"""Metadata of a part of ``transitions``: a clock anchor, as three numbers."""
LAST = b"headway.last"
"""Metadata of a part of ``transitions``: 1 in the last part of a recording, after which no state is open."""

_WORD = pa.dictionary(pa.int32(), pa.string())


def _required(name: str, kind: pa.DataType) -> pa.Field[Any]:
    return pa.field(name, kind, nullable=False)


TRANSITIONS = pa.schema(
    [
        _required("time", pa.int64()),
        _required("duration", pa.int64()),
        _required("taken", pa.int32()),
        pa.field("cpu", pa.int16()),
        pa.field("thread", pa.int32()),
        _required("state", _WORD),
        _required("count", pa.int32()),
        pa.field("waker", pa.int32()),
        pa.field("waker_tid", pa.int32()),
        pa.field("waker_state", _WORD),
        pa.field("task", _WORD),
        pa.field("task_id", pa.uint64()),
        pa.field("futex", pa.uint64()),
        pa.field("trace_id", _WORD),
    ]
)
STACKED = pa.schema([*TRANSITIONS, pa.field("stack", pa.int32()), pa.field("waker_stack", pa.int32())])
"""The rows of a recording with stacks."""
THREADS = pa.schema(
    [
        _required("thread", pa.int32()),
        _required("tid", pa.int32()),
        _required("pid", pa.int32()),
        _required("name", pa.string()),
        _required("birth", pa.int64()),
        _required("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("cgroup", pa.string()),
    ]
)
OPEN = pa.schema(
    [
        _required("thread", pa.int32()),
        pa.field("cpu", pa.int16()),
        _required("state", _WORD),
        _required("since", pa.int64()),
    ]
)
LOSSES = pa.schema([_required("name", pa.string()), _required("count", pa.int64())])
_FIGURES = [
    _required("state", _WORD),
    _required("time", pa.int64()),
    pa.field("count", pa.int64()),
    pa.field("cycles", pa.int64()),
    pa.field("instructions", pa.int64()),
    pa.field("stall_cycles", pa.int64()),
    pa.field("memory_stall_cycles", pa.int64()),
    pa.field("external_stall_cycles", pa.int64()),
    pa.field("events", pa.map_(pa.string(), pa.int64())),
    pa.field("sampled", pa.int64()),
    pa.field("samples", pa.int64()),
    pa.field("by_mode", pa.int64()),
    pa.field("mode_samples", pa.int64()),
]
STATES = pa.schema([_required("thread", pa.int32()), *_FIGURES])
PROCESSORS = pa.schema([_required("cpu", pa.int16()), *_FIGURES])
SAMPLES = pa.schema(
    [
        _required("time", pa.int64()),
        pa.field("thread", pa.int32()),
        pa.field("cpu", pa.int16()),
        _required("state", _WORD),
        _required("weight", pa.int64()),
        pa.field("count", pa.int64()),
        pa.field("stack", pa.int32()),
    ]
)
STACKS = pa.schema(
    [
        _required("stack", pa.int32()),
        _required("frames", pa.list_(_required("element", pa.int32()))),
        pa.field("place", pa.int32()),
    ]
)
FRAMES = pa.schema(
    [
        _required("frame", pa.int32()),
        pa.field("function", pa.string()),
        pa.field("file", pa.string()),
        pa.field("line", pa.int32()),
        pa.field("module", pa.string()),
        pa.field("address", pa.uint64()),
        _required("kind", _WORD),
    ]
)
SCHEMAS = {
    "transitions": STACKED,
    "threads": THREADS,
    "open": OPEN,
    "losses": LOSSES,
    "states": STATES,
    "processors": PROCESSORS,
    "samples": SAMPLES,
    "stacks": STACKS,
    "frames": FRAMES,
    "processor_samples": SAMPLES,
}
"""The tables by name, which is also the name of their folder."""
LATER = frozenset(
    {"sampled", "samples", "by_mode", "mode_samples", "task", "task_id", "trace_id", "cgroup", "futex"}
    | {"stack", "waker_stack", "place"}
)
"""Columns that the first recordings do not have, or those without stacks. They are null then."""

_PART_NAME = re.compile(r"part-([0-9]{6,9})\.parquet")


def part_name(number: int) -> str:
    """Return the file name of a part, within the folder of its table."""
    return f"part-{number:06d}.parquet"


def part_number(name: str) -> int | None:
    """Return the number of a part from its file name, or None if it is not the name of a finished part."""
    found = _PART_NAME.fullmatch(name)
    return int(found[1]) if found and part_name(int(found[1])) == name else None
