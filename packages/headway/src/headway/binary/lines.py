"""The source line of an address, from the line tables (DWARF) of an ELF file.

Only ``.debug_line`` is read, so a file that is stripped of everything else still has its lines. The table is made when
the first line is asked for. The file is untrusted: malformed parts have no lines, and the cost of finding that out
grows no faster than the size of the file. For this reason the tables are not read with pyelftools: it needs
``.debug_info``, and a header of DWARF 5 that lists 2^62 directories of no bytes keeps it busy for ever.

Source: DWARF Debugging Information Format, versions 2 to 5, 6.2 and 7.5.6; the ELF gABI, "Compressed sections".
"""

from __future__ import annotations

import io
import struct
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile

from ._lines import Table

__all__ = ["LineTable"]

_MAX_SECTION = 1 << 28
_MAX_SECTIONS = 65_536
_MAX_UNITS = 1 << 17
_LONGEST_NAME = 4096
_COMPRESSED = 0x800  # SHF_COMPRESSED
_ZLIB = 1  # ELFCOMPRESS_ZLIB
_SECTIONS = (b".debug_line", b".debug_line_str", b".debug_str")
_PATH = 1  # DW_LNCT_path
_FIXED = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}  # DW_FORM_data1, data2, data4, data8, data16
_BLOCKS = {0x0A: 1, 0x03: 2, 0x04: 4}  # DW_FORM_block1, block2, block4: bytes of their length
_STRING, _UDATA, _BLOCK = 0x08, 0x0F, 0x09
_ELSEWHERE = {0x1F: 1, 0x0E: 2}  # DW_FORM_line_strp, DW_FORM_strp: of _SECTIONS
_NOWHERE = (1 << 64) - 1


class _MalformedError(Exception):
    """The rest of a unit cannot be read."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """The position of a unit's tables of files, in ``.debug_line``."""

    version: int
    wide: bool
    """Whether it is 64-bit DWARF, in which offsets have 8 bytes."""
    tables: int
    end: int


class LineTable:
    """The lines of one program, by address."""

    def __init__(self, elf: bytes) -> None:
        """Take an ELF file. This never fails: a file without line tables, or with damaged ones, has no lines."""
        self._sections = _sections(elf)
        self._table: Table | None = None
        self._units: list[_Unit] = []
        self._files: dict[int, array[int]] = {}

    def at(self, address: int) -> str:
        """Return ``file:line``, the file without its directories, or "" if it is not known."""
        if self._table is None:
            self._table = self._read()
        found = self._table.find(address) if 0 <= address < 1 << 32 else None
        if found is None or not found[2]:
            return ""
        unit, file, line = found
        name = self._name(unit, file)
        return f"{name}:{line}" if name else ""

    def _read(self) -> Table:
        table, section = Table(), self._sections[0]
        for unit, fields in _units(section):
            table.add(
                section,
                unit.end,
                fields.end,
                len(self._units),
                least=fields.least,
                line_base=fields.line_base,
                line_range=fields.line_range,
                opcode_base=fields.opcode_base,
                lengths=fields.lengths,
            )
            self._units.append(unit)
        table.close()
        return table

    def _name(self, unit: int, file: int) -> str:
        if unit not in self._files:
            self._files[unit] = _files(self._sections[0], self._units[unit])
        places = self._files[unit]
        at = file - (self._units[unit].version < 5)
        if not 0 <= at < len(places) or places[at] == _NOWHERE:
            return ""
        section, offset = self._sections[places[at] >> 60], places[at] & (1 << 60) - 1
        end = section.find(b"\0", offset, offset + _LONGEST_NAME)
        name = section[offset:end] if end >= 0 else b""
        return name.replace(b"\\", b"/").rpartition(b"/")[2].decode("utf-8", "backslashreplace")


# --- the file ---


def _sections(elf: bytes) -> tuple[bytes, ...]:
    """Return the contents of `_SECTIONS`; empty bytes for a section that is missing."""
    found = dict.fromkeys(_SECTIONS, b"")
    try:
        file = ELFFile(io.BytesIO(elf))
        count = min(file.num_sections(), _MAX_SECTIONS)
        names = file._get_section_header(file.get_shstrndx())["sh_offset"] if count else 0
        # Use only the headers and compare the names, because a name may be as long as the file.
        for header in map(file._get_section_header, range(count)):
            start = names + header["sh_name"]
            name = elf[start : start + 16].partition(b"\0")[0]
            if (
                name in found
                and not found[name]
                and header["sh_type"] != "SHT_NOBITS"
                and header["sh_size"] <= _MAX_SECTION
            ):
                data = elf[header["sh_offset"] : header["sh_offset"] + header["sh_size"]]
                found[name] = _inflated(data) if header["sh_flags"] & _COMPRESSED else data
    except Exception:  # pyelftools raises many kinds of exception; in every case there are no lines
        return (b"",) * len(_SECTIONS)
    return tuple(found.values())


