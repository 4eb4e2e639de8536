"""``headway trace record``: perf as it is started, and one sentence where nothing can be recorded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from headway.linux.perf.trace_units import trace_unit
from headway_trace import perf
from headway_trace.commands.trace import command

pytestmark = pytest.mark.unit


def test_perf_is_asked_for_switches_and_for_user_code_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = perf.perf_command("intel_pt", "x.data", ["ls", "-l"])
    assert found == ["perf", "record", "-o", "x.data", "-e", "intel_pt//u", "--switch-events", "--", "ls", "-l"]
    monkeypatch.setattr(perf, "KCORE", str(tmp_path / "none"))
    found = perf.perf_command("cs_etm", "x", [], pids=[1, 2], kernel=True, size="64M", everything=True)
    assert found[5:] == ["cs_etm//", "--switch-events", "-m", ",64M", "-a", "-p", "1,2"]
    monkeypatch.setattr(perf, "KCORE", "/dev/null")
    found = perf.perf_command("intel_pt", "x", ["ls"], kernel=True)
    assert found[5:] == ["intel_pt//", "--switch-events", "--kcore", "--", "ls"]
    assert "--kcore" not in perf.perf_command("intel_pt", "x", ["ls"])


@pytest.mark.skipif(trace_unit() is not None, reason="this machine has a trace unit")
def test_without_a_trace_unit_one_sentence_says_why() -> None:
    result = CliRunner().invoke(command, ["record", "--", "true"])
    assert str(result.exception).startswith("instructions cannot be traced here: ")


def test_perf_gets_what_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    program = tmp_path / "perf"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(perf, "trace_unit", lambda: "intel_pt")
    monkeypatch.setattr(os, "execv", lambda path, argv: called.append((path, argv)))
    assert CliRunner().invoke(command, ["record", "-m", "8M", "--", "true", "-x"]).exit_code == 0
    ((path, argv),) = called
    assert path == str(program)
    assert argv[-3:] == ["--", "true", "-x"]
    program.unlink()
    result = CliRunner().invoke(command, ["record", "--", "true"])
    assert "perf, which is not installed" in str(result.exception)


@pytest.mark.parametrize("arguments", [[], ["-m", "much", "--", "true"]])
def test_what_makes_no_sense_is_refused(arguments: list[str]) -> None:
    result = CliRunner().invoke(command, ["record", *arguments])
    assert result.exit_code == 2
