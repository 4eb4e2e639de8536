"""The symbols of an ELF file, which is untrusted.

pyelftools reads headers, sections, segments and notes through a stream that has a budget. A file with false counts and
sizes therefore costs a bounded amount of work and ends in an error of one sentence. Symbol tables, which may have a
million entries, are unpacked as a whole. Symbols come from .dynsym, .symtab and, for stripped files, from
.gnu_debugdata and from the separate debug file (by build id, or by .gnu_debuglink), which is searched for as gdb does
(manual: "Separate Debug Files").

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
from headway.other_root import open_below

__all__ = ["ElfError", "ElfFile", "Symbol", "SymbolKind", "ThreadLocal", "ThreadLocalKind", "ThreadLocalSlot"]

_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
_MAX_READS = 400_000
_MAX_BYTES = 1 << 30
_MAX_SECTIONS = 10_000
_MAX_TABLE = 96 << 20
"""The largest size of a symbol table in bytes: four million symbols."""
_MAX_STRINGS = 256 << 20
_MAX_UNPACKED = 64 << 20
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym
_NARROW_SYMBOL = struct.Struct("<IIIBBH")  # Elf32_Sym
_RELOCATION = struct.Struct("<QQq")  # Elf64_Rela
_FUNCTION = 2  # STT_FUNC
_THREAD_LOCAL = 6  # STT_TLS
_UNDEFINED = 0
_HIDDEN = 0x8000  # in .gnu.version: not the version that a newly linked program gets
_PF_X = 1

_T = TypeVar("_T")


class ElfError(HeadwayError):
    """The error for a file that cannot be read as an ELF file of this machine, in one sentence."""


class SymbolKind(Enum):
    """The kind of a symbol."""

    FUNCTION = "function"
    CHOOSER = "chooser"
    """STT_GNU_IFUNC: a function that returns the address of the function to call."""
    DATA = "data"
    OTHER = "other"

    __hash__ = object.__hash__


_KINDS = {0: SymbolKind.OTHER, 1: SymbolKind.DATA, 2: SymbolKind.FUNCTION, 5: SymbolKind.DATA, 10: SymbolKind.CHOOSER}


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of a file: ``address`` as linked (not as loaded), ``size`` in bytes (0: unknown)."""

    name: str
    address: int
    size: int
    kind: SymbolKind
    defined: bool
    """False if the file only refers to the symbol."""
    version: str | None
    default: bool
    """Whether a newly linked program would get this version of the symbol."""


class ThreadLocalKind(Enum):
    """What the dynamic linker writes where a file refers to thread-local storage."""

    MODULE = "module"
    """The number of the module, and in the next word the variable's offset in the module's part (general dynamic)."""
    OFFSET = "offset"
    """The distance of the variable from the thread pointer (initial exec)."""
    DESCRIPTOR = "descriptor"
    """A function and its argument: the distance, or the address of number and offset (TLSDESC)."""

    __hash__ = object.__hash__


_THREAD_LOCAL_RELOCATIONS = {
    "EM_X86_64": {16: ThreadLocalKind.MODULE, 18: ThreadLocalKind.OFFSET, 36: ThreadLocalKind.DESCRIPTOR},
    "EM_AARCH64": {1028: ThreadLocalKind.MODULE, 1030: ThreadLocalKind.OFFSET, 1031: ThreadLocalKind.DESCRIPTOR},
}
"""By machine and type of relocation (System V ABI of x86-64; ELF for the Arm 64-bit architecture)."""


@dataclass(frozen=True, slots=True)
class ThreadLocalSlot:
    """A place that the dynamic linker fills in: a relocation of thread-local storage."""

    kind: ThreadLocalKind
    address: int
    """As linked."""
    named: bool
    """It is of the variable. Else it is of the file's own part of the storage, ``addend`` bytes from its beginning."""
    addend: int


@dataclass(frozen=True, slots=True)
class ThreadLocal:
    """A thread-local variable as one file has it."""

    address: int | None
    """The offset in the file's part of thread-local storage; None: the file only refers to the variable."""
    distance: int | None
    """The distance from the thread pointer if the file is the program itself (local exec)."""
    slots: tuple[ThreadLocalSlot, ...]


@dataclass(frozen=True, slots=True)
class _Load:
    """A PT_LOAD segment."""

    offset: int
    address: int
    file_size: int
    size: int
    executable: bool


