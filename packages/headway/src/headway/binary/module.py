"""A file with code, read when it is needed: the functions and lines of addresses, and how functions begin."""

from __future__ import annotations

import platform
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection
from contextlib import suppress

from headway.errors import HeadwayError

from .demangle import demangled
from .elf import ElfFile, SymbolKind
from .lines import LineTable

__all__ = ["Module"]

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
    """A file with code: its functions, lines and bytes.

    No method but `code` raises: what cannot be read has no names, and ``problem`` says why.
    """

    def __init__(self, path: str) -> None:
        """``path``: what the file is called, in sentences about it."""
        self.path = path
        self.problem = ""
        self.read: Callable[[int, int], bytes] | None = None
        """Takes a size and an offset, and returns so many bytes of the file; None: it is not open."""
        self.size: int | None = None
        """Of the file in bytes; None: it is not open."""
        self._opening: Callable[[], ElfFile] | None = None
        self._opened: ElfFile | None = None
        self._starts: array[int] | None = None
        self._symbols: list[tuple[int, str]] = []
        self._lines: LineTable | None = None
        self._frame_pointers: bool | None = None
        self._framed: dict[int, bool | None] = {}

    @property
    def name(self) -> str:
        """The file's name without its folders."""
        return self.path.rpartition("/")[2]

    def use(self, opening: Callable[[], ElfFile]) -> None:
        """Use an image that this function opens when it is needed."""
        self._opening = opening

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

    def addresses(self, names: Collection[str]) -> dict[str, tuple[int, int]]:
        """Return address, as linked, and size of what has these names, as far as the file tells."""
        found: dict[str, tuple[int, int]] = {}
        with suppress(HeadwayError):
            for symbol in self._image.symbols() if self._image is not None else ():
                if symbol.defined and symbol.name in names:
                    found.setdefault(symbol.name, (symbol.address, symbol.size))
                    if len(found) == len(names):
                        break
        return found

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


def _rank(size: int, name: str) -> tuple[bool, int, str]:
    """Return the sort key of several names of one function: those with a size, and few leading underscores, first."""
    return not size, len(name) - len(name.lstrip("_")), name
