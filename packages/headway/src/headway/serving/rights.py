"""The user and the capabilities with which the server goes on once it measures."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from headway.errors import HeadwayError
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.linux.privileges import LinuxCapability, User, give_up, permitted, user_named
from headway.linux.sources.source import LinuxSource
from headway.linux.unshared_user import is_mapped, may_change_groups, unshared_user

__all__ = ["reduce_rights", "rights_in_words", "user_to_become"]

OWN = "headway"
"""The account that is taken if there is one and it is no other's, before an id that no account has."""


def user_to_become(name: str | None) -> User | None:
    """Return the user to become; None: no other. ``name``: what --user says. Raises HeadwayError.

    Without a name it is a user that nothing else is: others that are `nobody` could signal these processes, and these
    others. In a user namespace in which root is an ordinary user and no other exists, there is none to become.
    """
    if os.geteuid() == 0:
        user = _named(name) if name is not None else _own_user()
        if user is not None and not {LinuxCapability.SETUID, LinuxCapability.SETGID} <= permitted():
            raise HeadwayError(
                f"becoming {user.name} needs CAP_SETUID and CAP_SETGID, which this root user does not have: give it "
                "both, or start headway as another user"
            )
        return user
    if name is None or user_named(name).uid == os.geteuid():
        return None
    raise HeadwayError("becoming another user needs root: leave --user out, or run as root (sudo headway serve ...)")


def _named(name: str) -> User:
    user = user_named(name)
    if user.uid and not (may_change_groups() and is_mapped(user.uid)):
        raise HeadwayError(f"this user namespace does not have the id of {name!a}: leave --user out, or map that id")
    return user


def _own_user() -> User | None:
    """Return the user that is taken if none is named."""
    if not may_change_groups():
        return None
    with suppress(HeadwayError):
        user = user_named(OWN)
        if user.uid and is_mapped(user.uid) and is_mapped(user.gid):
            return user
    return unshared_user()


def reduce_rights(
    source: LinuxSource, user: User | None, selection: Selection, options: MeasureOptions, *, command: bool
) -> frozenset[LinuxCapability]:
    """Keep the capabilities that measuring still needs, and no others. Return those that are kept.

    ``user``: the user to become; ``command``: whether a command is measured, to which signals are passed on.
    """
    import headway.linux.regions.blocks  # noqa: F401  # what is loaded later may lie where the other user cannot read

    keep = set()
    if command:
        keep.add(LinuxCapability.KILL)  # signals are passed on
    if source.name == "bpf":
        keep.add(LinuxCapability.PERFMON)  # page faults on a processor that was off and comes back
        if not source.tells_without_privileges:  # type: ignore[attr-defined]
            keep.add(LinuxCapability.BPF)
        # Regions are to be found of threads that come to be measured, and where their calls are not seen.
        undivided = options.level is Level.SWITCHES or options.budget is not None
        if selection.name or selection.cgroup or undivided:
            keep |= {LinuxCapability.SYS_PTRACE, LinuxCapability.DAC_READ_SEARCH}
    else:
        keep |= {LinuxCapability.SYS_PTRACE, LinuxCapability.DAC_READ_SEARCH}  # what others' threads wait for
        if options.events:
            keep.add(LinuxCapability.PERFMON)
    return give_up(user, keep & permitted())


def rights_in_words(user: User | None, kept: Iterable[LinuxCapability]) -> str:
    """Return which user and which capabilities are left, for a message."""
    who = f"as {user.name}" if user is not None else "as this user"
    names = ", ".join(sorted(f"CAP_{one.name}" for one in kept)) or "no capabilities"
    return f"the process that listens runs {who} without capabilities, the one that measures with {names}"
