"""Processes by the name of their program."""

from __future__ import annotations

import os

__all__ = ["processes_named"]

_COMM = 15
"""The bytes of a name that the kernel keeps."""


def processes_named(name: str, proc: str = "/proc") -> tuple[int, ...]:
    """Return the processes whose program has this name, without this one.

    It is compared with the kernel's name of the process, of which there are 15 bytes, and with the file name of its
    first argument. Processes that /proc hides are not among them.
    """
    found = []
    for entry in os.listdir(proc):
        if entry.isascii() and entry.isdigit() and int(entry) != os.getpid() and name in _names(proc, entry, name):
            found.append(int(entry))
    return tuple(sorted(found))


def _names(proc: str, pid: str, wanted: str) -> set[str]:
    names = set()
    try:
        with open(os.path.join(proc, pid, "comm"), "rb") as file:
            comm = os.fsdecode(file.read(64)).rstrip("\n")
        with open(os.path.join(proc, pid, "cmdline"), "rb") as file:
            names.add(os.path.basename(os.fsdecode(file.read(4096).partition(b"\0")[0])).removesuffix(":"))
    except OSError:  # it has ended, or is hidden
        return names
    names.add(wanted if comm == wanted or (len(comm.encode()) == _COMM and wanted.startswith(comm)) else comm)
    return names
