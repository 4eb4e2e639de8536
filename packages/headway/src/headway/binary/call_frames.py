"""How the caller's frame is found at each address of an ELF file: its call frame information, compiled to a table.

The table is made from .eh_frame and, where that says nothing, from .debug_frame (`_call_frames`). That of a large file
is kept in the user's cache folder. Its name is a checksum of all that it was made of, and it is checked when it is
read. So no other file, and no other version of headway, gets it.

Source of the formats: the ELF gABI; Linux Standard Base Core 5.0, 10.6 (.eh_frame, .eh_frame_hdr); the XDG Base
Directory Specification.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError

from ._call_frames import Compiler

__all__ = ["ROW", "RULE", "CallFrameError", "CallFrames", "Kept", "cache_folder", "read_call_frames"]

VERSION = 2
"""Of the tables: it changes with what `_call_frames` makes of a file."""
ROW = np.dtype([("address", "<u4"), ("rule", "<u4")])
"""A row holds from its address on, which counts from the file's base. Rule 0: nothing is known there."""
SAVED = 6
"""The registers of the caller that a rule tells: r15, r14, r13, r12, rbp, rbx; on arm64 x19 to x22, x29, x28."""
RULE = np.dtype(
    [
        ("cfa", "u1"),
        ("cfa_register", "u1"),
        ("base", "u1"),
        ("from_base", "u1"),
        ("offset", "<i4"),
        ("more", "<i4"),
        ("saved", "<i2", (SAVED,)),
        ("return_at", "<i2"),
        ("signal", "u1"),
        ("return_register", "u1"),
        ("spare_word", "<u4"),
    ]
)
"""How a frame is found; the fields are explained in `linux/bpf/shared/layout.h` (struct frame_rule)."""

_PAGE = 4096  # no page is smaller
_MAX_SECTION = 1 << 28
_MAX_HEADERS = 10_000
_WORTH_KEEPING = 1 << 18
"""Bytes of call frame information from which on a table is kept: smaller ones are compiled as fast as read."""
_ENTRY_BYTES = 128
"""The place where a program begins is this long at most."""
_STACK_POINTER, _KEPT, _OUTERMOST = 19, -32768, -32766
_MOST_KEPT = 1 << 29
"""Bytes of all tables that are kept. The oldest are removed first."""
_HEAD = struct.Struct("<8sIIQ16s")
_MAGIC = b"HWFRAMES"
_MACHINES = {62: "x86_64", 183: "aarch64"}
_NO_BITS, _COMPRESSED, _EH_FRAME_HEADER = 8, 0x800, 0x6474E550  # SHT_NOBITS, SHF_COMPRESSED, PT_GNU_EH_FRAME
_LOAD, _INTERPRETER, _EXECUTABLE = 1, 3, 1  # PT_LOAD, PT_INTERP, PF_X
_LONGEST_PATH = 4096

Read = Callable[[int, int], bytes]
"""Takes a size and an offset, and returns so many bytes of a file, or fewer at its end (`os.pread`)."""


class CallFrameError(HeadwayError):
    """A file whose call frame information cannot be read; the message is the reason in a few words."""


@dataclass(frozen=True, slots=True)
class CallFrames:
    """The table of a file. Its addresses count from ``base``, an address as linked."""

    base: int
    rows: NDArray[np.void]
    """Of `ROW`, ascending by address."""
    rules: NDArray[np.void]
    """Of `RULE`."""
    segments: tuple[tuple[int, int, int], ...] = ()
    """Of each executable segment: offset in the file, address, bytes in the file."""
    tells: bool = False
    """The file has call frame information."""
    entry: int = 0
    """Where a program begins."""
    interpreter: str = ""
    """The path of what the kernel loads with a program (PT_INTERP)."""
    is_go: bool = False
    """Go's linker made it: its functions that call others keep frame pointers."""
    refused: int = 0
    """Descriptions of functions that could not be used."""
    kept: bool = False
    """It was in the cache."""

    def delta(self, offset: int) -> int | None:
        """Return how far the code at an offset of the file is from the base; None: there is none."""
        for at, address, size in self.segments:
            if at // _PAGE * _PAGE <= offset < at + max(size, 1):
                return address - at + offset - self.base
        return None


