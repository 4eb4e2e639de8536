"""ELF files: programs and libraries of this machine with their symbols, and programs of the reference machine."""

from __future__ import annotations

import lzma
import platform
import struct
from collections.abc import Callable
from functools import cached_property
from random import Random
from typing import IO, Any, ClassVar

from elftools.elf import elffile
from elftools.elf.structs import ELFStructs
from tests.fuzz.mutation import mutated, number
from tests.fuzz.target import Target, replaced
from tests.machine.elves import FUNCTION, RAM, Elf
from tests.trace.elves import END, LINE_7, at, unit

from headway.binary.elf import ElfFile
from headway.binary.lines import LineTable
from headway_machine.config import Config
from headway_machine.image import MachineImage

_MACHINE = {"aarch64": 183}.get(platform.machine(), 62)
"""EM_X86_64, or EM_AARCH64 on such a machine, so that its tests read more than the header too."""
_LIBRARY, _PROGRAM = 0, 1
_HEADER, _SEGMENT, _SECTION = (
    struct.Struct("<16sHHIQQQIHHHHHH"),
    struct.Struct("<IIQQQQQQ"),
    struct.Struct("<IIQQQQIIQQ"),
)
_PROGBITS, _SYMTAB, _STRTAB, _DYNAMIC, _NOTE, _DYNSYM = 1, 2, 3, 6, 7, 11
_VERDEF, _VERSYM = 0x6FFFFFFD, 0x6FFFFFFF
_MOST_STRUCTURES, _MOST_FOUND = 100, 10_000
_FIXED = ("Elf_Ehdr", "Elf_Phdr", "Elf_Shdr", "Elf_Dyn")


def library(*, debug: bool = True) -> bytes:
    """Return a small 64-bit library that has every kind of section that is read."""
    strings = b"\0one\0two\0libself.so.1\0libc.so.6\0$ORIGIN/lib\0V1\0"
    place = {
        name: strings.index(name + b"\0") for name in (b"one", b"libself.so.1", b"libc.so.6", b"$ORIGIN/lib", b"V1")
    }
    symbols = bytes(24)
    for at_, (info, section, value) in enumerate(
        ((0x12, 1, 0x1000), (0x1A, 1, 0x1010), (0x11, 1, 0x1020), (0x12, 0, 0))
    ):
        symbols += struct.pack("<IBBHQQ", 1 + 4 * (at_ % 2), info, 0, section, value, 16)
    dynamic = b"".join(
        struct.pack("<QQ", tag, value)
        for tag, value in (
            (14, place[b"libself.so.1"]),
            (1, place[b"libc.so.6"]),
            (29, place[b"$ORIGIN/lib"]),
            (5, 0),
            (0, 0),
        )
    )
    versions = struct.pack("<5H", 0, 2, 0x8002, 2, 1)
    definition = struct.pack("<HHHHIII", 1, 0, 2, 1, 0, 20, 0) + struct.pack("<II", place[b"V1"], 0)
    note = struct.pack("<III", 4, 20, 3) + b"GNU\0" + bytes(range(20))
    sections: list[tuple[bytes, int, bytes, int, int, int]] = [
        (b".text", _PROGBITS, b"\x90" * 64, 0, 0, 0),
        (b".dynstr", _STRTAB, strings, 0, 0, 0),
        (b".dynsym", _DYNSYM, symbols, 2, 1, 24),
        (b".gnu.version", _VERSYM, versions, 3, 0, 2),
        (b".gnu.version_d", _VERDEF, definition, 2, 1, 0),
        (b".dynamic", _DYNAMIC, dynamic, 2, 0, 16),
        (b".note.gnu.build-id", _NOTE, note, 0, 0, 0),
        (b".gnu_debuglink", _PROGBITS, b"x.debug\0" + struct.pack("<I", 7), 0, 0, 0),
        (b".symtab", _SYMTAB, symbols, 2, 1, 24),
        (b".debug_line", _PROGBITS, unit(at(0x1000) + LINE_7 + b"\x02\x10" + END), 0, 0, 0),
    ]
    if debug:
        sections[8] = (b".gnu_debugdata", _PROGBITS, lzma.compress(library(debug=False), preset=0), 0, 0, 0)
    names = b"\0" + b"\0".join(name for name, *_ in sections) + b"\0.shstrtab\0"
    sections.append((b".shstrtab", _STRTAB, names, 0, 0, 0))
    start = _HEADER.size + 2 * _SEGMENT.size
    body, table = b"", bytes(_SECTION.size)
    for name, kind, data, link, info, entry in sections:
        where = start + len(body)
        table += _SECTION.pack(names.index(name + b"\0"), kind, 2, where, where, len(data), link, info, 8, entry)
        body += data.ljust(-len(data) % 8 + len(data), b"\0")
    end = start + len(body)
    segments = _SEGMENT.pack(1, 5, 0, 0, 0, end, end, 4096) + _SEGMENT.pack(1, 6, end, 0x2000, 0x2000, 0, 64, 4096)
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    sizes = _HEADER.size, _SEGMENT.size, 2, _SECTION.size, len(sections) + 1, len(sections)
    head = _HEADER.pack(ident, 3, _MACHINE, 1, 0x1000, _HEADER.size, end, 0, *sizes)
    return head + segments + body + table


