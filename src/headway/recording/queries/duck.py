"""DuckDB: the engine that is there unless another is asked for.

Recordings may come from anybody, so it reaches their files and nothing else: no network, no extensions, no settings.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from headway.errors import HeadwayError
from headway.recording import format as form
from headway.text import valid

from .catalogue import Run
from .engine import SMALL, Answer, DamagedError, UnanswerableError, columns_of, literal

__all__ = ["MEMORY", "DuckDB"]

MEMORY = "1536MiB"
"""What DuckDB may keep in memory; the process with all else stays below 2 GiB. More goes to a temporary folder."""
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
"""What DuckDB takes for a pattern in a file's name, and bytes that are no UTF-8."""
_AGAIN = 0.05
"""Seconds until what does not stop is interrupted once more."""
_PATIENCE = 2.0
"""Seconds after which what does not stop is left to itself: within one function of SQL DuckDB does not look up."""
_T = TypeVar("_T")


class DuckDB:
    """DuckDB in this process; ``database``: a file of it that is attached, to be read under its own name.

    What it is asked can be interrupted (Ctrl-C).
    """

    def __init__(self, database: str | None = None) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="headway-query-", ignore_cleanup_errors=True)
        self._links: dict[str, str] = {}
        self._stuck = False
        self._con = duckdb.connect(
            config={
                "memory_limit": MEMORY,
                "temp_directory": os.path.join(self._scratch.name, "spill"),
                "max_temp_directory_size": _ON_DISK,
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "allow_community_extensions": "false",
                "python_enable_replacements": "false",
                "preserve_insertion_order": "false",
            }
        )
        self._con.execute("SET TimeZone='UTC'")
        self._con.execute("SET parquet_metadata_cache=true")  # one answer may take several questions
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
            self._con.execute(f'ATTACH {literal(path)} AS "{name.replace(chr(34), chr(34) * 2)}" (READ_ONLY)')
        except (duckdb.Error, HeadwayError) as error:
            self.close()
            if isinstance(error, HeadwayError):
                raise
            raise HeadwayError(f"the DuckDB database {database!a} cannot be attached: {_words(error)}") from None
        self._allowed |= {path, f"{path}.wal"}

    def read(self, name: str, table: str, runs: Sequence[Run]) -> None:
        """As `Engine.read` says."""
        columns = columns_of(form.SCHEMAS[table])
        extra = [("part", "BIGINT"), ("row", "BIGINT")] if table in SMALL else []
        nothing = ", ".join(f'CAST(NULL AS {kind}) AS "{column}"' for column, kind in columns + extra)
        chosen = ", ".join(f'CAST("{column}" AS {kind}) AS "{column}"' for column, kind in columns)
        options = "hive_partitioning=false"
        if extra:
            number = r"CAST(regexp_extract(filename, 'part-(\d+)', 1) AS BIGINT)"
            chosen += f", {number} AS part, CAST(file_row_number AS BIGINT) AS row"
            options += ", filename=true, file_row_number=true"
        queries = []
        for run in runs:
            if run.files[table]:
                files = ", ".join(literal(self._file(file)) for file in run.files[table])
                who = f"{literal(run.host)} AS host, {literal(run.run)} AS run"
                queries.append(f"SELECT {who}, {chosen} FROM read_parquet([{files}], {options})")
        if not queries:
            queries.append(f"SELECT CAST(NULL AS VARCHAR) AS host, CAST(NULL AS VARCHAR) AS run, {nothing} WHERE false")
        self.define(name, "\nUNION ALL ".join(queries))

    def _file(self, path: str) -> str:
        """The file under a name that DuckDB takes as it is."""
        if _MAGIC.search(path):
            folder, _, name = path.rpartition("/")
            if folder not in self._links:
                self._links[folder] = os.path.join(self._scratch.name, str(len(self._links)))
                os.symlink(folder, self._links[folder])
            path = f"{self._links[folder]}/{name}"
        self._allowed.add(path)
        return path

    def put(self, name: str, rows: pa.Table) -> None:
        """As `Engine.put` says."""
        self._con.register("rows_to_keep", rows)
        self._con.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM rows_to_keep')
        self._con.unregister("rows_to_keep")

    def define(self, name: str, query: str) -> None:
        """As `Engine.define` says."""
        try:
            self._con.execute(f'CREATE OR REPLACE VIEW "{name}" AS {query}')
        except duckdb.Error as error:
            raise DamagedError(_words(error)) from None

    def seal(self) -> None:
        """As `Engine.seal` says. A second time it adds nothing."""
        if self._sealed:
            return
        try:
            self._con.execute(f"SET allowed_paths=[{', '.join(map(literal, sorted(self._allowed)))}]")
            self._con.execute("SET enable_external_access=false")
            self._con.execute("SET lock_configuration=true")
        except duckdb.Error as error:
            raise HeadwayError(
                f"this DuckDB cannot be kept from other files ({_words(error)}): install a newer one"
            ) from None
        self._sealed = True

    def check(self, query: str) -> None:
        """As `Engine.check` says."""
        if valid(query) != query:
            raise HeadwayError("the SQL is wrong: there are bytes in it that are no UTF-8")
        try:
            statements = self._con.extract_statements(query)
        except duckdb.Error as error:
            raise HeadwayError(f"the SQL is wrong: {_words(error)}") from None
        if len(statements) != 1 or statements[0].type not in (
            duckdb.StatementType.SELECT,
            duckdb.StatementType.EXPLAIN,
        ):
            raise HeadwayError("the SQL is not one SELECT, and nothing else is done to recordings: ask one question")

    def ask(self, query: str, *, translate: bool = True) -> Answer:
        """As `Engine.ask` says."""
        cursor = self._con.cursor()
        try:
            self._do(cursor, lambda: cursor.execute(query))
            columns = tuple(column[0] for column in cursor.description or ())
        except _WRONG as error:
            raise HeadwayError(f"the SQL is wrong: {_words(error)}") from None
        except duckdb.Error as error:
            raise _as_ours(error) from None
        return Answer(columns, self._rows(cursor))

    def arrow(self, query: str) -> pa.Table:
        """As `Engine.arrow` says."""
        cursor = self._con.cursor()
        try:
            found: pa.Table = self._do(cursor, lambda: cursor.sql(query).to_arrow_table())
        except duckdb.Error as error:
            raise _as_ours(error) from None
        return found

    def close(self) -> None:
        """As `Engine.close` says."""
        if not self._stuck:
            self._con.close()
        self._scratch.cleanup()

    def _rows(self, cursor: Any) -> Iterator[Sequence[Any]]:
        while True:
            try:
                some = self._do(cursor, lambda: cursor.fetchmany(_ROWS))
            except duckdb.Error as error:
                raise _as_ours(error) from None
            if not some:
                return
            yield from some

    def _do(self, cursor: Any, work: Callable[[], _T]) -> _T:
        """Do it in a thread of its own, so that whoever waits for it can be interrupted, and it with him.

        DuckDB itself goes on where a signal comes while it computes.
        """
        done: Future[_T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="headway-query", daemon=True).start()
        try:
            return done.result()
        except BaseException:
            late = time.monotonic() + _PATIENCE
            while not done.done() and time.monotonic() < late:
                cursor.interrupt()
                wait([done], _AGAIN)
            self._stuck = not done.done()
            raise


def _as_ours(error: duckdb.Error) -> Exception:
    """What a user can do something about, or the recording's fault."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return HeadwayError(f"the answer takes more than {MEMORY} of memory and {_ON_DISK} of disk: ask for less")
    if "while reading file" in str(error):
        return DamagedError(_words(error))
    if isinstance(error, _UNANSWERABLE):
        return UnanswerableError(_words(error))
    return DamagedError(_words(error))


def _words(error: BaseException) -> str:
    """DuckDB's reason as one line: without where in the query it is, and hints of several lines."""
    lines = [line.strip() for line in str(error).splitlines()]
    lines = lines[: next((n for n, line in enumerate(lines) if line.startswith(("LINE ", "Candidate"))), len(lines))]
    return " ".join(line for line in lines if line)[:400].rstrip(" .")