class _Budget(io.RawIOBase):
    """A file with a limit on reads and bytes, so that any loop over its contents ends."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self.size = file, size
        self._reads, self._bytes = _MAX_READS, _MAX_BYTES

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Seek as files do, but never beyond the end."""
        if whence == os.SEEK_SET and not 0 <= offset <= self.size:
            offset = self.size
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        """Read bytes. Raises ValueError when the budget is used up."""
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


class ElfFile:
    """A 64-bit ELF file of this machine, opened to read its symbols.

    ``path`` is the file that is opened, ``shown`` its name in messages. ``root`` is the root directory of the process
    that it is of (/proc/PID/root for one in a container): its debug file is searched for there, and no link leads out
    of it. ``any_processor``: a file of another little-endian processor will do, and one of 32 bits, of which all but
    `thread_local` is read. Every method raises ElfError if the file is damaged. Use it as a context manager.
    """

    def __init__(self, path: str, shown: str | None = None, root: str = "/", *, any_processor: bool = False) -> None:
        self.path, self.shown, self._root, self._any = path, shown or path, root, any_processor
        try:
            # Do not block on a pipe without a writer, or on a device.
            fd = open_below(path, root)
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
    def of_bytes(cls, data: bytes, shown: str, *, any_processor: bool = False) -> ElfFile:
        """Return an image whose file is in memory."""
        self = cls.__new__(cls)
        self.path, self.shown, self._root, self.identity = shown, shown, "/", (0, 0)
        self._any = any_processor
        self._open(_Budget(io.BytesIO(data), len(data)))
        return self

    def __enter__(self) -> ElfFile:
        """Return the image, which is closed on leaving."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file. It may be called more than once."""
        self._stream.close()

    def _check(self) -> ELFFile:
        self._stream.seek(0)
        head = self._stream.read(20)
        if head[:4] != b"\x7fELF":
            kind = "a script" if head[:2] == b"#!" else "not an ELF file"
            raise ElfError(f"{self.shown} is {kind}: give a program or a library")
        if head[4] != 2 and not self._any:
            raise ElfError(f"{self.shown} is a 32-bit file: headway reads the functions of 64-bit ones only")
        self._stream.seek(0)
        elf = ELFFile(cast(IO[bytes], self._stream))
        machine = platform.machine()
        foreign = not self._any and elf["e_machine"] != _MACHINES.get(machine, machine)
        if not elf.little_endian or foreign:
            raise ElfError(f"{self.shown} is for another kind of processor than this machine's ({machine})")
        return elf

    def _parsed(self, action: Callable[[], _T]) -> _T:
        """Return what ``action`` returns. Any exception of a parser becomes an ElfError of one sentence."""
        try:
            return action()
        except HeadwayError:
            raise
        except Exception as error:  # pyelftools and struct raise many kinds of exception for a damaged file
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

    def segments(self) -> list[tuple[int, int, int]]:
        """Return (address as linked, offset in the file, bytes in the file) of every segment that has bytes there."""
        return [(load.address, load.offset, load.file_size) for load in self._loads if load.file_size]

    def file_offset(self, address: int) -> int | None:
        """Return the offset in the file of the code at an address; None if there is no code."""
        for load in self._loads:
            if load.executable and load.address <= address < load.address + load.file_size:
                offset = load.offset + (address - load.address)
                return offset if offset < self._stream.size else None
        return None

    def data_offset(self, address: int) -> int | None:
        """Return the offset in the file of the code or data at an address; None if it has no bytes there."""
        for load in self._loads:
            if load.address <= address < load.address + load.file_size:
                offset = load.offset + (address - load.address)
                return offset if offset < self._stream.size else None
        return None

    def bias(self, start: int, offset: int) -> int | None:
        """Return loaded minus linked addresses for a file that is mapped at ``start`` from ``offset`` on."""
        page = os.sysconf("SC_PAGESIZE")
        for load in self._loads:
            if load.offset // page * page <= offset < load.offset + max(load.file_size, 1):
                return start - (load.address - load.offset + offset)
        return None

    def holds(self, address: int) -> bool:
        """Return whether an address, as linked, is in the file's code or data, initialised or not."""
        return any(load.address <= address < load.address + load.size for load in self._loads)

    def contents(self, address: int, size: int) -> bytes:
        """Return the initial contents of the data at an address as linked; fewer bytes if the file has fewer."""
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
        """Return whether the file has a section of one of these names."""
        return any(name in self._sections for name in names)

    def section(self, name: str, most: int) -> tuple[int, bytes]:
        """Return a section's address as linked (0: it is not loaded) and its contents, if those are not longer than
        ``most`` bytes; (0, no bytes) if there is none.
        """
        section = self._sections.get(name)
        if section is None:
            return 0, b""
        return self._parsed(lambda: (int(section["sh_addr"]), self._contents(section, most)))

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
        """The name by which programs ask for it (DT_SONAME), or None."""
        return next(iter(self._dynamic.get("soname", ())), None)

    @property
    def needed(self) -> tuple[str, ...]:
        """The libraries that it asks for (DT_NEEDED)."""
        return tuple(self._dynamic.get("needed", ()))

    @property
    def search_path(self) -> tuple[str, ...]:
        """Directories in which it wants them searched for (DT_RUNPATH, DT_RPATH), with ``$ORIGIN`` not replaced."""
        texts = self._dynamic.get("runpath") or self._dynamic.get("rpath") or []
        return tuple(part for text in texts for part in text.split(":") if part)

    @property
    def is_go(self) -> bool:
        """Whether Go's linker produced the file."""
        return self.has_section(".go.buildinfo", ".note.go.buildid", ".gopclntab")

    @cached_property
    def throws(self) -> bool:
        """Whether exceptions or panics may pass through its functions, as in C++ or Rust.

        This is assumed if the file asks for a C++ library or for the unwinder.
        """
        if any(name.startswith(("libstdc++.", "libc++.", "libc++abi.")) for name in self.needed):
            return True
        signs = {"_Unwind_Resume", "_Unwind_RaiseException", "__gxx_personality_v0", "rust_eh_personality"}
        if self.has_section(".dynsym"):
            return any(symbol.name in signs for symbol in self._table(".dynsym"))
        signs -= {"_Unwind_Resume", "_Unwind_RaiseException"}  # every statically linked program has these
        return any(symbol.name in signs for symbol in self._table(".symtab"))

    # ---- symbols ----

    def symbols(self) -> Iterator[Symbol]:
        """Yield all symbols, defined or not. A symbol may come more than once."""
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
        for index, (at, info, _, place, address, size) in enumerate(self._entries(data)):
            if not at or at >= len(strings):
                continue
            end = strings.find(b"\0", at, at + 4096)
            text = strings[at : end if end >= 0 else at + 4096].decode(errors="backslashreplace")
            number = versions[index] if index < len(versions) else 1
            version, hidden = names.get(number & ~_HIDDEN), bool(number & _HIDDEN)
            if "@" in text[1:]:  # the form in which ld writes versions into .symtab
                text, _, version = text.partition("@")
                hidden = not version.startswith("@")
                version = version.lstrip("@")
            kind = _KINDS.get(info & 15, SymbolKind.OTHER)
            yield Symbol(text, address, size, kind, place != _UNDEFINED, version, not hidden)

    def _entries(self, data: bytes) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Return the fields of the entries of a symbol table in the order of Elf64_Sym."""
        if self._elf.elfclass == 64:
            return _SYMBOL.iter_unpack(data)
        # The lowest bit of a function of Arm says that it is T32.
        odd = 1 if self._elf["e_machine"] == "EM_ARM" else 0
        return (
            (at, info, other, place, address & ~odd if info & 15 == _FUNCTION else address, size)
            for at, address, size, info, other, place in _NARROW_SYMBOL.iter_unpack(data)
        )

    def _read_table(self, section: Section) -> tuple[bytes, bytes, tuple[int, ...]]:
        data = self._contents(section, _MAX_TABLE)
        if section["sh_size"] > _MAX_TABLE:
            raise ElfError(f"{self.shown} has more symbols than headway reads (four million)")
        each = _SYMBOL.size if self._elf.elfclass == 64 else _NARROW_SYMBOL.size
        data = data[: len(data) // each * each]
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

    def thread_local(self, name: str) -> ThreadLocal | None:
        """Return a thread-local variable with its relocations; None: the file does not know it.

        It is searched for in .dynsym, and if that lacks it in .symtab: a static program has no other.
        """
        return self._parsed(lambda: self._read_thread_local(name.encode()))

    def _read_thread_local(self, name: bytes) -> ThreadLocal | None:
        for table in (".dynsym", ".symtab"):
            section = self._sections.get(table)
            if section is None or section["sh_type"] not in ("SHT_DYNSYM", "SHT_SYMTAB"):
                continue
            strings = self._contents(self._elf.get_section(section["sh_link"]), _MAX_STRINGS)
            if name + b"\0" not in strings:
                continue
            data = self._contents(section, _MAX_TABLE)
            for index, (at, info, _, place, address, _) in enumerate(
                _SYMBOL.iter_unpack(data[: len(data) // _SYMBOL.size * _SYMBOL.size])
            ):
                if info & 15 != _THREAD_LOCAL or strings[at : at + len(name) + 1] != name + b"\0":
                    continue
                defined = place != _UNDEFINED
                number = index if table == ".dynsym" else -1
                return ThreadLocal(
                    address if defined else None,
                    self._distance(address) if defined else None,
                    tuple(self._thread_local_slots(number)),
                )
        return None

    def _distance(self, address: int) -> int | None:
        """Return the distance of a thread-local variable of a program from the thread pointer, as the linker has it."""
        for index in range(min(self._elf.num_segments(), _MAX_SECTIONS)):
            header = self._elf.get_segment(index).header
            if header["p_type"] != "PT_TLS":
                continue
            start, size, mask = header["p_vaddr"], header["p_memsz"], max(header["p_align"], 1) - 1
            if self._elf["e_machine"] == "EM_AARCH64":  # above the thread pointer and two words of the C library
                return int(address + 16 + ((start - 16) & mask))
            return int(address - size - ((-start - size) & mask))  # right below the thread pointer
        return None

    def _thread_local_slots(self, symbol: int) -> Iterator[ThreadLocalSlot]:
        kinds = _THREAD_LOCAL_RELOCATIONS.get(self._elf["e_machine"], {})
        for section in self._sections.values():
            if section["sh_type"] != "SHT_RELA":
                continue
            data = self._contents(section, _MAX_TABLE)
            for place, info, addend in _RELOCATION.iter_unpack(
                data[: len(data) // _RELOCATION.size * _RELOCATION.size]
            ):
                kind = kinds.get(info & 0xFFFFFFFF)
                if kind is not None and info >> 32 in (0, symbol):
                    yield ThreadLocalSlot(kind, place, info >> 32 == symbol, addend)

    def with_lines(self, most: int) -> bytes:
        """Return the whole file that has its line tables (DWARF): this one, or its debug file.

        Return no bytes if there is none, or if it is longer than ``most`` bytes.
        """
        if self.has_section(".debug_line"):
            return self._bytes(0, self._stream.size) if self._stream.size <= most else b""
        debug = self._debug_file()
        if debug is None:
            return b""
        with debug:
            return debug.with_lines(most) if debug.has_section(".debug_line") else b""

    # ---- symbols kept elsewhere ----

    def _minidebug(self) -> ElfFile:
        def unpack() -> bytes:
            packed = self._contents(self._sections[".gnu_debugdata"], _MAX_UNPACKED)
            return lzma.LZMADecompressor(memlimit=1 << 28).decompress(packed, max_length=_MAX_UNPACKED)

        inner = f"{self.shown} (.gnu_debugdata)"
        return ElfFile.of_bytes(self._parsed(unpack), inner, any_processor=self._any)

    @cached_property
    def build_id(self) -> str | None:
        """The identifier that the linker computed from the contents, in hexadecimal, or None."""

        def read() -> str | None:
            section = self._sections.get(".note.gnu.build-id")
            if isinstance(section, NoteSection):
                for note in section.iter_notes():
                    if note["n_type"] == "NT_GNU_BUILD_ID":
                        return str(note["n_desc"])
            return None

        return self._parsed(read)

    def _debug_file(self) -> ElfFile | None:
        for path in self._debug_paths():
            try:
                image = ElfFile(path, root=self._root, any_processor=self._any)
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

    def _belongs(self, image: ElfFile) -> bool:
        """Return whether a debug file belongs to this file: by build id, or by the checksum in the debug link."""
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