class _Layout:
    """One of pyelftools' structures of a fixed size. What the same bytes say is found once, whatever the input."""

    def __init__(self, layout: Any) -> None:
        self._layout, self._size = layout, layout.sizeof()
        self._found: dict[bytes, Any] = {}

    def sizeof(self) -> int:
        """Return its size."""
        return int(self._size)

    def parse_stream(self, stream: IO[bytes]) -> Any:
        """Return its fields. Raises what pyelftools raises."""
        start = stream.tell()
        data = stream.read(self._size)
        if data not in self._found:
            stream.seek(start)
            found = self._layout.parse_stream(stream)
            if len(self._found) >= _MOST_FOUND:
                self._found.clear()
            self._found[data] = found
        return self._found[data].copy()


class _Structures(ELFStructs):
    """pyelftools' structures of ELF, which it makes again for each file: most of the time. They do not change."""

    _made: ClassVar[dict[tuple[Any, ...], dict[str, Any]]] = {}

    def create_basic_structs(self) -> None:
        """Make those that depend on the class and the order of bytes."""
        self._once((), super().create_basic_structs)

    def create_advanced_structs(self, *kind: Any) -> None:
        """Make those that depend on the type, the machine and the ABI, too."""
        self._once(kind, lambda: super(_Structures, self).create_advanced_structs(*kind))

    def _once(self, kind: tuple[Any, ...], make: Callable[[], None]) -> None:
        key = self.little_endian, self.elfclass, *kind
        if key not in self._made:
            make()
            if len(self._made) >= _MOST_STRUCTURES:
                self._made.clear()
            made = dict(vars(self))
            self._made[key] = made | {name: _Layout(made[name]) for name in _FIXED if name in made}
        vars(self).update(self._made[key])


class ElfTarget(Target):
    """Inputs whose first byte says what they are read as."""

    name = "elf"
    unit = 1000

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return a library with a packed symbol table, one without, and programs for RV32."""
        names = {"main": (RAM, 8, FUNCTION), "tohost": (RAM + 64, 8, 1), "headway_call_7_sleep": (RAM, 4, FUNCTION)}
        program = Elf(code=b"\x73\x00\x10\x00" * 32, symbols=names, segments=[(RAM + 4096, b"data", 64)]).build()
        kinds = [
            (_LIBRARY, library()),
            (_LIBRARY, library(debug=False)),
            (_PROGRAM, program),
            (_PROGRAM, Elf().build()),
        ]
        return [bytes([kind]) + data for kind, data in kinds]

    def make(self, random: Random) -> bytes:
        """Change a file, mostly where its headers are."""
        seed = random.choice(self.seeds)
        data = bytearray(seed[1:])
        if random.random() < 0.5:
            return seed[:1] + mutated(random, seed[1:], self.seeds)
        wide = seed[0] == _LIBRARY
        table = int.from_bytes(data[40:48] if wide else data[32:36], "little")
        size, head = (_SECTION.size, _HEADER.size) if wide else (40, 52)
        for _ in range(random.choice((1, 1, 2, 4))):
            width = random.choice((2, 4, 8))
            kind = random.random()
            if kind < 0.6 and len(data) - table > size:
                where = table + random.randrange((len(data) - table) // 4) * 4
            elif kind < 0.85:
                where = 16 + random.randrange(head - 16)
            else:
                where = head + random.randrange(64)
            value = len(data) + random.randrange(-64, 64) if random.random() < 0.3 else number(random)
            data[where : where + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
        return seed[:1] + bytes(data)

    def read(self, data: bytes, random: Random) -> None:
        """Ask all that there is to be asked."""
        with replaced(elffile, "ELFStructs", _Structures):
            self._read(data, random)

    def _read(self, data: bytes, random: Random) -> None:
        kind, data = data[0] % 2 if data else 0, data[1:]
        if kind == _PROGRAM:
            image = MachineImage.of(data)
            image.check(Config())
            assert all(0 <= one.address < one.end <= 1 << 32 for one in image.segments)
            assert all(0 <= start <= end <= 1 << 32 for start, end in image.functions.values())
            return
        if random.random() < 0.2:
            LineTable(data).at(0x1000)
        with ElfFile.of_bytes(data, "the library") as found:
            assert found.soname is None or isinstance(found.soname, str)
            assert len(found.needed) + len(found.search_path) < 10_000
            _ = found.throws, found.is_go, found.build_id, found.bias(0x1000, 0), found.file_offset(0x1000)
            found.thread_local("errno")
            for symbol in found.symbols():
                assert len(symbol.name) <= 4 * 4096
                found.holds(symbol.address)
            found.contents(number(random), 64)
            found.with_lines(1 << 16)


TARGET = ElfTarget