@dataclass(frozen=True, slots=True)
class _Section:
    data: bytes
    address: int
    eh: bool


@dataclass(frozen=True, slots=True)
class _Image:
    machine: int
    base: int
    low: int
    high: int
    """The executable segments are between these addresses."""
    sections: tuple[_Section, ...]
    segments: tuple[tuple[int, int, int], ...]
    entry: int
    interpreter: str
    is_go: bool


def read_call_frames(read: Read, kept: Kept | None = None) -> CallFrames:
    """Return the table of a file; without rows if it has no call frame information.

    ``kept``: where tables of large files are kept. Raises CallFrameError.
    """
    try:
        image = _image(read)
    except (struct.error, OSError, zlib.error, OverflowError, MemoryError) as error:
        raise CallFrameError(f"damaged ({type(error).__name__})") from None
    name = ""
    if kept is not None and sum(len(section.data) for section in image.sections) >= _WORTH_KEEPING:
        name = _name_of(image)
        found = kept.read(name, image.base)
        if found is not None:
            return _completed(found, image)
    compiler = Compiler(image.machine, image.base, image.low, image.high)
    for section in image.sections:
        compiler.add(section.data, section.address, section.eh)
    try:
        rows, rules = compiler.compile()
    except MemoryError:
        raise CallFrameError("there is no memory for its table") from None
    made = CallFrames(image.base, np.frombuffer(rows, ROW), np.frombuffer(rules, RULE), refused=compiler.refused)
    if kept is not None and name:
        kept.write(name, made)
    return _completed(made, image)


def _completed(frames: CallFrames, image: _Image) -> CallFrames:
    """Return a table with what is not kept."""
    rows, rules = _with_entry(frames, image.entry) if image.interpreter or image.entry else (frames.rows, frames.rules)
    return replace(
        frames,
        rows=rows,
        rules=rules,
        tells=len(frames.rows) > 0,
        segments=image.segments,
        entry=image.entry,
        interpreter=image.interpreter,
        is_go=image.is_go,
    )


