"""The hardware and the reference machine have their numbers each in its own language, and they agree."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="the extra rtl is not installed")

from headway_machine.config import RAM
from headway_machine.rtl import names, thread
from headway_machine.rtl.core import barrel, computer, devices, instructions

SOURCE = Path(__file__).parents[2] / "src/headway_machine/architecture.pxd"

pytestmark = pytest.mark.exhaustive  # only make test-all has Amaranth


def of_the_machine(kind: str) -> dict[str, int]:
    """The constants of one kind in the machine's source."""
    (lines,) = re.findall(rf"^cdef enum:  # {kind}\n((?:    \w+ = \w+\n)+)", SOURCE.read_text(encoding="utf-8"), re.M)
    return {name: int(value, 0) for name, value in re.findall(r"(\w+) = (\w+)", lines)}


def of_the_hardware(kind: type[IntEnum]) -> dict[str, int]:
    return {name: int(member) for name, member in kind.__members__.items()}


def test_causes_of_traps() -> None:
    machine = of_the_machine("Cause")
    machine["TIMER"] = machine.pop("TIMER_INTERRUPT")
    # The core has no other interrupts.
    assert of_the_hardware(instructions.Cause).items() == machine.items() - {
        ("SOFTWARE_INTERRUPT", 3),
        ("EXTERNAL_INTERRUPT", 11),
    }


def test_counters() -> None:
    machine = of_the_machine("Counter")
    assert of_the_hardware(names.Counter) == {name: n for name, n in machine.items() if n < names.COUNTERS}


def test_bits_of_registers() -> None:
    control = of_the_machine("Control")
    assert control.pop("CTL_RESET") == thread._CONTROL_RESET
    assert {f"CTL_{name}": 1 << bit for name, bit in of_the_hardware(names.Control).items()} == control
    assert {name: 1 << bit for name, bit in of_the_hardware(names.Mark).items()} == of_the_machine("Signal")


def test_states() -> None:
    machine = of_the_machine("State")
    assert of_the_hardware(names.State).items() <= machine.items()
    assert tuple(machine[name] for name in ("EXCEPTION", "INTERRUPT", "CALL")) == (
        barrel._EXCEPTION,
        barrel._INTERRUPT,
        barrel._CALL,
    )


def test_addresses() -> None:
    machine = of_the_machine("Address")
    assert machine["UART"] == devices._UART
    assert machine["DESCRIPTION"] == devices._DESCRIPTION
    assert devices._COMPARE - 0x4000 == devices._TIME - 0xBFF8 == machine["CLINT"]
    assert computer._HOST == RAM
