"""Random programs that know the machine's own devices and registers, and random machines to run them on.

A program goes round for ever. Its traps are handled: what trapped is skipped, an interrupt is silenced where it
comes from, so there is always more to come. Registers t3 to t6 are the handler's, s0 to s3 and tp say where things are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from headway_machine.config import (
    L2,
    Bus,
    Cache,
    Division,
    ExternalInterrupt,
    MemoryConfig,
    PowerConfig,
    ProgressUnitConfig,
    Range,
    Script,
    Smi,
    Tlb,
    Uart,
)

from .assembler import (
    C_EBREAK,
    C_NOP,
    EBREAK,
    ECALL,
    FENCE_I,
    MRET,
    NOP,
    RAM,
    S0,
    S1,
    S2,
    S3,
    T3,
    T4,
    T5,
    TP,
    WFI,
    ZERO,
    Bench,
    Item,
    Label,
    Org,
    add,
    addi,
    atomic,
    blt,
    c_addi,
    csrr,
    csrrc,
    csrrs,
    csrrw,
    csrw,
    csrwi,
    j,
    la,
    li,
    li2,
    lr,
    lw,
    operate,
    operate_immediate,
    sc,
    slli,
    sw,
)

DATA = RAM + 0x1_0000
OWN = RAM + 0x4_0000
"""Each hart's blocks of threads, profile buffer, and table of the state monitor: 16 KiB each."""
BLOCKS, BUFFER, TABLE, STRIDE = 0, 0x400, 0x2000, 0x4000
A = (10, 11, 12, 13, 14, 15)
"""Registers that random instructions write."""
MIXED = (0, 1, 2, 3, 0xFFF, 0x8000_0000, 0xFFFF_FFFF)

READABLE = [*range(0xBC0, 0xBCD), *range(0xBD0, 0xBDD), *range(0xBE0, 0xBE5), *range(0xCC0, 0xCCD),
    *range(0xCD0, 0xCDD),
            0xCE0, 0xCF4, 0xC00, 0xC01, 0xC02, 0xC83, 0xB00, 0xB02, 0xB82, 0x300, 0x304, 0x305, 0x341, 0x342,
            0x343, 0x344,
            0x7C0, 0x7C1, 0x7C3, 0x7C4, 0x7C6, 0x7C7, 0x7CB, 0x7CD, 0x7D1, 0x800, 0x801, 0x804, 0xF14,
            0x123]  # fmt: skip
WRITABLE = [0x306, 0x320, 0x343, 0xB00, 0xB02, 0xB80, 0xB82, 0x3B0, 0x301, 0x7C5, 0x7C8, 0x7CC, 0xC00, 0x7CB]
LOADS = [0x0200_BFF8, 0x0200_4004, 0x0C00_1000, 0x0C20_0004, 0x1000_0000, 0x1000_0004, 0x1000_000C, 0x1001_0010,
         0x1001_0018, 0x1002_0000, 0x1002_0014, 0x1002_0018]  # fmt: skip
STORES = [0x1000_0008, 0x1000_0010, 0x1001_0014, 0x1001_001C, 0x0C00_0010, 0x0C20_0004, 0x0C00_2000, 0x1002_0000]

Kind = Callable[[random.Random], Item]


def arithmetic(r: random.Random) -> Item:
    rd, a, b = (r.choice(A) for _ in range(3))
    match r.randrange(4):
        case 0:
            return operate_immediate(r.choice((0, 2, 3, 4, 6, 7)), rd, a, r.randrange(-2048, 2048))
        case 1:
            return operate(r.randrange(8), 1, rd, a, b)
        case 2:
            return [c_addi(rd, r.randrange(1, 31)), c_addi(r.choice(A), -1)]
    return operate(r.randrange(8), 0, rd, a, b)


