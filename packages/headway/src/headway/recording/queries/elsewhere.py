"""Another engine, through Ibis: Spark, or any other that Ibis connects to by URL.

Definitions are not stored in the engine: every query carries those that it needs, so a user's database is not changed.
The engine is trusted as its owner trusts it; what it may read is up to it.
"""

from __future__ import annotations

import re
import secrets
import urllib.parse
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from headway.errors import HeadwayError
from headway.extras import install_line, need
from headway.recording import format as form

from .catalogue import RecordedRun
from .engine import SMALL, DamagedError, QueryResult, casts, columns_of, literal, may_lack
from .plain import plain_row

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["Elsewhere"]

_MAX_SMALL = 20_000_000
"""The largest number of rows of the tables whose rows replace each other. They are read here and sent to the engine."""
_LOCAL_SPARK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}
_SPARK = ("spark", "pyspark")
"""The URL schemes for Spark."""
_GLOB = re.compile(r"([*?\[\]{}\\])")


class Elsewhere:
    """An engine behind an Ibis connection."""

    def __init__(self, url: str) -> None:
        self._url = url
        need(self._extra)
        self._spark: Any = None
        self._con: Any = self._connect()
        self._prefix = f"headway_{secrets.token_hex(4)}_"
        self._made = 0
        self._definitions: dict[str, exp.Query] = {}

    @property
    def _extra(self) -> str:
        """The extra that the engine needs."""
        return "spark" if self._url.partition("://")[0] in _SPARK else "ibis"

    def _connect(self) -> Any:
        import ibis

        scheme, _, rest = self._url.partition("://")
        try:
            if scheme in _SPARK:
                self._spark = _spark(rest)
                return ibis.pyspark.connect(self._spark)
            return ibis.connect(self._url)
        except ImportError as error:
            raise HeadwayError(
                f"the engine {_shown(self._url)} needs a package that is not installed ({_line(error)}): "
                f"{install_line(self._extra)} or the one it names"
            ) from None
        except Exception as error:  # whatever a driver may raise
            raise HeadwayError(
                f"the engine {_shown(self._url)} cannot be reached ({_line(error)}): look at its address"
            ) from None

    def read(self, name: str, table: str, runs: Sequence[RecordedRun]) -> None:
        """See `Engine.read`."""
        if table in SMALL:
            self.put(name, _gathered(table, runs))
            return
        columns = columns_of(form.SCHEMAS[table])
        queries = []
        for run in runs:
            if run.files[table]:
                made = self._name()
                try:
                    self._read_files(made, run.files[table], run.local)
                    chosen = casts(columns, self._columns_of_view(made) if may_lack(columns) else None)
                except Exception as error:
                    raise DamagedError(_line(error)) from None
                queries.append(f'SELECT {literal(run.host)} AS host, {literal(run.run)} AS run, {chosen} FROM "{made}"')
        if not queries:
            nothing = ", ".join(f'CAST(NULL AS {kind}) AS "{column}"' for column, kind in columns)
            text = "CAST(NULL AS VARCHAR)"
            queries.append(f"SELECT {text} AS host, {text} AS run, {nothing} WHERE 1 = 0")
        self.define(name, " UNION ALL ".join(queries))

    def _name(self) -> str:
        """Return a name that no other table has."""
        self._made += 1
        return f"{self._prefix}{self._made}"

    def _read_files(self, name: str, files: Sequence[str], local: bool) -> None:
        if self._spark is not None:
            paths = ["file://" + _GLOB.sub(r"\\\1", file) if local else file for file in files]
            self._spark.read.parquet(*paths).createOrReplaceTempView(name)
        else:
            self._con.read_parquet(list(files), table_name=name)

    def _columns_of_view(self, name: str) -> set[str]:
        return {*(self._spark.table(name).columns if self._spark is not None else self._con.table(name).columns)}

    def put(self, name: str, rows: pa.Table) -> None:
        """See `Engine.put`."""
        made = self._name()
        try:
            if self._spark is not None:
                self._spark.createDataFrame(rows).createOrReplaceTempView(made)
            else:
                self._con.create_table(made, obj=rows, temp=True)
        except Exception as error:
            raise HeadwayError(f"the engine {_shown(self._url)} does not take a table ({_line(error)})") from None
        self.define(name, f'SELECT * FROM "{made}"')

    def define(self, name: str, query: str) -> None:
        """See `Engine.define`."""
        self._definitions[name] = self._parsed(query, "duckdb")

    def seal(self) -> None:
        """See `Engine.seal`. Nothing can be promised of another engine, so this does nothing."""

    def check(self, query: str) -> None:
        """See `Engine.check`."""
        self._parsed(query, self._con.dialect)

    def ask(self, query: str, *, translate: bool = True) -> QueryResult:
        """See `Engine.ask`."""
        found = self._run(query, translate)
        return QueryResult(tuple(found.column_names), map(plain_row, _rows(found)))

    def arrow(self, query: str) -> pa.Table:
        """See `Engine.arrow`."""
        return self._run(query, True)

    def _run(self, query: str, translate: bool) -> pa.Table:
        dialect = self._con.dialect
        found: pa.Table
        parsed = self._complete(self._parsed(query, "duckdb" if translate else dialect))
        text = parsed.sql(dialect=dialect, identify=True)
        try:
            found = self._con.sql(text).to_pyarrow() if self._spark is None else self._spark.sql(text).toArrow()
        except Exception as error:
            words = _line(error)
            if not translate and type(error).__name__ in _WRONG:
                raise HeadwayError(f"the SQL is wrong: {words}") from None
            raise DamagedError(words) from None
        return found

    def _parsed(self, query: str, dialect: Any) -> exp.Query:
        import sqlglot
        from sqlglot import exp

        try:
            found = [statement for statement in sqlglot.parse(query, dialect=dialect) if statement is not None]
        except (sqlglot.errors.SqlglotError, RecursionError) as error:
            raise HeadwayError(f"the SQL is wrong: {_line(error)}") from None
        if len(found) != 1 or not isinstance(found[0], exp.Query):
            raise HeadwayError("the SQL is not one SELECT, and nothing else is done to recordings: ask one question")
        return found[0]

    def _complete(self, query: exp.Query) -> exp.Query:
        """Return the query preceded by the definitions that it needs."""
        from sqlglot import exp

        needed: list[str] = []

        def need(part: exp.Query) -> None:
            own = {cte.alias for cte in part.find_all(exp.CTE)}
            for table in part.find_all(exp.Table):
                name = table.name
                if name in self._definitions and name not in own and not table.db and name not in needed:
                    need(self._definitions[name])
                    needed.append(name)

        need(query)
        complete = query.copy()
        for name in reversed(needed):
            complete = complete.with_(_quoted(name), as_=self._definitions[name].copy(), append=True)
            ctes = complete.args.get("with_") or complete.args["with"]
            ctes.expressions.insert(0, ctes.expressions.pop())
        return complete

    def close(self) -> None:
        """See `Engine.close`."""
        with suppress(Exception):
            if self._spark is not None:
                self._spark.stop()
            else:
                self._con.disconnect()


