"""The memory and the threads of a running CPython, for a debugger (`debugger`)."""

from __future__ import annotations

import os
from bisect import bisect_right

from headway.linux.procfs.ids import ids_inwards
from headway.linux.procfs.living import with_memory
from headway.linux.procfs.maps import mappings
from headway.linux.symbols.modules import Modules
from headway.linux.symbols.python import PythonError, find_python

from .debugger import AttachError

__all__ = ["ProcessMemory", "find_runtime", "tids_inside"]

_FIRST = 14
"""The first version 3.x that can be attached to."""


class ProcessMemory:
    """The memory of a process, as long as it executes the same program. Raises OSError."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._fd = os.open(f"/proc/{with_memory(pid)}/mem", os.O_RDWR | os.O_CLOEXEC)

    def read(self, address: int, size: int) -> bytes:
        """Return so many bytes; fewer, or none, where it has fewer."""
        try:
            return os.pread(self._fd, size, address)
        except (OSError, OverflowError):
            return b""

    def write(self, address: int, data: bytes) -> None:
        """Raises OSError."""
        if os.pwrite(self._fd, data, address) != len(data):
            raise ProcessLookupError(f"process {self._pid} has ended")

    def is_writable(self, address: int, size: int) -> bool:
        """Whether the program itself may write there, and nobody else sees it."""
        maps = mappings(self._pid)
        place = bisect_right([mapping.start for mapping in maps], address) - 1
        end = address + size
        while 0 <= place < len(maps) and maps[place].start <= address and maps[place].permissions.startswith("rw"):
            if not maps[place].permissions.endswith("p"):
                return False
            if end <= maps[place].end:
                return True
            address, place = maps[place].end, place + 1
        return False

    def close(self) -> None:
        """Close it; may be called again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def find_runtime(pid: int) -> tuple[int, int] | None:
    """Return x of the version 3.x of a process's CPython, and the address of ``_PyRuntime``; None: it runs none.

    Raises AttachError for a Python that cannot be attached to, or whose structures are not known.
    """
    modules = Modules()
    try:
        for mapping, module in modules.space(pid).code():
            build = find_python(module) if module is not None else None
            bias = module.bias(mapping.start, mapping.offset) if module is not None and build is not None else None
            if build is None or bias is None:
                continue
            if build.minor < _FIRST:
                raise AttachError(f"it runs Python 3.{build.minor}, and only 3.{_FIRST} and later can be attached to")
            return build.minor, build.runtime + bias
    except PythonError as error:
        raise AttachError(str(error)) from None
    finally:
        modules.close()
    return None


def tids_inside(pid: int) -> frozenset[int]:
    """Return the threads of a process by the numbers that it has for them itself; none if it has ended."""
    folder = f"/proc/{pid}/task"
    try:
        names = os.listdir(folder)
    except OSError:
        return frozenset()
    return frozenset(inside[-1] for name in names if (inside := ids_inwards(f"{folder}/{name}")))
