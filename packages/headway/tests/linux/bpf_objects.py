"""A reader of eBPF objects: programs, functions, instructions and maps.

It reads what clang writes for the bpf target, before libbpf has touched it. Sources, in the kernel's Documentation/bpf:
instructions in standardization/instruction-set.rst, relocations in llvm_reloc.rst; what the sections mean is libbpf's
convention (libbpf/program_types.rst).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, Symbol, SymbolTableSection

from .btf import PTR, Extension, Types

__all__ = [
    "CALL",
    "CALL_FUNCTION",
    "LD_IMM64",
    "SLOT",
    "BpfObject",
    "Function",
    "Instruction",
    "Map",
    "Place",
    "decode",
]

SLOT = 8
"""Bytes of one instruction, and of each half of a wide one."""

LD_IMM64, CALL = 0x18, 0x85

CALL_FUNCTION = 1
"""The source register of a call of another function of the object: BPF_PSEUDO_CALL."""

_EXECUTABLE = 4  # SHF_EXECINSTR
_DATA = (".data", ".rodata", ".bss")


class Place(NamedTuple):
    """A place in a section; its offset is in bytes."""

    section: str
    offset: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; wide ones (ld_imm64) have a 64-bit immediate."""

    code: int
    destination: int = 0
    source: int = 0
    offset: int = 0
    immediate: int = 0
    target: Place | None = None
    """What it refers to: the function that it calls or takes the address of, or data."""
    external: str | None = None
    """The symbol that it refers to, if that is not in the object."""

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return 2 * SLOT if self.code == LD_IMM64 else SLOT

    @property
    def is_call(self) -> bool:
        """Whether it calls another function of the object, or one of the kernel by its name."""
        return self.code == CALL and self.source == CALL_FUNCTION

    def encode(self) -> bytes:
        """Return the instruction as it is in an object."""
        low = self.immediate & 0xFFFFFFFF
        first = struct.pack("<BBhI", self.code, self.source << 4 | self.destination, self.offset, low)
        return first + struct.pack("<II", 0, self.immediate >> 32) if self.size > SLOT else first


