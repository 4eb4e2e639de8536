"""headway why: the short way to the reasons of a program that runs, or of a command."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.running import headway

pytestmark = pytest.mark.end_to_end


def test_a_command_is_measured_to_its_end() -> None:
    done = headway("why", "--json", "--", "sleep", "0.2")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout or done.stderr)
    assert [verdict["cause"] for verdict in document["verdict"]] == ["sleep"]


def test_a_process_is_measured_for_a_while() -> None:
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        done = headway("why", child.pid, "-d", "0.2", "--json")
        assert child.stdin is not None
        child.stdin.close()
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout or done.stderr)
    assert {thread["pid"] for thread in document["threads"]} == {child.pid}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say what to measure"),
        (("no-program-of-this-name",), "no process runs 'no-program-of-this-name'"),
        (("no-program-of-this-name", "and more"), "no process runs"),
    ],
)
def test_what_is_not_there_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    done = headway("why", *words)
    assert done.returncode == 125
    assert said in done.stderr
    assert "Traceback" not in done.stderr
