"""The recording that the benchmark of queries makes up is one that headway reads."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the extra recording is not installed")

from benchmarks.queries import THREADS, make

import headway

pytestmark = pytest.mark.unit


def test_what_queries_are_timed_on_can_be_read(tmp_path: Path) -> None:
    """It does not add up: a thread is on any processor at any time."""
    make(tmp_path / "run.hw", 50_000)
    with headway.open(tmp_path / "run.hw") as recording:
        assert len(recording.threads()) == THREADS
        assert recording.rows > 30_000
        assert recording.damaged == {}
