"""headway critical-path and what-if: what they print, and that what is wrong is said in one sentence."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise
from pathlib import Path
from random import Random

import jsonschema
import pytest
from tests.compiling import Compile
from tests.recording.queries.runs import Recorded, Row, Thread, lawful, write
from tests.running import headway

from headway.views.schemas import schema_of

HOSTILE = ["new\nline", "\x1b[31mred\x1b[0m", "\u202eright to left שלום", "n" * 10_000, "", "[a-z]*", "a:b", "\x00nul"]
MS = 1_000_000


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = lawful(Random(11), threads=len(HOSTILE), steps=40)
    found.threads = [thread._replace(name=HOSTILE[thread.thread]) for thread in found.threads]
    return write(found, tmp_path_factory.mktemp("runs") / "hostile.hw")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The main thread waits for a worker, which reads from a disk twice and parses; then for a timer."""
    rows = [
        Row(0, 10 * MS, 0, 0, 0, "user"),
        Row(10 * MS, 61 * MS, 0, None, 0, "wait.futex", waker=1),
        Row(71 * MS, 9 * MS, 0, 1, 0, "user"),
        Row(80 * MS, 10 * MS, 0, None, 0, "wait.sleep", waker_state="irq.timer"),
        Row(90 * MS, 10 * MS, 0, 1, 0, "user"),
        Row(0, 11 * MS, 0, 1, 1, "user"),
        Row(11 * MS, 20 * MS, 0, None, 1, "wait.disk", waker_state="softirq.block"),
        Row(31 * MS, 40 * MS, 20 * MS, 1, 1, "user"),
        Row(71 * MS, 1 * MS, 0, 0, 1, "kernel.exit"),
        Row(31 * MS, 0, -20 * MS, 1, 1, "noneffective.parse"),
    ]
    threads = [Thread(0, 10, 10, "main", 0, 0, 100 * MS), Thread(1, 11, 10, "worker", 0, 0, 72 * MS)]
    return write(Recorded(0, 100 * MS, rows, threads), tmp_path_factory.mktemp("runs") / "run.hw")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thread that was there before does ten requests of each of two kinds, and waits for clients in between."""
    rows = []
    at = 1 * MS
    for number in range(20):
        task = "GET /" if number % 2 else "POST /order"
        rows += [
            Row(at, 1 * MS, 0, None, 0, "wait.epoll", waker_state="softirq.net_rx"),
            Row(at + 1 * MS, 2 * MS, 0, 0, 0, "user", task=task, task_id=1 + number),
            Row(
                at + 3 * MS, 4 * MS, 0, None, 0, "wait.disk", waker_state="softirq.block", task=task, task_id=1 + number
            ),
            Row(at + 7 * MS, 1 * MS, 0, 0, 0, "user", task=task, task_id=1 + number),
        ]
        at += 8 * MS
    rows = [Row(0, 1 * MS, 0, 0, 0, "user"), *rows, Row(at, 1 * MS, 0, 0, 0, "user")]
    path = write(
        Recorded(0, at + 1 * MS, rows, [Thread(0, 10, 10, "server", 0, 0, None)]),
        tmp_path_factory.mktemp("runs") / "server.hw",
    )
    document = path / "recording.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), "command": None}))
    return path


def test_of_a_server_it_tells_how_long_each_task_takes(server: Path) -> None:
    table = headway("what-if", server, "--disk", "2x")
    assert table.returncode == 0, table.stderr
    assert "20 tasks on 1 processor: each took 7.00 ms, 99 % up to 7.00 ms, 126 per second" in table.stdout
    lines = [line.split() for line in table.stdout.splitlines()]
    assert ["wait.disk", "2x", "as", "fast", "5.00", "ms", "29", "%", "127", "to", "168"] in lines
    assert ["GET", "/", "10", "7.00", "ms", "5.00", "ms", "5.00", "ms", "29", "%"] in lines
    found = json.loads(headway("what-if", server, "--disk", "2x", "--format", "json").stdout)
    jsonschema.validate(found, schema_of("what-if"))
    (prediction,) = found["predictions"]
    assert [(one["title"], one["count"]) for one in prediction["units"]] == [
        (None, 20),
        ("POST /order", 10),
        ("GET /", 10),
    ]
    assert prediction["units"][0]["mean"] == {"recorded": 7 * MS, "low": 5 * MS, "high": 5 * MS}


def test_of_a_server_it_ranks_what_tasks_consist_of(server: Path) -> None:
    ranked = headway("what-if", server)
    assert ranked.returncode == 0, ranked.stderr
    first = ranked.stdout.splitlines()[4]
    assert first.split()[:4] == ["wait.disk", "2x", "as", "fast"]
    assert "wait.epoll" not in ranked.stdout, "waiting for clients is no part of a task"


def test_the_path_is_the_same_in_three_forms(run: Path) -> None:
    table = headway("critical-path", run)
    assert table.returncode == 0, table.stderr
    assert "100 ms from the start to the end of main 10" in table.stdout
    lines = [line.split() for line in table.stdout.splitlines()[3:]]
    assert ["outside,", "for", "worker", "wait.disk:", "a", "disk", "20.00ms", "20", "%"] in lines
    assert ["worker", "noneffective.parse", "20.00ms", "20", "%"] in lines
    found = json.loads(headway("critical-path", run, "--format", "json").stdout)
    jsonschema.validate(found, schema_of("critical-path"))
    times = {(line["name"], line["state"], line["what"]): line["time"] for line in found["lines"]}
    assert times == {
        ("worker", "user", "thread"): 31 * MS,
        ("worker", "noneffective.parse", "thread"): 20 * MS,
        ("worker", "wait.disk", "outside"): 20 * MS,
        ("main", "user", "thread"): 19 * MS,
        ("main", "wait.sleep", "outside"): 10 * MS,
    }
    rows = list(csv.DictReader(io.StringIO(headway("critical-path", run, "--format", "csv").stdout)))
    assert [(int(row["start"]), int(row["end"]), row["name"], row["state"]) for row in rows] == [
        (piece["start"], piece["end"], piece["name"], piece["state"]) for piece in found["pieces"]
    ]
    assert len(headway("critical-path", run, "--pieces").stdout.splitlines()) == len(rows) + 1


def test_the_path_to_the_end_of_another_thread(run: Path) -> None:
    found = json.loads(headway("critical-path", run, "--tid", "11", "--format", "json").stdout)
    assert (found["thread"]["name"], found["end"]) == ("worker", 72 * MS)
    assert {line["name"] for line in found["lines"]} == {"worker"}


@pytest.mark.parametrize(
    ("options", "milliseconds"),
    [
        (["--faster", "parse=2x"], 90),
        (["--faster", "parse=25%"], 95),
        (["--faster", "worker:noneffective.parse=2x"], 90),
        (["--disk", "2x"], 90),
        (["--faster", "wait.sleep=100%"], 90),
        (["--faster", "main=2x"], 90.5),
        (["--disk", "2x", "--faster", "parse=2x"], 80),
        (["--faster", "parse=0.5x"], 120),
    ],
)
def test_a_change_is_predicted(run: Path, options: list[str], milliseconds: float) -> None:
    done = headway("what-if", run, *options, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(found, schema_of("what-if"))
    assert (found["recorded"], found["replayed"]) == (100 * MS, 100 * MS)
    (prediction,) = found["predictions"]
    assert prediction["low"] <= milliseconds * MS <= prediction["high"]
    assert prediction["high"] - prediction["low"] <= 10 * MS


def test_without_a_change_those_that_are_worth_it_are_listed(run: Path) -> None:
    done = headway("what-if", run)
    assert done.returncode == 0, done.stderr
    listed = done.stdout.split("\n\n")[1].splitlines()
    assert listed[0].split() == ["what", "is", "worth", "it", "it", "would", "take", "gain"]
    assert {line.split("  ")[0] for line in listed[1:]} >= {
        "worker:user 2x as fast",
        "worker:noneffective.parse 2x as fast",
        "wait.disk 2x as fast",
        "wait.sleep 2x as fast",
        "main:user 2x as fast",
    }
    assert "not modelled: new waits" in done.stdout
    assert "the ranges rest on this\n- most:" in headway("what-if", run, "-v").stdout
    rows = list(csv.DictReader(io.StringIO(headway("what-if", run, "--format", "csv").stdout)))
    assert len(rows) == len(listed) - 1
    assert all(float(row["least_gain"]) <= float(row["most_gain"]) for row in rows)
    assert all(int(row["low"]) <= int(row["high"]) for row in rows)


def test_hostile_names_do_no_harm(hostile: Path) -> None:
    for command in ("critical-path", "what-if"):
        for style in ("table", "csv", "json"):
            done = headway(command, hostile, *(["--anyway"] if command == "what-if" else []), "--format", style)
            assert done.returncode == 0, done.stderr
            if style == "json":
                jsonschema.validate(json.loads(done.stdout), schema_of(command))
            if style == "table":
                assert "\x1b" not in done.stdout
                assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--faster", "parse"], "write it like parse=2x"),
        (["--faster", "parse=fast"], "write 2x for twice as fast"),
        (["--faster", "parse=0x"], "write 2x for twice as fast"),
        (["--faster", "parse=101%"], "write 2x for twice as fast"),
        (["--faster", "nothing=2x"], "no state, marked region or thread 'nothing'"),
        (["--faster", "nobody:user=2x"], "no thread 'nobody': it has main, worker"),
        (["--faster", "main:nothing=2x"], "no state, marked region or thread 'nothing'"),
        (["--disk", "fast"], "write 2x for twice as fast"),
        (["--lock-free", "main"], "headway critical-path shows what they wait for"),
        (["--processors", "none"], "write 4, or +1"),
        (["--processors", "0"], "write 4, or +1"),
        (["--processors", "-2"], "leave at least 1"),
        (["--threads", "worker"], "write it like 'worker-*=2x'"),
        (["--threads", "nobody=2x"], "no thread 'nobody'"),
        (["--without", "nobody"], "no process 'nobody'"),
        (["--without", "main"], "whose end is looked for"),
        (["--without", "others"], "name a process"),
        (["--tid", "99"], "no thread 99"),
        (["--profile", "nowhere.hw"], "nowhere.hw"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(run: Path, options: list[str], said: str) -> None:
    done = headway("what-if", run, *options)
    assert done.returncode == 125
    assert said in done.stderr
    assert len(done.stderr.splitlines()) <= 4
    assert "Traceback" not in done.stderr


def test_a_recording_without_transitions_is_refused(tmp_path: Path) -> None:
    empty = write(Recorded(0, 100, [], []), tmp_path / "empty.hw")
    for command in ("critical-path", "what-if"):
        done = headway(command, empty)
        assert (done.returncode, len(done.stderr.splitlines())) == (125, 1)
        assert "no transitions" in done.stderr


@pytest.mark.root
def test_the_path_of_a_program_leads_through_its_threads(compile_c: Compile, tmp_path: Path) -> None:
    """Threads hand a lock to each other; the process ends with the last of them."""
    recording = tmp_path / "run.hw"
    done = headway("record", "-q", "-o", recording, "--", compile_c("why_mutex"))
    assert done.returncode == 0, done.stderr
    found = json.loads(headway("critical-path", recording, "--format", "json").stdout)
    pieces = found["pieces"]
    assert sum(line["time"] for line in found["lines"]) == found["end"] - found["start"]
    assert all(a["end"] == b["start"] for a, b in pairwise(pieces))
    assert not any(piece["state"] == "wait.futex" and piece["what"] == "thread" for piece in pieces)
    assert len({piece["tid"] for piece in pieces}) > 1
    model = json.loads(headway("what-if", recording, "--anyway", "--format", "json").stdout)
    assert model["recorded"] == found["end"] - found["start"]
