"""Processes whose first thread has ended: their files in /proc are empty, but those of another thread are not.

A program whose main thread calls pthread_exit(3) goes on with the others. Its process keeps the number of the first
thread, which is a zombie: /proc/PID has no memory, no mappings and no program. /proc/TID of another thread has them.
"""

from __future__ import annotations

import os

__all__ = ["is_zombie", "with_memory"]


def with_memory(pid: int, proc: str = "/proc") -> int:
    """Return the id of a thread that has the process's memory: the process's own id, or another if that has ended.

    Where no thread is found, or none may be looked into, it is the process's own.
    """
    if not _ended(pid, proc):
        return pid
    try:
        tids = sorted(int(name) for name in os.listdir(f"{proc}/{pid}/task") if name.isdecimal())
    except OSError:
        return pid
    return next((tid for tid in tids if tid != pid and not _ended(tid, proc)), pid)


def _ended(tid: int, proc: str) -> bool:
    try:
        os.readlink(f"{proc}/{tid}/exe")
    except (FileNotFoundError, ProcessLookupError):
        return True  # or a thread of the kernel, which has no other
    except OSError:
        return False
    return False


def is_zombie(pid: int, proc: str = "/proc") -> bool:
    """Return whether a process's first thread has ended (state Z in proc_pid_stat(5))."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()[:1] == [b"Z"]
    except OSError:
        return False
