"""Programs for RV32: the memory contents and the names that an ELF file defines.

The file is untrusted. pyelftools reads headers and sections after `_check_header` has found that their counts fit the
file; symbol tables are unpacked as a whole. Each error is one sentence (`ImageError`).

Source of the format: the ELF gABI, and "RISC-V ELF psABI" for e_flags.
"""

from __future__ import annotations

import io
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import IO, Any, Self, cast

from elftools.elf.elffile import ELFFile

from headway.errors import HeadwayError
from headway.files import read_file
from headway.values import shown

__all__ = ["ImageError", "LoadSegment", "NumberNames", "ProgramImage"]

_MAX_FILE = 1 << 30
_MAX_SEGMENTS = 256
_MAX_SECTIONS = 65_536
_MAX_SYMBOLS = 1 << 20
_MAX_STRINGS = 64 << 20
_NAME = 256
"""The largest number of bytes of a symbol's name that is read."""

_MAGIC = b"\x7fELF"
_HEADER = struct.Struct("<16sHHIIIIIHHHHHH")  # Elf32_Ehdr
_PROGRAM_HEADER, _SECTION_HEADER = 32, 40  # sizes of Elf32_Phdr and Elf32_Shdr
_SYMBOL = struct.Struct("<IIIBBH")  # Elf32_Sym
_RISCV = 243  # EM_RISCV
_TYPES = {1: "an object file that is not linked", 2: "", 3: "position-independent", 4: "a core dump"}
_FLOAT_ABI = {0x2: "single", 0x4: "double", 0x6: "quad"}  # EF_RISCV_FLOAT_ABI
_FUNCTION, _NO_TYPE, _OBJECT = 2, 0, 1
_NAMED = re.compile(r"headway_(call|tag|poll|wait)_(\d{1,3})_(.+)", re.ASCII)
_MAX_NUMBER = {"call": 31, "tag": 31, "poll": 23, "wait": 30}
_WORD = re.compile(r"[^\w.-]", re.ASCII)


class ImageError(HeadwayError):
    """The error for a file that is no program for RV32, or that a machine cannot run, in one sentence."""


@dataclass(frozen=True, slots=True)
class LoadSegment:
    """Bytes to load at ``address``. They take ``size`` bytes of memory; the memory after ``data`` is 0."""

    address: int
    data: bytes
    size: int

    @property
    def end(self) -> int:
        """The address after the segment."""
        return self.address + self.size


@dataclass(frozen=True, slots=True)
class NumberNames:
    """The names that a program gives to numbers, by defining symbols such as ``headway_call_7_sleep``."""

    calls: Mapping[int, str] = field(default_factory=dict)
    tags: Mapping[int, str] = field(default_factory=dict)
    polls: Mapping[int, str] = field(default_factory=dict)
    waits: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProgramImage:
    """A program. Every address has 32 bits."""

    name: str
    """The name of the program in messages."""
    entry: int
    segments: tuple[LoadSegment, ...]
    """Ordered by address, without overlap."""
    tohost: int | None = None
    fromhost: int | None = None
    names: NumberNames = NumberNames()
    functions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """For each function by name, its first address and the address after its last."""
    objects: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The same for each variable."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an image from a file. Raises ImageError, and HeadwayError if the file cannot be read."""
        name = os.fspath(path)
        return cls.of(read_file(name, "an ELF file for RV32", _MAX_FILE), name)

    @classmethod
    def of(cls, data: bytes, name: str = "the program") -> Self:
        """Read an image from the bytes of an ELF file; ``name`` is its name in messages. Raises ImageError."""
        shown_name = ascii(name)[1:-1]
        try:
            return cls(*_image(data, shown_name))
        except HeadwayError:
            raise
        except Exception as error:  # pyelftools and struct raise many kinds of exception for a damaged file
            reason = shown(str(error).splitlines()[0] if str(error) else type(error).__name__)[1:-1]
            raise ImageError(f"{shown_name} is a damaged ELF file ({reason}): build it again") from None


def _image(data: bytes, name: str) -> tuple[Any, ...]:
    """Return the fields of an image."""
    entry = _check_header(data, name)
    elf = ELFFile(cast(IO[bytes], io.BytesIO(data)))
    segments = _segments(elf, data, name)
    if not segments:
        raise ImageError(f"{name} has nothing to load: link it as a program")
    if entry % 2:
        raise ImageError(f"{name} starts at {entry:#x}, an odd address: instructions are at even ones")
    if not any(segment.address <= entry < segment.end for segment in segments):
        raise ImageError(f"{name} starts at {entry:#x}, where it has nothing: give the linker its entry (ENTRY, -e)")
    places: dict[str, int] = {}
    functions: dict[str, tuple[int, int]] = {}
    objects: dict[str, tuple[int, int]] = {}
    named: dict[str, dict[int, str]] = {"call": {}, "tag": {}, "poll": {}, "wait": {}}
    for symbol, address, size, kind in _symbols(elf, data, name):
        if symbol in ("tohost", "fromhost"):
            places.setdefault(symbol, address)
        elif kind in (_FUNCTION, _OBJECT) and size:
            of_kind = functions if kind == _FUNCTION else objects
            of_kind.setdefault(symbol, (address, min(address + size, 1 << 32)))
        found = _NAMED.fullmatch(symbol)
        if found and int(found[2]) <= _MAX_NUMBER[found[1]]:
            named[found[1]].setdefault(int(found[2]), _WORD.sub("_", found[3])[:64])
    names = NumberNames(named["call"], named["tag"], named["poll"], named["wait"])
    for symbol, address in places.items():
        if address % 8:
            raise ImageError(f"{name} has its symbol {symbol} at {address:#x}: align it to 8 bytes")
    return name, entry, segments, places.get("tohost"), places.get("fromhost"), names, functions, objects