def memory(r: random.Random) -> Item:
    """Near s0, which all harts share, s1, the hart's own, and s2, where lines meet in one set."""
    base, offset, rd = r.choice((S0, S1, S2)), r.randrange(-2048, 2044), r.choice(A)
    match r.randrange(4):
        case 0:
            return (offset & 0xFFF) << 20 | base << 15 | r.choice((0, 1, 2, 4, 5)) << 12 | rd << 7 | 0x03
        case 1:
            return sw(rd, base, offset) & ~0x7000 | r.randrange(3) << 12
        case 2:
            return [
                addi(S3, base, offset & 0x3FC),
                atomic(r.choice((0, 1, 4, 8, 12, 16, 20, 24, 28)), rd, r.choice(A), S3),
            ]
    between = [operate_immediate(0, rd, rd, 1)] * r.randrange(2)
    return [addi(S3, base, offset & 0x3FC), lr(rd, S3), *between, sc(rd, r.choice(A), S3)]


def jump(r: random.Random) -> Item:
    match r.randrange(4):
        case 0:
            return FENCE_I
        case 1:
            return [j(12), NOP, NOP]
    f3 = r.choice((0, 1, 4, 5, 6, 7))
    return [0x0000_0463 | r.choice(A) << 20 | r.choice(A) << 15 | f3 << 12, operate(0, 0, r.choice(A), 10, 11)]


def trap(r: random.Random) -> Item:
    return r.choice(
        (ECALL, EBREAK, 0, 0xFFFF_FFFF, lw(10, ZERO, 16), sw(10, ZERO, 16), lr(10, ZERO), [C_EBREAK, C_NOP])
    )


def register(r: random.Random) -> Item:
    if r.randrange(2):
        return csrr(r.choice(A), r.choice(READABLE))
    value = r.choice((*MIXED, r.getrandbits(32)))
    return [li2(S3, value), r.choice((csrrw, csrrs, csrrc))(r.choice(A), r.choice(WRITABLE), S3)]


def mark(r: random.Random) -> Item:
    return [li2(S3, r.randrange(8) | r.randrange(256) << 8), csrw(0x800, S3)]


def latch(r: random.Random) -> Item:
    return csrwi(0x7C1, r.randrange(4))


def polls(r: random.Random) -> Item:
    """Ask a device or two in vain, or not; end polling; write when it ends by itself."""
    match r.randrange(4):
        case 0:
            return csrwi(0x804, r.randrange(32))
        case 1:
            return [li2(S3, r.choice((0, 1, 7, 30, 200, 2000, 0xFFFF))), csrw(0x7CD, S3)]
    return [
        [li2(S3, r.choice((0x1000_0004, 0x1000_000C, 0x1001_0010))), lw(r.choice(A), S3)] for _ in range(r.randrange(4))
    ]


def control(r: random.Random) -> Item:
    """Which signals count; all counters stay enabled."""
    return [li2(S3, 0xFF | r.randrange(32) << 8), csrw(0x7C0, S3)]


def device(r: random.Random) -> Item:
    if r.randrange(3):
        return [li2(S3, r.choice(LOADS)), lw(r.choice(A), S3)]
    return [li2(S3, r.choice(STORES)), li(10, r.randrange(32)), sw(10, S3)]


def disk(r: random.Random) -> Item:
    items: list[Item] = [li2(S3, 0x1001_0000)]
    for offset, value in ((0, r.randrange(4)), (4, DATA + 0x8000), (8, r.randrange(3)), (12, r.randrange(1, 4))):
        items += [li2(10, value), sw(10, S3, offset)]
    return items


def timer(r: random.Random) -> list[Item]:
    """The hart's own timer, some ticks from now."""
    return [
        li2(S3, 0x0200_BFF8), lw(10, S3), addi(10, 10, r.randrange(1, 2000)), li2(S3, 0x0200_4000), add(S3, S3, 3),
        sw(ZERO, S3, 4), sw(10, S3),
    ]  # fmt: skip


def signal(r: random.Random) -> Item:
    """An interrupt for a hart, perhaps its first."""
    return [li2(S3, 0x0200_0000 + 4 * r.randrange(4)), li(10, r.randrange(2)), sw(10, S3)]


def wait(r: random.Random) -> Item:
    return [*timer(r), csrwi(0x7D0, r.randrange(1, 4)), WFI]


def own_block(r: random.Random) -> list[Item]:
    return [li2(S3, BLOCKS + 0x80 * r.randrange(4)), add(S3, S3, TP)]


def block(r: random.Random) -> Item:
    """Another of the hart's own threads."""
    return [csrwi(0x7C4, r.choice((0, 0, 1, 2, 6, 31))), *own_block(r), csrw(0x7C3, S3)]


