"""A user id that nothing else on this machine has: no account, no process, and none that systemd has given out.

Who becomes such a user can neither signal nor trace anybody, and shares no file and no limit of a user's processes.
The ids are those that systemd takes for services with DynamicUser=, which distributions leave alone
(systemd's UIDS-GIDS.md).
"""

from __future__ import annotations

import grp
import os
import pwd
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress

from headway.text import is_number

from .privileges import User
from .procfs.status import status

__all__ = ["DYNAMIC", "is_mapped", "may_change_groups", "unshared_user"]

DYNAMIC = range(61184, 65520)
"""The ids that no account has."""
_GIVEN_OUT = "/run/systemd/dynamic-uid"


def unshared_user(mapped: Callable[[int], bool] | None = None) -> User | None:
    """Return a user that nothing else is now; None: no such id can be had in this user namespace.

    ``mapped``: whether an id means something here (`is_mapped`).
    """
    mapped = mapped or is_mapped
    taken = _ids_of_processes()
    first = secrets.randbelow(len(DYNAMIC))
    for number in (*DYNAMIC[first:], *DYNAMIC[:first]):
        if mapped(number) and number not in taken and not _has_account(number):
            return User(f"user {number}", number, number)
    return None


def is_mapped(number: int, *, folder: str = "/proc/self") -> bool:
    """Return whether a user and group id means something in this user namespace (user_namespaces(7))."""
    return all(any(number in ids for ids in _mapped(f"{folder}/{name}")) for name in ("uid_map", "gid_map"))


def may_change_groups(*, folder: str = "/proc/self") -> bool:
    """Return whether setgroups(2) is permitted in this user namespace, as far as the namespace says."""
    with suppress(OSError), open(f"{folder}/setgroups", encoding="ascii") as file:
        return file.read(16).strip() != "deny"
    return True


def _mapped(path: str) -> Iterable[range]:
    """Return the ranges of ids within the namespace; all, if it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            rows = [line.split() for line in file]
    except (OSError, ValueError):
        return [range(1 << 32)]
    return [range(int(row[0]), int(row[0]) + int(row[2])) for row in rows if len(row) == 3 and all(map(is_number, row))]


def _ids_of_processes() -> set[int]:
    """Return all user and group ids that processes have now, as far as /proc shows them."""
    found: set[int] = set()
    for name in filter(is_number, os.listdir("/proc")):
        fields = status(f"/proc/{name}")
        found.update(int(word) for key in ("Uid", "Gid") for word in fields.get(key, "").split() if is_number(word))
    return found


def _has_account(number: int) -> bool:
    """Return whether a user or group has this id, or systemd has given it to a service."""
    for look in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            look(number)
            return True
    return os.path.lexists(f"{_GIVEN_OUT}/{number}")
