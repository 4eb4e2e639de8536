"""perf_event_open(2), as far as it is needed."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

__all__ = ["FAULTS_MAJOR", "FAULTS_MINOR", "SOFTWARE", "open_event"]

SOFTWARE = 1
"""PERF_TYPE_SOFTWARE."""
FAULTS_MINOR, FAULTS_MAJOR = 5, 6
"""PERF_COUNT_SW_PAGE_FAULTS_MIN and _MAJ: counted when the memory manager is done with a fault."""
_CALLS = {"x86_64": 298, "aarch64": 241}
_CLOEXEC = 8
_SIZE = 112  # PERF_ATTR_SIZE_VER5


def open_event(kind: int, config: int, *, cpu: int, period: int = 0, pid: int = -1) -> int:
    """A file descriptor for one event on one processor. Raises OSError with perf_event_open's errno."""
    attributes = bytearray(_SIZE)
    struct.pack_into("=IIQQ", attributes, 0, kind, _SIZE, config, period)
    buffer = (ctypes.c_char * _SIZE).from_buffer(attributes)
    libc = ctypes.CDLL(None, use_errno=True)
    number = ctypes.c_long(_CALLS.get(platform.machine(), 241))
    fd = int(
        libc.syscall(number, buffer, ctypes.c_int(pid), ctypes.c_int(cpu), ctypes.c_int(-1), ctypes.c_ulong(_CLOEXEC))
    )
    if fd < 0:
        number_ = ctypes.get_errno()
        raise OSError(number_, os.strerror(number_))
    return fd
