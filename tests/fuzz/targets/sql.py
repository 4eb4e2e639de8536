"""SQL that a user asks a recording: statements of DuckDB's grammar, most of which are to do harm.

No statement may change a byte of the recording or of a file beside it, tell what is in that file, or take more memory
than the process of DuckDB may have.
"""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from random import Random

from tests.fuzz.target import Target
from tests.levels import descendants
from tests.recording.queries.runs import lawful, write

from headway.errors import HeadwayError
from headway.recording.queries.tables import TABLES, Tables, open_tables

__all__ = ["TARGET"]

_SECRET = "what is beside the recording"
_MEMORY = (3 << 30) + (1 << 28)
_SECONDS = 2.0
_FUNCTIONS = (
    "read_csv",
    "read_text",
    "read_blob",
    "glob",
    "read_parquet",
    "parquet_metadata",
    "read_json",
    "sniff_csv",
)
_SCALARS = (
    "current_setting('{word}')", "getenv('HOME')", "write_log('{word}')", "version()", "repeat('x', {number})",
    "length(repeat('ab', {number}))", "range({number})", "error('{word}')", "nextval('{word}')", "random()",
    "list_aggregate(range({number}), 'sum')", "'{path}'", "json_serialize_sql('{word}')", "{number}", "NULL",
)  # fmt: skip
_WORDS = (
    "threads",
    "memory_limit",
    "allowed_paths",
    "enable_external_access",
    "temp_directory",
    "httpfs",
    "parquet",
    "x",
)
_NUMBERS = ("0", "1", "-1", "7", "1000", "100000", "3000000000", "9223372036854775807", "1e308")


class SqlTarget(Target):
    """Statements, one or several."""

    name = "sql"
    unit = 8_000

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="headway-fuzz-")
        root = Path(self._folder.name)
        self._run = write(lawful(Random(3)), root / "run.hw")
        self._beside = root / "secret.csv"
        self._beside.write_text(_SECRET)
        self._before = self._state()
        self._tables: Tables | None = None

    @cached_property
    def seeds(self) -> list[bytes]:
        """Queries that are answered."""
        return [b"SELECT * FROM threads", b"EXPLAIN ANALYZE SELECT 1", b"WITH a AS (SELECT 1) SELECT * FROM a"]

    def make(self, random: Random) -> bytes:
        """Return statements of the grammar, some with a few characters changed."""
        text = _Grammar(random).statements()
        if random.random() < 0.1:
            at = random.randrange(len(text))
            text = (
                text[:at] + random.choice(("", ";", "'", "--", "/*", "(", "\0", "é")) + text[at + random.randrange(4) :]
            )
        return text.encode()

    def read(self, data: bytes, random: Random) -> None:
        """Ask, and look at all files."""
        sql = data.decode().replace("{part}", str(self._part)).replace("{beside}", str(self._beside))
        sql = sql.replace("{new}", str(self._beside.with_name("new")))
        try:
            said = self._answer(sql)
        finally:
            assert self._state() == self._before, "it changes a file"
        assert _SECRET not in said, "it tells what is in another file"

    def _answer(self, sql: str) -> str:
        """Return the first rows of the answer as text."""
        try:
            answer = self._opened().ask_user(sql)
            return str([row for _, row in zip(range(100), answer.rows, strict=False)])
        except HeadwayError as error:
            if "takes longer" in str(error) or "has ended" in str(error):
                self._end()
            if _SECRET in str(error):
                return str(error)
            raise

    def close(self) -> None:
        """End the process of DuckDB."""
        self._end()
        self._folder.cleanup()

    @property
    def _part(self) -> Path:
        return self._run / "transitions" / "part-000000.parquet"

    def _opened(self) -> Tables:
        if self._tables is None:
            soft, hard = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))  # DuckDB's process has its own limit
            try:
                self._tables = open_tables(str(self._run), seconds=_SECONDS)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        return self._tables

    def _end(self) -> None:
        if self._tables is not None:
            peak = max(map(_peak, descendants(os.getpid())), default=0)
            self._tables.engine.close()
            self._tables = None
            assert peak <= _MEMORY, f"it takes {peak >> 20} MiB"

    def _state(self) -> list[tuple[str, int, int, int]]:
        """Every file, by its name, its size and when it was changed."""
        found = [(str(path), path.stat()) for path in sorted(Path(self._folder.name).rglob("*"))]
        return [(name, status.st_size, status.st_mtime_ns, status.st_ino) for name, status in found]


