"""DuckDB, the default engine.

Recordings may come from anybody, so DuckDB may read their files and nothing else: no network, no extensions, no
settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from headway.errors import HeadwayError
from headway.interruptible import Job, LateError, temporary_folder
from headway.recording import format as form
from headway.text import valid

from .catalogue import RecordedRun
from .engine import SMALL, DamagedError, QueryResult, UnanswerableError, casts, columns_of, literal, may_lack

__all__ = ["MEMORY", "DuckDB"]

MEMORY = "1536MiB"
"""The memory limit of DuckDB, which keeps the whole process below 2 GiB. What exceeds it goes to a temporary folder."""
_ON_DISK = "64GiB"
_ROWS = 10_000
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
)
_MAGIC = re.compile(r"[*?\[\]{}\ud800-\udfff]")
"""The characters that DuckDB treats as a pattern in a file name, and bytes that are not valid UTF-8."""
_PATIENCE = 2.0
"""Seconds after which a query that does not stop is abandoned. DuckDB does not check for interrupts within one SQL
function.
"""
_T = TypeVar("_T")


class DuckDB:
    """DuckDB in this process. ``database`` is a DuckDB file that is attached read-only under its own name.

    Queries can be interrupted with Ctrl-C. One that takes longer than ``seconds``, or whose next rows do, is ended;
    None: none is.
    """

    def __init__(self, database: str | None = None, *, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._links: dict[str, str] = {}
        self._jobs: list[Job[Any]] = []
        self._scratch = self._do(lambda: temporary_folder("headway-query-"))
        self._con = self._do(lambda: _connect(self._scratch.name))
        self._execute("SET TimeZone='UTC'")
        self._execute("SET parquet_metadata_cache=true")  # one answer may need several queries
        self._allowed: set[str] = set()
        self._sealed = False
        if database is not None:
            self._attach(database)

    def _attach(self, database: str) -> None:
        path = os.path.abspath(database)
        name = os.path.splitext(os.path.basename(path))[0]
        try:
            if not os.path.isfile(path):
                raise HeadwayError(f"there is no DuckDB database {database!a}: give the path of one")
            if valid(path) != path:
                raise HeadwayError(f"DuckDB opens no file whose path is not UTF-8, as {database!a} is: rename it")
            self._execute(f'ATTACH {literal(path)} AS "{name.replace(chr(34), chr(34) * 2)}" (READ_ONLY)')
        except (duckdb.Error, HeadwayError) as error:
            self.close()
            if isinstance(error, HeadwayError):
                raise
            raise HeadwayError(f"the DuckDB database {database!a} cannot be attached: {_words(error)}") from None
        self._allowed |= {path, f"{path}.wal"}

    def read(self, name: str, table: str, runs: Sequence[RecordedRun]) -> None:
        """See `Engine.read`."""
        columns = columns_of(form.SCHEMAS[table])
        extra = [("part", "BIGINT"), ("row", "BIGINT")] if table in SMALL else []
        nothing = ", ".join(f'CAST(NULL AS {kind}) AS "{column}"' for column, kind in columns + extra)
        options = "hive_partitioning=false"
        more = ""
        if extra:
            number = r"CAST(regexp_extract(filename, 'part-(\d+)', 1) AS BIGINT)"
            more = f", {number} AS part, CAST(file_row_number AS BIGINT) AS row"
            options += ", filename=true, file_row_number=true"
        queries = []
        for run in runs:
            if run.files[table]:
                files = ", ".join(literal(self._file(file)) for file in run.files[table])
                who = f"{literal(run.host)} AS host, {literal(run.run)} AS run"
                chosen = casts(columns, self._columns_in(run.files[table][0]) if may_lack(columns) else None) + more
                queries.append(f"SELECT {who}, {chosen} FROM read_parquet([{files}], {options})")
        if not queries:
            queries.append(f"SELECT CAST(NULL AS VARCHAR) AS host, CAST(NULL AS VARCHAR) AS run, {nothing} WHERE false")
        self.define(name, "\nUNION ALL ".join(queries))

    def _columns_in(self, path: str) -> set[str] | None:
        """Return the columns of a file; None: it cannot be read, as reading it will say."""
        try:
            found = self._execute(f"SELECT name FROM parquet_schema({literal(self._file(path))})")
        except duckdb.Error:
            return None
        return {name for (name,) in found}

    def _file(self, path: str) -> str:
        """Return a name of the file that DuckDB does not treat as a pattern."""
        if _MAGIC.search(path):
            folder, _, name = path.rpartition("/")
            if folder not in self._links:
                self._links[folder] = os.path.join(self._scratch.name, str(len(self._links)))
                os.symlink(folder, self._links[folder])
            path = f"{self._links[folder]}/{name}"
        self._allowed.add(path)
        return path

    def put(self, name: str, rows: pa.Table) -> None:
        """See `Engine.put`."""

        def keep() -> None:
            self._con.register("rows_to_keep", rows)
            self._con.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM rows_to_keep')
            self._con.unregister("rows_to_keep")

        self._do(keep, self._con)

    def define(self, name: str, query: str) -> None:
        """See `Engine.define`."""
        try:
            self._execute(f'CREATE OR REPLACE VIEW "{name}" AS {query}')
        except duckdb.Error as error:
            raise DamagedError(_words(error)) from None

    def seal(self) -> None:
        """See `Engine.seal`. A second call does nothing."""
        if self._sealed:
            return
        try:
            self._execute(f"SET allowed_paths=[{', '.join(map(literal, sorted(self._allowed)))}]")
            self._execute("SET enable_external_access=false")
            self._execute("SET lock_configuration=true")
        except duckdb.Error as error:
            raise HeadwayError(
                f"this DuckDB cannot be restricted to the recording's files ({_words(error)}): install a newer one"
            ) from None
        self._sealed = True

    def check(self, query: str) -> None:
        """See `Engine.check`."""
        if valid(query) != query:
            raise HeadwayError("the SQL is wrong: it contains bytes that are not UTF-8")
        try:
            statements = self._do(lambda: self._con.extract_statements(query), self._con)
        except duckdb.Error as error:
            raise HeadwayError(f"the SQL is wrong: {_words(error)}") from None
        if len(statements) != 1 or statements[0].type not in (
            duckdb.StatementType.SELECT,
            duckdb.StatementType.EXPLAIN,
        ):
            raise HeadwayError("the SQL is not one SELECT, and nothing else is done to recordings: ask one question")

    def ask(self, query: str, *, translate: bool = True) -> QueryResult:
        """See `Engine.ask`."""
        cursor = self._con.cursor()
        try:
            self._do(lambda: cursor.execute(query), cursor)
            columns = tuple(column[0] for column in cursor.description or ())
        except _WRONG as error:
            raise HeadwayError(f"the SQL is wrong: {_words(error)}") from None
        except duckdb.Error as error:
            raise _as_ours(error) from None
        return QueryResult(columns, self._rows(cursor))

    def arrow(self, query: str) -> pa.Table:
        """See `Engine.arrow`."""
        cursor = self._con.cursor()
        try:
            found: pa.Table = self._do(lambda: cursor.sql(query).to_arrow_table(), cursor)
        except duckdb.Error as error:
            raise _as_ours(error) from None
        return found

    def close(self) -> None:
        """See `Engine.close`."""
        try:
            if all(job.over for job in self._jobs):
                self._con.close()
        finally:
            self._do(self._scratch.cleanup, limited=False)

    def _rows(self, cursor: Any) -> Iterator[Sequence[Any]]:
        while True:
            try:
                some = self._do(lambda: cursor.fetchmany(_ROWS), cursor)
            except duckdb.Error as error:
                raise _as_ours(error) from None
            if not some:
                return
            yield from some

    def _execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of ours. Return the rows of its answer."""
        return self._do(lambda: self._con.execute(statement).fetchall(), self._con)

    def _do(self, work: Callable[[], _T], cursor: Any = None, *, limited: bool = True) -> _T:
        """Run ``work`` so that the caller can be interrupted, and the query of ``cursor`` with it.

        DuckDB itself continues when a signal arrives while it computes, or raises RuntimeError in place of
        KeyboardInterrupt. ``limited``: the time limit holds.
        """
        job = Job(work)
        try:
            self._jobs = [job, *(before for before in self._jobs if not before.over)]
            return job.result(self._seconds if limited else None)
        except BaseException as error:
            job.cancel((lambda: None) if cursor is None else cursor.interrupt, _PATIENCE)
            if isinstance(error, LateError):
                raise HeadwayError(f"the answer takes longer than {self._seconds:g} s: ask for less") from None
            raise


def _connect(scratch: str) -> duckdb.DuckDBPyConnection:
    """Open a database in memory, which puts what does not fit there into the folder ``scratch``."""
    return duckdb.connect(
        config={
            "memory_limit": MEMORY,
            "temp_directory": os.path.join(scratch, "spill"),
            "max_temp_directory_size": _ON_DISK,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
            "preserve_insertion_order": "false",
        }
    )


def _as_ours(error: duckdb.Error) -> Exception:
    """Return the error as one that a user can act on, or as damage of the recording."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return HeadwayError(f"the answer takes more than {MEMORY} of memory and {_ON_DISK} of disk: ask for less")
    if "while reading file" in str(error):
        return DamagedError(_words(error))
    if isinstance(error, _UNANSWERABLE):
        return UnanswerableError(_words(error))
    return DamagedError(_words(error))


def _words(error: BaseException) -> str:
    """Return DuckDB's reason as one line, without the position in the query and the hints."""
    lines = [line.strip() for line in str(error).splitlines()]
    lines = lines[: next((n for n, line in enumerate(lines) if line.startswith(("LINE ", "Candidate"))), len(lines))]
    return " ".join(line for line in lines if line)[:400].rstrip(" .")
