"""The memory of a traced process as parts of files: where its code is, and what its functions and lines are called.

It is the counterpart of `image.TracedImage` for traces whose program is on the disk: nothing is read before it is
needed. Files that a recording names are untrusted, and only regular ones are opened.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from headway.binary.elf import ElfFile
from headway.binary.kallsyms import KernelSymbols
from headway.binary.module import Module
from headway.errors import HeadwayError

__all__ = ["Files", "Part", "ProcessMemory"]

_DUMP = re.compile(r"0[xX][0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,19}")
_MOST_NAMES = 1 << 20
_MOST_KALLSYMS = 1 << 27
"""The largest size of a copy of /proc/kallsyms, in bytes. Those of large kernels have 20 MB."""
_TOP = 1 << 64


class Part(NamedTuple):
    """``size`` bytes of a file from ``offset`` on, at ``address``."""

    address: int
    size: int
    path: str
    offset: int

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.address + self.size


def _unlike(path: str, build_ids: Sequence[bytes]) -> str:
    """Return why a file is not the one that had one of these build IDs when it was traced; empty: it is."""
    try:
        with ElfFile(path, any_processor=True) as elf:
            now = elf.build_id or ""
    except HeadwayError as error:
        return f"{path!a} cannot be compared with the file that was traced: {error}"
    if any(one.hex().startswith(now) or now.startswith(one.hex()) for one in build_ids if now):
        return ""
    what = "its build ID differs" if now else "it has no build ID"
    return f"{path!a} is not the file that was traced ({what}): give the one that ran with --image"


class Files:
    """The files that parts are of, each opened once, and why some cannot be used."""

    def __init__(self) -> None:
        self._modules: dict[str, Module] = {}
        self._contents: dict[str, mmap.mmap | None] = {}
        self._checked = set[tuple[str, tuple[bytes, ...]]]()
        self._kernels: dict[str, KernelSymbols] = {}
        self.problems: dict[str, str] = {}
        """A sentence for each file that cannot be used, by its path."""

    def check(self, path: str, build_ids: Sequence[bytes] = ()) -> bool:
        """Return whether there is a regular file with this path and, if any are given, one of these build IDs."""
        wanted = tuple(build_ids)
        if path in self.problems:
            return False
        if (path, wanted) in self._checked:
            return True
        problem = ""
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                problem = f"{path!a} is not a file"
        except (OSError, ValueError) as error:
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "no file name"
            problem = f"{path!a} cannot be read ({why})"
        if not problem and wanted:
            problem = _unlike(path, wanted)
        if problem:
            self.problems[path] = problem
        else:
            self._checked.add((path, wanted))
        return not problem

    def content(self, path: str) -> mmap.mmap | None:
        """Return the bytes of a file, mapped; None: it has none, or cannot be read."""
        if path not in self._contents:
            try:
                with open(path, "rb") as stream:
                    self._contents[path] = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError):
                self._contents[path] = None
        return self._contents[path]

    def name_kernel(self, path: str, symbols: str) -> None:
        """Take the names of a copy of the kernel's memory from a copy of its /proc/kallsyms, if that can be read."""
        if not self.check(symbols):
            return
        if os.path.getsize(symbols) > _MOST_KALLSYMS:
            self.problems[symbols] = f"{symbols!a} is too large for a copy of /proc/kallsyms"
            return
        self._kernels[path] = KernelSymbols(Path(symbols))

    def kernel(self, path: str) -> KernelSymbols | None:
        """Return the names of a copy of the kernel's memory; None: it is no such copy, or has no names."""
        return self._kernels.get(path)

    def module(self, path: str) -> Module:
        """Return the functions and lines of a file."""
        found = self._modules.get(path)
        if found is None:
            found = self._modules[path] = Module(path)
            if self.check(path):
                found.use(lambda: ElfFile(path, any_processor=True))
        return found