def _with_entry(frames: CallFrames, entry: int) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Return rows and rules in which the place where a program begins has no caller, if nothing else says so.

    That is so in the dynamic linker of glibc, and in musl, whose first instructions are written by hand.
    """
    address = entry - frames.base
    place = int(np.searchsorted(frames.rows["address"], address, side="right"))
    if not 0 < address < (1 << 32) - _ENTRY_BYTES or (place and frames.rows["rule"][place - 1] != 0):
        return frames.rows, frames.rules
    end = address + _ENTRY_BYTES
    if place < len(frames.rows):
        end = min(end, int(frames.rows["address"][place]))
    rule = np.zeros(1, RULE)
    rule["cfa"], rule["cfa_register"], rule["saved"], rule["return_at"] = 1, _STACK_POINTER, _KEPT, _OUTERMOST
    added = [(address, len(frames.rules))]
    if place == len(frames.rows) or end < frames.rows["address"][place]:
        added.append((end, 0))
    middle = np.array(added, ROW)
    before = frames.rows[:place]
    if place and frames.rows["address"][place - 1] == address:
        before = before[:-1]
    return np.concatenate([before, middle, frames.rows[place:]]), np.concatenate([frames.rules, rule])


def _name_of(image: _Image) -> str:
    known = hashlib.blake2b(digest_size=20)
    known.update(struct.pack("<IIQQQ", VERSION, image.machine, image.base, image.low, image.high))
    for section in image.sections:
        known.update(struct.pack("<QQ?", len(section.data), section.address, section.eh))
        known.update(section.data)
    return known.hexdigest()


def _image(read: Read) -> _Image:
    """Read what a table is made of. Raises CallFrameError, struct.error, OSError, zlib.error, OverflowError."""
    head = read(64, 0)
    if head[:4] != b"\x7fELF":
        raise CallFrameError("not an ELF file")
    if head[4] != 2 or head[5] != 1:
        raise CallFrameError("not a 64-bit file of this machine")
    (machine,) = struct.unpack_from("<H", head, 18)
    if machine not in _MACHINES:
        raise CallFrameError("for another kind of processor")
    entry, program_at, section_at = struct.unpack_from("<QQQ", head, 24)
    program_size, programs, section_size, sections, names = struct.unpack_from("<HHHHH", head, 54)
    loads, header, interpreter = _segments(read, program_at, program_size, programs)
    code = [(address, address + size) for _, address, size, flags, _ in loads if flags & _EXECUTABLE]
    if not code:
        raise CallFrameError("without executable code")
    low, high = min(start for start, _ in code), max(end for _, end in code)
    base = min(address for _, address, _, _, _ in loads) // _PAGE * _PAGE
    names_of, found = _sections(read, section_at, section_size, sections, names)
    if header is not None and not any(section.eh for section in found):
        found[:0] = _by_header(read, header, loads)
    found.sort(key=lambda section: not section.eh)
    segments = tuple((offset, at, size) for offset, at, _, flags, size in loads if flags & _EXECUTABLE)
    is_go = not {b".gopclntab", b".go.buildinfo", b".note.go.buildid"}.isdisjoint(names_of)
    return _Image(machine, base, low, min(high, (1 << 64) - 1), tuple(found[:2]), segments, entry, interpreter, is_go)


_Load = tuple[int, int, int, int, int]
"""Of a segment: offset, address, size in memory, flags, size in the file."""


def _segments(read: Read, at: int, size: int, count: int) -> tuple[list[_Load], tuple[int, int, int] | None, str]:
    """Return the loaded segments, of .eh_frame_hdr the offset, address and size, and the interpreter's path."""
    if size < 56 or count > _MAX_HEADERS:
        raise CallFrameError("damaged (program headers)")
    data = read(size * count, at)
    loads: list[_Load] = []
    header, interpreter = None, ""
    for place in range(0, len(data) - 55, size):
        kind, flags, offset, address, _, in_file, in_memory = struct.unpack_from("<IIQQQQQ", data, place)
        if kind == _LOAD:
            loads.append((offset, address, in_memory, flags, in_file))
        elif kind == _EH_FRAME_HEADER:
            header = offset, address, in_file
        elif kind == _INTERPRETER and in_file <= _LONGEST_PATH:
            interpreter = os.fsdecode(read(in_file, offset).partition(b"\0")[0])
    if not loads:
        raise CallFrameError("without loaded segments")
    return loads, header, interpreter


def _sections(read: Read, at: int, size: int, count: int, names: int) -> tuple[set[bytes], list[_Section]]:
    """Return the names of all sections, and those with call frame information."""
    if not at or size < 64 or not names < count <= _MAX_HEADERS:
        return set(), []
    data = read(size * count, at)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, place) for place in range(0, len(data) - 63, size)]
    if names >= len(heads):
        return set(), []
    texts = read(min(heads[names][5], 1 << 20), heads[names][4])
    found, words = [], set()
    for name, kind, flags, address, offset, length, *_ in heads:
        word = texts[name : name + 32].partition(b"\0")[0]
        words.add(word)
        if word not in (b".eh_frame", b".debug_frame") or kind == _NO_BITS or not 0 < length <= _MAX_SECTION:
            continue
        content = read(length, offset)
        if flags & _COMPRESSED:
            content = _unpacked(content)
        found.append(_Section(content, address, word == b".eh_frame"))
    return words, found


def _unpacked(content: bytes) -> bytes:
    """Return what a compressed section contains (Elf64_Chdr). Raises struct.error, zlib.error."""
    kind, _, size, _ = struct.unpack_from("<IIQQ", content)
    if kind != 1 or size > _MAX_SECTION:  # ELFCOMPRESS_ZLIB
        return b""
    return zlib.decompressobj().decompress(content[24:], size)


