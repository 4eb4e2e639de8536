"""What an engine must be able to do, and what it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from .catalogue import Run

__all__ = ["PREFIX", "SMALL", "Answer", "DamagedError", "Engine", "UnanswerableError", "columns_of", "literal"]

PREFIX = "recorded_"
"""Before the name of a table as it stands in the files; what is made of it for users has the name alone."""
SMALL = ("threads", "open", "losses")
"""Tables in which a later row replaces an earlier one: they get the columns ``part`` and ``row`` to tell."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows as they come; there may be more than memory holds."""

    columns: tuple[str, ...]
    rows: Iterator[Sequence[Any]]


class DamagedError(Exception):
    """The engine could not read the recording's files, or understand a question; its words."""


class UnanswerableError(DamagedError):
    """A value was not what the question, or the recording's format, has it be; the engine's words."""


class Engine(Protocol):
    """Reads recordings and answers SQL. Definitions are in DuckDB's dialect and are translated where it is not it."""

    def read(self, name: str, table: str, runs: Sequence[Run]) -> None:
        """Let ``name`` be a table of the recordings as it stands in their files, with the columns host and run.

        Raises DamagedError.
        """

    def put(self, name: str, rows: pa.Table) -> None:
        """Let ``name`` be these few rows."""

    def define(self, name: str, query: str) -> None:
        """Let ``name`` be the answer of the query. Raises DamagedError."""

    def seal(self) -> None:
        """From now on nothing but what was read can be reached, where the engine can promise that."""

    def check(self, query: str) -> None:
        """That what a user wrote is one question, and changes nothing. Raises HeadwayError."""

    def ask(self, query: str, *, translate: bool = True) -> Answer:
        """The answer. ``translate``: the query is in DuckDB's dialect, not in the engine's own.

        Raises DamagedError, now or while the rows come.
        """

    def arrow(self, query: str) -> pa.Table:
        """The answer to a query in DuckDB's dialect, all at once. Raises DamagedError."""

    def close(self) -> None:
        """Let go of everything."""


_SQL_TYPES = {"int64": "BIGINT", "int32": "INTEGER", "int16": "SMALLINT", "uint64": "DECIMAL(20, 0)"}


def columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """The columns of a table of the format and their SQL types, without ``events``, a map that engines differ on."""
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


def literal(text: str) -> str:
    """Text as SQL."""
    return "'" + text.replace("'", "''") + "'"
