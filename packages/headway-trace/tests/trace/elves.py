"""Small ELF files for ARM, with line tables made by hand."""

from __future__ import annotations

import struct

LENGTHS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
"""Operands of the standard opcodes of a line-number program."""
END = b"\0\x01\x01"
CODE = 128
"""The byte of the file at which the code of `identified` begins."""
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


def identified(code: bytes, build_id: bytes, *, machine: int = 183, wide: bool = True, base: int = 0) -> bytes:
    """A program of this code, which begins at byte CODE, with a build ID (b"": none) and one function, ``work``.

    ``machine`` 183 is A64, 40 is 32-bit Arm; ``wide``: in the form of 64 bits.
    """
    note = struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id if build_id else b""
    note += bytes(-len(note) % 8)
    names, texts = b"\0.note.gnu.build-id\0.symtab\0.strtab\0.shstrtab\0", b"\0work\0"
    odd = machine == 40  # T32
    if wide:
        symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 2, 0, 1, base, len(code))
    else:
        symbols = bytes(16) + struct.pack("<IIIBBH", 1, base | odd, len(code), 2, 0, 1)
    notes = CODE + len(code) + -len(code) % 8
    table, strings = notes + len(note), notes + len(note) + len(symbols)
    shown = strings + len(texts)
    each = "<IIQQQQIIQQ" if wide else "<10I"
    sections = bytes(struct.calcsize(each))
    for name, kind, at, size, link, entry in (
        (1, 7 if note else 0, notes, len(note), 0, 0),
        (20, 2, table, len(symbols), 3, 24 if wide else 16),
        (28, 3, strings, len(texts), 0, 0),
        (36, 3, shown, len(names), 0, 0),
    ):
        sections += struct.pack(each, name, kind, 0, 0, at, size, link, 0, 4, entry)
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    behind = shown + len(names)
    if wide:
        head = struct.pack("<16sHHIQQQIHHHHHH", ident, 2, machine, 1, base, 64, behind, 0, 64, 56, 1, 64, 5, 4)
        head += struct.pack("<IIQQQQQQ", 1, 5, CODE, base, base, len(code), len(code), 8)
    else:
        head = struct.pack("<16sHHIIIIIHHHHHH", ident, 2, machine, 1, base, 52, behind, 0, 52, 32, 1, 40, 5, 4)
        head += struct.pack("<8I", 1, CODE, base, base, len(code), len(code), 5, 4)
    return (head.ljust(CODE, b"\0") + code).ljust(notes, b"\0") + note + symbols + texts + names + sections
