"""headway query, at and diff: what they print, and that what is wrong is said in one sentence."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import jsonschema
import pytest
from tests.effort import FEW
from tests.recording.queries.runs import Recorded, lawful, write
from tests.running import headway

from headway.text import csv_text
from headway.views.schemas import schema_of

RUN = "import sys; from headway.commands import main; sys.argv[0] = 'headway'; main()"
HOSTILE = [
    "new\nline",
    "tab\tand \x1b[31mred\x1b[0m",
    "quo\"te, and 'single'",
    "\u202eright to left שלום",
    "n" * 10_000,
    "",
    "=cmd()",
    "\x00nul",
]


def recorded() -> Recorded:
    """What threads did whose names are meant to do harm."""
    found = lawful(Random(11), threads=len(HOSTILE), steps=40)
    found.threads = [thread._replace(name=HOSTILE[thread.thread]) for thread in found.threads]
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(recorded(), tmp_path_factory.mktemp("runs") / "run.hw")


def test_sql_answers_are_the_same_in_three_forms(run: Path) -> None:
    query = "SELECT name, state, sum(time) AS time FROM states GROUP BY ALL ORDER BY ALL"
    found = json.loads(headway("query", run, query, "--format", "json").stdout)
    assert {row["name"] for row in found} <= {*HOSTILE}
    rows = list(csv.DictReader(io.StringIO(headway("query", run, query, "--format", "csv").stdout, newline="")))
    assert [(row["name"], int(row["time"])) for row in rows] == [(csv_text(row["name"]), row["time"]) for row in found]
    table = headway("query", run, query)
    assert table.returncode == 0
    assert table.stderr == ""
    lines = table.stdout.splitlines()
    assert len(lines) == 1 + len(found)
    assert lines[0].split() == ["name", "state", "time"]
    assert all(character.isprintable() for line in lines for character in line)


def test_values_of_every_sort_are_written(run: Path) -> None:
    query = """SELECT 1.5::DECIMAL(9, 2) AS decimal, DATE '2026-11-21' AS day, [1, 2] AS list, {'a': 1} AS struct,
        'x'::BLOB AS blob, 1e400 AS infinite, NULL AS nothing, true AS yes, INTERVAL 1 DAY AS interval,
        170141183460469231731687303715884105727::HUGEINT AS huge, uuid() AS uuid, 5::DECIMAL(9, 2) AS whole"""
    (found,) = json.loads(headway("query", run, query, "--format", "json").stdout)
    assert found["decimal"] == 1.5
    assert found["day"] == "2026-11-21"
    assert found["list"] == [1, 2]
    assert found["struct"] == {"a": 1}
    assert found["infinite"] is found["nothing"] is None
    assert found["huge"] == 170141183460469231731687303715884105727
    assert found["whole"] == 5
    for style in ("csv", "table"):
        assert headway("query", run, query, "--format", style).returncode == 0


@pytest.mark.parametrize("name", ["lost-progress", "wait-chains", "waits", "states", "processors"])
def test_ready_made_questions_have_answers_and_are_listed(run: Path, name: str) -> None:
    done = headway("query", run, "--question", name, "--format", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)
    assert name in headway("query", "--questions").stdout


def on_a_terminal(*arguments: str | Path) -> list[str]:
    """What is printed on a terminal of 80 columns."""
    master, slave = pty.openpty()
    os.environ["COLUMNS"] = "80"
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, *map(str, arguments)], stdout=slave, stderr=subprocess.DEVNULL
        )
    finally:
        del os.environ["COLUMNS"]
    os.close(slave)
    output = b""
    while True:
        try:
            some = os.read(master, 65536)
        except OSError:
            break
        if not some:
            break
        output += some
    os.close(master)
    assert process.wait() == 0
    return output.decode().splitlines()


def test_tables_fit_a_terminal(run: Path) -> None:
    for arguments in (
        ("query", run, "--question", "wait-chains"),
        ("query", run, "SELECT name, state, time FROM states"),
        ("at", run, "5ms"),
        ("diff", run, run),
    )[:: 2 if FEW else 1]:
        lines = on_a_terminal(*arguments)
        assert len(lines) > 1
        assert max(map(len, lines)) <= 80


def test_at_tells_what_every_thread_did(run: Path) -> None:
    done = headway("at", run, "5ms", "--format", "json")
    found = json.loads(done.stdout)
    time = recorded().start + 5_000_000
    alive = {t.name for t in recorded().threads if t.start <= time and (t.end is None or t.end > time)}
    assert alive
    assert {row["name"] for row in found} == alive
    assert all(row["since"] <= row["instant"] < row["until"] for row in found)
    table = headway("at", run, "5ms")
    assert len(table.stdout.splitlines()) == len(alive) + 1
    assert table.stderr.startswith(f"0.005 s, {len(alive)} threads: ")


def test_diff_is_printed_in_three_forms(run: Path) -> None:
    found = json.loads(headway("diff", run, run, "--format", "json").stdout)
    jsonschema.validate(found, schema_of("diff"))
    assert found["schema"] == "headway.diff/1"
    assert len(found["tenths"]) == 10
    assert found["a"]["time"] == found["b"]["time"] == sum(tenth["a"]["time"] for tenth in found["tenths"])
    rows = list(csv.DictReader(io.StringIO(headway("diff", run, run, "--format", "csv").stdout)))
    assert [int(row["a_kernel"]) for row in rows] == [tenth["a"]["kinds"]["kernel"] for tenth in found["tenths"]]
    assert "A took" in headway("diff", run, run).stdout


def test_what_is_not_closed_is_said(tmp_path: Path) -> None:
    cut = lawful(Random(12))
    cut.cuts = [cut.start + 40_000_000]
    path = write(cut, tmp_path / "run.hw", parts=1)
    done = headway("query", path, "SELECT 1 AS one")
    assert done.stdout == "one\n  1\n"
    assert done.stderr.endswith("is not closed: it is known for 0.040 s, as of its 1 complete part\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("query", "{run}", "SELEC"), "the SQL is wrong"),
        (("query", "{run}", "--question", "why"), "not a ready-made question"),
        (("query", "{run}"), "give a recording, and SQL or --question"),
        (("query", "/nowhere", "SELECT 1"), "is not there"),
        (("query", "{run}", "SELECT 1", "--engine", "nosuch://x"), "--engine|engine"),
        (("at", "{run}", "soon"), "is not an instant"),
        (("at", "{run}", "9999999s"), "ends before that"),
        (("at", "/etc/passwd", "1s"), "is a file"),
        (("diff", "{run}", "/nowhere"), "is not there"),
        (("diff", "{run}", "{run}", "--name", "nobody"), "no such thread made progress"),
    ],
)
def test_a_mistake_is_one_sentence_and_125(run: Path, arguments: tuple[str, ...], words: str) -> None:
    done = headway(*(argument.format(run=run) for argument in arguments))
    assert done.returncode == 125
    assert done.stdout == ""
    assert any(word in done.stderr for word in words.split("|"))
    assert done.stderr.count("\n") == 1


def test_columns_of_one_name_are_all_there(run: Path) -> None:
    query = "SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a"
    (row,) = json.loads(headway("query", run, query, "--format", "json").stdout)
    assert sorted(row.values()) == [1, 2, 3, 4]
    assert (row["a"], row["a_1"]) == (1, 3)


def test_a_recording_whose_name_is_not_utf8(run: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"run\xff.hw")
    odd.symlink_to(run)
    for found in (headway("query", odd, "SELECT count(*) FROM transitions"), headway("at", odd, "0")):
        assert found.returncode == 0, found.stderr


def test_what_is_not_utf8_is_refused_in_a_sentence(run: Path) -> None:
    odd = os.fsdecode(b"\xff")
    for arguments in ([f"SELECT '{odd}'"], ["SELECT 1", "--engine", f"duckdb://{__file__}{odd}"]):
        found = headway("query", run, *arguments)
        assert (found.returncode, found.stderr.count("\n")) == (125, 1), found.stderr


def test_an_error_that_the_sql_raises_is_not_the_recording_s(run: Path) -> None:
    found = headway("query", run, "SELECT error('as asked')")
    assert found.returncode == 125
    assert found.stderr.startswith("headway: the SQL cannot be answered:")
    assert "as asked" in found.stderr


INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
AT_ANY_TIME = [
    [(INT, 0.03)],
    [(INT, 1.0)],
    [(TERM, 0.5)],
    [(HUP, 0.5)],
    [(INT, 0.3), (INT, 0.01)],
    [(INT, 0.3), (INT, 0.1)],
    *([(INT, 0.03 * number)] for number in range(2, 9)),
    *([(INT, 0.03 * number), (INT, 0.02 * number)] for number in range(1, 9)),
]
"""Signals, each so many seconds after the one before: while the tables are made, while SQL runs, or as it ends."""
ENDLESS = "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t"
DEAF = "SELECT regexp_replace(repeat('ab', 40000000 + i::INT), '(a|b)', 'ccc', 'g')[1:5] FROM range(1) AS t(i)"
"""One function of SQL that takes long, within which DuckDB does not look for interrupts."""


def stopped(run: Path, folder: Path, query: str, stops: Sequence[tuple[signal.Signals, float]]) -> tuple[int, str]:
    """Send signals to a query, each so many seconds after the one before. Return its status and what it said."""
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {RUN}"
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        [sys.executable, "-c", code, "query", run, query], env=environment, stderr=subprocess.PIPE, text=True
    ) as asked:
        try:
            while not list(folder.iterdir()):
                assert asked.poll() is None
                time.sleep(0.001)
            for number, after in stops:
                time.sleep(after)
                asked.send_signal(number)
            _, said = asked.communicate(timeout=100)
        finally:
            asked.kill()
    return asked.returncode, said.strip()


@pytest.mark.parametrize("stops", AT_ANY_TIME[:6:2] if FEW else AT_ANY_TIME)
def test_a_question_without_an_end_can_be_stopped_at_any_time_and_leaves_nothing(
    run: Path, tmp_path: Path, stops: list[tuple[signal.Signals, float]]
) -> None:
    number = stops[0][0]
    assert stopped(run, tmp_path, ENDLESS, stops) == (130 if number == INT else -number, "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("signals", [2] if FEW else [1, 2])
def test_a_question_that_does_not_stop_is_killed(run: Path, tmp_path: Path, signals: int) -> None:
    assert stopped(run, tmp_path, DEAF, [(INT, 1.0), (INT, 0.3)][:signals]) == (130, "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("day", ["0001-01-01T00:00+23:59", "9999-12-31T23:59-23:59"])
def test_a_day_at_the_end_of_the_calendar_is_refused_in_a_sentence(run: Path, day: str) -> None:
    found = headway("at", run, day)
    assert (found.returncode, found.stderr.count("\n")) == (125, 1), found.stderr
