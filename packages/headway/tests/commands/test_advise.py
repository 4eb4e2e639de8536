"""``headway advise``: what it prints, what it refuses, and that it changes nothing unasked."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from tests.linux.quota import unlimited
from tests.running import Done, headway

from headway.advice import Facilities, advise
from headway.commands.advise import _planned
from headway.model import Cell, Ledger, Overhead, Processor, Thread, Window
from headway.views.json import dumps, schema, to_document

HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
SECOND = 10**9


@pytest.fixture(autouse=True)
def _nothing_of_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def busy() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        yield process.pid
        process.kill()


def run(*words: str | Path, stdin: bytes = b"") -> Done:
    return headway(*words, stdin=stdin)


def refused(done: Done, *words: str) -> None:
    assert done.returncode == 125, done.stderr
    assert done.stderr.startswith("headway: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


def saved(folder: Path, **shares: float) -> Path:
    states = {name.replace("__", "."): Cell(round(share * SECOND), 9) for name, share in shares.items()}
    span = sum(cell.time for cell in states.values())
    thread = Thread(4712, 4711, "worker", 0, 0, None, span, span, states)
    processors = tuple(Processor(cpu, span, {"user": Cell(span)}) for cpu in (0, 1))
    ledger = Ledger("bpf", Window(0, span), (thread,), processors, overhead=Overhead(1, 1))
    file = folder / "saved.json"
    file.write_text(dumps(to_document(ledger, advice=advise(ledger))) + "\n")
    return file


def test_a_saved_document_gives_advice_with_figures_and_references_in_80_columns(tmp_path: Path) -> None:
    done = run("advise", "--from", saved(tmp_path, user=0.5, poll__recvfrom__socket=0.3, kernel__recvfrom=0.2))
    assert done.returncode == 0
    assert done.stdout == ""
    assert "worker 4712: IOPI is 60 % of the lost time (Td), threshold 25 %" in done.stderr
    assert "worker 4712: KPI is 40 % of the lost time (Td), threshold 25 %" in done.stderr
    assert "SO_BUSY_POLL" in done.stderr
    assert all(len(line) <= 80 for line in done.stderr.splitlines())


def test_advice_from_standard_input_is_that_from_a_file(tmp_path: Path) -> None:
    file = saved(tmp_path, user=0.5, kernel__read=0.5)
    assert run("advise", "--from", "-", stdin=file.read_bytes()).stderr == run("advise", "--from", file).stderr


def test_references_count(tmp_path: Path) -> None:
    file = saved(tmp_path, user=0.5, kernel__read=0.5)
    mine = tmp_path / "mine.toml"
    mine.write_text("td = 0.6\n")
    done = run("advise", "--from", file, "--thresholds", mine)
    assert done.stderr == "one thread measured: none loses more than the thresholds allow\n"
    mine.write_text("td = 2\n")
    refused(run("advise", "--from", file, "--thresholds", mine), str(mine), "td is 2", "a share from 0 to 1")
    refused(run("stat", "--thresholds", mine, "--", "true"), str(mine), "td is 2")


def test_the_default_references_are_printed_to_start_from() -> None:
    done = run("advise", "--print-thresholds")
    assert tomllib.loads(done.stdout)["td"] == 0.10
    assert done.stdout.startswith("#")


def test_json_has_the_advice_of_the_schema_and_the_thresholds(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run("advise", "--json", "-o", out, "--from", saved(tmp_path, user=0.5, ready=0.3))
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(out.read_text())
    assert document["schema"] == "headway.advise/1"
    assert document["thresholds"]["ready"] == 0.10
    assert document["advice"][0]["remedy"] == {"action": "partition", "pid": 4711, "processors": 1, "neighbours": []}
    jsonschema.validate(document["advice"], schema()["properties"]["advice"])


def test_a_command_is_measured_and_its_exit_status_kept() -> None:
    done = run("advise", "--", sys.executable, "-c", "print('out'); raise SystemExit(3)")
    assert (done.returncode, done.stdout) == (3, "out\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "say what to measure"),
        (("--from", "/nonexistent"), "cannot be read"),
        (("--from", "/"), "cannot be read"),
        (("--from", "/dev/zero"), "it is not a file"),
        (("--from", "/dev/null"), "it is not a file"),
        (("--from", "x", "-p", "1"), "leave out what to measure"),
        (("--from", "x", "--why", "wait"), "leave out what to measure, and how"),
        (("--from", "x", "--", "true"), "not both"),
        (("--from", "x", "--apply"), "run now"),
        (("--apply", "--", "true"), "processes that go on"),
        (("--apply", "-a", "--yes"), "that you name"),
        (("--apply", "--undo"), "give it alone"),
        (("--undo", "-p", "1"), "give it alone"),
        (("--undo", "nothing", "--", "true"), "give it alone"),
        (("--apply", "-p", "1"), "no terminal to ask on: add --yes"),
        (("--undo", "../../etc/passwd"), "not the name of a plan"),
        (("--undo", "ffffff"), "no plan ffffff"),
        (("--thresholds", "/nonexistent", "--", "true"), "cannot be read"),
    ],
)
def test_mistakes_are_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    refused(run("advise", *words), sentence)


def test_a_file_that_is_no_document_is_refused(tmp_path: Path) -> None:
    for raw in (b"\xff", b"{}", b"[[", b"\x1b[31m"):
        (tmp_path / "x").write_bytes(raw)
        done = run("advise", "--from", tmp_path / "x")
        refused(done, str(tmp_path / "x"))
        assert "\x1b" not in done.stderr


def test_a_process_without_neighbours_has_nothing_to_apply(busy: int) -> None:
    thresholds = "ready = 1.0\n"
    file = Path(os.environ["XDG_CONFIG_HOME"]) / "headway/thresholds.toml"
    file.parent.mkdir(parents=True)
    file.write_text(thresholds)
    done = run("advise", "--apply", "--yes", "-p", str(busy), "-d", "0.3")
    assert done.returncode == 0, done.stderr
    assert "nothing to apply" in done.stderr


def test_polling_is_said_to_be_the_programs_own_to_stop(capsys: pytest.CaptureFixture[str]) -> None:
    cells = {"user": Cell(SECOND // 2), "poll.epoll_wait": Cell(SECOND // 2)}
    threads = tuple(Thread(pid, pid, "worker", 0, 0, None, SECOND, SECOND, cells) for pid in (4711, 50))
    ledger = Ledger("bpf", Window(0, SECOND), threads)
    assert _planned(ledger, advise(ledger, by_process=True), [4711], Facilities()) is None
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("polling can only be stopped in the program: --apply does nothing about it")
    assert "nothing to apply" in said
    _planned(ledger, advise(ledger, by_process=True), [60], Facilities())
    assert "polling" not in capsys.readouterr().err


def on_terminal(*words: str, **environment: str) -> str:
    """Everything that is printed on a terminal of 80 columns, with no for an answer to every question."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm", "COLUMNS": "80", **environment})
        os.execv(sys.executable, [*HEADWAY, *words])
    os.write(fd, b"n\n")
    text = b""
    while True:
        try:
            piece = os.read(fd, 4096)
        except OSError:
            break
        if not piece:
            break
        text += piece
    os.waitpid(pid, 0)
    os.close(fd)
    return text.decode()