_WRONG = ("AnalysisException", "ParseException", "ParserException", "BinderException", "CatalogException")
"""The exception names with which drivers reject a query that is wrong."""


def _quoted(name: str) -> exp.Identifier:
    from sqlglot import exp

    return exp.to_identifier(name, quoted=True)


def _spark(rest: str) -> Any:
    """Return a Spark session on a master: ``local[2]``, ``yarn``, or ``host:port`` of a cluster.

    What follows a ``?`` are Spark settings.
    """
    # it is about pandas, which is not used here
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    from pyspark.sql import SparkSession

    master, _, settings = rest.partition("?")
    local = master.startswith("local")
    address = master if local or master == "yarn" else f"spark://{master}"
    builder = SparkSession.builder.master(address).appName("headway")
    quiet = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF", "spark.ui.enabled": "false"}
    asked = dict(urllib.parse.parse_qsl(settings))
    for key, value in {**quiet, **(_LOCAL_SPARK if local else {}), **asked}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _gathered(table: str, runs: Sequence[RecordedRun]) -> pa.Table:
    """Return the small tables of all runs, read here, as one chunk: pyspark 4.3 takes only the first of several.

    Raises DamagedError.
    """
    schema = form.SCHEMAS[table]
    plain = pa.schema([(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema])
    whole = pa.schema([("host", pa.string()), ("run", pa.string()), *plain, ("part", pa.int64()), ("row", pa.int64())])
    found = []
    total = 0
    for run in runs:
        for file in run.files[table]:
            try:
                rows = _read(file, run.local, plain)
            except (pa.ArrowException, OSError, ValueError, KeyError) as error:
                raise DamagedError(_line(error)) from None
            size = rows.num_rows
            total += size
            if total > _MAX_SMALL:
                raise HeadwayError(f"{run.words} has more than {_MAX_SMALL} rows of {table}: name fewer recordings")
            part = form.part_number(file.rpartition("/")[2]) or 0
            columns = [
                pa.array([run.host] * size, pa.string()),
                pa.array([run.run] * size, pa.string()),
                *(rows[name] for name in plain.names),
                pa.array([part] * size, pa.int64()),
                pa.array(range(size), pa.int64()),
            ]
            found.append(pa.table(columns, schema=whole))
    return pa.concat_tables(found).combine_chunks() if found else whole.empty_table()


def _read(file: str, local: bool, schema: pa.Schema) -> pa.Table:
    if local:
        with open(file, "rb") as stream:
            parquet = pq.ParquetFile(stream, pre_buffer=False)  # see _File in recording/parts.py
            if parquet.metadata.num_rows > _MAX_SMALL:
                raise ValueError(f"it claims {parquet.metadata.num_rows} rows")
            return parquet.read(columns=schema.names).select(schema.names).cast(schema)
    files, path = pa.fs.FileSystem.from_uri(file)
    return pq.read_table(path, filesystem=files, columns=schema.names).select(schema.names).cast(schema)


def _rows(table: pa.Table) -> Iterator[Sequence[Any]]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _shown(url: str) -> str:
    """Return the URL, printable and without its password."""
    return ascii(re.sub(r"(://[^/@:]*):[^@/]*@", r"\1:***@", url))


def _line(error: BaseException) -> str:
    """Return the reason of an error as one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300].rstrip(" .")
