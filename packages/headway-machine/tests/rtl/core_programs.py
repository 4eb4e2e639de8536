"""Random programs for the barrel core: RV32I as the core has it, with traps, timer interrupts and marked regions."""

from __future__ import annotations

import random

from tests.machine.assembler import (
    A0,
    A1,
    GP,
    S0,
    T0,
    T1,
    T3,
    T4,
    T5,
    T6,
    ZERO,
    Item,
    Label,
    add,
    addi,
    andi,
    assemble,
    auipc,
    beq,
    bne,
    csrr,
    csrrc,
    csrrs,
    csrrw,
    csrwi,
    jal,
    jalr,
    la,
    lui,
    lw,
    operate,
    operate_immediate,
    sb,
    sh,
    slli,
    sw,
)
from tests.machine.elves import Elf

TCM = 0x0800_0000
HOST = 0x8000_0000
DATA = 0x4000
"""Where the data of hart 0 is in memory; each hart has 4 KiB."""
MSTATUS, MIE, MTVEC, MSCRATCH, MEPC, MCAUSE, MTVAL, MHARTID = 0x300, 0x304, 0x305, 0x340, 0x341, 0x342, 0x343, 0xF14
HWCTL, HWLATCH, HWCORR, HWSW, COUNTERS = 0x7C0, 0x7C1, 0x7C2, 0x800, 0xCC0
ECALL, EBREAK, MRET, FENCE, FENCE_I = 0x73, 0x100073, 0x30200073, 0x0FF0000F, 0x100F
LENGTH = 80
"""Instructions of the random part, which runs `ROUNDS` times."""
ROUNDS = 6
FIRST, LAST = 5, 27
"""Registers that random instructions use; 28 to 31 are the frame's."""


def program(seed: int, threads: int) -> bytes:
    """Every hart runs the same random instructions on data of its own, and stores its registers in the end."""
    chance = random.Random(seed)
    frame: list[Item] = [
        csrr(A0, MHARTID),
        [lui(T6, (TCM + DATA) >> 12), slli(T5, A0, 12), add(T6, T6, T5)],
        [la(T0, "handler"), csrrw(ZERO, MTVEC, T0), jal(ZERO, "begin")],
        Label("handler"),
        *_handler(chance, threads),
        Label("begin"),
        [addi(T0, ZERO, chance.randrange(50)), csrrw(ZERO, HWCORR, T0)],
        *([lui(n, chance.getrandbits(20)), addi(n, n, chance.getrandbits(11))] for n in range(FIRST, LAST + 1)),
        # With one thread, whether an interrupt comes before an instruction that waits depends on the machine's lines.
        *([_interrupt_after(chance.randrange(30, 100) * threads)] if threads > 1 else []),
        [addi(T5, ZERO, 0x80), csrrw(ZERO, MIE, T5), csrwi(MSTATUS, 8)],
        addi(T4, ZERO, ROUNDS),
        Label("round"),
        *_random(chance),
        [addi(T4, T4, -1), bne(T4, ZERO, "round")],
        [csrwi(MSTATUS, 0), csrwi(HWSW, 0), csrr(A0, MHARTID)],
        *(sw(n, T6, 2048 - 4 * (32 - n) - 4) for n in range(1, 31)),
        *([csrr(T0, COUNTERS + n), sw(T0, T6, 1024 + 4 * n)] for n in range(8)),
        # Hart 0 waits for the others, and ends the program.
        [addi(T0, ZERO, 1), sw(T0, T6, 2044)],
        Label("others"),
        bne(A0, ZERO, "others"),
    ]
    for hart in range(1, threads):
        frame += [
            [lui(S0, (TCM + DATA + 0x1000 * hart) >> 12), Label(f"wait{hart}")],
            [lw(T0, S0, 2044), beq(T0, ZERO, f"wait{hart}")],
        ]
    frame += [[lui(T0, HOST >> 12), addi(T1, ZERO, 1), sw(T1, T0, 0)], Label("end"), jal(ZERO, "end")]
    return Elf(assemble(*frame, at=TCM)[0], TCM, symbols={"tohost": (HOST, 8, 1)}).build()


