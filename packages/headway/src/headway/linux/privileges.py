"""Giving up privileges for good: another user, and no capabilities but the named ones, not even through a program.

See capabilities(7), setresuid(2), and PR_SET_NO_NEW_PRIVS in prctl(2). On Linux these belong to a thread, so they are
given up while the process has only one.
"""

from __future__ import annotations

import ctypes
import os
import pwd
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import IntEnum

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.system_call import c_library, checked, prctl

__all__ = [
    "LinuxCapability",
    "User",
    "allow_bpf",
    "allow_perf",
    "effective",
    "effective_in",
    "give_up",
    "permitted",
    "user_named",
    "without",
]


class LinuxCapability(IntEnum):
    """The capabilities that some part of headway uses (include/uapi/linux/capability.h)."""

    DAC_READ_SEARCH = 2
    """Read files whatever their owner: /proc/PID/mem and /proc/PID/syscall of other users' processes."""
    KILL = 5
    """Send signals to other users' processes."""
    SETGID = 6
    """Change the group ids."""
    SETUID = 7
    """Become another user."""
    SYS_RAWIO = 17
    """Read model-specific registers."""
    SYS_PTRACE = 19
    """Look into other users' processes."""
    SYS_ADMIN = 21
    SYS_NICE = 23
    """Say where other users' processes run."""
    PERFMON = 38
    """Use perf_event_open(2) for whole processors."""
    BPF = 39


_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_SET_KEEPCAPS, _CAPBSET_READ, _CAPBSET_DROP, _SET_NO_NEW_PRIVS, _CAP_AMBIENT = 8, 23, 24, 38, 47
_CAP_AMBIENT_CLEAR_ALL = 4


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Sets(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


@dataclass(frozen=True, slots=True)
class User:
    """A user that a process can become."""

    name: str
    uid: int
    gid: int


def user_named(name: str) -> User:
    """Return a user by name. Raises HeadwayError."""
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError, UnicodeError):
        raise HeadwayError(f"there is no user {name!a}: give another with --user (getent passwd)") from None
    return User(name, found.pw_uid, found.pw_gid)


@contextmanager
def _doing(what: str) -> Iterator[None]:
    """Have an error say what failed."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"{what}: {error.strerror}") from None


def _get() -> tuple[int, int]:
    """Return the bit masks of effective and permitted capabilities."""
    header, sets = _Header(_VERSION, 0), (_Sets * 2)()
    with _doing("capget"):
        checked(c_library().capget(ctypes.byref(header), sets))
    return sets[0].effective | sets[1].effective << 32, sets[0].permitted | sets[1].permitted << 32


def _set(effective: int, permitted: int) -> None:
    header, sets = _Header(_VERSION, 0), (_Sets * 2)()
    for half in range(2):
        sets[half].effective = effective >> 32 * half & 0xFFFFFFFF
        sets[half].permitted = permitted >> 32 * half & 0xFFFFFFFF
    with _doing("capset"):
        checked(c_library().capset(ctypes.byref(header), sets))


def effective() -> frozenset[LinuxCapability]:
    """Return the capabilities named here that this thread has in effect."""
    return _named(_get()[0])


def effective_in(fields: Mapping[str, str]) -> frozenset[LinuxCapability]:
    """Return the capabilities named here that a process has in effect, by its status (proc_pid_status(5)).

    Raises ValueError where the status has no such mask.
    """
    return _named(int(fields.get("CapEff", ""), 16))


def allow_bpf(capabilities: Collection[LinuxCapability]) -> bool:
    """Return whether these are enough to load eBPF programs for tracing: CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN."""
    return LinuxCapability.SYS_ADMIN in capabilities or {LinuxCapability.BPF, LinuxCapability.PERFMON} <= set(
        capabilities
    )


def allow_perf(capabilities: Collection[LinuxCapability]) -> bool:
    """Return whether these are enough to count events of everybody's: CAP_PERFMON or CAP_SYS_ADMIN."""
    return LinuxCapability.SYS_ADMIN in capabilities or LinuxCapability.PERFMON in capabilities


def permitted() -> frozenset[LinuxCapability]:
    """Of the capabilities named here, those that this thread may have in effect."""
    return _named(_get()[1])


@contextmanager
def without(capabilities: Collection[LinuxCapability]) -> Iterator[None]:
    """Make these capabilities ineffective meanwhile, in this thread."""
    effective, allowed = _get()
    _set(effective & ~_mask(capabilities), allowed)
    try:
        yield
    finally:
        _set(effective, allowed)


def _named(mask: int) -> frozenset[LinuxCapability]:
    return frozenset(one for one in LinuxCapability if mask >> one & 1)


def _mask(capabilities: Collection[LinuxCapability]) -> int:
    return sum(1 << one for one in set(capabilities))


def give_up(user: User | None, keep: Collection[LinuxCapability] = ()) -> frozenset[LinuxCapability]:
    """Become this user (None: stay) and keep only these capabilities, as far as they are permitted, for good.

    Returns the remaining capabilities. Raises OSError; then the process must not continue.
    """
    left = frozenset(keep) & permitted()
    mask = _mask(left)
    for number in range(64):
        with suppress(OSError):  # there are fewer; and dropping fails without CAP_SETPCAP, and then is not needed
            if prctl(_CAPBSET_READ, number) == 1:
                prctl(_CAPBSET_DROP, number)
    with suppress(OSError):
        prctl(_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL)
    if user is not None:
        with _doing("keeping capabilities"):
            prctl(_SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
        with _doing("keeping capabilities"):
            prctl(_SET_KEEPCAPS, 0)
    _set(mask, mask)
    with _doing("no_new_privs"):
        prctl(_SET_NO_NEW_PRIVS, 1)
    return left
