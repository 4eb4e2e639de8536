"""``-e``: what is written on the command line, and what comes out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from tests.running import Done, headway

from headway.views.json import schema


def run(*words: str) -> Done:
    return headway("stat", "--source", "proc", *words)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ("page-fault", "did you mean page-faults"),
        ("", "an event is missing"),
        ("page-faults,", "an event is missing"),
        ("cpu/event=1", "a slash is missing"),
        ("{cycles,instructions}", "leave the braces out"),
        ("cs", "what the kernel does"),
        ("page-faults:p", "for sampling"),
        ("nosuch/event=1/", "has no unit 'nosuch'"),
        ("no:such", "tracepoint"),
    ],
)
def test_a_bad_event_is_refused_before_the_command_starts(tmp_path: Path, events: str, words: str) -> None:
    done = run("-e", events, "--", "touch", str(tmp_path / "started"))
    assert done.returncode == 125
    assert done.stderr.startswith("headway: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert not (tmp_path / "started").exists()


def test_events_are_in_the_report_in_the_order_asked_for() -> None:
    done = run("-e", "page-faults:u,task-clock", "-e", "minor-faults", "--json", "--", sys.executable, "-c", "pass")
    if "perf_event_paranoid" in done.stderr:
        pytest.skip("kernel.perf_event_paranoid is above 2: no counters without privileges")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stderr)
    jsonschema.validate(document, schema())
    (user,) = [state for state in document["threads"][0]["states"] if state["state"] == "user"]
    assert list(user["events"]) == ["page-faults:u", "task-clock", "minor-faults"]
    assert user["events"]["minor-faults"] > 100
    assert document["counted"]["minor-faults"] == 1