def decode(code: bytes) -> Iterator[tuple[int, Instruction]]:
    """Yield instructions with their offsets, bytes. Raises ValueError where the last one is cut off."""
    at = 0
    while at < len(code):
        if len(code) - at < (2 * SLOT if code[at] == LD_IMM64 else SLOT):
            raise ValueError(f"the code ends within the instruction at {at:#x}")
        opcode, registers, offset, immediate = struct.unpack_from("<BBhi", code, at)
        if opcode == LD_IMM64:
            immediate = immediate & 0xFFFFFFFF | struct.unpack_from("<I", code, at + SLOT + 4)[0] << 32
        instruction = Instruction(opcode, registers & 15, registers >> 4, offset, immediate)
        yield at, instruction
        at += instruction.size


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function: a program, or one that programs call."""

    name: str
    place: Place
    code: Mapping[int, Instruction]
    """By their offsets in the section, bytes, in order."""
    static: bool


class Map(NamedTuple):
    """A map as it is declared; how many entries it has may be set later."""

    name: str
    type: int
    flags: int


class BpfObject:
    """An eBPF object, read whole. Raises ValueError if the bytes are none, or one without types."""

    def __init__(self, image: bytes) -> None:
        try:
            self._elf = ELFFile(io.BytesIO(image))
        except ELFError as error:
            raise ValueError(f"this is no eBPF object ({error})") from None
        if self._elf["e_machine"] != "EM_BPF" or not self._elf.little_endian:
            raise ValueError("this is no eBPF object in little endian")
        self._sections = list(self._elf.iter_sections())
        self._symbols = [s for t in self._sections if isinstance(t, SymbolTableSection) for s in t.iter_symbols()]
        self.types = Types(self._content(".BTF"))
        self._extension = Extension(self._content(".BTF.ext"), self.types)
        self.relocated = self._extension.relocated
        """The instructions that libbpf changes for the kernel at hand (CO-RE), by section and offset."""
        self.functions = {each.place: each for each in self._functions()}
        """By where they begin."""
        self.programs = {each.name: each for place, each in self.functions.items() if place.section != ".text"}
        """What the kernel can be given to run, by name. In .text are functions that these call."""

    def _content(self, name: str) -> bytes:
        section = self._elf.get_section_by_name(name)
        if section is None:
            raise ValueError(f"the object has no {name}: compile it with -g")
        return bytes(section.data())

    def _section_of(self, symbol: Symbol) -> str | None:
        """Return the name of a symbol's section, None if it is not in the object."""
        index = symbol["st_shndx"]
        return self._sections[index].name if isinstance(index, int) else None

    def _references(self, section: Section) -> dict[int, Symbol]:
        """Return the symbols that a section's instructions refer to, by the instructions' offsets."""
        number = self._sections.index(section)
        return {
            relocation["r_offset"]: self._symbols[relocation["r_info_sym"]]
            for each in self._sections
            if isinstance(each, RelocationSection) and each["sh_info"] == number
            for relocation in each.iter_relocations()
        }

    def _functions(self) -> Iterator[Function]:
        for section in self._sections:
            if not section["sh_flags"] & _EXECUTABLE or not section["sh_size"]:
                continue
            references = self._references(section)
            code = {
                at: self._resolve(instruction, Place(section.name, at), references.get(at))
                for at, instruction in decode(section.data())
            }
            for symbol in self._symbols:
                if symbol["st_info"]["type"] == "STT_FUNC" and self._section_of(symbol) == section.name:
                    start, end = symbol["st_value"], symbol["st_value"] + symbol["st_size"]
                    part = {at: each for at, each in code.items() if start <= at < end}
                    local = symbol["st_info"]["bind"] == "STB_LOCAL"
                    yield Function(symbol.name, Place(section.name, start), part, local)

    def _resolve(self, each: Instruction, place: Place, symbol: Symbol | None) -> Instruction:
        """Add to an instruction what it refers to."""
        # A call's immediate is a distance from the next instruction, counted in instructions; an address's is in bytes.
        added = (each.immediate + 1) * SLOT if each.is_call else each.immediate
        if symbol is None:
            return replace(each, target=Place(place.section, place.offset + added)) if each.is_call else each
        section = self._section_of(symbol)
        if section is None:
            return replace(each, external=symbol.name)
        return replace(each, target=Place(section, symbol["st_value"] + added))

    def loaded_with(self, program: Function) -> list[Function]:
        """Return a program and the functions that libbpf loads with it: all that are named, reached or not."""
        found = {program.place: program}
        todo = [program]
        while todo:
            for instruction in todo.pop().code.values():
                callee = self.functions.get(instruction.target) if instruction.target else None
                if callee and callee.place not in found:
                    found[callee.place] = callee
                    todo.append(callee)
        return list(found.values())

    def line(self, place: Place) -> str:
        """Return the file and line that an instruction comes from, for people."""
        return self._extension.line(*place)

    def maps(self) -> list[Map]:
        """Return the maps that are declared."""
        found = []
        for name, declared in self.types.variables(".maps").items():
            # A number is the length of an array that a member points to.
            numbers = {
                member: self.types.all[pointer.number].rest[2]
                for member, (_, pointer) in self.types.members(declared).items()
                if self.types.all[pointer.number].rest[2:]
            }
            found.append(Map(name, numbers["type"], numbers.get("map_flags", 0)))
        return found

    def data_sections(self) -> list[str]:
        """Return the sections of variables, which libbpf makes maps of."""
        named = (section.name for section in self._sections if section["sh_size"])
        return [name for name in named if name.startswith(_DATA) and "." + name.split(".")[1] in _DATA]

    def constants(self, variable: str, values: Mapping[str, int]) -> dict[Place, int]:
        """Return the bytes of a variable's members that have these values, by their places.

        Raises KeyError if there is no such variable, or if it has no such member.
        """
        symbol = next((each for each in self._symbols if each.name == variable), None)
        section = self._section_of(symbol) if symbol else None
        if symbol is None or section is None:
            raise KeyError(variable)
        members = self.types.members(self.types.variables(section)[variable])
        found = {}
        for name, value in values.items():
            offset, kind = members[name]
            size = SLOT if kind.kind == PTR else kind.number
            for i, byte in enumerate(value.to_bytes(size, "little")):
                found[Place(section, symbol["st_value"] + offset + i)] = byte
        return found
