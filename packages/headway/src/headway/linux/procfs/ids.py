"""The ids of processes, threads and their namespaces."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from headway.text import is_number

from .status import status

__all__ = ["ids_in", "ids_inwards", "in_user_namespace", "pid_namespace", "process_of"]


def process_of(tid: int, *, proc: str | os.PathLike[str] = "/proc", dir_fd: int | None = None) -> int | None:
    """Return the process that a thread belongs to; None: there is no such thread, or it is hidden.

    ``dir_fd``: an open directory that ``proc`` is relative to.
    """
    ids = _numbers(status(os.path.join(proc, str(tid)), dir_fd=dir_fd).get("Tgid", ""))
    return ids[0] if ids else None


def ids_inwards(folder: str) -> list[int]:
    """The ids of a process or thread in all pid namespaces, from that of /proc to its own; none where it has ended."""
    return ids_in(status(folder))


def ids_in(fields: Mapping[str, str]) -> list[int]:
    """The same, by the process's or thread's status."""
    return _numbers(fields.get("NSpid", ""))


_PROC_PID_INIT_INO = 0xEFFFFFFC
"""Inode number of the initial pid namespace (include/linux/proc_ns.h)."""


def pid_namespace(link: str | os.PathLike[str] = "/proc/self/ns/pid") -> int:
    """Return the inode number of the pid namespace that ``link`` names; 0: it is the initial one.

    Raises OSError where the link cannot be read, ValueError where it names no namespace.
    """
    found = re.fullmatch(r"pid:\[(\d+)\]", os.readlink(link), re.ASCII)
    if found is None:
        raise ValueError(f"{link} is no link to a pid namespace")
    number = int(found[1])
    return 0 if number == _PROC_PID_INIT_INO else number


def _numbers(text: str) -> list[int]:
    words = text.split()
    return [int(word) for word in words] if all(map(is_number, words)) else []


def in_user_namespace(uid_map: str | os.PathLike[str] = "/proc/self/uid_map") -> bool:
    """Return whether this process is in a user namespace of its own (user_namespaces(7)), whose root has no rights
    outside.
    """
    try:
        with open(uid_map, encoding="ascii") as file:
            return file.read(4096).split() != ["0", "0", str((1 << 32) - 1)]
    except (OSError, ValueError):
        return False
