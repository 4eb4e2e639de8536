"""The memory during a trace: bytes by address, the names of functions, and the lines of their source.

It comes from ELF files, from memory dumps at an address, and, for names alone, from a ``System.map``. All of these are
untrusted.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from headway.binary.lines import LineTable
from headway.errors import HeadwayError
from headway.files import read_file

__all__ = ["ARM", "RISCV", "TracedImage"]

_MAX_FILE = 1 << 30
_MAX_SYMBOLS = 1 << 21
_LONGEST_NAME = 256
_LINE = re.compile(rb"([0-9a-fA-F]{8,16}) ([a-zA-Z]) (\S+)")
ARM = frozenset({("EM_ARM", 32), ("EM_AARCH64", 64)})
RISCV = frozenset({("EM_RISCV", 32), ("EM_RISCV", 64)})
"""Machines of ELF files, with the bits of their addresses."""
_AFTER = 1 << 16
"""The largest distance, in bytes, from a symbol without a size to an address that belongs to it."""


class TracedImage:
    """Segments of memory and symbols. Where several overlap, the one that was added first holds."""

    def __init__(self, machines: frozenset[tuple[str, int]] = ARM) -> None:
        """Make an empty memory, for ELF files of these machines."""
        self._machines = machines
        self._segments: list[tuple[int, bytes]] = []
        self._symbols: dict[int, tuple[str, int]] = {}
        self._starts: list[int] | None = None
        self._names: dict[int, str] = {}
        self._lines: list[LineTable] = []

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The (start, end) of every segment."""
        return [(start, start + len(data)) for start, data in self._segments]

    def read(self, address: int, size: int) -> bytes:
        """Return bytes at an address; fewer or none where the image has none."""
        for start, data in self._segments:
            if start <= address < start + len(data):
                return data[address - start : address - start + size]
        return b""

    def add(self, address: int, data: bytes) -> None:
        """Add a memory dump."""
        self._segments.append((address, data))

    def symbol(self, address: int) -> str:
        """Return the function that contains an address, or ""."""
        found = self._names.get(address)
        if found is None:
            if len(self._names) > 1 << 20:
                self._names.clear()
            found = self._names[address] = self._look_up(address)
        return found

    def _look_up(self, address: int) -> str:
        if self._starts is None:
            self._starts = sorted(self._symbols)
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return ""
        start = self._starts[at]
        name, size = self._symbols[start]
        return name if address < start + (size or _AFTER) else ""

    @property
    def functions(self) -> tuple[tuple[int, int, str], ...]:
        """The functions (start, end, name) in order, none inside another."""
        found: list[tuple[int, int, str]] = []
        starts = sorted(self._symbols)
        for start, after in pairwise([*starts, 1 << 64]):
            name, size = self._symbols[start]
            found.append((start, min(start + (size or _AFTER), after), name))
        return tuple(found)

    def line(self, address: int) -> str:
        """Return ``file:line`` of the source, or ""."""
        return next((found for lines in self._lines if (found := lines.at(address))), "")

    at = line
    """The same, by the name that `headway.binary.lines.LineTable` has for it."""

    def add_symbols(self, symbols: Iterable[tuple[int, int, str]]) -> None:
        """Add symbols (address, size, name); a size of 0 means unknown."""
        for address, size, name in symbols:
            self._symbols.setdefault(address, (name[:_LONGEST_NAME], size))
        self._starts = None
        self._names.clear()

    def add_file(self, text: str) -> None:
        """Add ``FILE`` (an ELF program or a System.map) or ``FILE@ADDRESS`` (a dump). Raises HeadwayError."""
        name, at, number = text.rpartition("@")
        if at and re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,19}", number) and int(number, 0) < 1 << 64:
            start, data = int(number, 0), read_file(Path(name), "a memory dump", _MAX_FILE)
            if start + len(data) >= 1 << 64:
                raise HeadwayError(
                    f"the dump {name!a} of {len(data)} bytes goes beyond 64 bits at {start:#x}: check the address"
                )
            self.add(start, data)
            return
        if at and Path(name).is_file() and not Path(text).exists():
            raise HeadwayError(f"{number[:40]!a} is no address for the dump {name!a}: give one of at most 64 bits")
        data = read_file(Path(text), "a program image", _MAX_FILE)
        if data.startswith(b"\x7fELF"):
            self._add_elf(data, ascii(text))
        elif (line := data.partition(b"\n")[0]) and _LINE.fullmatch(line.strip()):
            self.add_symbols(_map_symbols(data))
        else:
            raise HeadwayError(
                f"{text!a} is neither an ELF program nor a System.map: give a memory dump as FILE@ADDRESS"
            )

    def add_dump(self, address: int, data: bytes, name: str) -> None:
        """Add a dump, or an ELF program that is named in place of one. Raises HeadwayError.

        The memory of a loaded program may begin with its ELF header. So a file is a dump if its segments lie in it as
        they do in memory, or if it is of no machine of these; else it is loaded as a program.
        """
        if data.startswith(b"\x7fELF") and not self._lies_as_in_memory(data, address):
            self._add_elf(data, name)
        else:
            self.add(address, data)

    def _lies_as_in_memory(self, data: bytes, address: int) -> bool:
        """Return whether the bytes of an ELF file at ``address`` are what its segments have there."""
        try:
            elf = ELFFile(io.BytesIO(data))
            if (elf["e_machine"], elf.elfclass) not in self._machines or not elf.little_endian:
                return True
            headers = [elf.get_segment(index).header for index in range(min(elf.num_segments(), 1024))]
        except (ELFError, ValueError, KeyError, IndexError, OverflowError, AttributeError, TypeError, OSError):
            return True
        loaded = [one for one in headers if one["p_type"] == "PT_LOAD" and one["p_filesz"]]
        moved = {one["p_vaddr"] - one["p_offset"] for one in loaded}
        return not loaded or moved == {address} or (elf["e_type"] == "ET_DYN" and len(moved) == 1)

    def _add_elf(self, data: bytes, name: str) -> None:
        try:
            elf = ELFFile(io.BytesIO(data))
            of = "RISC-V" if self._machines == RISCV else "ARM"
            if (elf["e_machine"], elf.elfclass) not in self._machines or not elf.little_endian:
                raise HeadwayError(f"{name} is not a program for a little-endian {of}: give the one that ran")
            for index in range(min(elf.num_segments(), 1024)):
                header = elf.get_segment(index).header
                if header["p_type"] == "PT_LOAD" and header["p_filesz"]:
                    start, size = header["p_offset"], header["p_filesz"]
                    if start + size > len(data):
                        raise HeadwayError(
                            f"{name} is cut off: the segment at {header['p_vaddr']:#x} lies beyond its end"
                        )
                    self.add(header["p_vaddr"], data[start : start + size])
            self.add_symbols(_elf_symbols(elf))
            self._lines.append(LineTable(data))
        except HeadwayError:
            raise
        except (ELFError, ValueError, KeyError, IndexError, OverflowError, AttributeError, TypeError, OSError) as error:
            raise HeadwayError(f"{name} is a damaged ELF file ({type(error).__name__}): build it again") from None
        if not self._segments:
            raise HeadwayError(f"{name} has nothing to load: give a linked program")


def _elf_symbols(elf: ELFFile) -> Iterable[tuple[int, int, str]]:
    for section in elf.iter_sections():
        if not isinstance(section, SymbolTableSection) or section.num_symbols() > _MAX_SYMBOLS:
            continue
        for symbol in section.iter_symbols():
            entry: Any = symbol.entry
            if entry["st_info"]["type"] == "STT_FUNC" and entry["st_shndx"] != "SHN_UNDEF" and symbol.name:
                yield entry["st_value"] & ~1, entry["st_size"], symbol.name


def _map_symbols(data: bytes) -> Iterable[tuple[int, int, str]]:
    for number, line in enumerate(data.split(b"\n")):
        found = _LINE.fullmatch(line.strip())
        if found and found[2] in b"tTwW" and number < _MAX_SYMBOLS:
            yield int(found[1], 16) & ~1, 0, found[3].decode("utf-8", "backslashreplace")
