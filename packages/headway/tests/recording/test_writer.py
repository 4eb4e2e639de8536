"""A recording while it is written: parts, limits, faults; whoever looks sees whole parts."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.model import Batch, ThreadSeen, violations
from headway.recording import target
from headway.recording import writer as writing
from headway.recording.format import SCHEMAS, TRANSITIONS, part_name
from headway.recording.kept import KeptPart, KeptParts
from headway.recording.reader import Recording
from headway.recording.writer import RecordingWriter

from ..recordings import Run, document
from .test_ledger import QUICK, finish, plain, seeds, write

TABLES = ("transitions", "threads", "open", "losses")


def test_every_file_has_the_format_s_columns(tmp_path: Path) -> None:
    write(tmp_path / "a.hw", Run(Random(1)), 6, rows=10)
    files = list((tmp_path / "a.hw").glob("*/*.parquet"))
    assert {file.parent.name for file in files} == {*TABLES, "states", "processors"}
    for file in files:
        schema = TRANSITIONS if file.parent.name == "transitions" else SCHEMAS[file.parent.name]
        assert pq.read_schema(file).equals(schema), file


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    write(tmp_path / "a.hw", Run(Random(1)), 2)
    for path in [tmp_path / "a.hw", *(tmp_path / "a.hw").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_rows_are_in_the_order_of_the_format(tmp_path: Path) -> None:
    write(tmp_path / "a.hw", Run(Random(2), longest=60_000_000), 30)
    file = pq.ParquetFile(tmp_path / "a.hw" / "transitions" / part_name(0))
    groups = [file.read_row_group(at).to_pylist() for at in range(file.num_row_groups)]
    assert len(groups) == 2
    short, long = groups
    assert all(row["duration"] < 100_000_000 for row in short)
    assert all(row["duration"] >= 100_000_000 for row in long)
    keys = [(-1 if row["cpu"] is None else row["cpu"], row["time"]) for row in short]
    assert keys == sorted(keys)
    assert [row["time"] for row in long] == sorted(row["time"] for row in long)


@settings(deadline=None, phases=QUICK, max_examples=10)
@given(seeds, st.integers(1, 4))
def test_rows_are_read_as_they_were_written(seed: int, batches: int) -> None:
    """Also those columns that a batch need not have."""
    run = Run(Random(seed))
    written: list[Batch] = []
    with TemporaryDirectory() as scratch:
        writer = RecordingWriter(Path(scratch) / "run.hw", document(run.start), rows=7)
        for batch in run.batches(batches, 20):
            writer.add(batch)
            written.append(batch)
        batch, ledger = run.end()
        writer.add(batch)
        written.append(batch)
        writer.close(ledger)
        with Recording(Path(scratch) / "run.hw") as recording:
            read = list(recording.batches())
    assert _rows(read) == _rows(written)


def _rows(batches: Sequence[Batch]) -> list[tuple[int | str, ...]]:
    found: list[tuple[int | str, ...]] = []
    for batch in batches:
        rows = batch.transitions
        futex = [0] * len(rows) if rows.futex is None else rows.futex.tolist()
        columns = (rows.time, rows.duration, rows.taken, rows.cpu, rows.thread, rows.count, rows.waker, rows.waker_tid)
        states = [rows.states[number] for number in rows.state.tolist()]
        found += zip(*(column.tolist() for column in columns), states, futex, strict=True)
    return sorted(found)


def test_a_recording_can_be_read_while_it_grows(tmp_path: Path) -> None:
    run = Run(Random(4))
    writer = RecordingWriter(tmp_path / "a.hw", document(run.start), rows=1)
    rows = 0
    for batch in run.batches(10, 20):
        writer.add(batch)
        with Recording(tmp_path / "a.hw") as recording:
            assert recording.damaged == {}
            assert recording.rows >= rows
            assert violations(recording.ledger()) == []
            rows = recording.rows
    finish(writer, run)


def test_what_little_comes_is_written_when_it_is_time(tmp_path: Path) -> None:
    run = Run(Random(4))
    writer = RecordingWriter(tmp_path / "a.hw", document(run.start), seconds=0.0)
    for batch in run.batches(3, 2):
        writer.add(batch)
    writer.abandon()
    with Recording(tmp_path / "a.hw") as recording:
        assert len(recording.parts) == 3


def test_the_first_part_does_not_wait_for_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "FIRST_SECONDS", 0.0)
    run = Run(Random(4))
    writer = RecordingWriter(tmp_path / "a.hw", document(run.start), seconds=1000.0)
    first, *others = run.batches(5, 20)
    for batch in (first, *others):
        writer.add(batch)
    writer.abandon()
    with Recording(tmp_path / "a.hw") as recording:
        (part,) = recording.parts
        assert (part.start, part.end, part.rows) == (first.start, first.end, len(first.transitions))


@settings(deadline=None, phases=QUICK, max_examples=50)
@given(st.lists(st.sets(st.integers(0, 40)), min_size=1, max_size=12), st.integers(1, 40))
def test_the_parts_that_are_kept_name_no_more_threads_than_they_may(parts: list[set[int]], most: int) -> None:
    """Whoever a dropped part named is named by the first one that is left."""
    kept = KeptParts(None, 1 << 40, most)
    named: dict[int, ThreadSeen] = {}
    for number, threads in enumerate(parts):
        news = {n: ThreadSeen(n, n + 1, 1, f"of {number}", 0, 0, None) for n in threads}
        while kept.too_many(0, number, len(news)):
            kept.drop()
        kept.add(KeptPart(number, number, number + 1, {}, threads=news))
        named |= news
        there: dict[int, ThreadSeen] = {}
        for part in kept._parts:
            there |= part.threads
        assert there == named
        assert len(kept._parts) <= 2 or sum(len(part.threads) for part in kept._parts) <= most


@settings(deadline=None, phases=QUICK, max_examples=20)
@given(seeds, st.integers(20_000, 60_000))
def test_a_recording_stays_within_its_size(seed: int, most: int) -> None:
    run = Run(Random(seed))
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "a.hw"
        writer = RecordingWriter(path, document(run.start), rows=30, most_bytes=most)
        largest, write_part = 0, writer._target.write_part

        def watched(table: str, number: int, data: pa.Buffer) -> None:
            nonlocal largest
            write_part(table, number, data)
            if len(list((path / "transitions").glob("*.parquet"))) > 2:  # the newest is kept, whatever its size
                largest = max(largest, _size(path))

        writer._target.write_part = watched  # type: ignore[method-assign]
        for batch in run.batches(25, 30):
            writer.add(batch)
        ledger = finish(writer, run)
        assert largest <= most
        assert writer.bytes == _size(path)
        assume(writer.dropped_parts > 0)
        with Recording(path) as recording:
            assert recording.damaged == {}
            assert recording.dropped_parts == recording.document.dropped_parts == writer.dropped_parts
            assert recording.window.start == writer.complete_from == recording.document.complete_from
            assert recording.rows == writer.rows_kept
            found, kept = recording.ledger(), recording.kept_ledger()
        assert kept is not None
        assert plain(kept) == plain(ledger)  # what was counted meanwhile is of all of it
        assert violations(found) == []
        assert "dropped" in found.reasons["recording"]
        # Of what is kept everything is known: each thread, by name, from the beginning to the end.
        named = {t.key: t.name for t in kept.threads}
        for thread in found.threads:
            assert thread.name == named[thread.key]
            assert thread.span == thread.until - thread.start
        for processor in found.processors:
            assert processor.span == found.window.duration


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.glob("*/*.parquet"))


def test_a_recording_stays_within_its_time(tmp_path: Path) -> None:
    run = Run(Random(6))
    writer = RecordingWriter(tmp_path / "a.hw", document(run.start), rows=20, longest=20_000)
    for batch in run.batches(40, 20):
        writer.add(batch)
    finish(writer, run)
    with Recording(tmp_path / "a.hw") as recording:
        first = recording.parts[0]
        assert recording.dropped_parts > 0
        assert first.end > run.now - 20_000
        assert recording.window.end - first.end <= 20_000


def test_a_ring_that_was_not_closed_is_whole_from_its_first_part_on(tmp_path: Path) -> None:
    run = Run(Random(7))
    writer = RecordingWriter(tmp_path / "a.hw", document(run.start), rows=30, most_bytes=60_000)
    for batch in run.batches(40, 30):
        writer.add(batch)
    writer.abandon()
    with Recording(tmp_path / "a.hw") as recording:
        assert recording.dropped_parts > 0
        found = recording.ledger()
    assert violations(found) == []
    for thread in found.threads:
        assert thread.span == thread.until - thread.start


@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_nothing_that_is_there_is_touched(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.hw"
    if what == "folder":
        path.mkdir()
        (path / "mine").write_text("x")
    elif what == "file":
        path.write_text("x")
    else:
        path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(HeadwayError, match="is there already"):
        RecordingWriter(path, document(0))
    assert [p.name for p in tmp_path.iterdir()] == ["a.hw"]
    assert what != "folder" or (path / "mine").read_text() == "x"


def test_a_recording_can_be_written_into_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "a.hw").mkdir()
    ledger = write(tmp_path / "a.hw", Run(Random(1)), 2)
    with Recording(tmp_path / "a.hw") as recording:
        assert plain(recording.ledger()) == plain(ledger)


@pytest.mark.parametrize("name", ["no/such/a.hw", "file/a.hw", "x" * 300, "nul\0"])
def test_where_no_recording_can_be(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadwayError, match="give another name with -o"):
        RecordingWriter(tmp_path / name, document(0))
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_one_that_has_not_begun_goes_away(tmp_path: Path) -> None:
    RecordingWriter(tmp_path / "a.hw", document(0)).abandon()
    assert list(tmp_path.iterdir()) == []


def test_what_others_put_there_meanwhile_stays(tmp_path: Path) -> None:
    (tmp_path / "a.hw").mkdir()
    writer = RecordingWriter(tmp_path / "a.hw", document(0))
    (tmp_path / "a.hw" / "theirs").write_text("kept")
    writer.abandon()
    assert [path.name for path in (tmp_path / "a.hw").iterdir()] == ["theirs"]


@pytest.mark.parametrize("table", TABLES)
def test_a_full_disk_is_said_and_what_was_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    run, path = Run(Random(9)), tmp_path / "a.hw"
    writer = RecordingWriter(path, document(run.start), rows=1)
    write_file = target._write

    def full(file: Path, data: bytes | memoryview) -> None:
        if file.parent.name == table and file.name > part_name(2):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_file(file, data)

    monkeypatch.setattr(target, "_write", full)
    with pytest.raises(HeadwayError, match=r"No space left on device.*can be read"):
        _go_on(writer, run)
    writer.abandon()
    with Recording(path) as recording:
        assert recording.damaged == {}
        assert [part.number for part in recording.parts[:3]] == [0, 1, 2]
        assert violations(recording.ledger()) == []
    assert not list(path.rglob("*.new"))


def test_a_file_that_may_not_grow_is_said(tmp_path: Path) -> None:
    """The same from the kernel itself: a limit on the size of files."""
    run, path = Run(Random(9)), tmp_path / "a.hw"
    writer = RecordingWriter(path, document(run.start), rows=1)
    for batch in run.batches(2, 20):
        writer.add(batch)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        with pytest.raises(HeadwayError, match="File too large"):
            _go_on(writer, run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    writer.abandon()
    with Recording(path) as recording:
        assert recording.damaged == {}


def _go_on(writer: RecordingWriter, run: Run) -> None:
    for batch in run.batches(100, 20):
        writer.add(batch)
    finish(writer, run)


def test_no_thread_of_arrow_reads_or_writes(tmp_path: Path) -> None:
    """Such a thread may let go of a Python stream while Python ends, and that ends the process."""
    code = (
        "import os, sys, random, pyarrow.parquet, pyarrow.compute\n"
        "from tests.recordings import Run, document\n"
        "from headway.recording.reader import Recording\n"
        "from headway.recording.writer import RecordingWriter\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "run = Run(random.Random(1))\n"
        "writer = RecordingWriter(sys.argv[1], document(run.start))\n"
        "for batch in run.batches(5, 50): writer.add(batch)\n"
        "last, ledger = run.end()\n"
        "writer.add(last); writer.close(ledger)\n"
        "with Recording(sys.argv[1]) as found:\n"
        "    found.ledger(), found.kept_ledger(), found.losses(), list(found.batches())\n"
        "print(len(os.listdir('/proc/self/task')) - before)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.hw"],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=60,
    )
    assert told.stdout == "0\n"
