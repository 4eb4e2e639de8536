"""ELF files and RV32 programs made for one test, byte by byte: no toolchain is needed."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

RAM = 0x8000_0000
FUNCTION, OBJECT, NO_TYPE = 2, 1, 0


@dataclass
class Elf:
    """An ELF file for RV32; every field of its headers can be set to something else."""

    code: bytes = b"\x73\x00\x10\x00"
    address: int = RAM
    entry: int | None = None
    segments: Sequence[tuple[int, bytes, int]] = ()
    """More of them: address, contents, bytes of memory."""
    symbols: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """Value, size and type by name."""
    header: Mapping[str, int] = field(default_factory=dict)
    segment_type: int = 1
    flags: int = 1

    def build(self) -> bytes:
        loads = [(self.address, self.code, len(self.code)), *self.segments]
        at = 52 + 32 * len(loads)
        body, table = b"", b""
        for address, data, size in loads:
            table += struct.pack("<8I", self.segment_type, at + len(body), address, address, len(data), size, 7, 4)
            body += data
        strings, symbols = b"\0", bytes(16)
        for name, (value, size, kind) in self.symbols.items():
            symbols += struct.pack("<IIIBBH", len(strings), value, size, 0x10 | kind, 0, 1)
            strings += name.encode("utf-8", "surrogateescape") + b"\0"
        places = at + len(body), at + len(body) + len(symbols)
        names = b"\0.symtab\0.strtab\0"
        sections = bytes(40)
        sections += struct.pack("<10I", 1, 2, 0, 0, places[0], len(symbols), 2, 1, 4, 16)
        sections += struct.pack("<10I", 9, 3, 0, 0, places[1], len(strings), 0, 0, 1, 0)
        sections += struct.pack("<10I", 9, 3, 0, 0, places[1] + len(strings), len(names), 0, 0, 1, 0)
        table_at = places[1] + len(strings) + len(names)
        values: dict[str, int] = {
            "class": 1,
            "data": 1,
            "type": 2,
            "machine": 243,
            "entry": self.address if self.entry is None else self.entry,
            "phoff": 52,
            "shoff": table_at,
            "flags": self.flags,
            "phentsize": 32,
            "phnum": len(loads),
            "shentsize": 40,
            "shnum": 4,
            **self.header,
        }
        ident = b"\x7fELF" + bytes([values["class"], values["data"], 1]) + bytes(9)
        head = ident + struct.pack("<HHIIIIIHHHHHH", values["type"], values["machine"], 1, values["entry"],
            values["phoff"], values["shoff"], values["flags"], 52, values["phentsize"], values["phnum"],
            values["shentsize"], values["shnum"], 3)  # fmt: skip
        return head + table + body + symbols + strings + names + sections


# --- instructions; registers by number, x10 is a0 ---------------------------------------------------------------------

ZERO, RA, SP, T0, T1, T2, A0, A1, A7 = 0, 1, 2, 5, 6, 7, 10, 11, 17
EBREAK, ECALL, WFI, MRET = 0x0010_0073, 0x73, 0x1050_0073, 0x3020_0073
SEMIHOST = (0x01F0_1013, EBREAK, 0x4070_5013)
"""slli x0,x0,0x1f; ebreak; srai x0,x0,7"""


def lui(rd: int, value: int) -> int:
    return (value & 0xFFFFF) << 12 | rd << 7 | 0x37


def addi(rd: int, rs: int, value: int) -> int:
    return (value & 0xFFF) << 20 | rs << 15 | rd << 7 | 0x13


def li(rd: int, value: int) -> tuple[int, int]:
    """Two instructions, whatever the value."""
    low = (value & 0xFFF) - ((value & 0x800) << 1)
    return lui(rd, (value - low) >> 12), addi(rd, rd, low)


def lw(rd: int, rs: int, offset: int = 0) -> int:
    return (offset & 0xFFF) << 20 | rs << 15 | 2 << 12 | rd << 7 | 0x03


def sw(rs2: int, rs1: int, offset: int = 0) -> int:
    return (offset & 0xFE0) << 20 | rs2 << 20 | rs1 << 15 | 2 << 12 | (offset & 0x1F) << 7 | 0x23


def beq(rs1: int, rs2: int, offset: int, funct: int = 0) -> int:
    o = offset & 0x1FFF
    high = (o >> 12 & 1) << 31 | (o >> 5 & 0x3F) << 25
    return high | rs2 << 20 | rs1 << 15 | funct << 12 | (o >> 1 & 0xF) << 8 | (o >> 11 & 1) << 7 | 0x63


def bne(rs1: int, rs2: int, offset: int) -> int:
    return beq(rs1, rs2, offset, 1)


def jump(offset: int) -> int:
    o = offset & 0x1FFFFF
    return (o >> 20 & 1) << 31 | (o >> 1 & 0x3FF) << 21 | (o >> 11 & 1) << 20 | (o >> 12 & 0xFF) << 12 | 0x6F


def csrw(csr: int, rs: int) -> int:
    return csr << 20 | rs << 15 | 1 << 12 | 0x73


def assemble(*instructions: int | Sequence[int]) -> bytes:
    flat: list[int] = []
    for instruction in instructions:
        flat += [instruction] if isinstance(instruction, int) else instruction
    return struct.pack(f"<{len(flat)}I", *flat)