def wake(r: random.Random) -> Item:
    return [*own_block(r), csrw(0x7C5, S3)]


def steal(r: random.Random) -> Item:
    """No thread, or one that may be another hart's."""
    return [li2(S3, r.choice((0, OWN, OWN + STRIDE))), csrw(r.choice((0x7C3, 0x7C5)), S3)]


def profile(r: random.Random) -> Item:
    if r.randrange(2):
        return csrwi(0x801, 0)
    return [
        csrwi(0x801, 0), csrwi(0x7C8, r.randrange(4)), li2(S3, BUFFER), add(S3, S3, TP), csrw(0x7C9, S3),
        li2(S3, 256), csrw(0x7CA, S3), csrwi(0x7CB, 16 * r.randrange(2)), csrwi(0x7CC, r.randrange(1, 32)),
        csrwi(0x801, 1),
    ]  # fmt: skip


def counter(r: random.Random) -> Item:
    return [li2(S3, r.getrandbits(32)), csrw(0xBC0 + r.randrange(0x20), S3)]


def tamper(r: random.Random) -> Item:
    """What a block keeps of a thread's polling and of where it was, overwritten."""
    return [*own_block(r), li2(10, r.choice((*MIXED, r.getrandbits(32)))), sw(10, S3, r.choice((72, 76)))]


def clock(r: random.Random) -> Item:
    return csrwi(0x7D1, r.randrange(1, 17)) if r.randrange(2) else csrwi(0x7D2, r.randrange(8))


def divide(r: random.Random) -> Item:
    """Another part of a cache or of the bus: the hart's own, or that of a thread, now or when it comes back."""
    value = r.choice((0, 1, 2, 3, 4, 15, 16, 17, 0xFF))
    if r.randrange(2):
        return [li2(S3, value), csrw(0x7D3 + r.randrange(4), S3)]
    store: list[Item] = [*own_block(r), li(10, value), sw(10, S3, 112 + 4 * r.randrange(4))]
    return [*store, csrw(0x803, S3)] if r.randrange(2) else store


def synchronise(r: random.Random) -> Item:
    """The counters of a thread that may run elsewhere."""
    return [li2(S3, OWN + STRIDE * r.randrange(4) + BLOCKS + 0x80 * r.randrange(4)), csrw(0x803, S3)]


PLAIN: tuple[Kind, ...] = (arithmetic, arithmetic, memory, memory, jump)
COUNTED: tuple[Kind, ...] = (*PLAIN, trap, register, mark, latch, polls, device, disk, signal, wait, profile)
ALL: tuple[Kind, ...] = (*COUNTED, control, block, wake, clock, divide, synchronise)
ANY: tuple[Kind, ...] = (*ALL, steal, counter, tamper)


def program(r: random.Random, kinds: Sequence[Kind] = ALL, *, length: int = 60, rounds: int = 0) -> list[Item]:
    """Random instructions, in machine mode on every other hart at most; ``rounds``: how often, then the hart halts."""
    body: list[Item] = [r.choice(kinds)(r) for _ in range(length)]
    finish: list[Item] = [
        addi(5, 5, -1), blt(ZERO, 5, "on"), li2(S3, 0x0200_4000), add(S3, S3, 3), li(10, -1), sw(10, S3, 4), WFI, j(-4),
        Label("on"),
    ]  # fmt: skip
    return [
        la(S3, "handler"), csrw(0x305, S3), csrr(3, 0xF14), slli(S1, 3, 12), slli(TP, 3, 14), slli(3, 3, 3),
        li2(S0, DATA), li2(S2, DATA + 0x1000), add(S1, S1, S2), li2(S2, DATA + 0x800), li2(S3, OWN), add(TP, TP, S3),
        li2(S3, TABLE), add(S3, S3, TP), csrw(0x7C6, S3), li2(S3, 0x888), csrw(0x304, S3), li2(5, rounds),
        li2(S3, 0x1880 if r.randrange(2) else 0x80), csrw(0x300, S3), li(S3, -1), csrw(0x306, S3), la(S3, "again"),
        csrw(0x341, S3), *timer(r), MRET,
        Org(0x100), Label("handler"),
        csrr(T3, 0x342), blt(T3, ZERO, "interrupt"), csrr(T3, 0x341), addi(T3, T3, 4), csrw(0x341, T3), j("out"),
        Label("interrupt"),
        # The timer comes again, so that nobody sleeps for ever.
        li2(T4, 0x0200_BFF8), lw(T5, T4), addi(T5, T5, 2047), li2(T4, 0x0200_4000), add(T4, T4, 3), sw(T5, T4),
        operate_immediate(5, T4, 3, 1),
        li2(T5, 0x0200_0000), add(T4, T4, T5), sw(ZERO, T4), li2(T5, 0x1000_0000),
        sw(ZERO, T5, 16), li2(T5, 0x0C20_0000),
        slli(T4, 3, 9), add(T5, T5, T4), lw(T4, T5, 4), sw(T4, T5, 4),
        Label("out"), csrwi(0x7C1, 2), MRET,
        Org(0x200), Label("again"), body, *(finish if rounds else []),
        la(S3, "again"), 0x0000_0067 | S3 << 15,
    ]  # fmt: skip