def _by_header(read: Read, header: tuple[int, int, int], loads: list[_Load]) -> Iterator[_Section]:
    """Yield .eh_frame as .eh_frame_hdr says: for files without section headers."""
    offset, address, size = header
    head = read(min(size, 16), offset)
    if len(head) < 8 or head[0] != 1 or head[1] != 0x1B:  # a signed word, relative to its own place
        return
    start = address + 4 + struct.unpack_from("<i", head, 4)[0]
    for at, first, _, _, in_file in loads:
        if first <= start < first + in_file:
            length = min(first + in_file - start, _MAX_SECTION)
            if start < address < start + length:  # it ends before its header where it is before it
                length = address - start
            yield _Section(read(length, at + start - first), start, True)
            return


def cache_folder() -> Path | None:
    """Return the folder in which tables are kept; None: the user has none."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if named.startswith("/"):
        return Path(named) / "headway" / "frames"
    home = os.path.expanduser("~")
    return Path(home) / ".cache" / "headway" / "frames" if home.startswith("/") else None


class Kept:
    """Tables on disk. Nothing is raised: what cannot be read, or kept, is made again."""

    def __init__(self, folder: Path, most: int = _MOST_KEPT) -> None:
        self._folder, self._most = folder, most

    def read(self, name: str, base: int) -> CallFrames | None:
        """Return a table; None: it is not there, or not sound."""
        data = self.load(name)
        return _checked(data, base) if data is not None else None

    def write(self, name: str, made: CallFrames) -> None:
        """Keep a table: it is whole on disk, or not there."""
        rules, rows = made.rules.tobytes(), made.rows.tobytes()
        head = _HEAD.pack(_MAGIC, VERSION, len(made.rules), len(made.rows), _checksum(rules, rows))
        self.store(name, head + rules + rows)

    def load(self, name: str) -> bytes | None:
        """Return the content of a file that nobody else may write; None: there is none."""
        try:
            fd = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return None
            with open(fd, "rb", closefd=False) as file:
                return file.read(status.st_size)
        except (OSError, MemoryError):
            return None
        finally:
            os.close(fd)

    def store(self, name: str, data: bytes) -> None:
        """Keep a file: it is whole on disk, or not there."""
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._folder.stat().st_uid != os.geteuid():
                return
            self._make_room(len(data))
            with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".new-", delete=False) as file:
                try:
                    file.write(data)
                    file.close()
                    os.replace(file.name, self._folder / name)
                except BaseException:
                    with suppress(OSError):
                        os.unlink(file.name)
                    raise

    def _make_room(self, size: int) -> None:
        found = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, entry.path))
        total = size + sum(one[1] for one in found)
        for _, length, path in sorted(found):
            if total <= self._most:
                return
            with suppress(OSError):
                os.unlink(path)
            total -= length


def _checksum(*parts: bytes | memoryview) -> bytes:
    known = hashlib.blake2b(digest_size=16)
    for part in parts:
        known.update(part)
    return known.digest()


def _checked(data: bytes, base: int) -> CallFrames | None:
    if len(data) < _HEAD.size:
        return None
    magic, version, n_rules, n_rows, checksum = _HEAD.unpack_from(data)
    size = n_rules * RULE.itemsize
    if magic != _MAGIC or version != VERSION or len(data) != _HEAD.size + size + n_rows * ROW.itemsize:
        return None
    content = memoryview(data)[_HEAD.size :]
    if _checksum(content[:size], content[size:]) != checksum:
        return None
    rules = np.frombuffer(content[:size], RULE)
    rows = np.frombuffer(content[size:], ROW)
    if len(rows) and (int(rows["rule"].max()) >= n_rules or np.any(np.diff(rows["address"].astype(np.int64)) <= 0)):
        return None
    return CallFrames(base, rows, rules, kept=True)
