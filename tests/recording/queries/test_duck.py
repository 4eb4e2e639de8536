"""DuckDB in this process: an interrupt at any instruction leaves nothing behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from tests.effort import FEW
from tests.interrupts import in_time, interrupted_at

from headway.recording.queries.duck import DuckDB


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which folders for a time are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_an_interrupt_at_any_instruction_of_the_start_leaves_no_folder(folder: Path) -> None:
    def some() -> None:
        for instruction in range(1, 100_000, 101 if FEW else 7):
            interrupted = interrupted_at(instruction, lambda: DuckDB().close())
            assert not list(folder.iterdir()), instruction
            if not interrupted:
                break
        assert instruction > 100

    in_time(some)


def test_an_interrupt_at_any_instruction_of_the_end_leaves_no_folder(folder: Path) -> None:
    def some() -> None:
        for instruction in range(1, 100_000, 31 if FEW else 3):
            engine = DuckDB()
            interrupted = interrupted_at(instruction, engine.close)
            del engine
            assert not list(folder.iterdir()), instruction
            if not interrupted:
                break
        assert instruction > 50

    in_time(some)
