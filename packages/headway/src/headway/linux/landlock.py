"""Landlock: a process gives up, for good, to open files outside the folders that it names (landlock(7), Linux 5.13).

The rules hold for the calling thread and what it starts afterwards, so they are set while the process has one thread.
They add to the rights of the files themselves. See include/uapi/linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

from headway.system_call import system_call

__all__ = ["available", "restrict"]

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The numbers of the system calls, the same on every architecture."""
_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_REFER, _TRUNCATE, _IOCTL = (1 << bit for bit in range(13, 16))
_OF_VERSION = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL}
"""The rights that a version adds."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
"""The rights that a rule of a single file may have."""
_NETWORK = 0b11
"""To bind and to connect with TCP, from version 4 on."""
_SCOPES = 0b11
"""Abstract Unix sockets and signals to processes outside, from version 6 on."""


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def available() -> int:
    """Return the version of Landlock that the kernel has; 0: it has none, or has it switched off."""
    try:
        return system_call(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(read: Iterable[str], change: Iterable[str] = ()) -> bool:
    """Let this thread open what is beneath ``read`` for reading, what is beneath ``change`` too, and nothing else.

    A path is a folder or a file; one that is not there is ignored. Nor may the thread connect by TCP or send signals
    to others, where the kernel's version restricts that. Return whether the kernel has Landlock. Raises OSError.
    """
    version = available()
    if not version:
        return False
    files = sum(rights for since, rights in _OF_VERSION.items() if since <= version)
    rules = _Ruleset(files, _NETWORK if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = system_call(_CREATE_RULESET, ctypes.byref(rules), size, 0)
    try:
        for path in read:
            _allow(ruleset, path, _READ_FILE | _READ_DIR)
        for path in change:
            _allow(ruleset, path, files & ~_EXECUTE)
        system_call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return True


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_FILES
        rule = _Beneath(rights, fd)
        system_call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(fd)
