"""The symbols of an ELF file, read as what it is: bytes from outside.

pyelftools reads headers, sections, segments and notes, through a stream that has a budget, so a file that lies about
its counts and sizes costs a bounded amount of work and ends in one sentence. Symbol tables, which may have a million
entries, are unpacked whole. Symbols come from .dynsym, .symtab and, for stripped files, from .gnu_debugdata and from
the separate debug file (by build id, or by .gnu_debuglink), looked for as gdb does (manual: "Separate Debug Files").

Source of the formats: the ELF gABI and elf(5); .gnu.version: "ELF symbol versioning", U. Drepper.
"""

from __future__ import annotations

import io
import lzma
import os
import platform
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import IO, TypeVar, cast

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection
from elftools.elf.sections import NoteSection, Section

from headway.errors import HeadwayError

__all__ = ["ElfError", "Image", "Kind", "Symbol"]

_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
_MAX_READS = 400_000
_MAX_BYTES = 1 << 30
_MAX_SECTIONS = 10_000
_MAX_TABLE = 96 << 20
"""Bytes of one symbol table: four million symbols."""
_MAX_STRINGS = 256 << 20
_MAX_UNPACKED = 64 << 20
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym
_UNDEFINED = 0
_HIDDEN = 0x8000  # in .gnu.version: not the version that a program linked today gets
_PF_X = 1

_T = TypeVar("_T")


class ElfError(HeadwayError):
    """A file that cannot be read as an ELF file of this machine; one sentence."""


class Kind(Enum):
    """What a symbol stands for."""

    FUNCTION = "function"
    CHOOSER = "chooser"
    """STT_GNU_IFUNC: a function that returns the address of the one to be called."""
    DATA = "data"
    OTHER = "other"

    __hash__ = object.__hash__


_KINDS = {0: Kind.OTHER, 1: Kind.DATA, 2: Kind.FUNCTION, 5: Kind.DATA, 10: Kind.CHOOSER}


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of a file: ``address`` as linked (not as loaded), ``size`` in bytes (0: not known)."""

    name: str
    address: int
    size: int
    kind: Kind
    defined: bool
    """False: the file only refers to it."""
    version: str | None
    default: bool
    """Whether a program linked today would get this version of it."""


@dataclass(frozen=True, slots=True)
class _Load:
    """A PT_LOAD segment."""

    offset: int
    address: int
    file_size: int
    size: int
    executable: bool


class _Budget(io.RawIOBase):
    """A file that may be read only so often and so much: whatever loops over what it says, ends."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self.size = file, size
        self._reads, self._bytes = _MAX_READS, _MAX_BYTES

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As files do; beyond the end there is nothing."""
        if whence == os.SEEK_SET and not 0 <= offset <= self.size:
            offset = self.size
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Where it is."""
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        """What is there, as far as the budget goes."""
        left = max(0, self.size - self._file.tell())
        size = left if size is None or size < 0 else min(size, left)
        self._reads -= 1
        self._bytes -= size
        if self._reads < 0 or self._bytes < 0:
            raise ValueError("its tables are too large")
        return self._file.read(size)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


