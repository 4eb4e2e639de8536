"""Small ELF files for ARM, with line tables made by hand."""

from __future__ import annotations

import struct

LENGTHS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
"""Operands of the standard opcodes of a line-number program."""
END = b"\0\x01\x01"
LINE_7 = b"\x03\x06\x01"
"""Advance the line by six, and keep a row."""


def at(address: int) -> bytes:
    """Of a line-number program: what follows is of this address."""
    return b"\0\x05\x02" + struct.pack("<I", address)


def unit(program: bytes, *, tables: bytes = b"\0a/one.c\0\0\0\0\0", version: int = 4) -> bytes:
    """A unit of version 2 to 4, or with its own tables of another."""
    head = bytes([2, 1, 1][: 2 + (version >= 4)]) + struct.pack("<bBB", -5, 14, 13) + LENGTHS + tables
    after = struct.pack("<I", len(head)) + head + program
    body = struct.pack("<H", version) + (b"\x04\0" if version == 5 else b"") + after
    return struct.pack("<I", len(body)) + body


def elf(line: bytes, *, flags: int = 0, code: bytes = b"", base: int = 0) -> bytes:
    """A program of this code, with a section ``.debug_line`` that has these flags, and no symbols."""
    names = b"\0.debug_line\0.shstrtab\0"
    header = struct.Struct("<16sHHIIIIIHHHHHH")
    start = header.size + 32
    lines, texts = start + len(code), start + len(code) + len(line)
    segment = struct.pack("<8I", 1, start, base, base, len(code), len(code), 5, 4)
    sections = bytes(40)
    sections += struct.pack("<10I", 1, 1, flags, 0, lines, len(line), 0, 0, 1, 0)
    sections += struct.pack("<10I", 13, 3, 0, 0, texts, len(names), 0, 0, 1, 0)
    ident = b"\x7fELF\x01\x01\x01".ljust(16, b"\0")
    head = header.pack(ident, 2, 40, 1, base, header.size, texts + len(names), 0, 52, 32, 1, 40, 3, 2)
    return head + segment + code + line + names + sections