def _check_header(data: bytes, name: str) -> int:
    """Check that the file is a program for this machine and that its headers fit the file; return its entry address."""
    if data[:4] != _MAGIC:
        kind = "empty" if not data else "a script" if data[:2] == b"#!" else "not an ELF file"
        raise ImageError(f"{name} is {kind}: give an ELF file for RV32")
    if len(data) > 4 and data[4] == 2:
        raise ImageError(f"{name} is a 64-bit program: the machine has 32 bits, build for rv32imac")
    if len(data) < _HEADER.size:
        raise ImageError(f"{name} is cut off: its header has {len(data)} bytes of {_HEADER.size}")
    if data[4] != 1:
        raise ImageError(f"{name} is a damaged ELF file (its class is {data[4]}): build it again")
    if data[5] != 1:
        raise ImageError(f"{name} is not little-endian: build for rv32imac, little-endian")
    _, sort, machine, _, entry, phoff, shoff, flags, _, phentsize, phnum, shentsize, shnum, _ = _HEADER.unpack_from(
        data
    )
    if machine != _RISCV:
        raise ImageError(f"{name} is for another kind of processor (machine {machine}): build for rv32imac")
    if sort != 2:
        what = _TYPES.get(sort, f"of type {sort}")
        raise ImageError(f"{name} is {what}: link it as a static program (-static, without -shared and -pie)")
    if flags & 0x6:
        raise ImageError(
            f"{name} passes {_FLOAT_ABI[flags & 0x6]}-precision numbers in registers that the machine has not: "
            "build it with -march=rv32imac -mabi=ilp32"
        )
    for what, offset, size, least, count, most in (
        ("program", phoff, phentsize, _PROGRAM_HEADER, phnum, _MAX_SEGMENTS),
        ("section", shoff, shentsize, _SECTION_HEADER, shnum, _MAX_SECTIONS),
    ):
        if count and size != least:
            raise ImageError(f"{name} is a damaged ELF file (its {what} headers have {size} bytes): build it again")
        if count > most:
            raise ImageError(f"{name} claims to have {count} {what} headers: {most} are the most")
        if offset + size * count > len(data):
            raise ImageError(f"{name} is cut off: its {what} headers lie beyond its end")
    return cast(int, entry)


def _segments(elf: ELFFile, data: bytes, name: str) -> tuple[LoadSegment, ...]:
    found = []
    for index in range(elf.num_segments()):
        header = elf.get_segment(index).header
        if header["p_type"] == "PT_INTERP":
            raise ImageError(f"{name} asks for a dynamic linker: link it as a static program (-static)")
        if header["p_type"] != "PT_LOAD" or not header["p_memsz"]:
            continue
        # Load at the physical address: a program that runs from ROM copies itself from there to its virtual address.
        address, offset = header["p_paddr"], header["p_offset"]
        stored, size = header["p_filesz"], header["p_memsz"]
        if stored > size:
            raise ImageError(
                f"{name} has a segment at {address:#x} with more in the file than in memory: link it again"
            )
        if offset + stored > len(data):
            raise ImageError(f"{name} is cut off: the segment at {address:#x} lies beyond its end")
        if address + size > 1 << 32:
            raise ImageError(f"{name} has a segment at {address:#x} that ends beyond the last address: link it again")
        found.append(LoadSegment(address, data[offset : offset + stored], size))
    found.sort(key=lambda segment: segment.address)
    for before, after in pairwise(found):
        if after.address < before.end:
            raise ImageError(
                f"{name} has two segments at {after.address:#x} (one ends at {before.end:#x}): link it again"
            )
    return tuple(found)


def _symbols(elf: ELFFile, data: bytes, name: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield name, value, size and type of each named symbol that the file defines."""
    for index in range(elf.num_sections()):
        # Use the header alone: pyelftools reads symbol tables entry by entry, which is slow.
        header: Any = elf._get_section_header(index)
        if header["sh_type"] != "SHT_SYMTAB":
            continue
        if header["sh_link"] >= elf.num_sections():
            raise ImageError(f"{name} is a damaged ELF file (its symbols have no names): build it again")
        strings = elf._get_section_header(header["sh_link"])
        table = _part(data, header["sh_offset"], header["sh_size"], name)
        texts = _part(data, strings["sh_offset"], strings["sh_size"], name)
        if len(table) // _SYMBOL.size > _MAX_SYMBOLS or len(texts) > _MAX_STRINGS:
            raise ImageError(f"{name} has more than {_MAX_SYMBOLS} symbols: strip it")
        whole = len(table) - len(table) % _SYMBOL.size
        for at, value, size, info, _, section in _SYMBOL.iter_unpack(table[:whole]):
            if section and at and at < len(texts) and info & 0xF in (_NO_TYPE, _OBJECT, _FUNCTION):
                end = texts.find(b"\0", at, at + _NAME)
                text = texts[at : at + _NAME if end < 0 else end]
                yield text.decode("utf-8", "backslashreplace"), value, size, info & 0xF
        return


def _part(data: bytes, offset: int, size: int, name: str) -> bytes:
    if offset + size > len(data):
        raise ImageError(f"{name} is cut off: its symbols lie beyond its end")
    return data[offset : offset + size]
