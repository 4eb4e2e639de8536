"""ETE streams: as of ETMv4, but every unit is an ETE, and the packets that only an ETE sends are frequent."""

from __future__ import annotations

import struct
from random import Random

from tests.fuzz.mutation import number
from tests.trace import etmv4

from .etmv4 import Etmv4Target

_ARCHITECTURE = 0x47705A13
"""TRCDEVARCH of an ETE 1.0; bits 16 to 19 are its revision."""
_CERTAIN = struct.pack("<6I", 0xC1, 0x28000EA1, 0x4100FFF0, 0xD0001088, 0, _ARCHITECTURE)
_SPECULATIVE = struct.pack("<6I", 0x10D1, 0x2801CEA1, 0x4100FFF0, 0xD0001088, 30, _ARCHITECTURE | 3 << 16)
"""TRCCONFIGR, TRCIDR0, 1, 2 and 8 and TRCDEVARCH: without speculation; with it, a return stack and cycle counts."""


class EteTarget(Etmv4Target):
    """Streams of a random A64 program."""

    name = "ete"
    registers = (_CERTAIN, _SPECULATIVE)

    def _drawn(self, random: Random) -> bytes:
        """Return registers of which all but the architecture are random."""
        return random.randbytes(20) + struct.pack("<I", _ARCHITECTURE | random.randrange(4) << 16)

    def _packet(self, random: Random) -> bytes:
        kind = random.randrange(8)
        if kind == 0:  # source addresses: short, long, and repetitions
            return bytes([0xB0 + random.randrange(10)]) + random.randbytes(random.randrange(9))
        if kind == 1:  # transactions, resets, TSTART, timestamp markers
            return random.choice((b"\x0a", b"\x0b", b"\x06\x31", b"\x06\x33", b"\x88", b"\x70\x01"))
        if kind == 2:  # how many instructions were executed
            return bytes([0xA0 + random.randrange(16)]) + random.randbytes(random.randrange(6))
        if kind == 3:
            return etmv4.exception(random.randrange(32), number(random) & (1 << 64) - 1)
        return super()._packet(random)


TARGET = EteTarget
