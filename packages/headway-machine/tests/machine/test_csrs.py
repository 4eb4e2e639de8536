"""The table of control and status registers: it is what docs/machine.md says, and what programs find."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headway_machine._processor import csrs
from headway_machine.config import MemoryConfig

from .assembler import A0, HALT, MRET, S1, T0, T1, ZERO, Bench, Item, Label, addi, csrr, csrw, la, li2, sw

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).parents[2] / "docs" / "machine.md").read_text(encoding="utf-8")
DATA = 0x8001_0000
COUNTERS = {first + n for first in (0xBC0, 0xBD0, 0xCC0, 0xCD0) for n in range(13)} | {
    first + n for first in (0xBE0, 0xBF0, 0xCE0, 0xCF0) for n in range(5)
}


def own() -> dict[int, str]:
    """The machine's own registers by the tables of the page, without its counters."""
    found: dict[int, str] = {}
    for numbers, names in re.findall(r"^\| (0x[0-9A-F]{3}(?:, 0x[0-9A-F]{3})*) \| ([^|]+) \|", PAGE, re.MULTILINE):
        found.update(zip((int(n, 16) for n in numbers.split(", ")), re.findall(r"`(\w+)`", names), strict=True))
    return found


def standard() -> set[str]:
    """The standard registers that the page names, with ``0–3`` and ``[h]`` written out."""
    (listed,) = re.findall(r"### Standard CSRs\n\n`([^`]+)`", PAGE)
    found: set[str] = set()
    for name in listed.replace("(all zero)", "").split():
        stem, high = name.removesuffix("[h]"), name.endswith("[h]")
        several = re.fullmatch(r"(\D+)(\d+)–(\d+)", stem)
        names = [f"{several[1]}{n}" for n in range(int(several[2]), int(several[3]) + 1)] if several else [stem]
        found.update(names, (f"{one}h" for one in names if high))
    return found


def test_the_machines_own_registers_are_those_of_the_page() -> None:
    named = {number: name for number, (name, _) in csrs().items() if 0x7C0 <= number < 0x900}
    assert named == own()


def test_its_counters_are_where_the_page_says() -> None:
    assert {number for number in csrs() if number >> 8 in (0xB, 0xC) and number & 0xFF >= 0xC0} == COUNTERS


def test_the_standard_registers_are_those_of_the_page() -> None:
    assert {
        name for number, (name, _) in csrs().items() if number not in own() and number not in COUNTERS
    } == standard()


def test_a_program_can_read_these_registers_and_no_others() -> None:
    """The trap handler keeps the instruction word of each trap, and goes on after it."""
    handler: list[Item] = [
        csrr(T0, 0x343), sw(T0, S1), addi(S1, S1, 4), csrr(T0, 0x341), addi(T0, T0, 4), csrw(0x341, T0), MRET,
    ]  # fmt: skip
    bench = Bench(
        la(T0, "trap"), csrw(0x305, T0), li2(S1, DATA), [csrr(A0, number) for number in range(4096)], HALT,
        Label("trap"), handler, at=0x8000_0000, memory=MemoryConfig(ram=1 << 20),
    ).run(10_000_000)  # fmt: skip
    trapped = [bench.word(at) >> 20 for at in range(DATA, bench.x(S1), 4)]
    assert trapped == [number for number in range(4096) if number not in csrs()]


@pytest.mark.parametrize("name", ["mtvec", "mscratch", "mepc", "mcause", "mtval", "mcounteren", "hwcorr", "hwleave"])
def test_a_write_reaches_the_bits_of_the_table(name: str) -> None:
    ((number, bits),) = ((number, bits) for number, (known, bits) in csrs().items() if known == name)
    bench = Bench(li2(T0, 0xFFFF_FFFF), csrw(number, T0), csrr(A0, number), csrw(number, ZERO), csrr(T1, number), HALT)
    bench.run()
    assert (bench.x(A0), bench.x(T1)) == (bits, 0)