class _Grammar:
    """One statement or several, of at most so many parts."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._left = 12

    def statements(self) -> str:
        """Return one statement, sometimes several."""
        return "; ".join(self._statement() for _ in range(1 if self._random.random() < 0.9 else 2))

    def _one(self, *ways: Callable[[], str]) -> str:
        return self._random.choice(ways)()

    def _statement(self) -> str:
        self._left -= 1
        deep = self._left > 0
        return self._one(
            self._query, self._query, self._query, *([self._explain, self._copy] if deep else []), self._harm
        )

    def _explain(self) -> str:
        how = self._random.choice(
            ("", "ANALYZE", "/**/ ANALYZE", "(ANALYZE)", "(FORMAT json)", "(ANALYZE, FORMAT json)")
        )
        return f"{self._random.choice(('EXPLAIN', 'explain', '-- a' + chr(10) + 'EXPLAIN'))} {how} {self._statement()}"

    def _copy(self) -> str:
        options = self._random.choice(("", " (FORMAT csv)", " (FORMAT csv, USE_TMP_FILE false)", " (FORMAT parquet)"))
        source = self._random.choice((f"({self._query()})", "threads"))
        return f"COPY {source} TO '{self._path()}'{options}"

    def _harm(self) -> str:
        path, word, table = self._path(), self._random.choice(_WORDS), self._random.choice(TABLES)
        return self._random.choice((
            f"ATTACH '{path}' AS a", f"DETACH {word}", f"INSTALL {word}", f"LOAD '{path}'", f"PRAGMA {word}",
            f"SET {word}='{path}'", f"RESET {word}", f"EXPORT DATABASE '{path}'", f"IMPORT DATABASE '{path}'",
            f"CREATE TABLE a AS {self._query()}", f"CREATE OR REPLACE VIEW {table} AS SELECT 1", f"DROP VIEW {table}",
            f"INSERT INTO {table} SELECT * FROM {table}", f"DELETE FROM {table}", f"UPDATE {table} SET run = 'x'",
            f"CALL {word}()", "CHECKPOINT", "BEGIN", "COMMIT", "ROLLBACK", f"PREPARE a AS {self._query()}", "EXECUTE a",
            f"COPY threads FROM '{path}'", f"CREATE MACRO a() AS TABLE {self._query()}", f"USE {word}", "VACUUM",
            f"CREATE SECRET (TYPE http, BEARER_TOKEN '{word}')", f"TRUNCATE {table}",
            f"ALTER TABLE {table} RENAME TO a",
        ))  # fmt: skip

    def _query(self) -> str:
        self._left -= 1
        if self._left <= 0:
            return f"SELECT {self._value()}"
        return self._one(
            lambda: f"SELECT {self._value()}",
            lambda: f"SELECT * FROM {self._table()} LIMIT {self._random.randrange(50)}",
            lambda: f"SELECT {self._value()} FROM {self._table()} WHERE {self._value()} IN ({self._query()})",
            lambda: f"({self._query()}) UNION ALL BY NAME ({self._query()})",
            lambda: f"WITH a AS ({self._one(self._query, self._statement)}) SELECT * FROM a",
            lambda: f"WITH RECURSIVE a AS ({self._query()}) SELECT {self._value()} FROM a",
            lambda: f"FROM {self._table()} SELECT {self._value()}",
            lambda: f"SELECT * FROM ({self._query()}) AS a, {self._table()} AS b LIMIT 9",
            lambda: f"{self._random.choice(('DESCRIBE', 'SUMMARIZE'))} {self._query()}",
        )

    def _table(self) -> str:
        quoted = self._random.choice((self._statement, self._query))().replace("'", "''")
        return self._one(
            lambda: self._random.choice(TABLES),
            lambda: f"{self._random.choice(_FUNCTIONS)}('{self._path()}')",
            lambda: f"'{self._path()}'",
            lambda: f"query('{quoted}')",
            lambda: f"query_table('{self._random.choice((*TABLES, self._path()))}')",
            lambda: f"range({self._random.choice(_NUMBERS)})",
            lambda: "duckdb_settings()",
        )

    def _value(self) -> str:
        form = self._random.choice(_SCALARS)
        return form.format(word=self._random.choice(_WORDS), number=self._random.choice(_NUMBERS), path=self._path())

    def _path(self) -> str:
        return self._random.choice(
            ("{part}", "{part}", "{beside}", "{beside}", "{new}", "/etc/passwd", "*", "/proc/self/mem")
        )


def _peak(pid: int) -> int:
    """Return the largest memory that a process has had, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    return 0


TARGET = SqlTarget
