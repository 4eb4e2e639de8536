"""ETMv4 and ETE streams: packets of every setting, and their flow through a program."""

from __future__ import annotations

import struct
from functools import cached_property
from random import Random

from tests.fuzz.mutation import mutated, number
from tests.fuzz.target import Target
from tests.trace import etmv4

from headway_trace._program import InstructionTable
from headway_trace.etmv4 import Setting
from headway_trace.records import Gap, Instruction

_PLAIN = struct.pack("<6I", 0xC1, 0x28000EA1, 0x4100F423, 0x488, 0, 0)
_SPECULATIVE = struct.pack("<6I", 0x10C1, 0x2801CEA1, 0x4100FFF0, 0xD0001088, 30, 0x47735A13)
"""TRCCONFIGR, TRCIDR0, 1, 2 and 8 and TRCDEVARCH of an ETMv4, and of an ETE with speculation and a return stack."""
_ANEW = 256
"""Inputs after which the table of instructions is made anew."""


def _setting(registers: bytes) -> Setting:
    config, first, second, third, deepest, architecture = struct.unpack("<6I", registers.ljust(24, b"\0"))
    return Setting.from_registers(config, first, second, third, deepest, architecture or None)


class Etmv4Target(Target):
    """Streams of a random A64 program."""

    name = "etmv4"
    registers: tuple[bytes, ...] = (_PLAIN, _SPECULATIVE)
    """Of the seeds."""

    def __init__(self) -> None:
        self._inputs = 0
        self._table: InstructionTable | None = None

    @cached_property
    def _program(self) -> etmv4.Program:
        return etmv4.program(Random(3))

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return registers and traces of runs of the program."""
        return [
            registers + bytes(etmv4.run(self._program, Random(seed), _setting(registers), 40).trace)
            for seed in range(4)
            for registers in self.registers
        ]

    def make(self, random: Random) -> bytes:
        """Change a stream, or make one of valid packets in any order. The first bytes are its setting."""
        seed = random.choice(self.seeds)
        registers = self._drawn(random) if random.random() < 0.2 else seed[:24]
        if random.random() < 0.6:
            return registers + mutated(random, seed[24:], self.seeds)
        start = etmv4.START + etmv4.ON + etmv4.context() + etmv4.long_address(etmv4.BASE)
        return registers + start + b"".join(self._packet(random) for _ in range(random.randrange(60)))

    def _drawn(self, random: Random) -> bytes:
        """Return any registers."""
        return random.randbytes(24)

    def _packet(self, random: Random) -> bytes:
        kind, near = random.randrange(16), etmv4.BASE + 4 * random.randrange(len(self._program.kinds) + 8)
        address = near if random.random() < 0.8 else number(random) & (1 << 64) - 1
        if kind < 5:
            return etmv4.atoms([random.random() < 0.8 for _ in range(random.randrange(1, 4))])
        if kind < 8:
            return random.choice((etmv4.long_address, etmv4.short_address))(address)
        if kind == 8:
            return etmv4.exception(random.randrange(32), address)
        if kind == 9:
            return etmv4.commit(random.randrange(8))
        if kind == 10:
            return etmv4.cancel(random.randrange(8), mispredict=random.random() < 0.5)
        if kind == 11:
            return etmv4.timestamp(number(random) & (1 << 64) - 1)
        if kind == 12:
            return etmv4.context(wide=random.random() < 0.8)
        if kind == 13:
            return random.choice((etmv4.START, etmv4.ON, b"\x00\x05", b"\x00\x03", b"\xa5", b"\xb4", b"\x30", b"\x0a"))
        return random.randbytes(1 + random.randrange(6))

    def read(self, data: bytes, random: Random) -> None:
        """Find the packets and follow them; every byte is in a packet, and no instruction outside the program."""
        setting, stream = _setting(data[:24]), data[24:]
        if self._table is None or self._inputs % _ANEW == 0:
            self._table = self._program.table()
        self._inputs += 1
        parser, flow = setting.parser(), setting.flow(self._table, assumes=random.random() < 0.3)
        end, every = etmv4.BASE + len(self._program.image), random.choice((7, 100, 1 << 20))
        for start in range(0, len(stream) + every, every):
            last = start >= len(stream)
            found = parser.finish() if last else parser.feed(stream[start : start + every])
            assert sum(found.counts()) >= len(found)
            records = [*flow.feed(found)]
            while flow.waiting:
                records += flow.more()
            for record in (*records, *(flow.finish() if last else ())):
                if isinstance(record, Instruction):
                    assert etmv4.BASE <= record.address < end
                elif isinstance(record, Gap):
                    assert record.end >= record.start
            if not last and random.random() < 0.02:
                flow.feed(parser.lost())
                flow.lost(start)
            if last:
                break


TARGET = Etmv4Target
