"""Time namespaces (time_namespaces(7)): where CLOCK_MONOTONIC is not the clock of the kernel's own stamps.

eBPF programs and perf events stamp with the clock of the initial time namespace. A process in another one sees that
clock shifted by a constant, so its own readings cannot be compared with these stamps. headway therefore enters the
initial namespace before it measures; what it starts is put back.
"""

from __future__ import annotations

import os
import re

from headway.errors import HeadwayError

__all__ = ["Shift", "go_back", "leave", "left", "must_leave", "shift_of"]

_INITIAL = "time:[4026531834]"
"""The initial namespace has a fixed inode (PROC_TIME_INIT_INO, include/linux/proc_ns.h)."""
_CLONE_NEWTIME = 0x80
_MONOTONIC = re.compile(r"^monotonic\s+(-?\d{1,19})\s+(\d{1,9})$", re.MULTILINE | re.ASCII)
_SECOND = 1_000_000_000


class _Left:
    """The namespace in which this process was started, once it has left it."""

    fd = -1
    shift = 0


class Shift:
    """How far CLOCK_MONOTONIC is ahead of the kernel's clock in a process, ns; ``known`` is false if it is not told."""

    __slots__ = ("known", "ns")

    def __init__(self, ns: int, *, known: bool = True) -> None:
        self.ns, self.known = ns, known

    def __bool__(self) -> bool:
        """Whether the clock is another, or may be."""
        return bool(self.ns) or not self.known


def shift_of(folder: str = "/proc/self") -> Shift:
    """Return the shift in the process that a folder of /proc describes."""
    try:
        own, of_children = (os.readlink(f"{folder}/ns/{name}") for name in ("time", "time_for_children"))
    except OSError:  # before Linux 5.6, or not to be seen
        return Shift(0, known=not os.path.exists(f"{folder}/timens_offsets"))
    if own == _INITIAL:
        return Shift(0)
    try:
        with open(f"{folder}/timens_offsets", encoding="ascii", errors="replace") as file:
            found = _MONOTONIC.search(file.read(1024))
    except OSError:
        found = None
    if found is None or own != of_children:  # the file is about the namespace of its children
        return Shift(0, known=False)
    return Shift(int(found[1]) * _SECOND + int(found[2]))


def leave() -> str:
    """Have this process see the kernel's clock. Return why it cannot; empty: it does.

    It must have one thread only. What it starts is to `go_back`.
    """
    shift = shift_of()
    if not shift:
        return ""
    own = _open("self")
    if own < 0:
        return "its own time namespace cannot be opened"
    for pid in ("1", *(name for name in os.listdir("/proc") if name.isdecimal())):
        try:
            if os.readlink(f"/proc/{pid}/ns/time") != _INITIAL:
                continue
        except OSError:
            continue
        initial = _open(pid)
        if initial < 0:
            continue
        error = _enter(initial)
        os.close(initial)
        if not error:
            _Left.fd, _Left.shift = own, shift.ns
            return ""
        os.close(own)
        return f"it cannot leave its time namespace ({os.strerror(error)})"
    os.close(own)
    return "no process in sight is in the initial time namespace"


def left() -> int:
    """Return the shift of the time namespace that `leave` has left, ns; 0: it has left none, or does not know."""
    return _Left.shift


def must_leave() -> None:
    """Have this process see the kernel's clock. Raises HeadwayError where it cannot."""
    if why := leave():
        raise HeadwayError(
            f"the clock is not the kernel's, since headway is in a time namespace: {why}",
            "start it outside (sudo nsenter -T -t 1 headway …)",
        )


def go_back() -> None:
    """Enter the time namespace that `leave` has left, if it has. Raises OSError."""
    if _Left.fd >= 0 and (error := _enter(_Left.fd)):
        raise OSError(error, os.strerror(error))


def _open(pid: str) -> int:
    try:
        return os.open(f"/proc/{pid}/ns/time", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _enter(fd: int) -> int:
    """Return 0, or the errno of setns(2)."""
    from headway.system_call import c_library, checked  # rarely needed, and long to load

    try:
        checked(c_library().setns(fd, _CLONE_NEWTIME))
    except OSError as error:
        return error.errno or 0
    return 0
