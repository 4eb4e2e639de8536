"""A million instructions that make no sense: the machine's own registers and devices are written with anything."""

from __future__ import annotations

import random
from functools import partial

from tests.effort import FEW
from tests.machine.elves import ECALL, RAM, T0, T1, T2, WFI, csrw, jump, li, lw, sw
from tests.machine.programs import BLOCKS, DATA, UART, check, loop, program, trap_handler_first
from tests.machine.sentences import given_or_sentence

from headway_machine import Cache, Machine
from headway_machine.config import L2, Config, ExternalInterrupt, MemoryConfig, Smi, Tlb

CSRS = (
    *(0x7C0, 0x7C1, 0x7C2, 0x7C3, 0x7C4, 0x7C5, 0x7C6, 0x7C8, 0x7C9, 0x7CA, 0x7CB, 0x7CC, 0x7D0, 0x7D1, 0x7D2),
    *(
        0x7CD,
        0x800,
        0x801,
        0x804,
        0x300,
        0x304,
        0x340,
        0x306,
        0x320,
        0xBC0,
        0xBC5,
        0xBC8,
        0xBE0,
        0xB00,
        0xB02,
        0x3A0,
        0x3B0,
    ),
)
VALUES = (0, 1, 2, 3, 5, 7, 8, 16, 0x7FF, 0xFFF, 0x1800, BLOCKS, BLOCKS + 0x80, BLOCKS + 0x100, DATA + 0x400)
PLACES = (
    *(UART, UART + 4, UART + 8, UART + 12, UART + 16, 0x1001_0000, 0x1001_0004, 0x1001_000C, 0x1001_0010, 0x1002_0000),
    *(0x0200_BFF8, 0x0200_0000, 0x0200_0004, 0x0200_4000, 0x0C00_0010, 0x0C00_2000, 0x0C20_0004),
    *(DATA + 0x300, DATA + 0x31E, 0x0800_0004, RAM + 0x40, 0, 0xFFFF_FFFC),
)
INSTRUCTIONS = 100_000 if FEW else 1_000_000


def any_config(chance: random.Random) -> Config:
    pick = chance.choice
    return Config(
        cores=pick([1, 1, 2, 3]),
        threads=chance.randint(1, 8),
        issue=pick(["strict", "skip"]),
        boot=pick(["first", "all"]),
        l1d=Cache(pick(["256B", "16KiB"]), ways=pick([1, 4]), write=pick(["back", "through"])),
        l2=pick([None, L2("4KiB")]),
        tlb=Tlb(pick([0, 1, 16])),
        memory=MemoryConfig(ram="64KiB"),
        smi=pick([Smi(), Smi(chance.randint(0, 999), chance.randint(300, 999), chance.randint(1, 99))]),
        interrupts=pick([(), (ExternalInterrupt(4, 50, 70, 9),)]),
    )


def any_program(chance: random.Random) -> bytes:
    words: list[int] = []
    for _ in range(chance.randint(1, 60)):
        kind = chance.random()
        if kind < 0.5:
            value = chance.choice([*VALUES, chance.getrandbits(32)])
            words += [*li(T0, value), csrw(chance.choice(CSRS), T0)]
        elif kind < 0.6:
            words.append(chance.choice([WFI, ECALL, 0x0000_100F]))
        elif kind < 0.8:
            words += [*li(T1, chance.choice(PLACES)), chance.choice([lw(T2, T1), sw(T0, T1)])]
        elif kind < 0.9:
            words += [word for word in loop(chance.randint(1, 20)) if isinstance(word, int)]
        else:
            words.append(chance.getrandbits(32))
    return program(*trap_handler_first(*words, jump(-4 * chance.randint(1, len(words)))))


def test_senseless_instructions_keep_the_laws() -> None:
    done, seed = 0, 0
    while done < INSTRUCTIONS:
        chance = random.Random(seed)
        machine, elf, limit = Machine(any_config(chance)), any_program(chance), chance.choice([500, 3000, 20_000])
        result = given_or_sentence(partial(machine.run, elf, max_cycles=limit))
        if result is not None:  # None: its host was asked for what makes no sense
            check(result)
            done += result.instructions
        seed += 1
