"""Ids of processes, threads and their namespaces."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

__all__ = ["pid_namespace", "process_of"]


def process_of(tid: int) -> int:
    """The process that a thread belongs to; if that is not to be had, the thread's own id."""
    with suppress(OSError):
        found = re.search(r"^Tgid:\s*(\d+)", Path(f"/proc/{tid}/status").read_text(errors="replace"), re.MULTILINE)
        if found:
            return int(found.group(1))
    return tid


def pid_namespace() -> int:
    """Inode number of our pid namespace; 0 if it is the initial one (0xeffffffc, PROC_PID_INIT_INO)."""
    inum = os.stat("/proc/self/ns/pid").st_ino
    return 0 if inum == 0xEFFFFFFC else inum
