"""ETMv3 streams: packets of every setting, and their flow through a program."""

from __future__ import annotations

import struct
from functools import cached_property
from random import Random

from tests.fuzz.mutation import mutated, number
from tests.fuzz.target import Target
from tests.trace.encoding import ALIGNMENT, atom, branch, sync, timestamp
from tests.trace.programs import BASE, Program, listing, program, run

from headway_trace._etmv3 import atoms
from headway_trace._flow import Flow
from headway_trace._program import InstructionTable
from headway_trace.etmv3 import Setting
from headway_trace.records import Gap, Instruction

_REGISTERS = struct.pack("<3I", 0x10001000, 0x410CF250, 0x344008F2)
"""ETMCR, ETMIDR and ETMCCER of a unit that counts cycles."""
_ANEW = 256
"""Inputs after which the table of instructions is made anew."""


class Etmv3Target(Target):
    """Streams of a random Thumb program."""

    name = "etmv3"

    def __init__(self) -> None:
        self._inputs = 0
        self._table: InstructionTable | None = None

    @cached_property
    def _program(self) -> Program:
        return program(Random(3))

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return registers and traces of runs of the program."""
        return [_REGISTERS + bytes(run(self._program, Random(seed), 40).trace) for seed in range(6)]

    def make(self, random: Random) -> bytes:
        """Change a stream, or make one of valid packets in any order. The first bytes are its setting."""
        if random.random() < 0.6:
            stream = mutated(random, random.choice(self.seeds)[12:], self.seeds)
        else:
            stream = ALIGNMENT + sync(BASE, reason=1, cycles=5)
            stream += b"".join(self._packet(random) for _ in range(random.randrange(60)))
        return (random.randbytes(12) if random.random() < 0.3 else _REGISTERS) + stream

    def _packet(self, random: Random) -> bytes:
        kind, near = random.randrange(16), BASE + 2 * random.randrange(len(self._program.image) // 2 + 8)
        address = near if random.random() < 0.8 else number(random) & 0xFFFFFFFF
        if kind < 5:
            return atom(random.random() < 0.8, random.randrange(24)) * random.choice((1, 1, 4, 30))
        if kind < 8:
            exception = random.choice((None, None, random.randrange(16)))
            return branch(address, size=random.randrange(1, 6), exception=exception, cancel=random.random() < 0.3)
        if kind < 10:
            cycles = random.choice((None, 0, number(random) & 0xFFFFFFFF))
            return sync(address, thumb=random.random() < 0.8, reason=random.randrange(4), cycles=cycles)
        if kind == 10:
            return timestamp(number(random) & (1 << 64) - 1, random.choice((9, 7, 3)))
        if kind == 11:
            return ALIGNMENT
        if kind == 12:
            return bytes([random.getrandbits(7) << 1 | 1])
        return random.randbytes(1 + random.randrange(6))

    def read(self, data: bytes, random: Random) -> None:
        """Find the packets and follow them; every byte is in a packet, and no instruction outside the program."""
        setting = Setting.from_registers(*struct.unpack("<3I", data[:12].ljust(12, b"\0")))
        stream, parser = data[12:], setting.parser()
        if self._table is None or self._inputs % _ANEW == 0:
            self._table = listing(self._program)
        self._inputs += 1
        flow = Flow(
            self._table, cycle_accurate=setting.cycle_accurate, branch_broadcast=setting.branch_broadcast,
            counted_through_overflow=setting.counted_through_overflow, threads=setting.context_bytes > 0,
            confined=random.random() < 0.5,
        )  # fmt: skip
        end, every = BASE + len(self._program.image), random.choice((7, 100, 1 << 20))
        for start in range(0, len(stream) + every, every):
            last = start >= len(stream)
            found = parser.finish() if last else parser.feed(stream[start : start + every])
            atoms(found, setting.cycle_accurate)
            assert sum(found.counts()) >= len(found)
            for record in (*flow.feed(found), *(flow.finish() if last else ())):
                if isinstance(record, Instruction):
                    assert BASE <= record.address < end
                elif isinstance(record, Gap):
                    assert record.end >= record.start
            if not last and random.random() < 0.02:
                flow.feed(parser.lost())
                flow.lost(start)
            if last:
                break


TARGET = Etmv3Target
