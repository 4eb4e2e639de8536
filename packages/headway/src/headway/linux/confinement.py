"""What a process may still do that works on hostile data: little memory, no files but the named ones, no privileges."""

from __future__ import annotations

import errno
import os
import resource
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from headway.system_call import prctl

from . import landlock, privileges

__all__ = ["confine", "die_with", "limited_memory"]

_SET_PDEATHSIG = 1

_FIELD = b"VmData:"


class _Limited:
    """How many blocks of `limited_memory` are entered, and the limit before the first of them."""

    lock = threading.Lock()
    blocks = 0
    before = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


@contextmanager
def limited_memory(more: int) -> Iterator[None]:
    """Let this process take only ``more`` bytes of data in addition to what it has, meanwhile (RLIMIT_DATA).

    What a library cannot allocate is a MemoryError then. The limit is that of the whole process: of blocks that overlap
    in several threads the first one sets it.
    """
    with _Limited.lock:
        if not _Limited.blocks:
            _Limited.before = resource.getrlimit(resource.RLIMIT_DATA)
            _set(resource.RLIMIT_DATA, _data_size() + more, _Limited.before[1])
        _Limited.blocks += 1
    try:
        yield
    finally:
        with _Limited.lock:
            _Limited.blocks -= 1
            if not _Limited.blocks:
                resource.setrlimit(resource.RLIMIT_DATA, _Limited.before)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, whose id this is (PR_SET_PDEATHSIG in prctl(2))."""
    prctl(_SET_PDEATHSIG, signal.SIGKILL)
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
    _limit(resource.RLIMIT_DATA, _data_size() + memory)
    _limit(resource.RLIMIT_CORE, 0)
    confined = landlock.restrict(read, change)
    _limit(resource.RLIMIT_FSIZE, written if confined else 0)
    return confined


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    _set(what, most, most if hard == resource.RLIM_INFINITY else min(most, hard))


def _set(what: int, soft: int, hard: int) -> None:
    resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _data_size() -> int:
    """Return the bytes of memory that are this process's own data, as RLIMIT_DATA counts them (VmData in proc(5))."""
    with open("/proc/self/status", "rb") as stream:
        for line in stream:
            if line.startswith(_FIELD):
                return int(line.split()[1]) << 10
    return 0