class ProcessMemory:
    """The parts of one process. One that is added later covers earlier ones."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.parts: list[Part] = []
        self._order: list[tuple[int, int, Part]] = []  # start, end, of the pieces that are not covered
        self._names: dict[int, str] = {}
        self._lines: dict[int, str] = {}

    def copy(self) -> ProcessMemory:
        """Return a memory with the same parts, to which others may be added."""
        made = ProcessMemory(self.files)
        made.parts, made._order = list(self.parts), list(self._order)
        return made

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The (start, end) of every part."""
        return [(part.address, part.end) for part in self.parts]

    def overlapped(self, part: Part) -> list[Part]:
        """Return the parts that a part would cover, or cover in part; not those that are the same there."""
        return [
            old
            for start, end, old in self._pieces(part.address, part.end)
            if (old.path, old.offset - old.address) != (part.path, part.offset - part.address)
        ]

    def _pieces(self, start: int, end: int) -> Iterator[tuple[int, int, Part]]:
        at = max(bisect_right(self._order, start, key=lambda piece: piece[0]) - 1, 0)
        for piece in self._order[at:]:
            if piece[0] >= end:
                return
            if piece[1] > start:
                yield piece

    def add(self, part: Part) -> None:
        """Add a part."""
        if part.size <= 0 or part.end > _TOP:
            return
        self.parts.append(part)
        for piece in list(self._pieces(part.address, part.end)):
            self._order.remove(piece)
            start, end, old = piece
            if start < part.address:
                insort(self._order, (start, part.address, old))
            if end > part.end:
                insort(self._order, (part.end, end, old))
        insort(self._order, (part.address, part.end, part))
        self._names.clear()
        self._lines.clear()

    def add_file(self, text: str) -> None:
        """Add ``FILE`` (an ELF program, where it is linked) or ``FILE@ADDRESS`` (a dump). Raises HeadwayError."""
        name, at, number = text.rpartition("@")
        if at and _DUMP.fullmatch(number) and int(number, 0) < _TOP:
            if not self.files.check(name):
                raise HeadwayError(f"{self.files.problems[name]}: give a memory dump")
            size = os.stat(name).st_size
            if int(number, 0) + size >= _TOP:
                raise HeadwayError(
                    f"the dump {name!a} of {size} bytes goes beyond 64 bits at {number}: check the address"
                )
            self.add(Part(int(number, 0), size, name, 0))
            return
        if not self.files.check(text):
            raise HeadwayError(f"{self.files.problems[text]}: give a program image")
        with Path(text).open("rb") as stream:
            if stream.read(4) != b"\x7fELF":
                raise HeadwayError(f"{text!a} is not an ELF program: give a memory dump as FILE@ADDRESS")
        with ElfFile(text, any_processor=True) as elf:
            segments = elf.segments()
        if not segments:
            raise HeadwayError(f"{text!a} has nothing to load: give a linked program")
        for address, offset, size in segments:
            self.add(Part(address, size, text, offset))

    def part_at(self, address: int) -> Part | None:
        """Return the part that an address is in, or None."""
        return next((part for _, _, part in self._pieces(address, address + 1)), None)

    def read(self, address: int, size: int) -> bytes:
        """Return bytes at an address; fewer or none where there are none."""
        part = self.part_at(address)
        if part is None or not self.files.check(part.path):
            return b""
        content = self.files.content(part.path)
        at = part.offset + address - part.address
        return content[at : at + min(size, part.end - address)] if content is not None else b""

    def _linked(self, address: int) -> tuple[Module, int] | None:
        part = self.part_at(address)
        if part is None:
            return None
        module = self.files.module(part.path)
        bias = module.bias(part.address, part.offset)
        return None if bias is None else (module, address - bias)

    def symbol(self, address: int) -> str:
        """Return the function that contains an address, or ""."""
        name = self._names.get(address)
        if name is None:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            name = self._names[address] = self._named(address)
        return name

    def _named(self, address: int) -> str:
        part = self.part_at(address)
        kernel = None if part is None else self.files.kernel(part.path)
        if kernel is not None:
            return (kernel.at(address) or ("", ""))[0]
        found = self._linked(address)
        return (found[0].function(found[1]) or "") if found else ""

    def line(self, address: int) -> str:
        """Return ``file:line`` of the source, or ""."""
        line = self._lines.get(address)
        if line is None:
            if len(self._lines) >= _MOST_NAMES:
                self._lines.clear()
            found = self._linked(address)
            place = found[0].line(found[1]) if found else None
            line = self._lines[address] = f"{place[0]}:{place[1]}" if place else ""
        return line
