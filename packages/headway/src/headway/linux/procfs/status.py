"""The ``status`` file of a process or thread (proc_pid_status(5)).

Its first field is the name that the thread has given itself. The kernel escapes a newline in it but no other character,
so only a newline ends a line here: a thread named ``x\\rTgid:\\t1`` is not taken for a thread of another process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["status"]

_MAX_BYTES = 1 << 16


def status(folder: str | os.PathLike[str], *, dir_fd: int | None = None) -> Mapping[str, str]:
    """Return the fields of a process or thread by name. ``folder`` is its directory, relative to ``dir_fd`` if given.

    Returns no fields if it has ended, or may not be read.
    """
    try:
        fd = os.open(os.path.join(folder, "status"), os.O_RDONLY | os.O_CLOEXEC, dir_fd=dir_fd)
        with open(fd, "rb") as file:
            text = file.read(_MAX_BYTES)
    except OSError:
        return {}
    fields: dict[str, str] = {}
    for line in text.decode(errors="surrogateescape").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name, value.strip())
    return fields
