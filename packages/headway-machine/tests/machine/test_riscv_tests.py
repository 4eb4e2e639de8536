"""The machine against the RISC-V project's own tests of the instruction set, where somebody has built them.

``HEADWAY_RISCV_TESTS`` names the folder with the programs (docs/machine-checks.md says how to get them).
"""

import os
from pathlib import Path
from typing import Any

import pytest

from headway.model import violations
from headway_machine.machine import Machine

FOLDER = os.environ.get("HEADWAY_RISCV_TESTS")
SUITES = {"rv32ui": 42, "rv32um": 8, "rv32ua": 10, "rv32uc": 1, "rv32mi": 16}
SHAPES: tuple[dict[str, Any], ...] = (
    {"cores": 1, "threads": 1},
    {"cores": 1, "threads": 6},
    {"cores": 2, "threads": 3, "issue": "skip"},
)

pytestmark = pytest.mark.skipif(
    not FOLDER, reason="HEADWAY_RISCV_TESTS does not name a folder with riscv-tests built for rv32"
)


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_program_of_the_suite_passes_and_every_cycle_is_in_one_place(suite: str, shape: dict[str, Any]) -> None:
    programs = sorted(p for p in Path(FOLDER or ".").glob(f"{suite}-p-*") if p.suffix != ".dump")
    assert len(programs) >= SUITES[suite], f"{FOLDER} has {len(programs)} programs of {suite}"
    for program in programs:
        result = Machine(**shape).run(program, max_cycles=5_000_000)
        assert (program.name, result.ended, result.exit_status) == (program.name, "exit", 0)
        assert violations(result.ledger) == []
