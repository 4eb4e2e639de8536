"""``headway stat --work``: when work will be done, in the report and in JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from tests.running import headway

from headway.views.json import schema

SPIN = ["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]


def test_each_reading_says_when_the_work_will_be_done(tmp_path: Path) -> None:
    report = tmp_path / "report"
    done = headway("stat", "--source", "proc", "-I", "50", "--json", "--work", "0.01", "-o", report, "--", *SPIN)
    assert done.returncode == 0
    documents = [json.loads(line) for line in report.read_text().splitlines()]
    for document in documents:
        jsonschema.validate(document, schema())
    forecasts = [document["forecast"] for document in documents]
    assert {forecast["work"] for forecast in forecasts} == {10_000_000}
    assert [forecast["done"] for forecast in forecasts] == sorted(forecast["done"] for forecast in forecasts)
    made = sum(thread["indices"]["epi"] for document in documents for thread in document["threads"])
    assert forecasts[-1]["done"] == made >= 10_000_000
    assert forecasts[-1]["left"] == 0
    done = headway("stat", "--source", "proc", "-I", "50", "--work", "1000", "-o", report, "--", *SPIN)
    assert done.returncode == 0
    assert "of 17 min EPI is done" in report.read_text()


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_reading_without_threads_makes_no_progress(words: list[str], tmp_path: Path) -> None:
    """Of what has this name nothing runs."""
    report = tmp_path / "report"
    chosen = ("--name", "headway-nothing", "-d", "0.2", "-I", "50", "--work", "5")
    done = headway("stat", "--source", "proc", *chosen, *words, "-o", report)
    assert (done.returncode, done.stderr) == (0, "")
    said = '"done":0,"left":null' if words else "work: ~0 % of 5 s EPI is done; no progress was made in the last"
    assert said in report.read_text()


STEPS = """
import headway
for _ in range(200):
    with headway.state("render"):
        sum(range(20_000))
"""


def test_steps_that_are_not_all_seen_are_unknown(tmp_path: Path) -> None:
    report = tmp_path / "report"
    program = ("--", sys.executable, "-c", STEPS)
    words = ("stat", "--source", "proc", "-I", "50", "--json", "--work", "render=200", "-o", report)
    assert headway(*words, *program).returncode == 0
    for line in report.read_text().splitlines():
        forecast = json.loads(line)["forecast"]
        assert (forecast["left"], forecast["reason"]) == (None, "not every step is seen where progress is sampled")


@pytest.mark.root
def test_steps_are_the_entries_of_a_region(tmp_path: Path) -> None:
    report = tmp_path / "report"
    program = ("--", sys.executable, "-c", STEPS)
    done = headway("stat", "-I", "50", "--json", "--work", "render=200", "-o", report, *program)
    assert done.returncode == 0
    forecasts = [json.loads(line)["forecast"] for line in report.read_text().splitlines()]
    assert {(forecast["work"], forecast["state"]) for forecast in forecasts} == {(200, "user.render")}
    assert (forecasts[-1]["done"], forecasts[-1]["left"], forecasts[-1]["reason"]) == (200, 0, None)
    done = headway("top", "--plain", "-I", "50", "--work", "render=1000000", *program)
    assert done.returncode == 0
    assert "of 1,000,000 × render is done" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--work", "render=0"], "'render=0' is no work: give seconds of EPI, or TAG=NUMBER"),
        (["--work", "a b=5"], "'a b=5' is no work"),
        (["--work", "x"], "'x' is no length of time"),
        (["--work", "render=5", "--budget", "1%"], "--work TAG=NUMBER counts every step: leave out --budget"),
        (["--work", "render=5", "--level", "clocks"], "--work TAG=NUMBER counts every step"),
    ],
)
def test_work_that_cannot_be_followed_is_refused(words: list[str], said: str) -> None:
    done = headway("stat", "-I", "50", *words, "--", "true")
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    assert said in done.stderr


def test_work_without_readings_is_refused() -> None:
    done = headway("stat", "--work", "5", "--", "true")
    assert done.returncode == 125
    assert "--work says at each reading when the work will be done: give -I too" in done.stderr
