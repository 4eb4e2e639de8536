"""System calls that Python has no function for, by the C library's syscall(2) and prctl(2)."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

__all__ = ["c_library", "checked", "prctl", "system_call"]


@cache
def c_library() -> ctypes.CDLL:
    """Return the C library of this process. ctypes.get_errno() has the errno of its last call."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def system_call(number: int, *arguments: Any) -> int:
    """Make a system call; integers become registers, all else is passed as ctypes does. Raises OSError.

    The number is that of this machine's architecture.
    """
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    return checked(int(c_library().syscall(ctypes.c_long(number), *words)))


def prctl(option: int, *arguments: int) -> int:
    """Call prctl(2), with 0 for the arguments that are not given. Raises OSError."""
    words = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    return checked(int(c_library().prctl(ctypes.c_int(option), *words)))


def checked(result: int) -> int:
    """Return the result of a function of the C library; raises OSError with its errno if it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
