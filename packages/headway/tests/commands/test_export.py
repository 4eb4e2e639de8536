"""``headway export`` of recordings: what it writes where, and what it refuses in one sentence."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pty
import shutil
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from tests.compiling import script
from tests.perfetto import read
from tests.recordings import Run, document
from tests.running import Written, headway, headway_bytes

from headway.recording.reader import Recording
from headway.recording.writer import RecordingWriter

HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
FULL = Path("/dev/full")
NAMES = ("work", "[red]\x1b[31m", "two\nlines", "\udcff", "n" * 10_000)


def export(*words: str | Path, stdout: int | None = None) -> Written:
    return headway_bytes("export", *words, stdout=stdout)


def refused(*words: str | Path, stdout: int | None = None) -> str:
    """One sentence on standard error, nothing else, and 125."""
    done = export(*words, stdout=stdout)
    text = done.stderr.decode()
    assert done.returncode == 125, text
    assert text.startswith("headway: ")
    assert text.count("\n") == 1
    assert not done.stdout
    return text


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "run.hw"
    run = Run(Random(7), names=NAMES, start=10**9, longest=10**8)
    writer = RecordingWriter(path, document(run.start), rows=50)
    for batch in run.batches(6, 40):
        writer.add(batch)
    batch, ledger = run.end()
    writer.add(batch)
    writer.close(ledger)
    return path


def test_every_format_is_written_and_says_nothing(recorded: Path, tmp_path: Path) -> None:
    for kind in ("perfetto", "chrome", "csv", "parquet", "speedscope", "folded", "pprof"):
        out = tmp_path / kind
        done = export(recorded, "--to", kind, "-o", out)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert out.stat().st_size
        assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~_umask()
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
    assert json.loads((tmp_path / "chrome").read_bytes())["traceEvents"]
    assert json.loads((tmp_path / "speedscope").read_bytes())["profiles"]
    assert gzip.decompress((tmp_path / "pprof").read_bytes())
    assert pq.read_table(tmp_path / "parquet").num_rows


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_standard_output_and_a_compressed_file_have_the_same(recorded: Path, tmp_path: Path) -> None:
    for kind in ("perfetto", "chrome"):
        export(recorded, "--to", kind, "-o", tmp_path / "out.gz")
        written = gzip.decompress((tmp_path / "out.gz").read_bytes())
        assert written == export(recorded, "--to", kind).stdout
    words = [*HEADWAY, "export", str(recorded), "--to", "chrome", "-o", "/dev/stdout"]
    assert subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout == written


def test_threads_and_times_are_chosen(recorded: Path) -> None:
    lines = export(recorded, "--to", "csv", "--name", "wo*", "--from", "50ms", "--until", "0.2s").stdout.decode()
    rows = list(csv.DictReader(io.StringIO(lines, newline="")))
    assert rows
    assert {row["name"] for row in rows} == {"work"}
    assert all(1_050_000_000 <= int(row["time"]) < 1_200_000_000 for row in rows)
    again = export(recorded, "--to", "csv", "-t", rows[0]["tid"]).stdout.decode()
    assert {row["tid"] for row in csv.DictReader(io.StringIO(again, newline=""))} == {rows[0]["tid"]}


def test_stacks_of_states_can_be_narrowed(recorded: Path) -> None:
    lines = export(recorded, "--to", "folded", "--index", "wait").stdout.decode().splitlines()
    assert lines
    assert all(line.rpartition(" ")[0].endswith(("[wait.futex]", "[wait.disk]", "[stopped]")) for line in lines)
    assert any(";woken by " in line for line in lines)


def test_what_makes_no_sense_is_refused_and_leaves_the_file_that_is_there(recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"precious")
    (tmp_path / "empty").mkdir()
    assert "is not a recording" in refused(tmp_path / "empty", "--to", "perfetto", "-o", out)
    assert "nowhere" in refused(tmp_path / "nowhere", "--to", "csv", "-o", out)
    assert "--index" in refused(recorded, "--to", "csv", "--index", "wait", "-o", out)
    assert "has no such thread" in refused(recorded, "--to", "csv", "--name", "nobody", "-o", out)
    assert "is not an instant" in refused(recorded, "--to", "csv", "--from", "soon", "-o", out)
    assert "--from" in refused(recorded, "--to", "csv", "--from", "1h", "-o", out)
    assert "svg" in refused(recorded, "--to", "svg", "-o", out)
    assert "cannot be written" in refused(recorded, "--to", "perfetto", "-o", tmp_path / "no" / "file")
    assert "cannot be written" in refused(recorded, "--to", "perfetto", "-o", tmp_path)
    assert "over or into" in refused(recorded, "--to", "perfetto", "-o", recorded / "recording.json")
    assert out.read_bytes() == b"precious"
    assert sorted(tmp_path.iterdir()) == [tmp_path / "empty", out]


def test_a_binary_format_is_not_for_a_terminal(recorded: Path) -> None:
    for kind in ("perfetto", "parquet", "pprof"):
        main, terminal = pty.openpty()
        try:
            assert "terminal" in refused(recorded, "--to", kind, stdout=terminal)
        finally:
            os.close(main)
            os.close(terminal)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_said(recorded: Path) -> None:
    for kind in ("perfetto", "parquet"):
        assert "No space left" in refused(recorded, "--to", kind, "-o", FULL)
    for kind in ("chrome", "csv"):
        with FULL.open("wb") as full:
            text = refused(recorded, "--to", kind, stdout=full.fileno())
            assert "No space left" in text


def test_a_long_export_shows_on_a_terminal_how_far_it_is(recorded: Path, tmp_path: Path) -> None:
    for quiet in ([], ["-q"]):
        ours, theirs = pty.openpty()
        words = ["export", recorded, "--to", "chrome", "-o", tmp_path / "out", *quiet]
        command = [*script("progress_shown_at_once"), *map(str, words)]
        done = subprocess.run(command, stderr=theirs, env={**os.environ, "TERM": "xterm"}, check=False)
        os.close(theirs)
        text = b""
        try:
            while batch := os.read(ours, 65536):
                text += batch
        except OSError:  # the terminal's other end was closed
            pass
        os.close(ours)
        assert done.returncode == 0
        assert (b"transitions, " in text) == (not quiet)


def test_a_reader_that_goes_away_is_no_error(recorded: Path) -> None:
    for kind in ("perfetto", "csv"):
        ours, theirs = os.pipe()
        os.close(ours)
        with open(theirs, "wb") as pipe:
            done = export(recorded, "--to", kind, stdout=pipe.fileno())
        assert (done.returncode, done.stderr) == (0, b"")


def test_what_is_damaged_is_said_and_the_rest_exported(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.hw"
    shutil.copytree(recorded, path)
    parts = sorted((path / "transitions").iterdir())
    parts[1].write_bytes(parts[1].read_bytes()[:100])
    done = export(path, "--to", "perfetto", "-o", tmp_path / "out")
    assert done.returncode == 0
    assert done.stderr.decode().count("\n") == 1
    assert "left out" in done.stderr.decode()
    assert (tmp_path / "out").stat().st_size


@pytest.mark.root
@pytest.mark.exhaustive  # it needs perfetto's schema
def test_the_trace_of_a_real_program_is_what_the_kernel_counted(tmp_path: Path) -> None:
    path, out = tmp_path / "run.hw", tmp_path / "run.pftrace"
    assert headway("record", "-q", "-o", path, "--", *script("queue_echo")).returncode == 0
    assert export(path, "--to", "perfetto", "-o", out).stderr == b""
    with Recording(path) as recording:
        ledger = recording.kept_ledger()
    assert ledger is not None
    found = read(out.read_bytes())
    times: Counter[tuple[int, str]] = Counter()
    for one in found.slices:
        tid, taken = found.tracks[one.track].tid, int(one.notes.get("taken", 0))
        times[tid, one.name] += one.end - one.start - taken
        times[tid, "overhead"] += taken
    for one in found.instants:
        tid, amount = found.tracks[one.track].tid, int(one.notes.get("amount", 0))
        times[tid, one.name] += amount
        times[tid, "overhead"] -= amount
    expected = {(thread.tid, state): cell.time for thread in ledger.threads for state, cell in thread.states.items()}
    assert {key: time for key, time in times.items() if time and key[0]} == {k: v for k, v in expected.items() if v}
    assert len(found.flows) > 50
