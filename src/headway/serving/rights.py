"""The user and the capabilities with which the server goes on once it measures."""

from __future__ import annotations

import os
from collections.abc import Iterable

from headway.errors import HeadwayError
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.linux.privileges import LinuxCapability, User, give_up, permitted, user_named
from headway.linux.sources.source import LinuxSource

__all__ = ["reduce_rights", "rights_in_words", "user_to_become"]

NOBODY = "nobody"


def user_to_become(name: str | None) -> User | None:
    """Return the user to become; None: no other. ``name``: what --user says. Raises HeadwayError."""
    if os.geteuid() == 0:
        user = user_named(name or NOBODY)
        if not {LinuxCapability.SETUID, LinuxCapability.SETGID} <= permitted():
            raise HeadwayError(
                f"becoming {user.name} needs CAP_SETUID and CAP_SETGID, which this root user does not have: give it "
                "both, or start headway as another user"
            )
        return user
    if name is None or user_named(name).uid == os.geteuid():
        return None
    raise HeadwayError("becoming another user needs root: leave --user out, or run as root (sudo headway serve ...)")


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
