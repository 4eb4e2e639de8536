"""PTM streams: packets of every setting, and their flow through a program."""

from __future__ import annotations

import struct
from functools import cached_property
from random import Random

from tests.fuzz.mutation import mutated, number
from tests.fuzz.target import Target
from tests.trace import ptm
from tests.trace.encoding import ALIGNMENT
from tests.trace.programs import BASE, Program, listing, program

from headway_trace._program import InstructionTable
from headway_trace.ptm import Setting
from headway_trace.records import Gap, Instruction

_COUNTED = struct.pack("<3I", 0x10001000, 0x411CF312, 0x34C01AC2)
_STACK = struct.pack("<3I", 0x20000000, 0x411CF312, 0x34C01AC2)
"""ETMCR, ETMIDR and ETMCCER of a unit that counts cycles, and of one that has a return stack."""
_ANEW = 256
"""Inputs after which the table of instructions is made anew."""


def _setting(registers: bytes) -> Setting:
    return Setting.from_registers(*struct.unpack("<3I", registers.ljust(12, b"\0")))


class PtmTarget(Target):
    """Streams of a random Thumb program."""

    name = "ptm"

    def __init__(self) -> None:
        self._inputs = 0
        self._table: InstructionTable | None = None

    @cached_property
    def _program(self) -> Program:
        return program(Random(3))

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return registers and traces of runs of the program."""
        return [
            registers + bytes(ptm.run(self._program, Random(seed), _setting(registers), 40).trace)
            for seed in range(4)
            for registers in (_COUNTED, _STACK)
        ]

    def make(self, random: Random) -> bytes:
        """Change a stream, or make one of valid packets in any order. The first bytes are its setting."""
        seed = random.choice(self.seeds)
        registers = random.randbytes(12) if random.random() < 0.2 else seed[:12]
        if random.random() < 0.6:
            return registers + mutated(random, seed[12:], self.seeds)
        setting = _setting(registers)
        start = ALIGNMENT + ptm.sync(BASE, reason=1, cycles=5 if setting.cycle_accurate else None)
        return registers + start + b"".join(self._packet(random, setting) for _ in range(random.randrange(60)))

    def _packet(self, random: Random, setting: Setting) -> bytes:
        kind, near = random.randrange(16), BASE + 2 * random.randrange(len(self._program.image) // 2 + 8)
        address = near if random.random() < 0.8 else number(random) & 0xFFFFFFFF
        cycles = number(random) & 0xFFFFFFFF if setting.cycle_accurate else None
        if kind < 6:
            if cycles is not None:
                return ptm.atom(random.random() < 0.8, cycles & 63) * random.choice((1, 1, 4))
            return ptm.atoms([random.random() < 0.8 for _ in range(random.randrange(1, 6))])
        if kind < 9:
            exception = random.choice((None, None, random.randrange(512)))
            return ptm.branch(address, size=random.randrange(2, 6), exception=exception, cycles=cycles)
        if kind == 9:
            return ptm.update(address, size=random.randrange(1, 6))
        if kind < 12:
            reason = random.randrange(4)
            return ptm.sync(address, thumb=random.random() < 0.8, reason=reason, cycles=cycles if reason else None)
        if kind == 12:
            return ptm.timestamp(number(random) & (1 << 64) - 1, random.choice((9, 7, 3)), cycles=cycles)
        if kind == 13:
            return ALIGNMENT
        return random.randbytes(1 + random.randrange(6))

    def read(self, data: bytes, random: Random) -> None:
        """Find the packets and follow them; every byte is in a packet, and no instruction outside the program."""
        setting, stream = _setting(data[:12]), data[12:]
        if self._table is None or self._inputs % _ANEW == 0:
            self._table = listing(self._program)
        self._inputs += 1
        parser, flow = setting.parser(), setting.flow(self._table, assumes=random.random() < 0.3)
        end, every = BASE + len(self._program.image), random.choice((7, 100, 1 << 20))
        for start in range(0, len(stream) + every, every):
            last = start >= len(stream)
            found = parser.finish() if last else parser.feed(stream[start : start + every])
            assert sum(found.counts()) >= len(found)
            records = [*flow.feed(found)]
            while flow.waiting:
                records += flow.more()
            for record in (*records, *(flow.finish() if last else ())):
                if isinstance(record, Instruction):
                    assert BASE <= record.address < end
                elif isinstance(record, Gap):
                    assert record.end >= record.start
            if not last and random.random() < 0.02:
                flow.feed(parser.lost())
                flow.lost(start)
            if last:
                break


TARGET = PtmTarget
