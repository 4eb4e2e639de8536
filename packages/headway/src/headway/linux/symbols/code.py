"""The code at addresses of processes: of the files that they have mapped, or of their memory if there is no file."""

from __future__ import annotations

import os
from contextlib import suppress

from headway.binary.module import Module
from headway.errors import HeadwayError
from headway.linux.procfs.living import with_memory

from .modules import Space

__all__ = ["UserCode"]

_BEFORE, _BEHIND = 256, 512
"""How many bytes of memory are kept around an address that has no file."""
_MOST = 4096
"""Of so many places that have no file, at most."""


class UserCode:
    """Reads code. That of a just-in-time compiler must be kept while its process lives: `keep`."""

    def __init__(self) -> None:
        self._kept: dict[Space, dict[int, bytes]] = {}
        self._places = 0
        self.without_room = 0
        """How often the code of a place without a file was not kept, because there were too many."""

    def keep(self, space: Space, address: int) -> None:
        """Remember the code around an address, if it is in memory that has no file."""
        place = space.at(address)
        if place is None or place[0] is not None:
            return
        kept = self._kept.setdefault(space, {})
        start = max(address - _BEFORE, 0)
        if start in kept:
            return
        if self._places >= _MOST:
            self.without_room += 1
            return
        self._places += 1
        kept[start] = b""
        with suppress(OSError, OverflowError), open(f"/proc/{with_memory(space.pid)}/mem", "rb", buffering=0) as memory:
            kept[start] = os.pread(memory.fileno(), _BEFORE + _BEHIND, start)

    def read(self, space: Space, address: int, size: int) -> bytes:
        """Return the code at an address; fewer bytes, or none, if it is not known."""
        place = space.at(address)
        if place is None:
            return b""
        module, inside = place
        if module is not None:
            return _of(module, inside, size)
        for start, code in self._kept.get(space, {}).items():
            if start <= address < start + len(code):
                return code[address - start : address - start + size]
        return b""


def _of(module: Module, address: int, size: int) -> bytes:
    try:
        return module.code(address, size)
    except HeadwayError:
        return b""
