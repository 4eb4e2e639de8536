"""Waiting until a process that has ended has left its processors: that of calibration is never measured."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from headway.linux.bpf.programs.unavailable import UnavailableError
from headway.linux.sources.ebpf import prepared
from headway.linux.sources.ebpf.ended import EndedThreads


def ended(*measured: bool) -> EndedThreads:
    """Threads that have ended, of which each look says whether one has not left its processor yet."""
    found = EndedThreads.__new__(EndedThreads)
    looks = [*measured]
    found._memory = SimpleNamespace(is_measured=lambda pid: looks.pop(0) if len(looks) > 1 else looks[0])  # type: ignore[assignment]
    return found


def test_what_has_left_is_waited_for_and_what_has_not_is_said() -> None:
    assert ended(False).wait_for_exit(1, 0)
    assert ended(True, True, False).wait_for_exit(1, 60)
    assert not ended(True).wait_for_exit(1, 0)


def test_a_calibrating_process_that_keeps_its_processor_ends_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prepared, "_LONGEST_EXIT", 0.0)
    programs = prepared.PreparedPrograms.__new__(prepared.PreparedPrograms)
    programs.programs = Mock()
    programs.ended = ended(True)
    with pytest.raises(UnavailableError, match="has not left its processor"):
        programs._discard_exercise(1)
    programs.programs.memory.reset.assert_not_called()
