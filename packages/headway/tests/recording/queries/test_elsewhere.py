"""The same questions have the same answers on an engine that a team already has."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from headway.errors import HeadwayError
from headway.recording.queries.questions import QUESTIONS
from headway.recording.queries.tables import Tables, open_tables

from .runs import lawful, write

TABLES_COMPARED = ("aligned", "losses")
SPARK = "spark://local[2]?spark.sql.codegen.wholeStage=false&spark.sql.codegen.factoryMode=NO_CODEGEN"
"""Compiling questions takes longer than answering them, with so few rows."""
QUERY = "SELECT name, state, sum(time) AS time FROM states GROUP BY name, state"


@pytest.fixture
def runs(tmp_path: Path) -> str:
    """Runs of two machines, one closed, one not; names that SQL and file systems have other ideas about."""
    for number, place in enumerate(("host=a/run=1", "host=it's [b]/run=2%25")):
        recorded = lawful(Random(number), steps=12)
        recorded.anchors = [{"monotonic": recorded.start, "realtime": 10**18, "uncertainty": 9}]
        write(recorded, tmp_path / place, parts=1 if number else None)
    return str(tmp_path)


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9)
    return int(value) if hasattr(value, "as_integer_ratio") else value


def answers(tables: Tables) -> dict[str, Any]:
    """Every question and every table."""
    found: dict[str, Any] = {}
    for name, asked in QUESTIONS.items():
        answer = asked.ask(tables, 3)
        found[name] = answer.columns, [tuple(map(plain, row)) for row in answer.rows]
    for query in (QUERY, *(f"SELECT * FROM {table}" for table in TABLES_COMPARED)):
        answer = tables.ask_user(query)
        found[query] = answer.columns, sorted((tuple(map(plain, row)) for row in answer.rows), key=repr)
    return found


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)  # Spark takes minutes for it, and several times as long on a busy machine
def test_spark_answers_as_duckdb_does(runs: str) -> None:
    for package in ("ibis", "pyspark", "sqlglot"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}: pip install 'headway[spark]'")
    if shutil.which("java") is None:
        pytest.skip("needs Java")
    with open_tables(runs) as tables:
        wanted = answers(tables)
        assert all(rows for _, rows in (wanted[name] for name in QUESTIONS))
    with open_tables(runs, SPARK) as tables:
        found = answers(tables)
        with pytest.raises(HeadwayError, match=r"^the SQL is wrong: .*nothing"):
            tables.ask_user("SELECT nothing FROM threads")
        with pytest.raises(HeadwayError, match="not one SELECT"):
            tables.ask_user("DROP TABLE threads")
    for name, answer in wanted.items():
        assert found[name] == answer, name


def test_a_database_of_ones_own_is_read_beside_the_recording(runs: str, tmp_path: Path) -> None:
    path = tmp_path / "teams.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE owners AS SELECT 100 AS pid, 'storage' AS team")
    query = "SELECT DISTINCT team FROM threads JOIN teams.owners USING (pid)"
    with open_tables(runs, f"duckdb://{path}") as tables:
        assert list(tables.ask_user(query).rows) == [("storage",)]
        with pytest.raises(HeadwayError, match="not one SELECT"):
            tables.ask_user("DROP TABLE teams.owners")
    with pytest.raises(HeadwayError, match="there is no DuckDB database"):
        open_tables(runs, f"duckdb://{tmp_path}/nothing")
    (tmp_path / "text").write_text("x" * 10_000)
    with pytest.raises(HeadwayError, match="cannot be attached"):
        open_tables(runs, f"duckdb://{tmp_path}/text")


def test_an_engine_that_cannot_be_had_is_said_in_a_sentence(runs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("ibis") is not None:
        for url in ("nosuch://x", "plain", "postgres://user:secret@localhost:1/x", "spark://local[nonsense"):
            with pytest.raises(HeadwayError) as caught:
                open_tables(runs, url)
            assert "\n" not in str(caught.value)
            assert "secret" not in str(caught.value)
    monkeypatch.setitem(__import__("sys").modules, "ibis", None)
    for url, extra in (("spark://local[2]", "spark"), ("sqlite://x", "ibis")):
        with pytest.raises(HeadwayError, match=rf"pip install 'headway\[{extra}\]'"):
            open_tables(runs, url)
