"""Random instructions on random machines, in a process of their own: a crash is a failed test, not the end of all.

``python -m tests.machine.fuzz SEED INSTRUCTIONS`` runs until so many instructions have retired, and prints how many.
"""

from __future__ import annotations

import random
import struct
import sys
from typing import Any

from headway.model import violations
from headway_machine.config import BlockDevice, MemoryConfig

from .assembler import MRET, RAM, Bench, Item, Label, add, csrr, csrw, csrwi, j, la, li2, slli, srli
from .streams import ALL, ANY, DATA, bench, machine

_OPCODES = (0x37, 0x17, 0x6F, 0x67, 0x63, 0x03, 0x23, 0x13, 0x13, 0x33, 0x33, 0x0F, 0x73, 0x2F)
_PLACES = (0, 0x0200_0000, 0x0200_4000, 0x0200_BFF8, 0x0800_0000, 0x0800_3FFC, 0x0C00_0000, 0x0C20_0000,
    0x1000_0000, 0x1001_0000,
           0x1002_0000, RAM - 4, RAM, RAM + 0xF_FFFC, RAM + 0x10_0000, 0xFFFF_FFFC, 0xFFFF_FFF0,
               RAM + 0xF_E000)  # fmt: skip


def words(r: random.Random) -> list[Item]:
    """Any words at all."""
    return [r.randbytes(4 * 400)]


def halves(r: random.Random) -> list[Item]:
    """Compressed instructions, most of them."""
    return [b"".join(struct.pack("<H", r.getrandbits(16) & (0xFFFE if r.randrange(8) else 0xFFFF)) for _ in range(800))]


def opcodes(r: random.Random) -> list[Item]:
    """Words with an opcode that there is."""
    return [r.getrandbits(32) & ~0x7F | r.choice(_OPCODES) for _ in range(400)]


def registers(r: random.Random) -> list[Item]:
    """Reads and writes of any control register, most of them the machine's own, with odd values."""
    values = (
        0,
        1,
        2,
        3,
        7,
        8,
        16,
        0xFF,
        0x1FFF,
        RAM,
        RAM + 0x8000,
        RAM + 0xF_FF80,
        RAM + 0xF_FFF0,
        0xFFFF_FFF0,
        0xFFFF_FFFF,
    )
    own = [
        *range(0x7C0, 0x7D7),
        0x800,
        0x801,
        0x803,
        0x804,
        *range(0xBC0, 0xC00),
        *range(0x300, 0x345),
        *range(0x3A0, 0x3C0),
        0xB00,
        0xB02,
    ]
    items: list[Item] = []
    for _ in range(150):
        number = r.choice(own) if r.randrange(8) else r.randrange(4096)
        if number in (0x305, 0x341):
            continue
        items.append([*li2(10, r.choice((*values, r.getrandbits(32)))), csrw(number, 10), csrr(11, r.choice(own))])
    return items


def places(r: random.Random) -> list[Item]:
    """Accesses of all sizes at the edges of everything."""
    items: list[Item] = []
    for _ in range(150):
        access = r.getrandbits(32) & 0xFFF0_7000 & ~0xFC00_0000 | 10 << 15
        if r.randrange(2):
            access = access | 11 << 7 | 0x03
        elif r.randrange(3):
            access = (access & ~0x01F0_0000) | 12 << 20 | 0x23 | r.randrange(32) << 7
        else:
            access = r.getrandbits(32) & 0xF800_0000 | 12 << 20 | 10 << 15 | 2 << 12 | 11 << 7 | 0x2F
        items.append(
            [*li2(10, r.choice(_PLACES) + r.randrange(-8, 24)), *li2(12, r.choice((0, 1, 3, 0xFFFF_FFFF, RAM))), access]
        )
    return items


def surrounded(r: random.Random, body: list[Item]) -> list[Item]:
    """In user or machine mode, with a handler that goes on somewhere in them."""
    return [
        la(28, "handler"), csrw(0x305, 28), la(28, "again"), csrw(0x341, 28), li2(8, DATA), li2(29, 0x888),
        csrw(0x304, 29),
        *li2(29, 0x1880 if r.randrange(2) else 0x80), csrw(0x300, 29), MRET,
        Label("handler"),
        # From where on it goes depends on the cycle, so that no loop is for ever.
        csrr(28, 0xB00), slli(28, 28, 22), srli(28, 28, 21), la(29, "again"), add(28, 28, 29), csrw(0x341, 28),
        csrwi(0x7C1, 0), csrw(0x304, 0), MRET,
        Label("again"), *body, j("again"), bytes(2048),
    ]  # fmt: skip


def one(r: random.Random) -> Bench:
    kind = r.choice((words, halves, opcodes, opcodes, registers, registers, places, places, None, None))
    values: dict[str, Any] = {"memory": MemoryConfig(ram="1MiB"), "block": BlockDevice(sectors=r.choice((0, 1, 64)))}
    if kind is None:
        return bench(r, r.choice((ALL, ANY)), **values)
    return Bench(*surrounded(r, kind(r)), at=RAM, **machine(r, **values))


def main(seed: int, instructions: int) -> None:
    r = random.Random(seed)
    done = 0
    while done < instructions:
        b = one(r)
        for _ in range(20):
            stop = b.processor.run(b.processor.now + r.randrange(1, 1500))
            if stop == 3:
                break
        done += b.processor.instructions
        broken = violations(b.ledger())
        assert not broken, (seed, broken)
    print(done)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
