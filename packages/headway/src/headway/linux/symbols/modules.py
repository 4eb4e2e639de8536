"""The code that processes have mapped: the file, function and line of an address.

A file is opened while a process that has it mapped lives, because afterwards its path may lead nowhere, or elsewhere.
Its symbols are read when they are needed.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress

from headway.binary.elf import ElfFile
from headway.binary.module import Module
from headway.dataclass import dataclass
from headway.linux.procfs.living import with_memory
from headway.linux.procfs.maps import Mapping, file_of, mappings
from headway.other_root import open_below

__all__ = ["HeldModule", "Modules", "Space", "vdso"]


_VDSO = "[vdso]"


class HeldModule(Module):
    """The file of a mapping. ``path`` is its path in the process."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._fd = -1
        self._tried = False

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
        self.read = lambda size, at: os.pread(self._fd, size, at)
        self.size = os.fstat(self._fd).st_size

    def _of_held(self, path: str, root: str) -> ElfFile:
        """Open the held file, by its path as long as that leads to it, so that its debug file can be found."""
        held = f"/proc/self/fd/{self._fd}"
        with suppress(OSError):
            if os.path.samestat(os.stat(path), os.fstat(self._fd)):
                return ElfFile(path, shown=self.path, root=root)
        return ElfFile(held, shown=self.path, root=root)

    def close(self) -> None:
        """Close the file."""
        super().close()
        self.read = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


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

    def files(self) -> Iterator[str]:
        """Yield the names of the files whose code is mapped, without their folders."""
        for mapped in self._mapped:
            yield os.path.basename(mapped.mapping.path)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of it."""
        return not self._mapped

    def code(self) -> Iterator[tuple[Mapping, Module | None]]:
        """Yield the mappings with code, ascending, and their modules; None: no file has it."""
        for mapped in self._mapped:
            yield mapped.mapping, mapped.module

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
        if isinstance(module, HeldModule):
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
        self._known: dict[tuple[str, int], HeldModule] = {}
        self._vdso = vdso()

    def of(self, mapping: Mapping) -> Module | None:
        """Return the module of a mapping; None: it has no file."""
        if mapping.path == _VDSO:
            return self._vdso
        if not mapping.inode or not mapping.path.startswith("/"):
            return None
        key = mapping.path, mapping.inode
        if key not in self._known:
            self._known[key] = HeldModule(mapping.path)
        return self._known[key]

    def space(self, pid: int) -> Space:
        """Return what a process has mapped now; empty if it has ended, or may not be read."""
        found = Space(pid, self)
        with suppress(OSError):
            for mapping in mappings(pid):
                if "x" in mapping.permissions:
                    found.add(mapping)
        return found

    def expected(self, pid: int, path: str, inode: int) -> tuple[Module, Mapping] | None:
        """Return the module of a file that a process will map, and such a mapping; None: it cannot be opened."""
        mapping = Mapping(0, 0, "r-xp", 0, inode, path, False)
        module = self._known.get((path, inode)) or HeldModule(path)
        module.hold(pid, mapping)
        if module.size is None:
            return None
        self._known[path, inode] = module
        return module, mapping

    def add_vdso(self, space: Space) -> None:
        """Add the code that the kernel maps into every process, if it is missing: the kernel tells of files only."""
        if any(mapping.path == _VDSO for mapping, _ in space.code()):
            return
        with suppress(OSError):
            for mapping in mappings(space.pid):
                if mapping.path == _VDSO and "x" in mapping.permissions:
                    space.add(mapping)

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
    data = _own_vdso()
    module.read = lambda size, at: data[at : at + size]
    return module


def _own_vdso() -> bytes:
    with suppress(OSError, ValueError):
        for mapping in mappings(os.getpid()):
            if mapping.path == "[vdso]":
                with open("/proc/self/mem", "rb", buffering=0) as memory:
                    memory.seek(mapping.start)
                    return memory.read(mapping.end - mapping.start)
    return b""
