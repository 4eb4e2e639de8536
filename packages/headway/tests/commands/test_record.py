"""headway record and headway report: with a source of made-up but lawful runs, and with the real one."""

from __future__ import annotations

import errno
import importlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from tests.compiling import Compile
from tests.effort import FEW

from headway.cli.parameters import RecordingSize
from headway.commands import record as command
from headway.commands import report
from headway.errors import HeadwayError
from headway.linux.options import Selection
from headway.model import Batch, Ledger, violations
from headway.recording import target
from headway.recording.format import part_name
from headway.recording.reader import Recording
from headway.recording.writer import RecordingWriter
from headway.session import recorder
from headway.session.recorder import describe, record

from ..recording.test_ledger import plain
from ..recordings import Run, empty_ledger
from ..running import headway

HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]


class Source:
    """Hands over a made-up run (`RecordingSource`)."""

    name = "bpf"

    def __init__(self, seed: int = 1, fault: str = "", enough: Path | None = None) -> None:
        """``enough``: a file that is made once some batches were handed over."""
        self.run = Run(Random(seed))
        self._enough, self._batches = enough, 0
        self.closed = False
        self.ledger: Ledger | None = None
        self._last: Batch | None = None
        self._fault = fault

    def begin(self) -> None:
        if self._fault:
            raise HeadwayError(self._fault)

    def empty_ledger(self) -> Ledger:
        return empty_ledger(self.run.start)

    def poll_fds(self) -> Iterable[int]:
        return ()

    def service(self) -> float | None:
        for _ in range(50):
            self.run._move()
        return 0.01

    @property
    def waiting(self) -> int:
        return len(self.run._rows)

    def take(self) -> Batch:
        batch, self._last = self._last, None
        self._batches += 1
        if self._enough is not None and self._batches > 5:
            self._enough.touch()
        return self.run.batch() if batch is None else batch

    def wait_until_exit_is_seen(self, pid: int) -> None:
        pass

    def read(self) -> Ledger:
        raise NotImplementedError

    interval = end_interval = read

    def end(self) -> Ledger:
        self._last, self.ledger = self.run.end()
        return self.ledger

    def close(self) -> None:
        self.closed = True


def until(file: Path) -> tuple[str, ...]:
    """A command that ends once the file is there."""
    return "sh", "-c", f"until [ -e {file} ]; do sleep 0.05; done"


def start(path: Path, **limits: float) -> tuple[Source, RecordingWriter]:
    source = Source()
    return source, RecordingWriter(path, describe(Selection(), ()), **limits)  # type: ignore[arg-type]


def test_what_is_recorded_is_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "TAKE_SECONDS", 0.05)
    source = Source(enough=tmp_path / "enough")
    writer = RecordingWriter(tmp_path / "a.hw", describe(Selection(), ()), seconds=0.0)
    observation, error = record(lambda _: source, writer, Selection(everything=True), until(tmp_path / "enough"))
    assert error == ""
    assert source.closed
    with Recording(tmp_path / "a.hw") as recording:
        assert recording.closed
        assert len(recording.parts) > 2
        assert recording.document.exit_status == 0
        assert plain(recording.ledger()) == plain(observation.ledger)
        assert recording.ledger().precision == observation.ledger.precision


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -TERM $$", -signal.SIGTERM), ("sleep 0.3", 0)])
def test_the_command_s_exit_status_is_kept(tmp_path: Path, script: str, status: int) -> None:
    source, writer = start(tmp_path / "a.hw")
    observation, _ = record(lambda _: source, writer, Selection(), ("sh", "-c", script))
    assert observation.exit_status == status
    with Recording(tmp_path / "a.hw") as recording:
        assert recording.document.exit_status == status


def test_the_status_comes_after_the_recording_was_closed(tmp_path: Path) -> None:
    source, writer = start(tmp_path / "a.hw")
    record(lambda _: source, writer, Selection(), ("sh", "-c", "sleep 0.5; exit 4"), seconds=0.1)
    with Recording(tmp_path / "a.hw") as recording:
        assert recording.closed
        assert recording.document.exit_status == 4


def test_where_measuring_does_not_begin_nothing_is_left(tmp_path: Path) -> None:
    source, writer = Source(fault="no"), RecordingWriter(tmp_path / "a.hw", describe(Selection(), ()))
    with pytest.raises(HeadwayError, match="no"):
        record(lambda _: source, writer, Selection(), ("true",))
    assert source.closed
    assert list(tmp_path.iterdir()) == []


def test_where_the_command_is_not_found_nothing_is_left(tmp_path: Path) -> None:
    source, writer = start(tmp_path / "a.hw")
    with pytest.raises(HeadwayError, match="not found"):
        record(lambda _: source, writer, Selection(), ("/no/such/program",))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_command_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = target._write

    def full(file: Path, data: bytes | memoryview) -> None:
        if file.name > part_name(1) and file.suffix == ".parquet":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, data)

    monkeypatch.setattr(target, "_write", full)
    source, writer = start(tmp_path / "a.hw", seconds=0.0)
    said: list[str] = []
    observation, error = record(
        lambda _: source,
        writer,
        Selection(),
        ("sh", "-c", f"sleep 1.5; echo done > {tmp_path}/done; exit 5"),
        failed=said.append,
    )
    assert observation.exit_status == 5
    assert (tmp_path / "done").exists()
    assert said == [error]
    assert "No space left on device" in error
    with Recording(tmp_path / "a.hw") as recording:
        assert not recording.closed
        assert len(recording.parts) == 2
        assert violations(recording.ledger()) == []


