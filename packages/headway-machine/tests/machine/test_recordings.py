"""``headway machine run -o``, and the commands that read a recording: in cycles, of the guest kernel's threads."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections import defaultdict
from pathlib import Path

import pytest
from tests import running
from tests.machine.examples import MAX_CYCLES, config_of, program

import headway
from headway.model import Kind, kind_of
from headway_machine.machine import Machine
from headway_machine.run import Result

pytestmark = pytest.mark.end_to_end

NAME = "mutex"
TIME = re.compile(r"\d ?(ns|µs|us|ms|s)\b")
"""A length of time, as opposed to cycles."""


def run(*argv: str | Path, status: int = 0) -> str:
    """What a command prints, of both streams."""
    done = running.headway(*argv)
    text = done.stdout + done.stderr
    assert done.returncode == status, text
    return text


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "run.hw"
    said = run("machine", "run", NAME, "-o", path)
    last = said.splitlines()[-1]
    assert re.fullmatch(r"headway: .*run\.hw has [\d,]+ transitions of 12 threads in 1,192,993 cycles; lost: 0", last)
    return path


@pytest.fixture(scope="module")
def truth() -> Result:
    return Machine(config_of(NAME, (1, 6, "strict"))).run(program(NAME), max_cycles=MAX_CYCLES)


def rows(recorded: Path, sql: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(run("query", recorded, sql, "--format", "csv"))))


def test_the_document_says_what_it_is_of(recorded: Path) -> None:
    document = json.loads((recorded / "recording.json").read_text())
    assert (document["source"], document["unit"], document["time_unit"]) == ("machine", "cycles", "cycles")
    assert (document["state"], document["exit_status"]) == ("closed", 0)
    assert (document["anchors"], document["boot"], document["host"]) == ([], "", "reference-machine")
    assert document["settings"] == {"cores": 1, "threads": 6, "issue": "strict"}


def test_the_report_is_that_of_the_run(recorded: Path) -> None:
    verdict, table, *_ = run("report", recorded).split("\n\n")
    assert "in mutex" in verdict
    assert table.splitlines()[0].startswith("thread ")
    assert table in run("machine", "run", NAME)


def test_rows_asked_by_sql_are_the_ledger(recorded: Path, truth: Result) -> None:
    found = rows(recorded, "SELECT tid, state, sum(duration - taken) AS time FROM transitions "
                 "JOIN threads USING (host, run, thread) GROUP BY ALL")  # fmt: skip
    times: dict[int, dict[str, int]] = defaultdict(dict)
    for row in found:
        times[int(row["tid"])][row["state"]] = int(row["time"])
    for thread in truth.ledger.threads:
        expected = {state: cell.time for state, cell in thread.states.items() if state != "overhead"}
        assert {state: times[thread.tid][state] for state in expected} == expected


def test_waits_name_the_threads_that_ended_them(recorded: Path) -> None:
    chains = run("query", recorded, "--question", "wait-chains")
    assert "worker wait.mutex <- worker wait.mutex" in chains
    assert "main wait.join <- worker" in chains
    assert "main wait.uart <- irq.external" in chains
    unknown = rows(recorded, "SELECT count(*) AS n FROM transitions WHERE state LIKE 'wait.%' AND waker IS NULL "
                   "AND waker_state IS NULL")  # fmt: skip
    assert unknown == [{"n": "0"}]


def test_at_every_instant_a_thread_is_in_one_state(recorded: Path, truth: Result) -> None:
    for time in range(40_000, truth.cycles, 100_001):
        found = json.loads(run("at", recorded, str(time), "--format", "json"))
        assert found
        on = [thread["cpu"] for thread in found if thread["cpu"] is not None]
        assert len(on) == len(set(on)) <= 6
        for thread in found:
            assert thread["since"] <= time < thread["until"]
            assert (thread["cpu"] is None) == (kind_of(thread["state"]) in (Kind.WAIT, Kind.READY))


def test_the_critical_path_is_that_of_the_programs_first_thread(recorded: Path) -> None:
    text = run("critical-path", recorded)
    assert "from the start to the end of main" in text.splitlines()[0]
    assert "worker" in text


@pytest.mark.parametrize(
    "argv",
    [
        ("report",),
        ("report", "-v"),
        ("report", "--from-transitions", "-v"),
        ("report", "--durations", "4"),
        ("at", "500000"),
        ("diff", "SELF"),
        ("critical-path",),
        ("what-if",),
        ("top", "--plain"),
        *[("query", "--question", name) for name in ("lost-progress", "wait-chains", "waits", "states", "processors")],
    ],
    ids=" ".join,
)
def test_nothing_is_shown_in_seconds(recorded: Path, argv: tuple[str, ...]) -> None:
    command, *options = argv
    text = run(command, recorded, *(str(recorded) if word == "SELF" else word for word in options))
    assert text.strip()
    assert not TIME.search(text), text


def test_its_locks_can_be_free(recorded: Path) -> None:
    text = run("what-if", recorded, "--lock-free", "worker")
    assert "no waiting for locks among worker" in text


@pytest.mark.parametrize("kind", ["perfetto", "chrome", "csv", "parquet", "folded", "speedscope", "pprof"])
def test_it_can_be_exported(recorded: Path, kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("export", recorded, "--to", kind, "-o", out)
    assert out.stat().st_size
    if kind == "speedscope":
        assert {profile["unit"] for profile in json.loads(out.read_text())["profiles"]} == {"none"}
    if kind == "pprof":
        assert b"nanoseconds" not in gzip.decompress(out.read_bytes())


def test_the_page_has_every_transition(recorded: Path, tmp_path: Path) -> None:
    said = run("report", recorded, "--html", tmp_path / "run.html")
    assert "every one of" in said
    assert (tmp_path / "run.html").stat().st_size


def test_the_length_of_intervals_is_not_given_in_milliseconds(recorded: Path) -> None:
    said = run("top", recorded, "-I", "10", status=125)
    assert said.count("\n") == 1
    assert "is in cycles" in said


def test_a_run_that_ends_with_an_error_leaves_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.hw"
    run("machine", "run", NAME, "-o", path, "--max-cycles", "300000", "-q", status=125)
    with headway.open(path) as recording:
        assert recording.closed
        assert recording.window.end == 300_000
        assert recording.ledger().window == recording.window


def test_json_on_standard_error_is_not_mixed_with_what_was_recorded(tmp_path: Path) -> None:
    done = running.headway("machine", "run", NAME, "--json", "-o", "x.hw", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stderr)["window"]["end"] == 1_192_993
    assert (tmp_path / "x.hw").is_dir()


def test_a_run_that_is_refused_leaves_an_older_trace_as_it_was(tmp_path: Path) -> None:
    trace, there = tmp_path / "s.hwt", tmp_path / "s.hw"
    trace.write_bytes(b"older")
    there.mkdir()
    (there / "file").touch()
    said = run("machine", "run", NAME, "--trace", trace, "-o", there, status=125)
    assert "not overwritten" in said
    assert trace.read_bytes() == b"older"


def test_a_trace_that_is_not_there_is_said_to_be_missing(recorded: Path, tmp_path: Path) -> None:
    said = run("at", recorded, "1000", "--trace", tmp_path / "nothing", status=125)
    assert "nothing' is not there" in said
