from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from rich.console import Console

from headway.commands.doctor import BELIEVED, DOUBTED, NOTHING_TO_VERIFY, command
from headway.linux.perf import counters
from headway.linux.perf.counters import CounterSet
from headway.model.verification import FigureVerdict, LoopRun, Verification, judge
from headway.session import verifying
from headway.views.verification import render

from ..session.test_verifying import GOOD

pytestmark = pytest.mark.unit

FOUND = CounterSet(("Some Core",), ("a document",), {}, {})


def verification(*runs: LoopRun) -> Verification:
    return Verification(runs, tuple(judge(runs)), {"mpi": "a reason"})


def test_without_counters_one_sentence_and_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "default_set", lambda: "this machine has no performance monitoring unit")
    result = CliRunner().invoke(command, ["--verify"], catch_exceptions=False)
    assert result.exit_code == NOTHING_TO_VERIFY
    assert result.output == "EPI and MPI cannot be verified: this machine has no performance monitoring unit\n"
    result = CliRunner().invoke(command, ["--verify", "--json"], catch_exceptions=False)
    assert result.exit_code == NOTHING_TO_VERIFY
    assert "no performance monitoring unit" in json.loads(result.output)["unavailable"]


@pytest.mark.parametrize(
    ("runs", "status", "answer"),
    [
        (GOOD, BELIEVED, FigureVerdict.YES),
        ((GOOD[0], LoopRun("memory", 0, "cycles", 9, 1, 0, 9, {}, {})), DOUBTED, FigureVerdict.NO),
        ((LoopRun("compute", 0, "ns", 9, None, None, None, {}, {"cycles": 0.5}),), BELIEVED, FigureVerdict.UNKNOWN),
    ],
)
def test_the_answer_is_in_the_status_the_table_and_the_json(
    monkeypatch: pytest.MonkeyPatch, runs: tuple[LoopRun, ...], status: int, answer: FigureVerdict
) -> None:
    monkeypatch.setattr(counters, "default_set", lambda: FOUND)
    monkeypatch.setattr(verifying, "verify", lambda measure, seconds: verification(*runs))
    result = CliRunner().invoke(command, ["--verify"], catch_exceptions=False)
    assert result.exit_code == status
    words = {
        FigureVerdict.YES: "MPI can be",
        FigureVerdict.NO: "MPI cannot be believed",
        FigureVerdict.UNKNOWN: "MPI cannot be verified",
    }
    assert words[answer] in result.output
    result = CliRunner().invoke(command, ["--verify", "--json"], catch_exceptions=False)
    assert result.exit_code == status
    document = json.loads(result.output)
    assert document["believed"]["mpi"] == answer.value
    assert [run["loop"] for run in document["runs"]] == [run.loop for run in runs]
    assert document["reasons"] == {"mpi": "a reason"}


def test_the_table_fits_a_terminal() -> None:
    console = Console(width=80, highlight=False)
    with console.capture() as shown:
        for part in render(verification(*GOOD), ["Some Core"]):
            console.print(part, soft_wrap=False)
    assert max(map(len, shown.get().splitlines())) <= 80
    assert "98.0%" in shown.get()
