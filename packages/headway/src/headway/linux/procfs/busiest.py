"""The programs that have most processor time now (proc_pid_stat(5))."""

from __future__ import annotations

import os
import time
from collections import Counter

from headway.dataclass import dataclass

__all__ = ["BusyProgram", "busiest"]

_KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD in include/linux/sched.h, among the flags."""


@dataclass(frozen=True, slots=True)
class BusyProgram:
    """The processes of one name."""

    name: str
    """As the kernel has it: at most 15 bytes."""
    pids: tuple[int, ...]
    """Those that ran, the busiest first."""
    processors: float
    """The processor time that they had, as a number of processors."""


def busiest(seconds: float = 0.3, most: int = 5, proc: str = "/proc") -> list[BusyProgram]:
    """Return the programs that have most processor time for so long, without this process and the kernel's threads.

    The kernel counts this time in ticks of a hundredth of a second. Processes that /proc hides, and those that begin or
    end meanwhile, are not among them.
    """
    before, began = _times(proc), time.monotonic()
    time.sleep(seconds)
    after, took = _times(proc), time.monotonic() - began
    ran = {key: ticks - before[key] for key, ticks in after.items() if ticks > before.get(key, ticks)}
    of_name: Counter[str] = Counter()
    for (name, _, _), ticks in ran.items():
        of_name[name] += ticks
    found = []
    for name, ticks in of_name.most_common(most):
        pids = sorted((key for key in ran if key[0] == name), key=lambda key: (-ran[key], key[1]))
        found.append(BusyProgram(name, tuple(pid for _, pid, _ in pids), ticks / os.sysconf("SC_CLK_TCK") / took))
    return found


_Process = tuple[str, int, int]
"""Name, id, and when it began."""


def _times(proc: str) -> dict[_Process, int]:
    """Return the processor time of every process, in ticks."""
    found = {}
    for entry in os.listdir(proc):
        if not (entry.isascii() and entry.isdigit()) or int(entry) == os.getpid():
            continue
        try:
            with open(os.path.join(proc, entry, "stat"), "rb") as file:
                told = file.read(4096)
            name, rest = told[told.index(b"(") + 1 : told.rindex(b")")], told[told.rindex(b")") + 2 :].split()
            if not int(rest[6]) & _KERNEL_THREAD:
                found[os.fsdecode(name), int(entry), int(rest[19])] = int(rest[11]) + int(rest[12])
        except (OSError, ValueError, IndexError):  # it has ended, or is hidden
            continue
    return found
