"""Call frame information: sections and whole files that lie."""

from __future__ import annotations

import struct
from functools import cached_property
from pathlib import Path
from random import Random

import numpy as np
from tests.fuzz.mutation import mutated, number, varint
from tests.fuzz.target import Target

from headway.binary._call_frames import Compiler
from headway.binary.call_frames import ROW, RULE, CallFrames, read_call_frames

_PROGRAMS = (
    b"\x41\x0e\x10\x86\x02\x43\x0d\x06\x02\x40\x0c\x07\x08",
    b"\x42\x0e\x10\x8f\x02\x0a\x44\x0e\x08\x0b\x03\x00\x01\x0e\x20",
    b"\x07\x10",
    b"\x0f\x03\x77\x08\x06\x41\x10\x06\x02\x76\x00",
    b"\x0e\x10\x46\x0e\x18\x4a\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22",
    b"\x09\x10\x05",
)


def _entry(identifier: int, body: bytes) -> bytes:
    body = struct.pack("<I", identifier) + body
    body += bytes(-len(body) % 4)
    return struct.pack("<I", len(body)) + body


def _cie(letters: bytes = b"zR\0", data: bytes = b"\x01\x00") -> bytes:
    return _entry(0, b"\x01" + letters + b"\x01\x78\x10" + data + b"\x0c\x07\x08\x90\x01")


def _section(programs: list[tuple[int, int, bytes]]) -> bytes:
    data = _cie()
    for start, size, program in programs:
        data += _entry(len(data) + 4, struct.pack("<QQ", start, size) + b"\0" + program)
    return data


class CallFrameTarget(Target):
    """Sections, mostly without a file around them; and small files."""

    name = "call_frames"

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return sections with every kind of instruction, and the beginning of a real file."""
        made = [_section([(0x1000, 0x200, program)]) for program in _PROGRAMS]
        several = _section([(0x1000 + 0x100 * i, 0x100, program) for i, program in enumerate(_PROGRAMS)])
        return [*made, several, _cie(b"zPLR\0", b"\x07\x00" + bytes(4) + b"\x00\x00") + several, several + bytes(4)]

    @cached_property
    def file(self) -> bytes:
        """A small library that is on every machine."""
        for place in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"):
            if Path(place).exists():
                return Path(place).read_bytes()
        return b"\x7fELF"

    def make(self, random: Random) -> bytes:
        """Change a section, or make one of any instructions."""
        if random.random() < 0.6:
            return mutated(random, random.choice(self.seeds), self.seeds)
        programs = [
            (0x1000 + random.randrange(0x400), number(random) & 0xFFF, b"".join(_operation(random) for _ in range(12)))
            for _ in range(random.randrange(5))
        ]
        return _section(programs)

    def read(self, data: bytes, random: Random) -> None:
        """Compile: rows ascend, and their rules are there."""
        if random.random() < 0.05:
            self._read_file(data, random)
            return
        compiler = Compiler(random.choice((62, 62, 183)), 0, 0x1000, 0x1000 + number(random) % (1 << 40))
        compiler.add(data, number(random) & (1 << 64) - 1 if random.random() < 0.2 else 0, random.random() < 0.8)
        rows, rules = compiler.compile()
        _check(CallFrames(0, np.frombuffer(rows, ROW), np.frombuffer(rules, RULE)))

    def _read_file(self, data: bytes, random: Random) -> None:
        """A real file with another head, or with other bytes in the middle."""
        file = bytearray(self.file)
        at = random.choice((0, 16, 32, 64, random.randrange(len(file))))
        file[at : at + len(data[:64])] = data[:64]
        if random.random() < 0.8:
            file[:16] = self.file[:16]
        content = bytes(file)
        _check(read_call_frames(lambda size, at: content[at : at + max(size, 0)] if at >= 0 else b""))


def _check(found: CallFrames) -> None:
    assert np.all(np.diff(found.rows["address"].astype(np.int64)) > 0)
    assert not len(found.rows) or int(found.rows["rule"].max()) < len(found.rules)


def _operation(random: Random) -> bytes:
    kind = random.randrange(8)
    if kind < 3:
        return bytes([random.choice((0x40, 0x80, 0xC0)) | random.randrange(0x40)]) + (varint(number(random) & 0xFF))
    if kind < 6:
        operands = b"".join(varint(number(random) & (1 << 64) - 1) for _ in range(random.randrange(3)))
        return bytes([random.randrange(0x17)]) + operands
    if kind == 6:
        size = random.randrange(12)
        return bytes([random.choice((0x0F, 0x10, 0x16)), random.randrange(17), size]) + random.randbytes(size)
    return random.randbytes(3)


TARGET = CallFrameTarget