def machine(r: random.Random, **values: Any) -> dict[str, Any]:
    """A configuration of `Config`, small and odd."""
    line = r.choice((16, 32, 64))

    every = r.randrange(300, 3000)
    return {
        "cores": r.choice((1, 1, 2, 3)),
        "threads": r.randrange(1, 5),
        "issue": r.choice(("strict", "skip")),
        "boot": r.choice(("first", "all", "all")),
        "l1i": _fitting(r, line),
        "l1d": _fitting(r, line, write=r.choice(("back", "through"))),
        "l2": L2(r.choice(("512B", "4KiB")), ways=2, line=line, hit=r.randrange(12)) if r.randrange(2) else None,
        "tlb": Tlb(entries=r.choice((0, 1, 2, 16)), miss=r.choice((0, 1, 20))),
        "bus": Bus(line=r.randrange(1, 6), word=r.randrange(1, 4), window=r.choice((16, 100, 1024))),
        "memory": MemoryConfig(ram="1MiB", latency=r.choice((0, 3, 60))),
        "power": PowerConfig(
            c1=r.randrange(3), c2=r.randrange(30), c3=r.randrange(200), window=r.choice((8, 64, 1024))
        ),
        "uart": Uart(tick=r.randrange(1, 50), every=r.randrange(1, 500), script=(Script(r.randrange(500),
        "some text" * 40),)),
        "progress": ProgressUnitConfig(gap=r.choice((0, 9, 50, 300, 2000))),
        "interrupts": tuple(ExternalInterrupt(4, at, r.randrange(1, 500), 50) for at in (r.randrange(1000),)),
        "smi": Smi(at=r.randrange(1000), every=every, ticks=r.randrange(1, 200)) if r.randrange(2) else Smi(),
        "ranges": tuple(
            Range(f"r{i}", RAM + 0x220 + 0x40 * i, RAM + 0x240 + 0x40 * i, "", kind)
            for i, kind in enumerate(("effective", "noneffective", "poll"))
        )
        if r.randrange(2)
        else (),
        "divisions": tuple(Division(1 << hart, l1i=1, l1d=1, bus=r.randrange(17)) for hart in range(r.randrange(4))),
        **values,
    }  # fmt: skip


def _fitting(r: random.Random, line: int, **more: Any) -> Cache:
    ways = r.choice((1, 2, 4))
    return Cache(max(64, line * ways * r.choice((1, 2, 16))), ways=ways, line=line, **more)


def bench(r: random.Random, kinds: Sequence[Kind] = ALL, *, rounds: int = 0, **values: Any) -> Bench:
    """A random machine with a random program in RAM and its harts' blocks of threads."""
    found = Bench(*program(r, kinds, rounds=rounds), at=RAM, start=False, **machine(r, **values))
    for hart in range(found.config.harts):
        for k in range(4):
            at = OWN + hart * STRIDE + BLOCKS + 0x80 * k
            found.processor.write(at + 64, (4 * hart + k + 1).to_bytes(4, "little"))
            found.processor.write(at + 80, b"thread %d of %d\0" % (k, hart))
    found.processor.write(RAM + 0x2_0000, r.randbytes(4096))
    found.processor.start(RAM, None)
    return found
