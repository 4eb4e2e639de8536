"""The question that measures: bounded, only where it is allowed, and its document answers further questions."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headway.errors import HeadwayError
from headway.mcp.measuring import Measurements
from headway.mcp.readable import ReadableFiles
from headway.mcp.tools import TOOLS, Tool, ask

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def measuring() -> Iterator[tuple[ReadableFiles, Mapping[str, Tool]]]:
    with Measurements() as measurements:
        yield ReadableFiles([measurements.place]), measurements.tools()
    assert not os.path.exists(measurements.place)


def measure(measuring: tuple[ReadableFiles, Mapping[str, Tool]], **given: Any) -> dict[str, Any]:
    files, tools = measuring
    return ask("measure", given, files, tools)


def test_it_is_no_question_unless_it_is_allowed() -> None:
    assert "measure" not in TOOLS


def test_a_command_is_measured_and_can_be_asked_about(measuring: tuple[ReadableFiles, Mapping[str, Tool]]) -> None:
    answer = measure(measuring, command=["sleep", "0.2"], seconds=10)
    assert answer["verdict"][0]["cause"] == "sleep"
    again = ask("stat", {"file": answer["file"], "by": "thread"}, *measuring)
    assert [group["name"] for group in again["groups"]] == ["sleep"]


def test_a_process_is_measured(measuring: tuple[ReadableFiles, Mapping[str, Tool]]) -> None:
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        answer = measure(measuring, pid=child.pid, seconds=1, detail="plain")
        assert child.poll() is None, "what ran before goes on"
        assert child.stdin is not None
        child.stdin.close()
    assert answer["threads"] == 1


def test_a_command_that_goes_on_is_ended(
    measuring: tuple[ReadableFiles, Mapping[str, Tool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.mcp.measuring._TO_BEGIN", 5)
    before = time.monotonic()
    answer = measure(measuring, command=["sleep", "3600"], seconds=1, detail="plain")
    assert answer["threads"] == 1
    assert time.monotonic() - before < 600


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "say what to measure: give one of pid, unit and command"),
        ({"pid": 1, "unit": "cron"}, "give one of"),
        ({"command": ["/no/such/program"]}, "not found"),
        ({"unit": "no-unit-of-this-name"}, "no control group of the unit"),
        ({"pid": 2**31 - 1}, "2147483647"),
        ({"seconds": 61, "command": ["true"]}, "give a whole number from 1 to 60"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(
    measuring: tuple[ReadableFiles, Mapping[str, Tool]], given: dict[str, Any], said: str
) -> None:
    with pytest.raises(HeadwayError, match=said) as error:
        measure(measuring, **given)
    assert "\n" not in str(error.value)
