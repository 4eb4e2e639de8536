"""``headway top`` as a process: on a terminal, without one, with what it cannot show."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from headway.readable import is_readable

from ..ledgers import HOSTILE_NAMES
from ..recording.test_ledger import write
from ..recordings import Run
from ..running import Done, headway

HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
TOP = [*HEADWAY, "top"]
SOURCES = [pytest.param("bpf", marks=pytest.mark.root), "proc"]
each_source = pytest.mark.parametrize("source", SOURCES)
_LOOK = "\x1b[?1049h"
"""Where the screen begins, and by the same with an l ends."""


class Terminal:
    """A terminal with headway on it, read as it comes."""

    def __init__(self, *words: str, size: tuple[int, int] = (100, 30), stdout: int | None = None, term: str = "xterm"):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.before = termios.tcgetattr(slave)
        environment = {**os.environ, "TERM": term, "LC_ALL": "C.UTF-8"}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):  # pytest-xdist sets the last two
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [*TOP, *words],
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )
        self._slave = slave
        self.text = ""

    def until(self, *words: str, since: int = 0) -> str:
        """Read until all of these have been written after that place; everything from there."""
        deadline = time.monotonic() + 200
        while not all(word in self.text[since:] for word in words):
            assert time.monotonic() < deadline, f"{words} never came: {self.text[-3000:]!r}"
            self.read(0.1)
        return self.text[since:]

    def read(self, seconds: float) -> bool:
        """Take what comes within that time, if anything does."""
        if not is_readable(self.master, seconds):
            return False
        try:
            piece = os.read(self.master, 1 << 16)
        except OSError:
            return False
        self.text += piece.decode(errors="replace")
        return bool(piece)

    def press(self, keys: str) -> int:
        """Type; the place where what comes then begins."""
        os.write(self.master, keys.encode())
        return len(self.text)

    def end(self) -> int:
        """Wait for its end, which leaves the terminal as it was; the exit status."""
        deadline = time.monotonic() + 200
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end: {self.text[-3000:]!r}"
            self.read(0.1)
        while self.read(0.1):
            pass
        assert termios.tcgetattr(self._slave) == self.before
        assert "Traceback" not in self.text
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self._slave)


@contextmanager
def terminal(*words: str, **more: object) -> Iterator[Terminal]:
    made = Terminal(*words, **more)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "300"]) as process:
        try:
            yield process
        finally:
            process.kill()


def run(*words: str) -> Done:
    return headway("top", *words)


def refused(done: Done, *words: str) -> None:
    assert done.returncode == 125, done.stderr
    assert done.stderr.startswith("headway: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


def saved(path: Path, ledgers: int = 1, name: str = "work") -> Path:
    """A file as stat --json -I writes it."""
    documents = []
    for at in range(ledgers):
        start, end = at * 10**9, (at + 1) * 10**9
        states = [
            {"state": state, "kind": kind, "count": 1, "time": time, "cycles": None, "instructions": None}
            | {"stall_cycles": None, "memory_stall_cycles": None}
            for state, kind, time in (("user", "effective", 6 * 10**8), ("wait.futex", "wait", 4 * 10**8))
        ]
        quality = {"rpi": "exact", "epi": "bound", "mpi": "unavailable", "kpi": "exact", "iopi": "exact"}
        thread = {"tid": 7, "pid": 7, "name": name, "start": start, "end": None, "quality": quality, "states": states}
        documents.append(
            {
                "schema": "headway.stat/1",
                "source": "bpf",
                "unit": "ns",
                "time_unit": "ns",
                "window": {"start": start, "end": end, "duration": end - start},
                "threads": [thread],
                "processors": [],
                "losses": {},
                "overhead": {"time": None, "events": None, "per_event": None},
                "advice": [],
            }
        )
    path.write_text("\n".join(map(json.dumps, documents)) + "\n")
    return path


# --- on a terminal ----------------------------------------------------------------------------------------------------


@each_source
def test_a_process_is_shown_on_a_terminal(source: str) -> None:
    with sleeper() as process, terminal("-p", str(process.pid), "--source", source, "-I", "200") as screen:
        screen.until(_LOOK, "headway top", "sleep", "1 thread", "quit")
        since = screen.press("\r")
        screen.until(f"process {process.pid}", "all states", since=since)
        screen.press("q")
        assert screen.end() == 0
        assert screen.text.rstrip().rfind("\x1b[?1049l") > 0
        assert process.poll() is None


@pytest.mark.parametrize("source", [pytest.param("bpf", marks=[pytest.mark.root, pytest.mark.exhaustive]), "proc"])
def test_a_command_keeps_its_output_and_its_exit_status(source: str) -> None:
    script = "echo to the terminal | tr a-z A-Z; echo of errors >&2; [ -t 0 ] && echo keyboard; exit 7"
    with terminal("--source", source, "-I", "100", "--", "sh", "-c", script) as screen:
        shown = screen.until("the command has ended")
        assert "TO THE TERMINAL" not in shown
        assert screen.process.poll() is None
        screen.press("q")
        assert screen.end() == 7
        after = screen.text[screen.text.rindex("\x1b[?1049l") :]
        assert "TO THE TERMINAL\r\nof errors\r\n" in after
        assert "keyboard\r\n" not in after


@pytest.mark.exhaustive
def test_a_command_s_standard_output_goes_where_it_was_sent(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        options = ("--source", "proc", "-I", "100", "--", "sh", "-c", "echo there; echo here >&2")
        with terminal(*options, stdout=out.fileno()) as screen:
            screen.until(_LOOK, "the command has ended")
            screen.press("q")
            assert screen.end() == 0
            assert "here" in screen.text[screen.text.rindex("\x1b[?1049l") :]
    assert (tmp_path / "out").read_text() == "there\n"


def test_a_command_goes_on_when_the_screen_is_left(tmp_path: Path) -> None:
    script = f"echo first; until [ -e {tmp_path}/go ]; do sleep 0.1; done; echo last; exit 3"
    with terminal("--source", "proc", "-I", "100", "--", "sh", "-c", script) as screen:
        screen.until(_LOOK, "threads")
        screen.press("q")
        screen.until("goes on", "Ctrl-C ends it", "first")
        (tmp_path / "go").touch()
        screen.until("last")
        assert screen.end() == 3


def test_signals_are_passed_on_to_a_command_and_end_the_screen() -> None:
    script = "trap 'echo asked; exit 9' TERM; while :; do sleep 0.1; done"
    with terminal("--source", "proc", "-I", "100", "--", "sh", "-c", script) as screen:
        screen.until(_LOOK, "threads")
        screen.process.send_signal(signal.SIGTERM)
        assert screen.end() == 9
        assert "asked" in screen.text


@pytest.mark.exhaustive
def test_a_signal_ends_it_and_leaves_the_terminal_as_it_was() -> None:
    with sleeper() as process, terminal("-p", str(process.pid), "--source", "proc") as screen:
        screen.until(_LOOK)
        screen.process.send_signal(signal.SIGTERM)
        assert screen.end() == 0


def test_what_is_chosen_ends_and_the_time_is_over() -> None:
    with sleeper() as process, terminal("-p", str(process.pid), "--source", "proc", "-I", "100") as screen:
        screen.until("1 thread")
        process.kill()
        screen.until("all that was chosen has ended")
        screen.press("q")
        assert screen.end() == 0
    with sleeper() as process, terminal("-p", str(process.pid), "--source", "proc", "-d", "0.1") as screen:
        assert screen.end() == 0


def test_a_terminal_that_goes_away_ends_it_and_not_the_command(tmp_path: Path) -> None:
    script = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done; touch {tmp_path}/done"
    with terminal("--source", "proc", "-I", "100", "--", "sh", "-c", script) as screen:
        screen.until(_LOOK, "threads")
        os.close(screen.master)
        os.close(screen._slave)
        screen.master, screen._slave = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)
        (tmp_path / "go").touch()
        screen.process.wait(200)
    deadline = time.monotonic() + 200
    while not (tmp_path / "done").exists():
        assert time.monotonic() < deadline, "the command has not gone on"
        time.sleep(0.05)


@pytest.mark.exhaustive
def test_a_terminal_that_is_too_small_gets_a_sentence() -> None:
    options = ("--source", "proc", "-I", "100")
    with sleeper() as process, terminal("-p", str(process.pid), *options, size=(30, 6)) as screen:
        screen.until("too small")
        screen.press("q")
        assert screen.end() == 0


@pytest.mark.exhaustive
def test_bytes_that_are_no_text_are_no_keys() -> None:
    with sleeper() as process, terminal("-p", str(process.pid), "--source", "proc", "-I", "100") as screen:
        screen.until("1 thread", "quit")
        os.write(screen.master, b"\xff\xfe\xc3(")
        since = screen.press("?")
        screen.until("kinds of time", since=since)
        since = screen.press("q")
        screen.until("quit", since=since)
        screen.press("q")
        assert screen.end() == 0


def test_top_can_be_stopped_and_goes_on() -> None:
    with sleeper() as process, terminal("-p", str(process.pid), "--source", "proc", "-I", "100") as screen:
        screen.until("1 thread", "quit")
        since = screen.press("\x1a")
        screen.until("\x1b[?1049l", since=since)
        while Path(f"/proc/{screen.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)
        since = len(screen.text)
        screen.process.send_signal(signal.SIGCONT)
        screen.until("\x1b[?1049h", "quit", since=since)
        screen.press("q")
        assert screen.end() == 0


def test_a_file_that_is_neither_measured_nor_a_program_is_said(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>")
    done = subprocess.run([*TOP, "page.html"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert "no recording" in done.stderr


def test_a_recording_and_a_document_are_shown_on_a_terminal(tmp_path: Path) -> None:
    write(tmp_path / "run.hw", Run(Random(2), longest=10**6, names=HOSTILE_NAMES[:6]), 6)
    with terminal(str(tmp_path / "run.hw")) as screen:
        shown = screen.until("1 of ", "quit")
        since = screen.press("]")
        screen.until("11 of ", since=since)
        screen.press("q")
        assert screen.end() == 0
        assert "\x1b[31m" not in shown
    with terminal(str(saved(tmp_path / "out.json", 3))) as screen:
        screen.until("1 of 3", "work")
        since = screen.press("G")
        screen.until("3 of 3", since=since)
        screen.press("\x03")
        assert screen.end() == 0


# --- without one ------------------------------------------------------------------------------------------------------


@each_source
def test_without_a_terminal_there_is_a_table_each_interval(source: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with sleeper() as process, out.open("w") as stream:
        words = [*TOP, "-p", str(process.pid), "--source", source, "-I", "200"]
        top = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=stream)
        deadline = time.monotonic() + 200
        while out.read_text().count("an interval of") < 3:
            assert time.monotonic() < deadline, "there are not three"
            time.sleep(0.05)
        top.send_signal(signal.SIGINT)
        assert top.wait(200) == 0
    assert re.search(rf"^sleep +{process.pid}", out.read_text(), re.MULTILINE)
    assert "\x1b" not in out.read_text()


def test_a_command_without_a_terminal_has_its_output_to_itself() -> None:
    done = run("--source", "proc", "-I", "100", "--", "sh", "-c", "echo mine; sleep 0.3; exit 4")
    assert done.returncode == 4
    assert done.stdout == "mine\n"
    assert "an interval of" in done.stderr


@pytest.mark.parametrize("options", [("--plain",), ()])
def test_a_terminal_that_cannot_draw_and_one_that_is_not_to(options: Sequence[str]) -> None:
    with sleeper() as process:
        words = ("-p", str(process.pid), "--source", "proc", "-I", "100", "-d", "0.4", *options)
        with terminal(*words, term="xterm" if options else "dumb") as screen:
            assert screen.end() == 0
            assert "an interval of" in screen.text
            assert _LOOK not in screen.text


def test_a_closed_pipe_ends_it() -> None:
    with sleeper() as process:
        words = [*TOP, "-p", str(process.pid), "--source", "proc", "-I", "100"]
        top = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert top.stdout is not None
        top.stdout.readline()
        top.stdout.close()
        assert top.wait(200) == 0
        assert top.stderr is not None
        assert top.stderr.read().count(b"\n") <= 1
        top.stderr.close()


def test_what_was_measured_before_is_a_table_once(tmp_path: Path) -> None:
    write(tmp_path / "run.hw", Run(Random(2), names=("work",)), 6)
    done = run(str(tmp_path / "run.hw"))
    assert done.returncode == 0
    assert re.search(r"^work +100", done.stdout, re.MULTILINE)
    done = run(str(saved(tmp_path / "out.json", 3)))
    assert re.search(r"^work +7 +1.80s", done.stdout, re.MULTILINE)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_what_it_cannot_show_is_refused_in_a_sentence(tmp_path: Path) -> None:
    refused(run(), "say what to measure")
    refused(run("nothing.hw"), "nothing.hw")
    refused(run("nothing.json"), "nothing.json")
    (tmp_path / "empty.hw").mkdir()
    refused(run(str(tmp_path / "empty.hw")), "recording.json")
    (tmp_path / "bad.json").write_text("{")
    refused(run(str(tmp_path / "bad.json")), "not JSON")
    document = str(saved(tmp_path / "out.json"))
    refused(run(document, "-I", "100"), "intervals of its own")
    refused(run(document, "-p", "1"), "is a saved measurement")
    refused(run(document, "-d", "1"), "is a saved measurement")
    refused(run("-p", "1", "--sort", "colour"), "--sort", "epi")
    refused(run("-p", "4194303"), "there is no process")
    refused(run("-p", "1", "--", "true"), "not both")


def test_what_fails_once_the_screen_is_there_is_a_sentence_too(tmp_path: Path) -> None:
    with terminal(str(tmp_path / "nothing.hw")) as screen:
        assert screen.end() == 125
        assert "no recording" in screen.text or "nothing.hw" in screen.text
        assert _LOOK not in screen.text
    with terminal("--source", "proc", "--", "/does/not/exist") as screen:
        assert screen.end() == 127
        assert "not found" in screen.text
