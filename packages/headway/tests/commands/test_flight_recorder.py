"""headway record --flight-recorder: what it keeps, with a made-up source, and with the real one."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from headway.commands import record as command
from headway.linux.options import Selection
from headway.model import Ledger, violations
from headway.recording import writer as recording
from headway.recording.format import part_name
from headway.recording.reader import Recording
from headway.recording.writer import RecordingWriter
from headway.session import flight, recorder
from headway.session.flight import FlightRecorder, event_paths
from headway.session.recorder import describe, record

from ..running import headway
from .test_record import Source, until

IN_A_HURRY = """
from headway.linux.sources.ebpf import depth_control as control
control.PERIOD_NS, control.HOLD_NS = 100_000_000, 1_000_000_000
from headway.commands import main
main()
"""
"""headway that looks ten times a second whether a condition holds, and sees calls for one more second."""


class DeepSource(Source):
    """A made-up run in which something is deep in some of the turns."""

    def __init__(self, turns: str, enough: Path) -> None:
        super().__init__()
        self._file = enough
        self._turns, self._turn, self.forgot = turns, 0, 0

    @property
    def deep(self) -> frozenset[str]:
        here = self._turns[self._turn % len(self._turns)]
        return frozenset() if here == "." else frozenset({f"thread {here}"})

    def service(self) -> float | None:
        self._turn += 1
        if self._turn > 60 and self.forgot:
            self._file.touch()
        return super().service()

    def interval(self) -> Ledger:
        self.forgot += 1
        return self.empty_ledger()

    def end_interval(self) -> Ledger:
        return super().end()

    def losses(self) -> dict[str, int]:
        return {}


@pytest.mark.parametrize(
    ("turns", "events"),
    [("." * 10_000, 0), ("...11122......2.." + "." * 10_000, 2), ("....1111" + "1" * 10_000, 1)],
    ids=["nothing happens", "two events", "one that is not over"],
)
def test_each_event_is_a_recording_and_the_ring_is_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: str, events: int
) -> None:
    monkeypatch.setattr(recorder, "TAKE_SECONDS", 0.01)
    monkeypatch.setattr(flight, "FORGET_SECONDS", 0.1)
    source = DeepSource(turns, tmp_path / "enough")
    said: list[str] = []
    writer = RecordingWriter(tmp_path / "a.hw", describe(Selection(), ()), seconds=0.0, longest=10_000)
    made: list[FlightRecorder] = []

    def make(source: DeepSource, writer: RecordingWriter, shown: Callable[[], None]) -> FlightRecorder:
        made.append(FlightRecorder(source, writer, shown, said.append))
        return made[0]

    command = until(tmp_path / "enough")
    observation, error = record(lambda _: source, writer, Selection(everything=True), command, recorder=make)
    (tmp_path / "enough").unlink()
    assert error == ""
    assert source.forgot > 0
    assert observation.ledger.window.duration > 0
    assert made[0].events == [str(tmp_path / f"a-{n + 1}.hw") for n in range(events)]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.hw", *(Path(p).name for p in made[0].events)])
    for path in made[0].events:
        with Recording(path) as event:
            assert event.damaged == {}
            assert "thread" in event.document.event
            assert violations(event.ledger()) == []
    with Recording(tmp_path / "a.hw") as ring:
        assert ring.closed
        assert ring.kept_ledger() is None
        assert violations(ring.ledger()) == []
        assert ring.dropped_parts > 0
    assert len(said) == 2 * events


def test_names_of_events_are_free_ones(tmp_path: Path) -> None:
    (tmp_path / "a-2.hw").mkdir()
    paths = event_paths(str(tmp_path / "a.hw"))
    assert [next(paths), next(paths)] == [str(tmp_path / "a-1.hw"), str(tmp_path / "a-3.hw")]
    assert next(event_paths(str(tmp_path / "plain.x"))) == str(tmp_path / "plain.x-1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--flight-recorder", "60", "--max-time", "60"], "leave out --max-time"),
        (["--flight-recorder", "0"], "no length of time"),
        (["--when", "ready"], "is missing at its end"),
        (["--when", "redy > 20 %"], "ready is one"),
        (["--when", "ready > 20 %", "--level", "switches"], "leave out --level"),
        (["--when", "ready > 20 %", "--budget", "1%"], "leave out --budget"),
        (["--when", "ready > 20 %", "-e", "cycles"], "leave out --when"),
        (["--flight-recorder", "60", "-e", "cycles"], "give --level calls or interrupts"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(options: list[str], words: str) -> None:
    found = CliRunner().invoke(command.command, [*options, "--", "true"])
    assert found.exit_code == 2
    assert words in re.sub(r"\s+", " ", found.output)
    assert "Traceback" not in found.output


PROGRAM = """
import os, sys
for line in sys.stdin:
    for i in range(20000): os.getppid()
    print(flush=True)
"""


@pytest.mark.root
def test_an_event_has_the_calls_and_what_was_before(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-c",
        IN_A_HURRY,
        "record",
        "--flight-recorder",
        "2",
        "--when",
        "process: running > 1 %",
        "-o",
        "a.hw",
    ]
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], **piped) as program:  # type: ignore[call-overload]

        def call() -> None:
            program.stdin.write(b"\n")
            program.stdin.flush()
            program.stdout.readline()

        pid = str(program.pid)
        with subprocess.Popen([*words, "-p", pid], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as recorder:
            assert recorder.stderr is not None
            read, said = recorder.stderr.readline, list[str]()
            reader = threading.Thread(target=lambda: said.extend(iter(read, "")), daemon=True)
            reader.start()
            while not said:  # that an event has begun
                assert recorder.poll() is None
                call()
            call()
            while len(said) < 2:  # that it is over
                assert recorder.poll() is None
                time.sleep(0.05)
            recorder.send_signal(signal.SIGINT)
            assert recorder.wait() == 0, said
            reader.join()
        program.stdin.close()
    assert "events: a-1.hw" in "".join(said)
    with Recording(tmp_path / "a-1.hw") as event:
        assert f"process {pid}" in event.document.event
        found = event.ledger()
    assert violations(found) == []
    (thread,) = found.threads
    assert (thread.states["kernel.getppid"].count or 0) >= 20_000
    assert any(state.startswith("wait.") for state in thread.states)
    assert thread.states["running"].time > 0, "before the event it was not divided"


@pytest.mark.root
def test_without_a_condition_it_keeps_the_last_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "RecordingWriter", partial(RecordingWriter, seconds=0.1))
    monkeypatch.setattr(recorder, "TAKE_SECONDS", 0.05)
    first = tmp_path / "a.hw" / "transitions" / part_name(0)
    waits = f"until [ -e {first} ]; do sleep 0.05; done; while [ -e {first} ]; do sleep 0.05; done"
    done = headway("record", "--flight-recorder", "0.2", "-o", tmp_path / "a.hw", "--", "sh", "-c", waits)
    assert done.returncode == 0, done.stderr
    assert "events" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.hw"]
    with Recording(tmp_path / "a.hw") as ring:
        assert ring.dropped_parts > 0
        assert violations(ring.ledger()) == []
