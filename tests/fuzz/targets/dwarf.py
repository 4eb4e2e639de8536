"""Line tables (DWARF): units whose headers, tables and programs lie, of every version."""

from __future__ import annotations

import struct
import zlib
from functools import cached_property
from random import Random

from tests.fuzz.mutation import mutated, number, varint, word
from tests.fuzz.target import Target
from tests.trace.elves import END, LENGTHS, LINE_7, at, elf, unit

from headway.binary.lines import LineTable

_TABLES_5 = (
    b"\x01\x01\x08" + b"\x01" + b"dir\0"  # directories: one field, a path, a string
    b"\x02\x01\x1f\x02\x0b" + b"\x02" + word(0) + b"\0" + word(4) + b"\0"  # files: a path elsewhere, a byte
)
_NAMES = b"one.c\0two/three.c\0"


class DwarfTarget(Target):
    """Sections, mostly without the ELF file around them, of which the target ``elf`` has enough."""

    name = "dwarf"

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return ``.debug_line`` of each version, and of several units."""
        program = (
            at(0x1000) + LINE_7 + b"\x02\x10" + b"\x4b\x9f\x3c" + b"\x04\x02" + b"\x09\x20\0" + b"\x08" + LINE_7 + END
        )
        one = [unit(program, version=version) for version in (2, 3, 4)]
        return [*one, unit(program, tables=_TABLES_5, version=5), b"".join(one), unit(at(0) + END) + one[0]]

    def make(self, random: Random) -> bytes:
        """Change a section, change a program inside a right header, or make one of any opcodes."""
        kind = random.random()
        if kind < 0.5:
            return mutated(random, random.choice(self.seeds), self.seeds)
        program = b"".join(_operation(random) for _ in range(random.randrange(40)))
        version = random.choice((2, 3, 4, 5))
        tables = _TABLES_5 if version == 5 else b"\0a/one.c\0\0\0\0\0"
        if kind < 0.7:
            tables = mutated(random, tables, [_TABLES_5], 2)
        made = unit(program, tables=tables, version=version)
        if random.random() < 0.3:  # the line base, the line range and the first special opcode
            made = made.replace(struct.pack("<bBB", -5, 14, 13), random.randbytes(3), 1)
        return made + (random.choice(self.seeds) if random.random() < 0.3 else b"")

    def read(self, data: bytes, random: Random) -> None:
        """Look up addresses; a line has a file."""
        if random.random() < 0.05:
            flags, packed = random.choice(
                ((0, data), (0x800, word(1) + word(len(data)) + word(1) + zlib.compress(data)))
            )
            table = LineTable(elf(packed, flags=flags))
        else:
            table = LineTable(b"")
            table._sections = (data, _NAMES, _NAMES)
        for address in (0, 0x1000, 0x1010, number(random) & 0xFFFFFFFF, number(random)):
            found = table.at(address)
            assert not found or found.rpartition(":")[2].isdigit()


def _operation(random: Random) -> bytes:
    kind = random.randrange(12)
    if kind < 3:
        return bytes([13 + random.randrange(243)])
    if kind < 5:
        return at(random.choice((0, 0x1000, 0x1010, 0xFFFFFFF0, number(random) & 0xFFFFFFFF)))
    if kind < 8:  # advance the address, the line, set the file
        value = number(random) & (1 << 64) - 1
        return bytes([random.choice((2, 3, 3, 4))]) + varint(value)
    if kind == 8:
        return END
    if kind == 9:
        return b"\x09" + random.randbytes(2)
    opcode = 1 + random.randrange(12)
    return bytes([opcode]) + b"".join(varint(number(random)) for _ in range(LENGTHS[opcode - 1]))


TARGET = DwarfTarget
