from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from tests.running import Done, headway

from headway.commands import schema
from headway.linux.procfs.processors import online
from headway.views.utilisation_json import cpu_schema

CPU = [sys.executable, "-c", "from headway.commands import main; main()", "cpu"]
VALIDATOR = jsonschema.Draft202012Validator(cpu_schema())


def run(*arguments: str | Path) -> Done:
    return headway("cpu", *arguments)


def documents(*arguments: str | Path) -> list[dict[str, Any]]:
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stderr.splitlines()]
    for document in found:
        VALIDATOR.validate(document)
    return found


SOURCES = ["proc", pytest.param("bpf", marks=pytest.mark.root)]


@pytest.mark.parametrize("source", SOURCES)
def test_as_many_reports_as_were_asked_for_each_of_its_interval(source: str) -> None:
    found = documents("--source", source, "-I", "50", "-n", "3")
    assert len(found) == 3
    for document in found:
        assert document["interval_ms"] == 50
        (sample,) = document["samples"]
        assert [row["cpu"] for row in sample["processors"]] == list(online())
        for row in sample["processors"]:
            if row["dropped"] is None:
                assert sum(state["time"] for state in row["states"]) == row["span_ns"]
            else:
                assert row["utilisation"] is None
    assert all(a["samples"][0]["end"] == b["samples"][0]["start"] for a, b in pairwise(found))


@pytest.mark.parametrize("source", SOURCES)
def test_of_a_command_there_is_one_report_and_its_exit_status(source: str, tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    words = [sys.executable, "-c", "print('hello'); raise SystemExit(7)"]
    done = run("--source", source, "--json", "-o", output, "--", *words)
    assert done.returncode == 7
    assert done.stdout == "hello\n"
    document = json.loads(output.read_text())
    VALIDATOR.validate(document)
    assert document["command"] == words
    assert document["exit_status"] == 7
    assert document["samples"]


def until_there_are(lines: int, file: Path) -> str:
    return f"until [ $(wc -l < {file}) -ge {lines} ]; do sleep 0.05; done"


def test_the_last_report_of_a_command_has_its_exit_status(tmp_path: Path) -> None:
    output = tmp_path / "report"
    done = run("--source", "proc", "-I", "50", "--json", "-o", output, "--", "sh", "-c", until_there_are(3, output))
    assert done.returncode == 0
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(found) > 3
    statuses = [document["exit_status"] for document in found]
    assert statuses[0] is None
    assert statuses[-1] == 0


def test_a_command_killed_by_a_signal_ends_us_by_the_same() -> None:
    words = [*CPU, "--source", "proc", "-q", "--", "sh", "-c", "kill -TERM $$"]
    done = subprocess.run(words, check=False)
    assert done.returncode == -signal.SIGTERM


def test_the_schema_is_printed() -> None:
    result = CliRunner().invoke(schema.command, ["cpu"])
    assert json.loads(result.output) == cpu_schema()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-C", "99999"], "range of processors"),
        (["-C", "4000"], "there is no processor 4000 that is online; these are: "),
        (["-C", "0,x"], "is not a list of processors"),
        (["-C", ""], "is not a list of processors"),
        (["-I", "0"], "is no length of time"),
        (["-I", "-5"], "is no length of time"),
        (["-I", "nan"], "is no length of time"),
        (["-d", "0"], "is no length of time"),
        (["-n", "0"], "is not in the range"),
        (["-n", "1", "-o", "/nowhere/at/all"], "cannot be written"),
        (["--source", "tea"], "is not one of"),
    ],
)
def test_nonsense_is_answered_in_one_sentence(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 125
    assert done.stderr.startswith("headway: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_command_that_is_not_there_is_127() -> None:
    done = run("--source", "proc", "--", "no-such-command-anywhere")
    assert done.returncode == 127
    assert "not found" in done.stderr


def wait_for_lines(count: int, file: Path) -> None:
    deadline = time.monotonic() + 100
    while not (file.exists() and file.read_text().count("\n") >= count):
        assert time.monotonic() < deadline, f"{file.name} never had {count} lines"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_with_a_report(number: signal.Signals, tmp_path: Path) -> None:
    output = tmp_path / "report"
    process = subprocess.Popen([*CPU, "--source", "proc", "-I", "50", "-o", output], stderr=subprocess.PIPE, text=True)
    wait_for_lines(1, output)
    process.send_signal(number)
    _, said = process.communicate(timeout=100)
    assert (process.returncode, said) == (0, "")
    assert "util" in output.read_text()
    assert "busy time by" in output.read_text()


def test_what_is_not_exact_is_said_once() -> None:
    done = run("--source", "proc", "-I", "50", "-n", "3")
    assert done.returncode == 0
    assert done.stderr.count("seen at the timer's ticks only") <= 2  # at the beginning, and of all together
    assert "all together" in done.stderr


@pytest.mark.libbpf
def test_without_privileges_the_next_source_is_taken_and_that_is_said_once() -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None or os.geteuid() != 0:
        pytest.skip("needs root, to give it up, and setpriv (util-linux)")
    words = [setpriv, "--bounding-set=-all", "--inh-caps=-all", "--", *CPU]
    done = subprocess.run([*words, "-I", "50", "-n", "3"], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0
    assert done.stderr.count("eBPF needs CAP_BPF") == 1
    refused = subprocess.run([*words, "--source", "bpf", "-n", "1"], capture_output=True, text=True, check=False)
    assert refused.returncode == 125
    assert refused.stderr.startswith("headway: eBPF needs CAP_BPF")
    assert refused.stderr.count("\n") == 1


def test_only_the_processors_chosen_are_measured() -> None:
    (document,) = documents("--source", "proc", "-C", str(online()[0]), "-I", "50", "-n", "1")
    (sample,) = document["samples"]
    assert [row["cpu"] for row in sample["processors"]] == [online()[0]]
    assert sample["skew_ns"] is None


def test_a_reader_of_the_report_that_goes_away_is_no_error() -> None:
    process = subprocess.Popen([*CPU, "--source", "proc", "-I", "20", "-n", "20"], stderr=subprocess.PIPE)
    assert process.stderr is not None
    process.stderr.close()
    assert process.wait(timeout=100) == 0


def test_without_the_probe_there_is_no_frequency_where_nothing_counts_cycles() -> None:
    (document,) = documents("--source", "proc", "--no-frequency-probe", "-I", "50", "-n", "1")
    for row in document["samples"][0]["processors"]:
        if document["counter"] is None:
            assert row["actual_hz"] is None
            assert row["effective_hz"] is None
    if document["counter"] is None:
        assert "nothing counts unhalted cycles" in document["reasons"]["actual_hz"]


def test_a_reader_that_was_stopped_gives_no_figure_of_that_time(tmp_path: Path) -> None:
    output = tmp_path / "report"
    process = subprocess.Popen([*CPU, "--source", "proc", "-I", "100", "--json", "-o", output])
    wait_for_lines(3, output)
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.6)
    process.send_signal(signal.SIGCONT)
    wait_for_lines(output.read_text().count("\n") + 2, output)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=100) == 0
    found = [json.loads(line) for line in output.read_text().splitlines()]
    long = [d for d in found if d["samples"][0]["end"] - d["samples"][0]["start"] > 500_000_000]
    assert long
    for document in long:
        for row in document["samples"][0]["processors"]:
            assert row["dropped"] is not None
            assert row["utilisation"] is None
            assert row["actual_hz"] is None
