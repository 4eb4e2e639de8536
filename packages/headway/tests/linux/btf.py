"""A reader of type information (BTF), of eBPF objects and of the kernel.

Source of the format: the kernel's Documentation/bpf/btf.rst.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["DECL_TAG", "ENUM", "INT", "PTR", "TYPE_TAG", "Extension", "Type", "Types"]

# Kinds of types.
INT, PTR, ARRAY, STRUCT, UNION, ENUM = 1, 2, 3, 4, 5, 6
TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FUNC_PROTO, VAR, DATASEC = 8, 9, 10, 11, 12, 13, 14, 15
DECL_TAG, TYPE_TAG, ENUM64 = 17, 18, 19

_AROUND = (TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG)

_REST = {
    INT: struct.Struct("<I"),
    ARRAY: struct.Struct("<3I"),
    VAR: struct.Struct("<I"),
    DECL_TAG: struct.Struct("<i"),
}
"""What follows the head of a type, by its kind."""

_ITEMS = {
    STRUCT: struct.Struct("<3I"),
    UNION: struct.Struct("<3I"),
    ENUM: struct.Struct("<Ii"),
    FUNC_PROTO: struct.Struct("<2I"),
    DATASEC: struct.Struct("<3I"),
    ENUM64: struct.Struct("<3I"),
}
"""What follows that as often as the head says, by its kind."""


class Type(NamedTuple):
    """A type, with its numbers as they are stored."""

    kind: int
    name: str
    number: int
    """A size, bytes, or the number of another type."""
    rest: tuple[int, ...] = ()
    items: tuple[tuple[int, ...], ...] = ()


class Types:
    """Type information in little endian. Raises ValueError if the bytes are none."""

    def __init__(self, data: bytes) -> None:
        magic, _, _, header, types, types_size, strings, strings_size = struct.unpack_from("<HBBIIIII", data)
        if magic != 0xEB9F:
            raise ValueError("this is no BTF in little endian")
        self._strings = data[header + strings : header + strings + strings_size]
        self.all = [Type(0, "void", 0), *self._read(data[header + types : header + types + types_size])]

    def text(self, offset: int) -> str:
        """Return the string at an offset."""
        return self._strings[offset : self._strings.index(0, offset)].decode()

    def _read(self, data: bytes) -> Iterator[Type]:
        at = 0
        while at < len(data):
            name, info, number = struct.unpack_from("<III", data, at)
            kind, count = info >> 24 & 31, info & 0xFFFF
            at += 12
            rest: tuple[int, ...] = ()
            if kind in _REST:
                rest = _REST[kind].unpack_from(data, at)
                at += _REST[kind].size
            items: tuple[tuple[int, ...], ...] = ()
            if kind in _ITEMS:
                size = _ITEMS[kind].size * count
                items = tuple(_ITEMS[kind].iter_unpack(data[at : at + size]))
                at += size
            yield Type(kind, self.text(name), number, rest, items)

    def named(self, kind: int, name: str) -> Type:
        """Return the type of this kind and name. Raises KeyError if there is none."""
        for each in self.all:
            if each.kind == kind and each.name == name:
                return each
        raise KeyError(name)

    def bare(self, number: int) -> Type:
        """Return a type without typedef, const, volatile, restrict and tags around it."""
        each = self.all[number]
        while each.kind in _AROUND:
            each = self.all[each.number]
        return each

    def members(self, structure: Type) -> dict[str, tuple[int, Type]]:
        """Return the members of a structure without bit fields: their offsets, bytes, and types."""
        return {self.text(name): (bits // 8, self.bare(number)) for name, number, bits in structure.items}

    def variables(self, section: str) -> dict[str, Type]:
        """Return the variables of a section, by name: their types."""
        for each in self.all:
            if each.kind == DATASEC and each.name == section:
                found = (self.all[number] for number, _, _ in each.items)
                return {variable.name: self.bare(variable.number) for variable in found}
        return {}

    def arguments(self, function: str) -> list[Type]:
        """Return the types of a function's arguments. Raises KeyError if there is no such function."""
        return [self.bare(number) for _, number in self.all[self.named(FUNC, function).number].items]

    def result(self, function: str) -> Type:
        """Return the type of a function's result. Raises KeyError if there is no such function."""
        return self.bare(self.all[self.named(FUNC, function).number].number)

    def values(self, enumeration: str) -> dict[str, int]:
        """Return the values of an enumeration. Raises KeyError if there is none of this name."""
        return {self.text(name): value for name, value in self.named(ENUM, enumeration).items}


class Extension:
    """.BTF.ext: where code comes from, and which instructions libbpf changes for the kernel at hand (CO-RE)."""

    def __init__(self, data: bytes, types: Types) -> None:
        header, _, _, lines, lines_size = struct.unpack_from("<5I", data, 4)
        self._lines: dict[str, list[tuple[int, str, int]]] = {}
        for section, at, file, _, line in _records(data[header + lines :][:lines_size], types):
            self._lines.setdefault(section, []).append((at, types.text(file), line >> 10))
        for each in self._lines.values():
            each.sort()
        self.relocated: set[tuple[str, int]] = set()
        """Sections and offsets of the instructions that libbpf changes."""
        if header >= 32:
            relocations, size = struct.unpack_from("<2I", data, 24)
            found = _records(data[header + relocations :][:size], types)
            self.relocated = {(section, at) for section, at, *_ in found}

    def line(self, section: str, offset: int) -> str:
        """Return the file and line that an instruction comes from, for people."""
        lines = self._lines.get(section, [])
        before = bisect_right(lines, offset, key=lambda each: each[0]) - 1
        if before < 0:
            return f"{section}+{offset:#x}"
        _, file, number = lines[before]
        return f"{file.rpartition('/')[2]}:{number}"


def _records(data: bytes, types: Types) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield the records of a part of .BTF.ext: their section, and the first four numbers."""
    if not data:
        return
    (size,) = struct.unpack_from("<I", data)
    at = 4
    while at < len(data):
        name, count = struct.unpack_from("<II", data, at)
        at += 8
        for _ in range(count):
            first, second, third, fourth = struct.unpack_from("<4I", data, at)
            yield types.text(name), first, second, third, fourth
            at += size
