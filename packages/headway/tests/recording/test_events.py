"""Events of a ring: each is a recording of its own, with what was before it, and the ring goes on."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.model import violations
from headway.recording.reader import Recording
from headway.recording.writer import RecordingWriter

from ..effort import FEW
from ..recordings import Run, document, empty_ledger
from .test_ledger import QUICK, finish, seeds

LONGEST = 20_000
"""Of the ring, in time units; the run moves on by some hundreds at once."""


@settings(deadline=None, phases=QUICK, max_examples=4 if FEW else 20)
@given(seeds, st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=4))
def test_an_event_has_all_from_the_ring_s_length_before_it_to_its_end(seed: int, plan: list[tuple[int, int]]) -> None:
    """`plan`: batches before each event, and in it."""
    run = Run(Random(seed))
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "a.hw"
        writer = RecordingWriter(path, document(run.start), rows=20, longest=LONGEST)
        expected = []
        for number, (before, during) in enumerate(plan):
            for batch in run.batches(before, 20):
                writer.add(batch)
            began = writer.until
            writer.hold()
            for batch in run.batches(during, 20):
                writer.add(batch)
            writer.keep(Path(scratch) / f"{number}.hw", f"event {number}", empty_ledger(run.start))
            expected.append((began, writer.until))
        for batch in run.batches(15 if FEW else 40, 20):
            writer.add(batch)
        finish(writer, run)
        for number, (began, ended) in enumerate(expected):
            with Recording(Path(scratch) / f"{number}.hw") as event:
                assert event.damaged == {}
                assert event.document.event == f"event {number}"
                assert event.window.end == ended
                assert event.window.start <= max(began - LONGEST, run.start)
                found = event.ledger()
            assert violations(found) == []
            assert f"event {number}" in found.reasons["recording"]
            assert "not closed" not in found.reasons["recording"]
            for thread in found.threads:
                assert thread.span == thread.until - thread.start
            for processor in found.processors:
                assert processor.span <= found.window.duration  # what it did without a thread ends later
        with Recording(path) as ring:
            assert ring.damaged == {}
            assert ring.window.end - ring.parts[0].end <= LONGEST, "the ring drops old parts again"
            assert violations(ring.ledger()) == []


def test_an_event_outlives_its_ring(tmp_path: Path) -> None:
    run = Run(Random(1))
    writer = RecordingWriter(tmp_path / "a.hw", document(run.start), rows=20, longest=LONGEST)
    for batch in run.batches(5, 20):
        writer.add(batch)
    writer.keep(tmp_path / "a-1.hw", "why", empty_ledger(run.start))
    finish(writer, run)
    for file in sorted((tmp_path / "a.hw").rglob("*.parquet")):
        file.unlink()
    with Recording(tmp_path / "a-1.hw") as event:
        assert event.rows
        assert violations(event.ledger()) == []
    for one in [tmp_path / "a-1.hw", *(tmp_path / "a-1.hw").rglob("*")]:
        assert one.stat().st_mode & 0o077 == 0, one


def test_where_there_are_no_links_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    run = Run(Random(1))
    writer = RecordingWriter(tmp_path / "a.hw", document(run.start), rows=20, longest=LONGEST)
    for batch in run.batches(5, 20):
        writer.add(batch)
    writer.keep(tmp_path / "a-1.hw", "why", empty_ledger(run.start))
    finish(writer, run)
    with Recording(tmp_path / "a-1.hw") as event:
        assert violations(event.ledger()) == []
    assert all(one.stat().st_mode & 0o077 == 0 for one in (tmp_path / "a-1.hw").rglob("*"))


def test_an_event_that_cannot_be_kept_is_said_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    (tmp_path / "a-1.hw").mkdir()
    (tmp_path / "a-1.hw" / "mine").write_text("x")
    run = Run(Random(1))
    writer = RecordingWriter(tmp_path / "a.hw", document(run.start), rows=20, longest=LONGEST)
    for batch in run.batches(5, 20):
        writer.add(batch)
    writer.keep(tmp_path / "a-1.hw", "why", empty_ledger(run.start))
    with pytest.raises(HeadwayError, match="cannot be continued"):
        finish(writer, run)
    writer.abandon()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-1.hw", "a.hw"]
    assert [path.name for path in (tmp_path / "a-1.hw").iterdir()] == ["mine"]


def test_figures_of_the_rows_only_are_those_of_the_ring(tmp_path: Path) -> None:
    run = Run(Random(3))
    writer = RecordingWriter(tmp_path / "a.hw", document(run.start), rows=20, longest=LONGEST)
    for batch in run.batches(40, 20):
        writer.add(batch)
    last, ledger = run.end()
    writer.add(last)
    writer.close(ledger, rows_only=True)
    with Recording(tmp_path / "a.hw") as ring:
        assert ring.closed
        assert ring.kept_ledger() is None
        found = ring.ledger()
    assert violations(found) == []
    assert found.window.duration < ledger.window.duration