def _inflated(data: bytes) -> bytes:
    kind, size = struct.unpack_from("<II", data)
    if kind != _ZLIB or not 0 < size <= _MAX_SECTION:  # for zlib, 0 is no limit
        return b""
    return zlib.decompressobj().decompress(data[12:], size)


# --- units ---


@dataclass(frozen=True, slots=True)
class _Program:
    """The fields of a unit's header that describe its line-number program."""

    least: int
    line_base: int
    line_range: int
    opcode_base: int
    lengths: bytes
    end: int


class _Reader:
    """A reader of numbers from bytes. It raises `_MalformedError` at their end."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def take(self, size: int) -> bytes:
        if size > self.end - self.at:
            raise _MalformedError
        self.at += size
        return self.data[self.at - size : self.at]

    def fixed(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def varying(self) -> int:
        """Read a ULEB128 number, of which only the low 64 bits are kept."""
        found = shift = 0
        while True:
            byte = self.fixed(1)
            if shift < 64:
                found |= (byte & 0x7F) << shift
                shift += 7
            if not byte & 0x80:
                return found

    def string(self) -> int:
        """Skip a string; return where it begins."""
        start = self.at
        end = self.data.find(b"\0", start, self.end)
        if end < 0:
            raise _MalformedError
        self.at = end + 1
        return start


def _units(section: bytes) -> Iterator[tuple[_Unit, _Program]]:
    """Yield all units that can be read."""
    at = 0
    for _ in range(_MAX_UNITS):
        reader = _Reader(section, at, len(section))
        try:
            size = reader.fixed(4)
            wide = size == 0xFFFFFFFF
            size = reader.fixed(8) if wide else size
            at = reader.at + size
            if at > len(section):
                return
        except _MalformedError:
            return
        reader.end = at
        try:
            yield _unit(reader, wide)
        except _MalformedError:
            continue


def _unit(reader: _Reader, wide: bool) -> tuple[_Unit, _Program]:
    end = reader.end
    version = reader.fixed(2)
    if not 2 <= version <= 5:
        raise _MalformedError
    if version == 5:
        reader.take(2)  # sizes of addresses and segment selectors
    size = reader.fixed(8 if wide else 4)
    start = reader.at + size
    least = reader.fixed(1)
    reader.take(2 if version >= 4 else 1)  # operations of an instruction; whether it is a statement
    line_base, line_range, opcode_base = struct.unpack("<bBB", reader.take(3))
    if start > end or not line_range or not opcode_base:
        raise _MalformedError
    lengths = reader.take(opcode_base - 1)
    if reader.at > start:
        raise _MalformedError
    program = _Program(least, line_base, line_range, opcode_base, lengths, end)
    return _Unit(version, wide, reader.at, start), program


def _files(section: bytes, unit: _Unit) -> array[int]:
    """Return the position of each file's name: the section above bit 60, the offset below."""
    reader = _Reader(section, unit.tables, unit.end)
    found = array("Q")
    try:
        if unit.version == 5:
            _entries(reader, unit.wide, array("Q"))
            _entries(reader, unit.wide, found)
        else:
            _listed(reader, found)
    except _MalformedError:
        pass
    return found


def _listed(reader: _Reader, found: array[int]) -> None:
    """Read the directories and then the files of DWARF 2 to 4; an empty name ends each list."""
    while reader.data[reader.string()]:
        pass
    while reader.data[place := reader.string()]:
        found.append(place)
        for _ in range(3):
            reader.varying()


def _entries(reader: _Reader, wide: bool, found: array[int]) -> None:
    """Read the entries of DWARF 5, whose fields are described before them."""
    fields = [(reader.varying(), reader.varying()) for _ in range(reader.fixed(1))]
    count = reader.varying()
    if not fields:
        return  # entries without bytes could be of any number
    for _ in range(count):
        place = _NOWHERE
        for content, form in fields:
            where = _field(reader, form, wide)
            if content == _PATH and where is not None:
                place = where
        found.append(place)


def _field(reader: _Reader, form: int, wide: bool) -> int | None:
    """Skip a field; return the position of its string, if it is one."""
    if form == _STRING:
        return reader.string()
    if form in _ELSEWHERE:
        return _ELSEWHERE[form] << 60 | reader.fixed(8 if wide else 4) & (1 << 60) - 1
    if form == _UDATA:
        reader.varying()
    elif form in _FIXED:
        reader.take(_FIXED[form])
    elif form == _BLOCK:
        reader.take(reader.varying())
    elif form in _BLOCKS:
        reader.take(reader.fixed(_BLOCKS[form]))
    else:
        raise _MalformedError
    return None
