"""System calls by the files that they are about, and by what they return. Sources: Linux's man-pages, section 2."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BYTES", "FIRST", "MESSAGES", "RETURNED", "SECOND", "TWICE"]

_READ = ("read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg")
_WRITE = ("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "vmsplice")
_BETWEEN = ("sendfile", "splice", "tee", "copy_file_range")

FIRST: Mapping[str, int] = {
    **dict.fromkeys((*_READ, *_WRITE, *_BETWEEN, "recvmmsg", "sendmmsg"), 1),
    **dict.fromkeys(("close", "fstat", "lseek", "ioctl", "fcntl", "flock", "getdents", "getdents64", "dup", "dup2"), 1),
    **dict.fromkeys(("dup3", "fsync", "fdatasync", "syncfs", "sync_file_range", "ftruncate", "fallocate"), 1),
    **dict.fromkeys(("fadvise64", "readahead", "fchmod", "fchown", "fstatfs", "fchdir", "cachestat"), 1),
    **dict.fromkeys(("fgetxattr", "fsetxattr", "flistxattr", "fremovexattr"), 1),
    **dict.fromkeys(("accept", "accept4", "bind", "listen", "connect", "shutdown", "getsockname", "getpeername"), 1),
    **dict.fromkeys(("setsockopt", "getsockopt"), 1),
    **dict.fromkeys(
        ("epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_ctl", "timerfd_settime", "timerfd_gettime"), 1
    ),
    **dict.fromkeys(("inotify_add_watch", "inotify_rm_watch", "signalfd4", "io_uring_enter"), 1),
    "mmap": 5,
}
"""Which of the call's arguments, from 1, is the descriptor of its file."""
SECOND: Mapping[str, int] = {"sendfile": 2, "splice": 3, "tee": 2, "copy_file_range": 3}
"""Which is that of a second file, to which, or from which, the same bytes go."""
RETURNED = frozenset({"open", "openat", "openat2", "creat", "socket", "memfd_create", "eventfd2", "epoll_create1"})
"""Calls that return the descriptor of the file that they are about."""
BYTES = frozenset({*_READ, *_WRITE, *_BETWEEN, "getdents64"})
"""Calls that return how many bytes they have moved."""
MESSAGES = frozenset({"recvmmsg", "sendmmsg"})
"""Calls that return how many messages they have moved."""
TWICE = frozenset({"fork", "vfork", "clone", "clone3"})
"""Calls that return in a new thread, too."""
