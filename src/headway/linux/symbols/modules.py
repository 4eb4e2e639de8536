"""The code that processes have mapped: the file, function and line of an address.

A file is opened while a process that has it mapped lives, because afterwards its path may lead nowhere, or elsewhere.
Its symbols are read when they are needed.
"""

from __future__ import annotations

import os
import platform
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress

from headway.binary.demangle import demangled
from headway.binary.elf import ElfFile, SymbolKind
from headway.binary.lines import LineTable
from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux.procfs.living import with_memory
from headway.linux.procfs.maps import Mapping, file_of, mappings
from headway.other_root import open_below

__all__ = ["Module", "Modules", "Space", "vdso"]

_MAX_LINES_BYTES = 1 << 29
_LOOKED_AT = 400
"""The number of functions of a module whose beginnings are checked for frame pointers."""
_MIN_SYMBOL_BYTES = 64
"""The smallest size in bytes of a function that is more than a leaf."""
_BEGINNING = 32
_FAR = 4096
"""The number of bytes of a function in which it sets up its frame, if it does."""
_FEW = 0.25
"""A module of whose functions a smaller share sets up a frame pointer was built without frame pointers."""
_PROLOGUES = {
    "x86_64": re.compile(rb"\x55(\x48\x89\xe5|\x48\x8b\xec)", re.DOTALL),  # push rbp; mov rbp, rsp
    # stp x29, x30, [sp, #...]! ; or after sub sp: stp x29, x30, [sp, #...]
    "aarch64": re.compile(rb"\xfd[\x7b\xfb][\x80-\xbf\x00-\x3f]\xa9", re.DOTALL),
}


