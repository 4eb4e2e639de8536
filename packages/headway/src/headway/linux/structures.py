"""Pack and unpack structures of a C header, by the offsets that list_layout.py has found in it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

__all__ = ["Structures"]


class Structures:
    """The structures of one header, by their names."""

    def __init__(self, structures: Mapping[str, tuple[int, Mapping[str, tuple[int, str]]]]) -> None:
        """``structures``: as in a module that list_layout.py made."""
        self._structures = structures

    def size_of(self, structure: str) -> int:
        """Return the size of a structure, bytes."""
        return self._structures[structure][0]

    def offset_of(self, structure: str, name: str) -> int:
        """Return where a field of a structure begins, bytes."""
        return self._structures[structure][1][name][0]

    def fields_of(self, structure: str) -> dict[str, tuple[int, str]]:
        """Return the fields of a structure: their offsets in bytes, and their formats as in the struct module."""
        return dict(self._structures[structure][1])

    def packing(self, structure: str, *names: str) -> struct.Struct:
        """Return what packs and unpacks these fields of a structure, in the order of their offsets.

        The rest of the structure is zero when packed and left out when unpacked. Raises KeyError for a name that is
        none, ValueError for another order.
        """
        size, fields = self._structures[structure]
        form, end = "=", 0
        for name in names:
            offset, code = fields[name]
            if offset < end:
                raise ValueError(f"{structure}.{name} does not lie behind the field before it")
            form += f"{offset - end}x{code}"
            end = offset + struct.calcsize(f"={code}")
        return struct.Struct(f"{form}{size - end}x")

    def pack(self, structure: str, values: Mapping[str, int | bytes | Sequence[int]]) -> bytes:
        """Return a structure with these fields, in any order. The rest of it, and of arrays, is zero.

        Raises KeyError for a name that is none, struct.error for what does not fit its field.
        """
        size, fields = self._structures[structure]
        room = bytearray(size)
        for name, value in values.items():
            offset, code = fields[name]
            if isinstance(value, bytes) and len(value) > struct.calcsize(f"={code}"):
                raise struct.error(f"{structure}.{name} has no room for {len(value)} bytes")
            struct.pack_into(f"={code}", room, offset, *_elements(code, value))
        return bytes(room)


def _elements(code: str, value: int | bytes | Sequence[int]) -> Sequence[int | bytes]:
    """Return what a format takes, an array with zeros at its end."""
    if isinstance(value, (int, bytes)):
        return (value,)
    return (*value, *[0] * (int(code[:-1] or 1) - len(value)))
