"""DuckDB in a process that is confined: what it is asked on a connection, and its answers there.

A question is JSON: what to ``do``, and with what. Its answer is JSON, after Arrow messages where it is a table. An
answer with ``error`` says of which sort it is, and DuckDB's words.
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
import socket
import uuid
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import duckdb
import numpy
import pyarrow as pa

from headway.linux.confinement import confine

from .channel import ARROW, LARGEST, Channel, LostError
from .plain import plain_row
from .reading import only_reads

__all__ = ["MEMORY", "ON_DISK", "serve"]

MEMORY = "1GiB"
"""The memory limit of DuckDB. What exceeds it goes to a temporary folder."""
ON_DISK = "64GiB"
_PROCESS = 3 << 30
"""The limit of what the process takes in all, in bytes. DuckDB does not count all that it takes for single values, and
what it has given back counts here until the kernel has it.
"""
_WRITTEN = 64 << 30
_STACK = 8 << 20
_ROWS = 10_000
_ENOUGH = 1 << 20
"""The bytes of rows that are sent at once, about."""
_BATCH = 1 << 17
_NEEDED = (datetime, decimal, numpy, uuid, zoneinfo.ZoneInfo("UTC"))
"""What DuckDB imports when it needs it, which a confined process cannot."""
_WRONG = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.SyntaxException,
    duckdb.NotImplementedException,
)
_UNANSWERABLE = (
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.OutOfRangeException,
    duckdb.PermissionException,
    duckdb.TransactionException,
)


def serve(connection: socket.socket, folder: str, readable: Sequence[str]) -> None:
    """Answer until the connection ends.

    ``folder``: where to put what exceeds memory; empty: nowhere. ``readable``: the other files and folders to open.
    """
    threads = len(os.sched_getaffinity(0))
    own = _connect()
    changeable = [folder] if folder else []
    spills = confine(readable, changeable, memory=_PROCESS + threads * _STACK, written=_WRITTEN) and folder
    own.execute("SET temp_directory=$folder", {"folder": os.path.join(folder, "spill") if spills else ""})
    own.execute(f"SET max_temp_directory_size='{ON_DISK if spills else '0B'}'")
    own.execute(f"SET threads={threads}")
    with suppress(duckdb.Error):  # which has none before 2.0
        own.execute(f"SET async_threads={threads}")
    channel = Channel(connection)
    database = _Database(channel, own)
    try:
        while True:
            database.answer(channel.hear())
    except LostError:
        return


def _connect() -> duckdb.DuckDBPyConnection:
    """Open a database in memory. It starts no thread, and looks at control groups, which a confined process cannot."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "threads": 1,
        "temp_directory": "",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "python_enable_replacements": "false",
        "preserve_insertion_order": "false",
    }
    try:
        return duckdb.connect(config={**config, "async_threads": 0})
    except duckdb.Error:  # which has none before 2.0
        return duckdb.connect(config=config)


class _Database:
    """What can be asked. Each method of a question returns the JSON that ends the answer."""

    def __init__(self, channel: Channel, connection: duckdb.DuckDBPyConnection) -> None:
        self._channel = channel
        self._con = connection
        self._numbers = count(1)
        self._streams: dict[int, Any] = {}
        self._at_once: dict[int, int] = {}
        self._asked: dict[str, Callable[[Any], Any]] = {
            "run": self._run,
            "put": self._put,
            "reads": self._reads,
            "ask": self._ask,
            "next": self._next,
            "arrow": self._arrow,
        }

    def answer(self, asked: Mapping[str, Any]) -> None:
        """Answer a question."""
        for number in asked.get("dropped", ()):
            self._streams.pop(number, None)
        try:
            found = self._asked[asked["do"]](asked.get("with"))
        except (duckdb.Error, MemoryError) as error:
            found = _refusal(error)
        if not isinstance(found, bytes):
            found = json.dumps(found, ensure_ascii=False).encode()
        self._channel.send(b"J", found)

    def _run(self, sql: str) -> Any:
        return {"rows": self._con.execute(sql).fetchall()}

    def _put(self, name: str) -> Any:
        _, data = self._channel.receive()
        self._con.register("rows_to_keep", pa.ipc.open_stream(data).read_all())
        self._con.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM rows_to_keep')
        self._con.unregister("rows_to_keep")
        return {}

    def _reads(self, sql: str) -> Any:
        return {"reads": only_reads(self._con, sql)}

    def _cursor(self) -> Any:
        cursor = self._con.cursor()
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        return cursor

    def _ask(self, sql: str) -> Any:
        cursor = self._cursor()
        cursor.execute(sql)
        number = next(self._numbers)
        self._streams[number], self._at_once[number] = cursor, 100
        return {"stream": number, "columns": [column[0] for column in cursor.description or ()]}

    def _next(self, number: int) -> Any:
        """Return the next rows of a stream, fewer than before if they were long."""
        many = self._at_once[number]
        rows = self._streams[number].fetchmany(many)
        if not rows:
            del self._streams[number]
            return {"rows": []}
        text = json.dumps({"rows": list(map(plain_row, rows))}, ensure_ascii=False).encode()
        self._at_once[number] = max(min(many * _ENOUGH // len(text), many * 10, _ROWS), 1)
        return text if len(text) <= LARGEST else {"error": "long"}

    def _arrow(self, sql: str) -> Any:
        reader = self._cursor().execute(sql).to_arrow_reader(_BATCH)
        with pa.ipc.new_stream(_Sent(self._channel), reader.schema) as stream:
            for batch in reader:
                stream.write_batch(batch)
        return {}


class _Sent:
    """A file whose bytes are sent as Arrow messages."""

    closed = False

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def write(self, data: Any) -> int:
        """Send some."""
        view = memoryview(data).cast("B")
        for begin in range(0, len(view), LARGEST):
            self._channel.send(ARROW, view[begin : begin + LARGEST])
        return len(view)

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _refusal(error: BaseException) -> dict[str, str]:
    """Return what is said of an error."""
    if isinstance(error, (MemoryError, duckdb.OutOfMemoryException)) or "std::bad_alloc" in str(error):
        return {"error": "memory"}
    if isinstance(error, _WRONG):
        return {"error": "wrong", "words": _words(error)}
    if isinstance(error, _UNANSWERABLE) and "while reading file" not in str(error):
        return {"error": "unanswerable", "words": _words(error)}
    return {"error": "damaged", "words": _words(error)}


def _words(error: BaseException) -> str:
    """Return DuckDB's reason as one line, without the position in the query and the hints."""
    lines = [line.strip() for line in str(error).splitlines()]
    lines = lines[: next((n for n, line in enumerate(lines) if line.startswith(("LINE ", "Candidate"))), len(lines))]
    return " ".join(line for line in lines if line)[:400].rstrip(" .")
