"""Marked regions as the eBPF programs charge them, where a mark is interrupted between its clock and its store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.linux.measuring import measure, only

pytestmark = pytest.mark.kernel

Compile = Callable[..., Path]


@pytest.mark.root
def test_a_moment_read_long_before_an_interruption_and_written_after_it_is_no_lie(compile_marked: Compile) -> None:
    thread = only(measure(compile_marked("late_mark.c", flags=("-std=gnu11",)))[0])
    assert thread.states["noneffective.late"].count == 200
