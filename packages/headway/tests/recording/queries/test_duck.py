"""DuckDB in its process: it is confined, and neither an interrupt nor the end of headway leaves anything behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.effort import FEW
from tests.interrupts import in_time, interrupted_at
from tests.levels import descendants
from tests.recording.queries.runs import lawful, write

from headway.errors import HeadwayError
from headway.linux import landlock
from headway.recording.queries.catalogue import find
from headway.recording.queries.duck import DuckDB
from headway.recording.queries.engine import DamagedError
from headway.recording.queries.tables import open_tables

ENDLESS = "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t"
PROCESS = (3 << 30) + (1 << 28)
"""The bytes that a process of DuckDB has at most: its limit, and what it had before."""
confined = pytest.mark.skipif(not landlock.available(), reason="the kernel has no Landlock")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which folders for a time are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write(lawful(Random(3)), tmp_path / "run.hw")


def wait_until(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.001)


def test_an_interrupt_at_any_instruction_of_the_start_leaves_no_folder(folder: Path) -> None:
    def some() -> None:
        for instruction in range(1, 100_000, 101 if FEW else 17):
            interrupted = interrupted_at(instruction, lambda: DuckDB().close())
            wait_until(lambda: not list(folder.iterdir()))
            if not interrupted:
                break
        assert instruction > 100

    in_time(some)


def test_an_interrupt_at_any_instruction_of_the_end_leaves_no_folder(folder: Path) -> None:
    def some() -> None:
        for instruction in range(1, 100_000, 31 if FEW else 3):
            engine = DuckDB()
            interrupted = interrupted_at(instruction, engine.close)
            del engine
            wait_until(lambda: not list(folder.iterdir()))
            if not interrupted:
                break
        assert instruction > 20

    in_time(some)


WRITING = [
    "EXPLAIN ANALYZE COPY (SELECT 'x') TO '{part}' (FORMAT csv, USE_TMP_FILE false)",
    "/* a */ explain -- b\n (ANALYZE) COPY (SELECT 'x') TO '{part}' (FORMAT csv, USE_TMP_FILE false)",
    "WITH a AS (COPY (SELECT 'x') TO '{part}' (FORMAT csv, USE_TMP_FILE false)) SELECT 1",
    "EXPLAIN ANALYZE WITH a AS (COPY (SELECT 'x') TO '{part}' (USE_TMP_FILE false)) SELECT 1",
    "WITH a AS (DELETE FROM recordings RETURNING *) SELECT * FROM a",
    "EXPLAIN ANALYZE INSERT INTO clocks SELECT * FROM clocks",
    "COPY (SELECT 'x') TO '{part}'",
    "SELECT 1; COPY (SELECT 'x') TO '{part}'",
]


@pytest.mark.parametrize("sql", WRITING)
def test_what_writes_is_refused_however_deep_it_is_in_a_statement(run: Path, sql: str) -> None:
    part = run / "transitions" / "part-000000.parquet"
    before = part.read_bytes()
    with open_tables(str(run)) as tables, pytest.raises(HeadwayError, match="is not one SELECT"):
        tables.ask_user(sql.format(part=part))
    assert part.read_bytes() == before


@pytest.mark.parametrize(
    "sql", ["SELECT 1", "EXPLAIN SELECT 1", "explain/**/analyze\n(SELECT 1)", "EXPLAIN (FORMAT json) SELECT 1"]
)
def test_a_plan_of_what_reads_is_told(run: Path, sql: str) -> None:
    with open_tables(str(run)) as tables:
        assert list(tables.ask_user(sql).rows)


@confined
@pytest.mark.parametrize("sql", WRITING[:3:2])
def test_the_process_writes_to_no_part_even_where_a_statement_is_not_refused(run: Path, sql: str) -> None:
    part = run / "transitions" / "part-000000.parquet"
    before = part.read_bytes()
    engine = DuckDB(runs=find(str(run)).runs)
    try:
        with pytest.raises(DamagedError, match="ermission"):
            list(engine.ask(sql.format(part=part), translate=False).rows)
        with pytest.raises(DamagedError, match="ermission"):
            list(engine.ask("SELECT * FROM read_text('/etc/hosts')", translate=False).rows)
    finally:
        engine.close()
    assert part.read_bytes() == before


@confined
def test_a_part_that_becomes_a_link_out_of_the_recording_is_not_read(run: Path, tmp_path: Path) -> None:
    (other := tmp_path / "other.parquet").write_bytes((run / "transitions" / "part-000000.parquet").read_bytes())
    runs = find(str(run)).runs
    (part := run / "transitions" / "part-000000.parquet").unlink()
    part.symlink_to(other)
    engine = DuckDB(runs=runs)
    try:
        with pytest.raises(DamagedError, match="ermission"):
            engine.read("t", "transitions", runs)
    finally:
        engine.close()


def process_of_duckdb() -> int:
    """The process of the only engine that this one has."""
    alive = [pid for pid in descendants(os.getpid()) if "VmHWM" in Path(f"/proc/{pid}/status").read_text()]
    (own,) = [pid for pid in alive if not descendants(pid)]
    return own


def test_a_value_of_any_size_takes_no_more_memory_than_a_process_may(run: Path) -> None:
    with open_tables(str(run)) as tables:
        pid = process_of_duckdb()
        for sql in ("SELECT repeat('x', 4000000000)", "SELECT list_sum(range(1000000000))"):
            with pytest.raises(HeadwayError, match="more than 1GiB of memory"):
                list(tables.ask_user(sql).rows)
            (peak,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmHWM" in line]
            assert int(peak.split()[1]) << 10 < PROCESS
        assert list(tables.ask_user("SELECT 1").rows) == [(1,)]


def test_what_is_wrong_with_sql_is_told_in_characters_that_act_on_no_terminal(run: Path) -> None:
    with open_tables(str(run)) as tables, pytest.raises(HeadwayError) as refused:
        tables.ask_user("SELECT \x07\u202e\x9bm FROM threads")
    assert str(refused.value).isprintable()


def test_a_row_that_is_too_long_is_refused(run: Path) -> None:
    with open_tables(str(run)) as tables, pytest.raises(HeadwayError, match="more than 64 MiB"):
        list(tables.ask_user("SELECT repeat('x', 100000000)").rows)


def test_answers_may_be_read_in_turns_and_let_go(run: Path) -> None:
    with open_tables(str(run)) as tables:
        one, other = (tables.ask_user(f"SELECT i FROM range({size}) t(i)").rows for size in (30_000, 20_000))
        for number in range(15_000):
            assert (next(one), next(other)) == ((number,), (number,))
        assert next(tables.ask_user("SELECT i FROM range(100000) t(i)").rows) == (0,)
        assert [*one] == [(number,) for number in range(15_000, 30_000)]
        assert list(tables.ask_user("SELECT 7").rows) == [(7,)]


def test_a_time_limit_ends_the_process(run: Path) -> None:
    with open_tables(str(run), seconds=3) as tables:
        pid = process_of_duckdb()
        with pytest.raises(HeadwayError, match="takes longer than 3 s"):
            list(tables.ask_user(ENDLESS).rows)
        assert not Path(f"/proc/{pid}").exists()


def test_nothing_is_left_when_headway_is_killed(run: Path, tmp_path: Path) -> None:
    (scratch := tmp_path / "scratch").mkdir()
    code = "import sys; from headway.commands import main; sys.argv[0] = 'headway'; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "query", run, ENDLESS], env={**os.environ, "TMPDIR": str(scratch)}
    ) as asked:
        wait_until(lambda: len(descendants(asked.pid)) == 2 and bool(list(scratch.iterdir())))
        left = descendants(asked.pid)
        asked.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left) and not list(scratch.iterdir()))