class Module:
    """A file with code. No method raises: what cannot be read has no names, and ``problem`` says why."""

    def __init__(self, path: str) -> None:
        """``path``: the file's path in the process."""
        self.path = path
        self.problem = ""
        self._opening: Callable[[], ElfFile] | None = None
        self._opened: ElfFile | None = None
        self._fd = -1
        self._tried = False
        self._starts: array[int] | None = None
        self._symbols: list[tuple[int, str]] = []
        self._lines: LineTable | None = None
        self._frame_pointers: bool | None = None
        self._framed: dict[int, bool | None] = {}

    @property
    def name(self) -> str:
        """The file's name without its folders."""
        return self.path.rpartition("/")[2]

    def hold(self, pid: int, mapping: Mapping) -> None:
        """Open the file of a mapping in a process. It is read when it is needed."""
        if self._tried:
            return
        self._tried = True
        path = file_of(pid, mapping)
        root = f"/proc/{with_memory(pid)}/root" if path is not None and path.startswith("/proc/") else "/"
        if path is None:  # the process may have ended
            with suppress(OSError, ValueError):
                if os.stat(mapping.path).st_ino == mapping.inode:
                    path = mapping.path
        if path is None:
            self.problem = f"{self.path} does not exist any more, or is another file now: its functions are not named"
            return
        try:
            self._fd = open_below(path, root)
        except (OSError, ValueError) as error:
            why = os.strerror(error.errno or 0) if isinstance(error, OSError) else "no file name"
            self.problem = f"{self.path} cannot be opened ({why}): its functions are not named"
            return
        self.use(lambda: self._of_held(path, root))

    def _of_held(self, path: str, root: str) -> ElfFile:
        """Open the held file, by its path as long as that leads to it, so that its debug file can be found."""
        held = f"/proc/self/fd/{self._fd}"
        with suppress(OSError):
            if os.path.samestat(os.stat(path), os.fstat(self._fd)):
                return ElfFile(path, shown=self.path, root=root)
        return ElfFile(held, shown=self.path, root=root)

    def use(self, opening: Callable[[], ElfFile]) -> None:
        """Use an image that this function opens when it is needed."""
        self._tried, self._opening = True, opening

    @property
    def _image(self) -> ElfFile | None:
        if self._opening is not None:
            opening, self._opening = self._opening, None
            try:
                self._opened = opening()
            except HeadwayError as error:
                self.problem = str(error)
        return self._opened

    def bias(self, start: int, offset: int) -> int | None:
        """Return the difference of loaded and linked addresses of a mapping; None: not known."""
        try:
            return self._image.bias(start, offset) if self._image is not None else None
        except HeadwayError:
            return None

    def function(self, address: int) -> str | None:
        """Return the function that contains an address, as linked."""
        if self._starts is None:
            self._read_symbols()
        assert self._starts is not None
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        size, name = self._symbols[place]
        return demangled(name) if not size or address < self._starts[place] + size else None

    def _read_symbols(self) -> None:
        found: dict[int, tuple[int, str]] = {}
        try:
            for symbol in self._image.symbols() if self._image is not None else ():
                if symbol.defined and symbol.kind in (SymbolKind.FUNCTION, SymbolKind.CHOOSER) and symbol.address:
                    old = found.get(symbol.address)
                    if old is None or _rank(symbol.size, symbol.name) < _rank(*old):
                        found[symbol.address] = symbol.size, symbol.name
        except HeadwayError as error:
            self.problem = str(error)
        self._starts = array("Q", sorted(address for address in found if 0 <= address < 1 << 64))
        self._symbols = [found[address] for address in self._starts]

    def line(self, address: int) -> tuple[str, int] | None:
        """Return the source file, without its folders, and the line of an address, as linked."""
        if self._lines is None:
            data = b""
            with suppress(HeadwayError, OSError):
                if self._image is not None:
                    data = self._image.with_lines(_MAX_LINES_BYTES)
            self._lines = LineTable(data)
        file, _, line = self._lines.at(address).rpartition(":")
        return (file, int(line)) if file else None

    def code(self, address: int, size: int) -> bytes:
        """Return the file's bytes at an address, as linked; fewer, or none, if it has fewer. Raises HeadwayError."""
        return self._image.contents(address, size) if self._image is not None else b""

    @property
    def keeps_frame_pointers(self) -> bool | None:
        """Whether its functions set up a frame pointer, judged by how they begin; None: not known."""
        if self._frame_pointers is None:
            shares = self._prologues()
            if shares is None:
                return None
            self._frame_pointers = shares >= _FEW
        return self._frame_pointers

    def sets_frame(self, address: int) -> bool | None:
        """Return whether the function has set up a frame pointer before an address, as linked; None: not known.

        If not, the frame pointer is still its caller's, and a walk by frame pointers does not see who called it.
        """
        if address not in self._framed:
            self._framed[address] = self._sets_frame(address)
        return self._framed[address]

    def _sets_frame(self, address: int) -> bool | None:
        pattern = _PROLOGUES.get(platform.machine())
        if pattern is None or self._image is None:
            return None
        self.function(address)
        assert self._starts is not None
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return self.keeps_frame_pointers
        start, size = self._starts[place], self._symbols[place][0]
        if size and address >= start + size:
            return self.keeps_frame_pointers
        try:
            return bool(pattern.search(self._image.contents(start, min(address - start, _FAR))))
        except HeadwayError:
            return None

    def _prologues(self) -> float | None:
        pattern = _PROLOGUES.get(platform.machine())
        if pattern is None or self._image is None:
            return None
        if self._starts is None:
            self._read_symbols()
        assert self._starts is not None
        large = [
            start for start, (size, _) in zip(self._starts, self._symbols, strict=True) if size >= _MIN_SYMBOL_BYTES
        ]
        chosen = large[:: max(1, len(large) // _LOOKED_AT)]
        if not chosen:
            return None
        try:
            having = sum(bool(pattern.search(self._image.contents(start, _BEGINNING))) for start in chosen)
        except HeadwayError:
            return None
        return having / len(chosen)

    def close(self) -> None:
        """Close the file."""
        self._opening = None
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _rank(size: int, name: str) -> tuple[bool, int, str]:
    """Return the sort key of several names of one function: those with a size, and few leading underscores, first."""
    return not size, len(name) - len(name.lstrip("_")), name


@dataclass(frozen=True, slots=True)
class _Mapped:
    start: int
    end: int
    offset: int
    module: Module | None
    mapping: Mapping


class Space:
    """The address space of one process, as far as it contains code."""

    def __init__(self, pid: int, modules: Modules) -> None:
        self.pid = pid
        self._modules = modules
        self._starts: list[int] = []
        self._mapped: list[_Mapped] = []

    def copy(self, pid: int) -> Space:
        """Return a copy for a process that was forked from it."""
        other = Space(pid, self._modules)
        other._starts, other._mapped = self._starts.copy(), self._mapped.copy()
        return other

    def replaces(self, mapping: Mapping) -> bool:
        """Return whether a mapping overlaps code of another file."""
        return any(
            old.module is not None and (old.mapping.path, old.mapping.inode) != (mapping.path, mapping.inode)
            for old in self._mapped
            if old.start < mapping.end and mapping.start < old.end
        )

    def add(self, mapping: Mapping) -> None:
        """Add a mapping, which replaces what was mapped there before. Its file is opened while that is possible."""
        module = self._modules.of(mapping)
        if module is not None:
            module.hold(self.pid, mapping)
        kept = [old for old in self._mapped if old.end <= mapping.start or old.start >= mapping.end]
        kept.append(_Mapped(mapping.start, mapping.end, mapping.offset, module, mapping))
        kept.sort(key=lambda one: one.start)
        self._mapped, self._starts = kept, [one.start for one in kept]

    def at(self, address: int) -> tuple[Module | None, int] | None:
        """Return the module that contains an address, and the address in it as linked; None: nothing is mapped there.

        If there is no module, the second is the address itself; if its file cannot be read, it is the offset in the
        file.
        """
        place = bisect_right(self._starts, address) - 1
        if place < 0 or address >= self._mapped[place].end:
            return None
        found = self._mapped[place]
        if found.module is None:
            return None, address
        bias = found.module.bias(found.start, found.offset)
        return found.module, address - (bias if bias is not None else found.start - found.offset)


class Modules:
    """All files with code that were seen, each once, whichever processes have it mapped."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Module] = {}
        self._vdso = vdso()

    def of(self, mapping: Mapping) -> Module | None:
        """Return the module of a mapping; None: it has no file."""
        if mapping.path == "[vdso]":
            return self._vdso
        if not mapping.inode or not mapping.path.startswith("/"):
            return None
        key = mapping.path, mapping.inode
        if key not in self._known:
            self._known[key] = Module(mapping.path)
        return self._known[key]

    def space(self, pid: int) -> Space:
        """Return what a process has mapped now; empty if it has ended, or may not be read."""
        found = Space(pid, self)
        with suppress(OSError):
            for mapping in mappings(pid):
                if "x" in mapping.permissions:
                    found.add(mapping)
        return found

    def problems(self) -> list[str]:
        """Return why some modules have no names."""
        return [module.problem for module in self._known.values() if module.problem]

    def close(self) -> None:
        """Close all files."""
        for module in self._known.values():
            module.close()


def vdso() -> Module:
    """Return the code that the kernel maps into every process, from our own memory."""
    module = Module("[vdso]")
    module.use(lambda: ElfFile.of_bytes(_own_vdso(), "[vdso]"))
    return module


def _own_vdso() -> bytes:
    with suppress(OSError, ValueError):
        for mapping in mappings(os.getpid()):
            if mapping.path == "[vdso]":
                with open("/proc/self/mem", "rb", buffering=0) as memory:
                    memory.seek(mapping.start)
                    return memory.read(mapping.end - mapping.start)
    return b""
