"""headway compare: two commands in turns, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.running import Done, headway

from headway.views.schemas import schema_of

RUN = "import sys; from headway.commands import main; sys.argv[0] = 'headway'; main()"
TRUE = ("true",)
QUICK = ("-w", "0", "-r", "8", "--source", "proc")


def compare(*arguments: str | Path) -> Done:
    return headway("compare", *arguments)


def document(*arguments: str) -> dict[str, Any]:
    done = compare("--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.Draft202012Validator(schema_of("compare")).validate(found)
    return found


def loop(steps: int) -> tuple[str, ...]:
    """A command that computes."""
    return sys.executable, "-S", "-E", "-c", f"for i in range({steps}): pass"


def test_what_differs_follows_from_the_runs() -> None:
    found = document(*QUICK, "-r", "12", "--confidence", "95%", "--", *TRUE, "--", *loop(100_000))
    figures = {figure["name"]: figure for figure in found["figures"]}
    for name in ("wall", "rpi"):
        low, high = figures[name]["absolute"]["low"], figures[name]["absolute"]["high"]
        assert figures[name]["differs"] != "more" or low is None or low > 0
        assert figures[name]["differs"] != "less" or high is None or high < 0
    for letter in "ab":
        walls = sorted(run["wall"] for run in found[letter]["runs"])
        assert walls[0] <= figures["wall"][letter] <= walls[-1]
    assert figures["mpi"]["a"] is None
    assert found["rounds"] == len(found["a"]["runs"]) == len(found["b"]["runs"]) == 12
    assert found["b"]["command"] == list(loop(100_000))
    for figure in found["figures"]:
        if figure["relative"] is not None:
            assert figure["relative"]["low"] <= figure["relative"]["estimate"] <= figure["relative"]["high"]


@pytest.mark.root
def test_every_source_and_level_measures_the_runs() -> None:
    """A command has one thread, which is measured from its execution to its exit."""
    for more in (("--source", "bpf"), ("--level", "switches"), ("--level", "calls"), ("--source", "proc")):
        found = document("-w", "0", "-r", "2", *more, "--", *loop(100_000), "--", "sleep", "0.02")
        for run in found["a"]["runs"] + found["b"]["runs"]:
            assert run["indices"]["rpi"] > 0
            assert run["outlived"] == 0
            assert sum(run["states"].values()) == run["wall"] or "proc" in more
        for run in found["b"]["runs"]:
            assert run["wall"] >= 20_000_000
            assert "wait.sleep" in run["states"] or "proc" in more


@pytest.mark.root
def test_what_outlives_a_command_is_in_no_later_run(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    lingers = ("sh", "-c", f"(while :; do :; done) & echo $! >> {pids}")
    try:
        found = document("-w", "0", "-r", "3", "--source", "bpf", "--", *lingers, "--", "true")
        assert sum(run["outlived"] for run in found["a"]["runs"]) == 3
        for run in found["b"]["runs"]:
            assert run["outlived"] == 0
            assert sum(run["states"].values()) == run["wall"]
    finally:
        for pid in pids.read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def test_the_table_fits_and_says_what_was_looked_at() -> None:
    done = compare(*QUICK, "--names", "before,after", "--fail-if", "wall > +900 %", "--", *loop(1), "--", *loop(1))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "A  before"
    assert lines[1] == "B  after"
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("wall time ") for line in lines)
    said = " ".join(done.stdout.split())
    assert "figures were looked at" in said
    assert "fail if wall > +900 %: not proven" in said
    assert "\x1b" not in done.stdout


def test_a_proven_condition_is_the_exit_status() -> None:
    done = compare(*QUICK, "--fail-if", "wall > -100 %", "--", *TRUE, "--", *TRUE)
    assert done.returncode == 1
    assert "PROVEN" in done.stdout
    done = compare(*QUICK, "--fail-if", "wall < -100 %", "--", *TRUE, "--", *TRUE)
    assert done.returncode == 0
    assert "not proven" in done.stdout


def test_the_order_is_repeated_by_its_seed(tmp_path: Path) -> None:
    orders = []
    for name in ("first", "second"):
        said = tmp_path / name
        commands = [("sh", "-c", f"echo {letter} >> {said}") for letter in "AB"]
        compare(*QUICK, "-r", "4", "--seed", "11", "--", *commands[0], "--", *commands[1])
        orders.append(said.read_text().split())
    assert orders[0] == orders[1]
    assert len(orders[0]) == 8
    assert {*orders[0][::2]} == {"A", "B"}


def test_abba_and_prepare_and_warm_up(tmp_path: Path) -> None:
    said = tmp_path / "said"
    a, b = (("sh", "-c", f"echo {letter} >> {said}") for letter in "AB")
    prepare = [word for letter in "ab" for word in ("--prepare", f"echo {letter} >> {said}")]
    done = compare("--source", "proc", "-w", "1", "-r", "8", "--order", "abba", *prepare, "--", *a, "--", *b)
    assert done.returncode == 0, done.stderr
    words = said.read_text().split()
    assert [word.upper() for word in words[::2]] == words[1::2]
    ran = words[1::2]
    assert ran[:2] == ["A", "B"]
    for at in range(2, 18, 4):
        assert ran[at : at + 4] in (["A", "B", "B", "A"], ["B", "A", "A", "B"])


def test_the_output_of_commands_is_shown_only_on_request() -> None:
    said = ("sh", "-c", "echo something; echo wrong >&2")
    quiet = compare(*QUICK, "-r", "2", "--", *said, "--", *TRUE)
    assert "something" not in quiet.stdout.split("\n", 2)[2]
    assert "wrong" not in quiet.stderr
    loud = compare(*QUICK, "-r", "2", "--show-output", "-o", os.devnull, "--", *said, "--", *TRUE)
    assert loud.stdout.splitlines() == ["something"] * 2
    assert "wrong" in loud.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("false",), "A failed with exit status 1 in round 1 (false): mend it"),
        (("sh", "-c", "kill -9 $$"), "A was killed by signal 9 in round 1"),
    ],
)
def test_a_command_that_fails_ends_the_comparison(command: tuple[str, ...], words: str) -> None:
    done = compare(*QUICK, "--seed", "0", "--", *command, "--", *TRUE)
    assert done.returncode == 125
    assert done.stderr.startswith(f"headway: {words}"), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert compare(*QUICK, "-r", "2", "-i", "--", *command, "--", *TRUE).returncode == 0


@pytest.mark.parametrize(("word", "status"), [("/no/such/program", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_executed_is_said(word: str, status: int) -> None:
    done = compare(*QUICK, "--", word, "--", *TRUE)
    assert done.returncode == status
    assert len(done.stderr.splitlines()) == 1
    assert word in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give two commands"),
        (("--", "true"), "give two commands"),
        (("--", "true", "--", "true", "--", "true"), "give two commands"),
        (("--", "true", "--"), "give two commands"),
        (("--names", "x", "--", "true", "--", "true"), "is not two different names"),
        (("--names", "x,x", "--", "true", "--", "true"), "is not two different names"),
        (("--confidence", "100%", "--", "true", "--", "true"), "less than 100"),
        (("--confidence", "10%", "--", "true", "--", "true"), "at least 50"),
        (("-r", "0", "--", "true", "--", "true"), "0 is not in the range"),
        (("-r", "7", "--order", "abba", "--", "true", "--", "true"), "give an even number"),
        (("--fail-if", "epi", "--", "true", "--", "true"), "is no condition"),
        (("--fail-if", "nothing > 2 %", "--", "true", "--", "true"), "is no figure"),
        (("--prepare", "false", "--", "true", "--", "true"), "--prepare 'false' failed with status 1"),
        (("--prepare", "a", "--prepare", "b", "--prepare", "c", "--", "true", "--", "true"), "--prepare is given once"),
        (("-p", "1", "--", "true", "--", "true"), "No such option"),
        (("-o", "/no/such/file", "--", "true", "--", "true"), "cannot be written"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    done = compare(*arguments)
    assert done.returncode == 125
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_too_few_rounds_are_said_and_shown() -> None:
    done = compare("-w", "0", "-r", "2", "--source", "proc", "--", *TRUE, "--", *TRUE)
    assert done.returncode == 0
    assert "it takes 8" in done.stderr
    assert "too few rounds" in done.stdout


def test_the_time_limit_ends_the_rounds() -> None:
    done = compare("--json", "-w", "0", "-r", "200", "-d", "1", "--source", "proc", "--", "sleep", "0.02", "--", *TRUE)
    assert done.returncode == 0
    assert "the time is over" in done.stderr
    assert 1 <= json.loads(done.stdout)["rounds"] < 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_the_command_and_shows_the_rounds_so_far(number: int, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    slow = ("sh", "-c", f"echo $$ >> {pids}; exec sleep 0.3")
    words = [sys.executable, "-c", RUN, "compare", "-w", "0", "-r", "100", "--source", "proc"]
    process = subprocess.Popen(
        [*words, "--", *slow, "--", *TRUE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    late = time.monotonic() + 60
    while time.monotonic() < late and (not pids.exists() or len(pids.read_text().split()) < 4):
        time.sleep(0.01)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "complete rounds say" in stderr
    assert "wall time" in stdout
    for pid in pids.read_text().split():
        assert not os.path.exists(f"/proc/{pid}")