def _interrupt_after(ticks: int) -> Item:
    """Let the timer interrupt this hart so many ticks after now. Uses T3 and T5; the upper half of time is 0."""
    return [
        [lui(T5, 0x0200C), lw(T3, T5, -8), addi(T3, T3, ticks)],
        [csrr(T5, MHARTID), slli(T5, T5, 3), lui(A1, 0x02004), add(T5, T5, A1)],
        [sw(T3, T5, 0), sw(ZERO, T5, 4)],
    ]


def _handler(chance: random.Random, threads: int) -> list[Item]:
    """Go on behind an instruction that traps, and set the timer anew after an interrupt."""
    return [
        csrrw(A1, MSCRATCH, A1),
        [csrr(T3, MCAUSE), operate(2, 0, T3, T3, ZERO), bne(T3, ZERO, "interrupt")],
        [csrr(T3, MEPC), addi(T3, T3, 4), csrrw(ZERO, MEPC, T3), jal(ZERO, "leave")],
        Label("interrupt"),
        _interrupt_after(chance.randrange(30, 100) * threads),
        Label("leave"),
        csrrw(A1, MSCRATCH, A1),
        *([csrwi(HWLATCH, 2)] if chance.random() < 0.5 else []),
        MRET,
    ]


def _random(chance: random.Random) -> list[Item]:
    items: list[Item] = []
    for at in range(LENGTH):
        items += [Label(f"at{at}"), _one(chance, at)]
    return [*items, Label(f"at{LENGTH}")]


def _one(chance: random.Random, at: int) -> Item:
    """One random instruction; jumps and branches go forward."""
    rd, a, b = (chance.choice([0, *range(FIRST, LAST + 1)]) for _ in range(3))
    forward = f"at{min(LENGTH, at + 1 + chance.randrange(1, 5))}"
    kind = chance.choices(
        ("op", "immediate", "upper", "load", "store", "branch", "jump", "counter", "marks", "csr", "trap", "fence"),
        (20, 20, 4, 18, 12, 12, 4, 4, 4, 4, 4, 2),
    )[0]
    if kind == "op":
        function = chance.randrange(8)
        return operate(function, chance.choice([0, 0x20]) if function in (0, 5) else 0, rd, a, b)
    if kind == "immediate":
        function = chance.randrange(8)
        value = chance.randrange(-2048, 2048)
        if function in (1, 5):
            value = chance.randrange(32) | (0x400 if function == 5 and chance.random() < 0.5 else 0)
        return operate_immediate(function, rd, a, value)
    if kind == "upper":
        return chance.choice([lui, auipc])(rd, chance.getrandbits(20))
    if kind in ("load", "store"):
        size = chance.choice([1, 2, 4])
        offset = chance.randrange(0, 1024, size)
        if kind == "store":
            return (sb, sh, sw)[size >> 1](b, T6, offset)
        function = {1: chance.choice([0, 4]), 2: chance.choice([1, 5]), 4: 2}[size]
        base = T6 if chance.random() < 0.95 else ZERO  # nothing is at the beginning of the address space
        return int(offset << 20 | base << 15 | function << 12 | rd << 7 | 0x03)
    if kind == "branch":
        if chance.random() < 0.5:
            function = chance.choice([4, 5, 6, 7])  # blt, bge, bltu, bgeu over the next instruction
            return [b << 20 | a << 15 | function << 12 | 8 << 7 | 0x63, addi(rd, a, chance.randrange(100))]
        return chance.choice([beq, bne])(a, b, forward)
    if kind == "jump":
        if chance.random() < 0.5:
            return jal(rd, forward)
        return [auipc(GP, 0), jalr(rd, GP, 8 + chance.randrange(2))]
    if kind == "counter":
        return csrr(rd, COUNTERS + chance.choice([0, 16]) + chance.randrange(8))
    if kind == "marks":
        number = chance.choice([HWSW, HWSW, HWCTL, HWLATCH, COUNTERS - 0x100])
        if number == HWCTL:
            return [addi(GP, ZERO, chance.getrandbits(10)), csrrw(rd, number, GP)]
        return csrwi(number, chance.randrange(8))
    if kind == "csr":
        change = chance.choice([csrrw, csrrs, csrrc])
        return change(rd, chance.choice([MSCRATCH, MTVAL]), a)
    if kind == "trap":
        return chance.choice([ECALL, EBREAK, 0xFFFF_FFFF, 0x0000_0003 | 7 << 12, csrr(rd, 0x123), andi(rd, a, 1)])
    return chance.choice([FENCE, FENCE_I])
