"""The interface of an engine, and its answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from headway.recording.format import LATER

from .catalogue import RecordedRun

__all__ = [
    "PREFIX",
    "SMALL",
    "DamagedError",
    "Engine",
    "QueryResult",
    "UnanswerableError",
    "casts",
    "columns_of",
    "literal",
    "may_lack",
]

PREFIX = "recorded_"
"""The prefix of a table's name as it is in the files. The table made of it for users has the name without the prefix.
"""
SMALL = ("threads", "open", "losses")
"""The tables in which a later row replaces an earlier one. The columns ``part`` and ``row`` give their order."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of an answer, produced as they are read; they may exceed memory."""

    columns: tuple[str, ...]
    rows: Iterator[Sequence[Any]]


class DamagedError(Exception):
    """The engine could not read the recording's files, or could not process a query. The message is the engine's."""


class UnanswerableError(DamagedError):
    """A value did not have the type or range that the query or the recording's format requires.

    The message is the engine's.
    """


class Engine(Protocol):
    """An engine reads recordings and answers SQL. Definitions are in DuckDB's dialect and are translated if needed."""

    def read(self, name: str, table: str, runs: Sequence[RecordedRun]) -> None:
        """Define ``name`` as a table of the recordings as it is in their files, with the columns host and run added.

        Raises DamagedError.
        """

    def put(self, name: str, rows: pa.Table) -> None:
        """Define ``name`` as these few rows."""

    def define(self, name: str, query: str) -> None:
        """Define ``name`` as the answer of a query. Raises DamagedError."""

    def seal(self) -> None:
        """Deny access to everything but what was read, if the engine can promise that."""

    def check(self, query: str) -> None:
        """Check that a user's SQL is one query that changes nothing. Raises HeadwayError."""

    def ask(self, query: str, *, translate: bool = True) -> QueryResult:
        """Return the answer. ``translate``: the query is in DuckDB's dialect, not in the engine's own.

        Raises DamagedError, now or while the rows are read.
        """

    def arrow(self, query: str) -> pa.Table:
        """Return the whole answer to a query in DuckDB's dialect. Raises DamagedError."""

    def close(self) -> None:
        """Close the engine and release all resources."""


_SQL_TYPES = {"int64": "BIGINT", "int32": "INTEGER", "int16": "SMALLINT", "uint64": "DECIMAL(20, 0)"}


def columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the columns of a table of the format with their SQL types.

    ``events`` is left out: it is a map, which the engines treat differently.
    """
    found = []
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_map(kind):
            continue
        if pa.types.is_list(kind):
            found.append((field.name, f"{_SQL_TYPES[str(kind.value_type)]}[]"))
        else:
            found.append((field.name, _SQL_TYPES.get(str(kind), "VARCHAR")))
    return found


def casts(columns: Sequence[tuple[str, str]], there: Collection[str] | None) -> str:
    """Return what to select of files with these columns (`columns_of`): each column in its SQL type.

    ``there``: the columns that the files have; None: all. What the first recordings do not have is null.
    """
    found = []
    for column, kind in columns:
        lacking = there is not None and column in LATER and column not in there
        found.append(f'CAST({"NULL" if lacking else chr(34) + column + chr(34)} AS {kind}) AS "{column}"')
    return ", ".join(found)


def may_lack(columns: Sequence[tuple[str, str]]) -> bool:
    """Return whether the first recordings do not have all of these columns."""
    return any(column in LATER for column, _ in columns)


def literal(text: str) -> str:
    """Return the text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