def test_a_terminal_has_colours_unless_they_are_not_wanted(tmp_path: Path) -> None:
    file = str(saved(tmp_path, user=0.5, kernel__read=0.5))
    assert "\x1b[" in on_terminal("advise", "--from", file)
    assert "\x1b[" not in on_terminal("advise", "--from", file, NO_COLOR="1")


@pytest.mark.parametrize("asked", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_a_plan_is_shown_and_nothing_is_changed_without_a_yes(asked: bool) -> None:
    """Two processes that want one processor, told apart by affinity or by a partition, whatever is possible here."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    count = len(os.sched_getaffinity(0)) + 2
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        pids = ",".join(str(p.pid) for p in started)
        before = [os.sched_getaffinity(p.pid) for p in started]
        if asked:
            text = on_terminal("advise", "--apply", "-p", pids, "-d", "0.5", NO_COLOR="1")
            if "do it?" in text:
                assert "to undo:" in text
                assert "nothing was changed" in text
            else:
                assert "is left as it is" in text
        else:
            assert "do it?" not in run("advise", "--dry-run", "-p", pids, "-d", "0.3").stderr
        assert [os.sched_getaffinity(p.pid) for p in started] == before
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.kernel
@pytest.mark.alone  # it partitions the processors
def test_a_plan_is_applied_measured_again_and_taken_back() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    count = len(os.sched_getaffinity(0)) + 1
    with unlimited() as inside:  # a process that its group limits is left as it is
        started = [subprocess.Popen(inside(sys.executable, "-c", "while True: pass")) for _ in range(count)]
        try:
            apply_and_undo(started)
        finally:
            for process in started:
                process.kill()
                process.wait()


def apply_and_undo(started: list[subprocess.Popen[bytes]]) -> None:
    before = [os.sched_getaffinity(p.pid) for p in started]
    done = run("advise", "--apply", "--yes", "-a", "-p", str(started[0].pid), "-d", "1")
    if "is left as it is" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    (name,) = re.findall(r"done; to undo: headway advise --undo ([0-9a-f]+)", done.stderr)
    try:
        assert f"process {started[0].pid} (" in done.stderr
        assert "of the time it could run: before, after" in done.stderr
        assert [os.sched_getaffinity(p.pid) for p in started] != before
        report = [line for line in done.stderr.splitlines() if not line.startswith("headway: ")]
        assert all(len(line) <= 80 for line in report), report
    finally:
        undone = run("advise", "--undo", name)
    assert undone.stderr == f"plan {name} is undone\n"
    assert [os.sched_getaffinity(p.pid) for p in started] == before


@pytest.mark.parametrize(
    "arguments", [("advise", "--from"), ("advise", "--thresholds"), ("stat", "--source", "proc", "--status-checks")]
)
def test_a_pipe_that_nobody_writes_to_is_refused_and_not_waited_for(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    measured = () if "--from" in arguments else ("--", "true")
    done = run(*arguments, str(pipe), *measured)
    assert done.returncode == 125
    assert "it is not a file" in done.stderr
    assert done.stderr.count("\n") == 1
