"""The table of system calls: their names, and what a thread that sleeps in one waits for.

The numbers are those of the architecture that headway was built for (`_calls`, generated from the kernel's headers).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ._calls import COMPAT, NATIVE

__all__ = ["BY_FILE", "SYNCED", "WAITS", "compat_numbers", "name_of", "numbers"]

BY_FILE = "file"
"""A value in `WAITS`: the file that the call uses gives the reason (a pipe, a socket, a disk file)."""

WAITS: dict[str, str] = {
    **dict.fromkeys(("futex", "futex_waitv", "futex_wait", "futex_time64"), "futex"),
    **dict.fromkeys(("poll", "ppoll", "select", "pselect6", "_newselect", "ppoll_time64", "pselect6_time64"), "poll"),
    **dict.fromkeys(("epoll_wait", "epoll_pwait", "epoll_pwait2"), "epoll"),
    **dict.fromkeys(("nanosleep", "clock_nanosleep", "clock_nanosleep_time64"), "sleep"),
    **dict.fromkeys(("wait4", "waitid", "waitpid", "vfork", "clone", "clone3"), "child"),
    **dict.fromkeys(("rt_sigtimedwait", "rt_sigsuspend", "pause", "sigsuspend", "rt_sigtimedwait_time64"), "signal"),
    "flock": "flock",
    **dict.fromkeys(("io_uring_enter", "io_getevents", "io_pgetevents"), "io_uring"),
    **dict.fromkeys(
        ("msgrcv", "msgsnd", "semop", "semtimedop", "mq_timedsend", "mq_timedreceive", "semtimedop_time64"), "ipc"
    ),
    **dict.fromkeys(
        (
            "accept",
            "accept4",
            "connect",
            "recvfrom",
            "recvmsg",
            "recvmmsg",
            "sendto",
            "sendmsg",
            "sendmmsg",
            "socketcall",
        ),
        "net",
    ),
    **dict.fromkeys(("fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync"), "disk"),
    **dict.fromkeys(
        (
            *("read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2"),
            *("ioctl", "splice", "tee", "vmsplice", "sendfile", "sendfile64", "copy_file_range"),
        ),
        BY_FILE,
    ),
}
"""System call -> the reason for which a thread sleeps in it (``wait.<reason>``). Other calls: ``wait.<call>``."""

SYNCED = frozenset({"fsync", "fdatasync", "syncfs", "sync_file_range"})
"""Calls that wait for a disk, unless a process serves the file that they are about (FUSE), or another machine (NFS)."""


def name_of(number: int) -> str:
    """Return the name of a system call; ``call_<number>`` if the headers at build time did not have it."""
    return NATIVE.get(number, f"call_{number}")


@cache
def numbers() -> Mapping[str, int]:
    """Return number by name."""
    return {name: number for number, name in NATIVE.items()}


_SAME_AS = {"mmap2": "mmap", "_llseek": "lseek", "_newselect": "select", "ugetrlimit": "getrlimit", "waitpid": "wait4"}


def compat_numbers() -> dict[int, int]:
    """Return, for each system call of 32-bit programs, the native call of the same name or meaning (``stat64``)."""
    native = numbers()
    same = {}
    for number, name in COMPAT.items():
        names = (
            name,
            _SAME_AS.get(name, ""),
            name.removesuffix("_time64"),
            name.removesuffix("64"),
            name.removesuffix("32"),
        )
        found = next((native[n] for n in names if n in native), None)
        if found is not None:
            same[number] = found
    return same
