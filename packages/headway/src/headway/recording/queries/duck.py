"""DuckDB, the default engine.

Recordings may come from anybody, so DuckDB may read their files and nothing else: no network, no extensions, no
settings. It runs in a process of its own (`duck_process`), which is confined and takes little memory.
"""

from __future__ import annotations

import functools
import os
import re
import signal
from collections.abc import Collection, Iterator, Sequence
from io import BufferedReader
from typing import Any

import pyarrow as pa

from headway.errors import HeadwayError
from headway.exhaustion import in_words
from headway.recording import format as form
from headway.text import escaped, valid

from . import duck_process
from .catalogue import RecordedRun
from .channel import ARROW, ArrowBytes, Channel, LateError, LostError
from .duck_process import MEMORY, ON_DISK
from .engine import SMALL, DamagedError, QueryResult, UnanswerableError, casts, columns_of, literal, may_lack
from .supervised import Supervised

__all__ = ["DuckDB"]

_TABLE = 3 << 29
"""The largest answer that this process takes as one table, in bytes."""
_PIECE = 1 << 18
_MAGIC = re.compile(r"[*?\[\]{}\ud800-\udfff]")
"""The characters that DuckDB treats as a pattern in a file name, and bytes that are not valid UTF-8."""


class DuckDB:
    """DuckDB in a process of its own, which can open the files of these runs.

    ``database`` is a DuckDB file that is attached read-only under its own name. A query that takes longer than
    ``seconds``, or whose next rows do, is ended; None: none is. After that, and after KeyboardInterrupt, nothing more
    can be asked.
    """

    def __init__(
        self, database: str | None = None, *, runs: Collection[RecordedRun] = (), seconds: float | None = None
    ) -> None:
        self._seconds = seconds
        self._allowed: set[str] = set()
        self._sealed = False
        self._pending = 0
        self._early: dict[int, Any] = {}
        self._dropped: list[int] = []
        folders = {path.rpartition("/")[0] for run in runs for files in run.files.values() for path in files}
        self._folders: dict[str, int] = {}
        try:
            for folder in filter(_MAGIC.search, folders):
                self._folders[folder] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            own = [] if database is None else [os.path.abspath(database), f"{os.path.abspath(database)}.wal"]
            work = functools.partial(duck_process.serve, readable=[*folders, *own])
            self._process = Supervised(work, "headway-query-", self._folders.values())
        except OSError as error:
            raise HeadwayError(f"no process can be started for DuckDB ({in_words(error)})") from None
        self._channel = Channel(self._process.connection)
        self._execute("SET TimeZone='UTC'")
        self._execute("SET parquet_metadata_cache=true")  # one answer may need several queries
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
        except (DamagedError, HeadwayError) as error:
            self.close()
            if isinstance(error, HeadwayError):
                raise
            raise HeadwayError(f"the DuckDB database {database!a} cannot be attached: {error}") from None
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
        except DamagedError:
            return None
        return {name for (name,) in found}

    def _file(self, path: str) -> str:
        """Return a name of the file that DuckDB does not treat as a pattern."""
        folder, _, name = path.rpartition("/")
        if folder in self._folders:
            path = f"/proc/self/fd/{self._folders[folder]}/{name}"
        self._allowed.add(path)
        return path

    def put(self, name: str, rows: pa.Table) -> None:
        """See `Engine.put`."""

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        self._ask("put", name, sink.getvalue())

    def define(self, name: str, query: str) -> None:
        """See `Engine.define`."""
        self._execute(f'CREATE OR REPLACE VIEW "{name}" AS {query}')

    def seal(self) -> None:
        """See `Engine.seal`. A second call does nothing."""
        if self._sealed:
            return
        try:
            self._execute(f"SET allowed_paths=[{', '.join(map(literal, sorted(self._allowed)))}]")
            self._execute("SET enable_external_access=false")
            self._execute("SET lock_configuration=true")
        except DamagedError as error:
            raise HeadwayError(
                f"this DuckDB cannot be restricted to the recording's files ({error}): install a newer one"
            ) from None
        self._sealed = True

    def check(self, query: str) -> None:
        """See `Engine.check`."""
        if valid(query) != query:
            raise HeadwayError("the SQL is wrong: it contains bytes that are not UTF-8")
        try:
            reads = self._ask("reads", query, wrong=True)["reads"]
        except DamagedError as error:
            raise HeadwayError(f"the SQL is wrong: {error}") from None
        if reads is not True:
            raise HeadwayError("the SQL is not one SELECT, and nothing else is done to recordings: ask one question")

    def ask(self, query: str, *, translate: bool = True) -> QueryResult:
        """See `Engine.ask`."""
        found = self._ask("ask", query, wrong=True)
        return QueryResult(tuple(map(str, found["columns"])), self._rows(int(found["stream"])))

    def arrow(self, query: str) -> pa.Table:
        """See `Engine.arrow`."""
        self._ask("arrow", query, answered=False)
        data = BufferedReader(ArrowBytes(self._channel, self._seconds, _TABLE, _checked), _PIECE)
        try:
            with pa.ipc.open_stream(data) as stream:
                table: pa.Table = stream.read_all()
            data.read()
            table.validate(full=True)
        except BaseException as error:
            raise self._ended(error) from None
        return table

    def close(self) -> None:
        """See `Engine.close`."""
        self._process.end()
        while self._folders:
            os.close(self._folders.popitem()[1])

    def _rows(self, stream: int) -> Iterator[Sequence[Any]]:
        """Yield the rows of a stream. The process makes the next ones while these are read."""
        over = False
        try:
            while not over:
                self._read_ahead(stream)
                self._collect()
                rows = _checked(self._early.pop(stream))["rows"]
                over = not rows
                if not over:
                    self._read_ahead(stream)
                yield from map(tuple, rows)
        finally:
            if not over:
                self._dropped.append(stream)

    def _read_ahead(self, stream: int) -> None:
        if self._pending != stream and stream not in self._early:
            self._ask("next", stream, answered=False)
            self._pending = stream

    def _collect(self) -> None:
        """Take the rows that the process has made ahead."""
        if self._pending:
            self._early[self._pending], self._pending = self._hear(), 0

    def _execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of ours. Return the rows of its answer. Raises DamagedError."""
        return [tuple(row) for row in self._ask("run", statement)["rows"]]

    def _ask(self, do: str, what: Any, *more: Any, answered: bool = True, wrong: bool = False) -> Any:
        """Ask the process. Return its answer, if it is to be ``answered`` now. ``wrong``: the SQL is a user's."""
        self._collect()
        for stream in self._dropped:
            self._early.pop(stream, None)
        try:
            self._channel.say({"do": do, "with": what, "dropped": self._dropped})
            self._dropped = []
            for data in more:
                self._channel.send(ARROW, data)
        except LostError as error:
            raise self._ended(error) from None
        return _checked(self._hear(), wrong) if answered else None

    def _hear(self) -> Any:
        try:
            return self._channel.hear(self._seconds)
        except BaseException as error:
            raise self._ended(error) from None

    def _ended(self, error: BaseException) -> BaseException:
        """End the process, of which nothing more can be heard. Return what to raise."""
        if isinstance(error, (DamagedError, HeadwayError)):
            return error
        status = self._process.end()
        if isinstance(error, LateError):
            return HeadwayError(f"the answer takes longer than {self._seconds:g} s: ask for less")
        if not isinstance(error, (LostError, pa.ArrowException, OSError, ValueError)):
            return error
        if isinstance(error, LostError) and status in _OF_MEMORY:
            return _too_much()
        return HeadwayError(f"DuckDB's process has ended (status {status}): ask another question")


_OF_MEMORY = (128 + signal.SIGABRT, 128 + signal.SIGKILL)
"""How a process ends that has no memory left: C++ gives up, or the kernel does."""


def _too_much() -> HeadwayError:
    return HeadwayError(f"the answer takes more than {MEMORY} of memory and {ON_DISK} of disk: ask for less")


def _checked(answer: Any, wrong: bool = False) -> Any:
    """Return an answer that is no error. ``wrong``: the SQL is a user's, and may be wrong."""
    if "error" not in answer:
        return answer
    kind = answer["error"]
    words = "".join(one if one.isprintable() else escaped(one) for one in str(answer.get("words", ""))[:400])
    if kind == "memory":
        raise _too_much()
    if kind == "long":
        raise HeadwayError("a row of the answer has more than 64 MiB: ask for less in a row")
    if kind == "wrong" and wrong:
        raise HeadwayError(f"the SQL is wrong: {words}")
    raise (UnanswerableError if kind == "unanswerable" else DamagedError)(words)
