"""What a process may still do that works on hostile data: little memory, no files but the named ones, no privileges."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
from collections.abc import Iterable

from . import landlock, privileges

__all__ = ["confine", "data_size", "die_with", "limit_memory"]

_SET_PDEATHSIG = 1

_FIELD = b"VmData:"


def data_size() -> int:
    """Return the bytes of memory that are this process's own data, as RLIMIT_DATA counts them (VmData in proc(5))."""
    with open("/proc/self/status", "rb") as stream:
        for line in stream:
            if line.startswith(_FIELD):
                return int(line.split()[1]) << 10
    return 0


def limit_memory(more: int) -> None:
    """Let this process take only ``more`` bytes of data in addition to what it has, for good (RLIMIT_DATA)."""
    _limit(resource.RLIMIT_DATA, data_size() + more)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, whose id this is (PR_SET_PDEATHSIG in prctl(2))."""
    ctypes.CDLL(None).prctl(ctypes.c_int(_SET_PDEATHSIG), *map(ctypes.c_ulong, (signal.SIGKILL, 0, 0, 0)))
    if os.getppid() != parent:  # it has ended before
        os._exit(1)


def confine(read: Iterable[str], change: Iterable[str], *, memory: int, written: int) -> bool:
    """Confine this process, which must have one thread, for good. Return whether Landlock confines it too.

    It loses all capabilities but that to read files whatever their owner. It takes at most ``memory`` bytes more, and
    writes files of at most ``written`` bytes, or none without Landlock. It leaves no core dump, and opens files as
    `landlock.restrict` says. Raises OSError.
    """
    if len(os.listdir("/proc/self/task")) != 1:
        raise OSError(errno.EBUSY, "a process with several threads cannot be confined")
    privileges.give_up(None, {privileges.LinuxCapability.DAC_READ_SEARCH})
    limit_memory(memory)
    _limit(resource.RLIMIT_CORE, 0)
    confined = landlock.restrict(read, change)
    _limit(resource.RLIMIT_FSIZE, written if confined else 0)
    return confined


def _limit(what: int, most: int) -> None:
    before = resource.getrlimit(what)[1]
    if before != resource.RLIM_INFINITY:
        most = min(most, before)
    resource.setrlimit(what, (most, most))