class Image:
    """An ELF file of this machine, 64 bits, opened to have its symbols read.

    ``path`` is what is opened, ``shown`` what messages call it; ``root`` is the file system in which its debug file is
    looked for (/proc/PID/root for a process in a container). Every method raises ElfError where the file is damaged.
    Use it as a context manager.
    """

    def __init__(self, path: str, shown: str | None = None, root: str = "/") -> None:
        self.path, self.shown, self._root = path, shown or path, root
        try:
            # Neither a pipe without a writer nor a device must be able to hold us.
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError:
            raise ElfError(
                f"{self.shown} may not be read, so its functions are not known: run headway as root"
            ) from None
        except (OSError, ValueError) as error:
            words = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "not a file name"
            raise ElfError(f"{self.shown} cannot be opened: {words}") from None
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise ElfError(f"{self.shown} is not a file but {_sort(status.st_mode)}: give a program or a library")
        except BaseException:
            os.close(fd)
            raise
        self.identity = (status.st_dev, status.st_ino)
        self._open(_Budget(os.fdopen(fd, "rb"), status.st_size))

    def _open(self, stream: _Budget) -> None:
        self._stream = stream
        try:
            self._elf = self._parsed(self._check)
        except BaseException:
            stream.close()
            raise

    @classmethod
    def of_bytes(cls, data: bytes, shown: str) -> Image:
        """An image that is in memory."""
        self = cls.__new__(cls)
        self.path, self.shown, self._root, self.identity = shown, shown, "/", (0, 0)
        self._open(_Budget(io.BytesIO(data), len(data)))
        return self

    def __enter__(self) -> Image:
        """Nothing; closed on leaving."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; may be called again."""
        self._stream.close()

    def _check(self) -> ELFFile:
        self._stream.seek(0)
        head = self._stream.read(20)
        if head[:4] != b"\x7fELF":
            kind = "a script" if head[:2] == b"#!" else "not an ELF file"
            raise ElfError(f"{self.shown} is {kind}: give a program or a library")
        if head[4] != 2:
            raise ElfError(f"{self.shown} is a 32-bit file: headway reads the functions of 64-bit ones only")
        self._stream.seek(0)
        elf = ELFFile(cast(IO[bytes], self._stream))
        machine = platform.machine()
        if not elf.little_endian or elf["e_machine"] != _MACHINES.get(machine, machine):
            raise ElfError(f"{self.shown} is for another kind of processor than this machine's ({machine})")
        return elf

    def _parsed(self, action: Callable[[], _T]) -> _T:
        """Whatever a parser says of bytes that make no sense becomes one sentence."""
        try:
            return action()
        except HeadwayError:
            raise
        except Exception as error:  # pyelftools and struct raise a dozen kinds; none of them is a user's business
            reason = str(error).splitlines()[0][:80] if str(error) else type(error).__name__
            raise ElfError(f"{self.shown} is damaged or no ELF file that could be read ({reason})") from None

    # ---- structure ----

    @cached_property
    def _loads(self) -> tuple[_Load, ...]:
        return self._parsed(self._read_loads)

    def _read_loads(self) -> tuple[_Load, ...]:
        found = []
        for index in range(min(self._elf.num_segments(), _MAX_SECTIONS)):
            header = self._elf.get_segment(index).header
            if header["p_type"] == "PT_LOAD":
                executable = bool(header["p_flags"] & _PF_X)
                sizes = header["p_filesz"], header["p_memsz"]
                found.append(_Load(header["p_offset"], header["p_vaddr"], *sizes, executable))
        return tuple(found)

    def file_offset(self, address: int) -> int | None:
        """Where in the file the code at an address is; None where there is no code."""
        for load in self._loads:
            if load.executable and load.address <= address < load.address + load.file_size:
                offset = load.offset + (address - load.address)
                return offset if offset < self._stream.size else None
        return None

    def bias(self, start: int, offset: int) -> int | None:
        """Loaded minus linked addresses, where the file is mapped from ``offset`` on at ``start``."""
        page = os.sysconf("SC_PAGESIZE")
        for load in self._loads:
            if load.offset // page * page <= offset < load.offset + max(load.file_size, 1):
                return start - (load.address - load.offset + offset)
        return None

    def holds(self, address: int) -> bool:
        """Whether an address, as linked, is in the file's code or data, initialised or not."""
        return any(load.address <= address < load.address + load.size for load in self._loads)

    def contents(self, address: int, size: int) -> bytes:
        """Initial contents of the data at an address as linked; shorter where the file has less."""
        for load in self._loads:
            if load.address <= address < load.address + load.file_size:
                return self._bytes(
                    load.offset + address - load.address, min(size, load.address + load.file_size - address)
                )
        return b""

    @cached_property
    def _sections(self) -> dict[str, Section]:
        return self._parsed(self._read_sections)

    def _read_sections(self) -> dict[str, Section]:
        count = self._elf.num_sections()
        if count > _MAX_SECTIONS:
            raise ElfError(f"{self.shown} is damaged: it claims to have {count} sections")
        sections: dict[str, Section] = {}
        for index in range(count):
            section = self._elf.get_section(index)
            sections.setdefault(section.name, section)
        return sections

    def has_section(self, *names: str) -> bool:
        """Whether it has a section of one of these names."""
        return any(name in self._sections for name in names)

    @cached_property
    def _dynamic(self) -> dict[str, list[str]]:
        def read() -> dict[str, list[str]]:
            found: dict[str, list[str]] = {}
            section = self._sections.get(".dynamic")
            if isinstance(section, DynamicSection):
                for _, tag in zip(range(_MAX_SECTIONS), section.iter_tags(), strict=False):
                    kind = {"DT_SONAME": "soname", "DT_NEEDED": "needed", "DT_RPATH": "rpath", "DT_RUNPATH": "runpath"}
                    name = kind.get(tag.entry.d_tag)
                    if name:
                        found.setdefault(name, []).append(getattr(tag, name))
            return found

        return self._parsed(read)

    @property
    def soname(self) -> str | None:
        """The name by which programs ask for it (DT_SONAME)."""
        return next(iter(self._dynamic.get("soname", ())), None)

    @property
    def needed(self) -> tuple[str, ...]:
        """The libraries that it asks for (DT_NEEDED)."""
        return tuple(self._dynamic.get("needed", ()))

    @property
    def search_path(self) -> tuple[str, ...]:
        """Directories that it wants searched for them (DT_RUNPATH, DT_RPATH), ``$ORIGIN`` not yet replaced."""
        texts = self._dynamic.get("runpath") or self._dynamic.get("rpath") or []
        return tuple(part for text in texts for part in text.split(":") if part)

    @property
    def is_go(self) -> bool:
        """Whether Go's linker made it."""
        return self.has_section(".go.buildinfo", ".note.go.buildid", ".gopclntab")

    @cached_property
    def throws(self) -> bool:
        """Whether exceptions or panics may pass through its functions: C++, Rust and their like.

        It is taken to be so where the file asks for a C++ library or for the unwinder.
        """
        if any(name.startswith(("libstdc++.", "libc++.", "libc++abi.")) for name in self.needed):
            return True
        signs = {"_Unwind_Resume", "_Unwind_RaiseException", "__gxx_personality_v0", "rust_eh_personality"}
        if self.has_section(".dynsym"):
            return any(symbol.name in signs for symbol in self._table(".dynsym"))
        signs -= {"_Unwind_Resume", "_Unwind_RaiseException"}  # in every program that is linked statically
        return any(symbol.name in signs for symbol in self._table(".symtab"))

    # ---- symbols ----

    def symbols(self) -> Iterator[Symbol]:
        """All of them, the defined ones and the others; the same one may come more than once."""
        yield from self._table(".dynsym")
        yield from self._table(".symtab")
        if self.has_section(".symtab"):
            return
        if self.has_section(".gnu_debugdata"):
            with self._minidebug() as inner:
                yield from inner._table(".symtab")
        debug = self._debug_file()
        if debug is not None:
            with debug:
                yield from debug._table(".symtab")

    def _bytes(self, offset: int, size: int) -> bytes:
        self._stream.seek(offset)
        return self._stream.read(size)

    def _contents(self, section: Section, most: int) -> bytes:
        if section["sh_size"] > most or section["sh_type"] == "SHT_NOBITS":
            return b""
        return self._bytes(section["sh_offset"], section["sh_size"])

    def _table(self, name: str) -> Iterator[Symbol]:
        section = self._sections.get(name)
        if section is None or section["sh_type"] not in ("SHT_DYNSYM", "SHT_SYMTAB"):
            return
        data, strings, versions = self._parsed(lambda: self._read_table(section))
        names = self._version_names if versions else {}
        for index, (at, info, _, place, address, size) in enumerate(_SYMBOL.iter_unpack(data)):
            if not at or at >= len(strings):
                continue
            end = strings.find(b"\0", at, at + 4096)
            text = strings[at : end if end >= 0 else at + 4096].decode(errors="backslashreplace")
            number = versions[index] if index < len(versions) else 1
            version, hidden = names.get(number & ~_HIDDEN), bool(number & _HIDDEN)
            if "@" in text[1:]:  # so ld writes it into .symtab
                text, _, version = text.partition("@")
                hidden = not version.startswith("@")
                version = version.lstrip("@")
            kind = _KINDS.get(info & 15, Kind.OTHER)
            yield Symbol(text, address, size, kind, place != _UNDEFINED, version, not hidden)

    def _read_table(self, section: Section) -> tuple[bytes, bytes, tuple[int, ...]]:
        data = self._contents(section, _MAX_TABLE)
        if section["sh_size"] > _MAX_TABLE:
            raise ElfError(f"{self.shown} has more symbols than headway reads (four million)")
        data = data[: len(data) // _SYMBOL.size * _SYMBOL.size]
        strings = self._contents(self._elf.get_section(section["sh_link"]), _MAX_STRINGS)
        versions: tuple[int, ...] = ()
        table = self._sections.get(".gnu.version")
        if table is not None and section["sh_type"] == "SHT_DYNSYM":
            raw = self._contents(table, _MAX_TABLE)
            versions = struct.unpack(f"<{len(raw) // 2}H", raw[: len(raw) // 2 * 2])
        return data, strings, versions

    @cached_property
    def _version_names(self) -> dict[int, str]:
        def read() -> dict[int, str]:
            section = self._sections.get(".gnu.version_d")
            names: dict[int, str] = {}
            if isinstance(section, GNUVerDefSection):
                for _, (definition, auxiliaries) in zip(range(_MAX_SECTIONS), section.iter_versions(), strict=False):
                    names[definition["vd_ndx"]] = next(iter(auxiliaries)).name
            return names

        return self._parsed(read)

    def with_lines(self, most: int) -> bytes:
        """All of the file that has its line tables (DWARF): this one or its debug file; nothing where there is none.

        Nothing, too, where that is longer than ``most`` bytes.
        """
        if self.has_section(".debug_line"):
            return self._bytes(0, self._stream.size) if self._stream.size <= most else b""
        debug = self._debug_file()
        if debug is None:
            return b""
        with debug:
            return debug.with_lines(most) if debug.has_section(".debug_line") else b""

    # ---- symbols kept elsewhere ----

    def _minidebug(self) -> Image:
        def unpack() -> bytes:
            packed = self._contents(self._sections[".gnu_debugdata"], _MAX_UNPACKED)
            return lzma.LZMADecompressor(memlimit=1 << 28).decompress(packed, max_length=_MAX_UNPACKED)

        return Image.of_bytes(self._parsed(unpack), f"{self.shown} (.gnu_debugdata)")

    @cached_property
    def build_id(self) -> str | None:
        """What the linker named it by its contents, in hexadecimal."""

        def read() -> str | None:
            section = self._sections.get(".note.gnu.build-id")
            if isinstance(section, NoteSection):
                for note in section.iter_notes():
                    if note["n_type"] == "NT_GNU_BUILD_ID":
                        return str(note["n_desc"])
            return None

        return self._parsed(read)

    def _debug_file(self) -> Image | None:
        for path in self._debug_paths():
            try:
                image = Image(path, root=self._root)
            except ElfError:
                continue
            try:
                if self._belongs(image):
                    return image
            except ElfError:
                pass
            image.close()
        return None

    def _debug_paths(self) -> Iterator[str]:
        folder = os.path.join(self._root, "usr/lib/debug")
        identifier = self.build_id
        if identifier and len(identifier) > 2:
            yield f"{folder}/.build-id/{identifier[:2]}/{identifier[2:]}.debug"
        link = self._debug_link
        if link is not None:
            # Resolving /proc/PID/root would lead out of the process's file system.
            here = os.path.dirname(os.path.realpath(self.path) if self._root == "/" else self.path)
            for place in (here, f"{here}/.debug", folder + here.removeprefix(self._root.rstrip("/"))):
                yield f"{place}/{link[0]}"

    @cached_property
    def _debug_link(self) -> tuple[str, int] | None:
        section = self._sections.get(".gnu_debuglink")
        raw = self._contents(section, 4096) if section is not None else b""
        name = raw.partition(b"\0")[0]
        if not name or b"/" in name or len(raw) < len(name) + 5:
            return None
        return os.fsdecode(name), struct.unpack("<I", raw[-4:])[0]

    def _belongs(self, image: Image) -> bool:
        """Whether a debug file is this file's: the same build id, else the checksum that the link tells."""
        if self.build_id or image.build_id:
            return self.build_id == image.build_id
        if self._debug_link is None:
            return False
        checksum = 0
        image._stream.seek(0)
        while part := image._stream.read(1 << 20):
            checksum = zlib.crc32(part, checksum)
        return checksum == self._debug_link[1]


def _sort(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a pipe, a socket or a device"
