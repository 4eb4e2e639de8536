"""Files in the root directory of another process, such as one in a container, which its links do not lead out of.

Below /proc/PID/root an absolute symbolic link leads into the root directory of whoever follows it, not of that process.
So whoever owns the link would choose a file of ours. openat2(2) with RESOLVE_IN_ROOT (Linux 5.6) takes a directory for
the root.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from headway.system_call import system_call

__all__ = ["held", "open_below", "open_within", "root_of"]

_OPENAT2 = 437
"""The number of the system call, the same on all architectures."""
_NO_MAGICLINKS, _IN_ROOT = 0x02, 0x10
"""RESOLVE_NO_MAGICLINKS, RESOLVE_IN_ROOT (include/uapi/linux/openat2.h)."""


class _How(ctypes.Structure):
    """struct open_how."""

    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def root_of(path: str) -> str:
    """Return the root directory of another process that a path begins with, /proc/PID/root; else ours."""
    found = re.match(r"/proc/\d+/root(?=/)", path)
    return found[0] if found else "/"


@contextmanager
def held(path: str) -> Iterator[str]:
    """Give a path by which the kernel finds the file meanwhile that `open_below` opens. Raises OSError, ValueError."""
    root = root_of(path)
    if root == "/":
        yield path
        return
    fd = open_within(root, path.removeprefix(root))
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def open_below(path: str, root: str) -> int:
    """Open a file for reading whose path begins with a root directory, within that; see `open_within`.

    A path that does not begin so, and any path where the root directory is ours, is opened as it is.
    """
    inside = path.removeprefix(root.rstrip("/"))
    if root == "/" or inside == path or not inside.startswith("/"):
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    return open_within(root, inside)


def open_within(root: str, path: str, flags: int = os.O_RDONLY | os.O_NONBLOCK) -> int:
    """Return a descriptor of the file that ``path`` is if ``root`` is the root directory; it is closed on exec.

    Raises OSError: as open(2), or ENOSYS on Linux before 5.6; ValueError: it is no file name.
    """
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        how = _How(flags | os.O_CLOEXEC, 0, _NO_MAGICLINKS | _IN_ROOT)
        return system_call(_OPENAT2, folder, ctypes.c_char_p(name), ctypes.byref(how), ctypes.sizeof(how))
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(folder)
