"""Random user programs on the machine and on Unicorn, which knows nothing of it: equal registers and memory."""

from __future__ import annotations

import random
from typing import Any

import pytest

from .assembler import (
    RAM,
    Bench,
    Half,
    Item,
    Label,
    addi,
    assemble,
    atomic,
    c_addi,
    j,
    jal,
    li2,
    operate,
    operate_immediate,
    sw,
)

unicorn: Any = pytest.importorskip("unicorn", reason="Unicorn, with which the machine is compared, is not installed")

CODE = RAM
DATA = RAM + 0x2_0000
REGISTERS = (1, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 28, 29, 30, 31)
BASES = (8, 18)
LENGTH = 1000


def c_word(r: random.Random) -> Half:
    """A compressed instruction on the registers that it reaches, no jump and no access."""
    while True:
        bits = r.getrandbits(16)
        quadrant, f3, rd = bits & 3, bits >> 13, bits >> 7 & 31
        if quadrant == 1 and f3 in (0, 2, 3) and rd in REGISTERS and bits & 0x107C:
            return Half(bits)
        if quadrant == 1 and f3 == 4 and 8 + (rd & 7) in REGISTERS:
            if rd >> 3 == 3 and bits & 0x1000:
                continue
            if rd >> 3 < 2 and (bits & 0x1000 or not bits & 0x7C):
                continue
            return Half(bits)
        if quadrant == 2 and f3 == 0 and rd in REGISTERS and not bits & 0x1000 and bits & 0x7C:
            return Half(bits)
        if quadrant == 2 and f3 == 4 and rd in REGISTERS and bits & 0x7C:
            return Half(bits)


def instruction(r: random.Random) -> list[Item]:
    rd, a, b = (r.choice(REGISTERS) for _ in range(3))
    match r.randrange(9):
        case 0 | 1:
            return [operate(r.randrange(8), r.choice((0, 1)), rd, a, b)]
        case 2:
            return [operate(r.choice((0, 5)), 0x20, rd, a, b)]
        case 3:
            f3 = r.randrange(8)
            value = (
                r.randrange(32) | (r.choice((0, 0x400)) if f3 == 5 else 0) if f3 in (1, 5) else r.randrange(-2048, 2048)
            )
            return [operate_immediate(f3, rd, a, value)]
        case 4:
            return [r.getrandbits(20) << 12 | rd << 7 | r.choice((0x37, 0x17))]
        case 5:
            load = r.randrange(-2048, 2045) & 0xFFF
            return [load << 20 | r.choice(BASES) << 15 | r.choice((0, 1, 2, 4, 5)) << 12 | rd << 7 | 0x03]
        case 6:
            return [sw(rd, r.choice(BASES), r.randrange(-2048, 2045)) & ~0x7000 | r.randrange(3) << 12]
        case 7:
            return [
                addi(19, 8, r.randrange(-512, 511) * 4),
                atomic(r.choice((0, 1, 4, 8, 12, 16, 20, 24, 28)), rd, b, 19),
            ]
    if r.randrange(2):
        return [c_word(r), c_addi(1, 1)]
    over: list[Item] = [operate(0, 0, rd, a, b)]
    f3 = r.choice((0, 1, 4, 5, 6, 7))
    return [r.choice((b << 20 | a << 15 | f3 << 12 | 0x463, jal(rd, 8))), *over]


def program(r: random.Random) -> bytes:
    items: list[Item] = [li2(8, DATA), li2(18, DATA + 0x1000)]
    items += [li2(n, r.choice((0, 1, 0x8000_0000, 0xFFFF_FFFF, r.getrandbits(32)))) for n in REGISTERS]
    for _ in range(LENGTH):
        items += instruction(r)
    return assemble(items, Label("end"), j("end"), at=CODE)[0]


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_compute_what_unicorn_computes(seed: int) -> None:
    r = random.Random(seed)
    code, data = program(r), r.randbytes(0x4000)
    bench = Bench(start=False, issue=r.choice(("strict", "skip")))
    bench.processor.write(CODE, code)
    bench.processor.write(DATA - 0x2000, data)
    bench.processor.start(CODE, None)
    other = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)
    other.mem_map(RAM, 256 << 10)
    other.mem_write(CODE, code)
    other.mem_write(DATA - 0x2000, data)
    first = unicorn.riscv_const.UC_RISCV_REG_X0
    end = CODE + len(code) - 4
    other.reg_write(first + 10, 0)
    other.emu_start(CODE, end, count=20 * LENGTH)
    for _ in range(100):
        bench.run(bench.processor.now + 5000)
        if bench.counters()["pc"] == end:
            break
    assert bench.counters()["pc"] == other.reg_read(unicorn.riscv_const.UC_RISCV_REG_PC) == end
    ours = [bench.x(n) for n in range(32)]
    theirs = [other.reg_read(first + n) & 0xFFFF_FFFF for n in range(32)]
    assert ours == theirs
    memory = bench.processor.read(DATA - 0x2000, 0x4000)
    assert memory == bytes(other.mem_read(DATA - 0x2000, 0x4000))
