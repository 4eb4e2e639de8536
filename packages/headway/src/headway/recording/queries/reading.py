"""Whether SQL only reads, as DuckDB's own parser understands it.

EXPLAIN executes what it explains if it is to ANALYZE it, and a common table expression may insert, delete or COPY into
a file. So a statement is taken apart down to each query in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb

__all__ = ["only_reads"]

_BLANK = r"(?:\s|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)"
_EXPLAIN = re.compile(rf"{_BLANK}*EXPLAIN\b{_BLANK}*(?:ANALYZE\b|\([\w\s,]*\)(?={_BLANK}))?", re.IGNORECASE | re.ASCII)
_READING = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""The nodes of DuckDB's parser that are queries and change nothing."""


def only_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Return whether the text is one query, or EXPLAIN of one, that changes nothing. Raises duckdb.Error."""
    kinds = [statement.type for statement in connection.extract_statements(sql)]
    if kinds == [duckdb.StatementType.EXPLAIN]:
        beginning = _EXPLAIN.match(sql)
        # What is left must be a query by itself, so that nothing else can be what is explained.
        return beginning is not None and _is_query(connection, sql[beginning.end() :])
    return _is_query(connection, sql)


def _is_query(connection: duckdb.DuckDBPyConnection, sql: str) -> bool:
    kinds = [statement.type for statement in connection.extract_statements(sql)]
    if kinds != [duckdb.StatementType.SELECT]:
        return False
    ((text,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return not parsed.get("error", True) and len(parsed["statements"]) == 1 and set(_nodes(parsed)) <= _READING


def _nodes(parsed: Any) -> Iterator[str]:
    """Yield the kind of each query in a parsed statement: what has modifiers, such as ORDER BY, is one."""
    todo = [parsed]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            if "modifiers" in part or str(part.get("type")).endswith("_NODE"):
                yield str(part.get("type"))
            todo += part.values()
        elif isinstance(part, list):
            todo += part