@pytest.mark.parametrize(
    ("text", "size"), [("1M", 1 << 20), ("500m", 500 << 20), ("2GiB", 2 << 30), ("1T", 1 << 40), ("1048576", 1 << 20)]
)
def test_a_size_of_a_recording_is_parsed(text: str, size: int) -> None:
    assert RecordingSize().convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "1", "1K", "-5M", "1.5G", "M", "5X", "9" * 20, "١M"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    found = CliRunner().invoke(command.command, ["--max-size", text, "--", "true"])
    assert found.exit_code == 2
    assert "is no size" in found.output


@pytest.mark.parametrize("name", ["record", "profile", "stat", "cpu"])
def test_options_behind_a_command_are_the_command_s(name: str) -> None:
    measuring = importlib.import_module(f"headway.commands.{name}").command
    context = measuring.make_context(name, ["-o", "ours", "cc", "-o", "theirs", "-q", "--no-such"])
    assert context.params["output"] == "ours"
    assert context.params["argv"] == ("cc", "-o", "theirs", "-q", "--no-such")
    assert not context.params.get("quiet")


def test_what_only_stat_can_do_is_said() -> None:
    for option in (["--source", "proc"], ["--why", "wait"]):
        assert CliRunner().invoke(command.command, [*option, "--", "true"]).exit_code == 2


def test_without_privileges_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "may_use_bpf", lambda: False)
    found = CliRunner().invoke(command.command, ["-o", str(tmp_path / "a.hw"), "--", "true"])
    assert isinstance(found.exception, HeadwayError)
    assert "run as root" in str(found.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_report_of_a_recording_is_its_ledger(tmp_path: Path) -> None:
    source, writer = start(tmp_path / "a.hw")
    observation, _ = record(lambda _: source, writer, Selection(), ("true",))
    documents = []
    for option in ([], ["--from-transitions"]):
        found = CliRunner().invoke(report.command, ["--json", *option, str(tmp_path / "a.hw")])
        assert found.exit_code == 0, found.output
        documents.append(json.loads(found.output))
        assert documents[-1]["source"] == "recording"
        assert documents[-1]["exit_status"] == 0
    threads = [sorted(d["threads"], key=lambda t: (t["tid"], t["start"])) for d in documents]
    assert len(threads[0]) == len(threads[1]) == len(observation.ledger.threads)
    for one, other in zip(*threads, strict=True):
        assert sorted(map(str, one.pop("states"))) == sorted(map(str, other.pop("states")))
        assert one == other
    found = CliRunner().invoke(report.command, ["-v", str(tmp_path / "a.hw")])
    assert found.exit_code == 0
    assert "RPI" in found.output
    out = tmp_path / "report.txt"
    assert CliRunner().invoke(report.command, ["-o", str(out), str(tmp_path / "a.hw")]).exit_code == 0
    assert "RPI" in out.read_text()


def test_a_report_of_what_is_no_recording(tmp_path: Path) -> None:
    done = headway("report", tmp_path / "nowhere")
    assert done.returncode == 125
    assert done.stderr.startswith("headway: ")
    assert len(done.stderr.splitlines()) == 1


def test_stat_does_not_load_what_recordings_need() -> None:
    code = (
        "import sys, headway, headway.commands.stat, headway.linux.sources.ebpf; "
        "print({'numpy', 'pyarrow'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.root
def test_a_real_program_is_recorded(tmp_path: Path, compile_c: Compile) -> None:
    program, rounds = compile_c("two_threads"), 4000 if FEW else 20_000
    path = tmp_path / "run.hw"
    done = headway("record", "-o", path, "--", program, rounds)
    assert done.returncode == 7, done.stderr
    assert re.search(r"lost: (0|stolen unplaced [\d.]+ .s)\n", done.stderr), done.stderr
    told = re.search(r" has ([\d,]+) transitions of ", done.stderr)
    report = headway("report", path).stdout
    measured = re.search(r"^measured ([\d,]+) events, ", report, re.MULTILINE)
    assert "transitions" not in report, "only rows of a recording have that name"
    with Recording(path) as recording:
        kept_events = recording.document.ledger.overhead.events
        assert (told and told[1], measured and measured[1]) == (f"{recording.rows:,}", f"{kept_events:,}")
        assert recording.closed
        assert recording.damaged == {}
        found, kept = recording.ledger(), recording.kept_ledger()
        assert recording.document.command == (str(program), str(rounds))
        assert recording.document.exit_status == 7
        calls = sum(
            row["count"]
            for table in recording.tables("transitions")
            for row in table.select(["state", "count"]).to_pylist()
            if row["state"] == "kernel.getppid"
        )
    assert calls == 10 * rounds
    assert kept is not None
    assert plain(found) == plain(kept)


@pytest.mark.root
def test_recording_the_whole_machine_ends_at_the_limit(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c("two_threads")
    path = tmp_path / "run.hw"
    done = headway("record", "-a", "--max-size", "1M", "-o", path, "--", program)
    assert done.returncode == 7, done.stderr
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    assert size <= 1 << 20
    with Recording(path) as recording:
        assert recording.damaged == {}
        assert violations(recording.ledger()) == []
        assert recording.kept_ledger() is not None
