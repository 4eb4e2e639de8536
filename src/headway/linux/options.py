"""What to measure, and what counts as progress: the user's choice, for every source."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MAX_IDS", "MeasureOptions", "Selection"]

MAX_IDS = 1 << 22
"""PID_MAX_LIMIT of 64-bit kernels (include/linux/threads.h)."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which threads to measure (T1), and on which processors.

    The choices add up; ``everything`` makes the others moot. Threads and processes that a measured thread creates are
    measured too, unless ``follow`` is false. All ids are those of the pid namespace that headway runs in.
    """

    pids: tuple[int, ...] = ()
    """Processes, with all their threads."""
    tids: tuple[int, ...] = ()
    """Single threads."""
    name: str | None = None
    """Threads of this name (15 bytes at most, as in /proc/PID/comm); with a final ``*`` all that begin so."""
    cgroup: str | None = None
    """A cgroup v2 directory: all threads in it and below it."""
    everything: bool = False
    """Every thread of the machine (of the pid namespace)."""
    command: int | None = None
    """A process of ours that is held until it is released: measured from the moment it executes its program."""
    argv: tuple[str, ...] = ()
    """That program and its arguments."""
    cpus: tuple[int, ...] | None = None
    """Only what happens on these processors; None: all."""
    follow: bool = True


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """What counts as progress, and what is recorded beside time (T2): the user's to read and to change."""

    checks: str | None = None
    """A TOML file of status checks beside the ready-made ones (`headway.linux.bpf.checks`); None: only those."""
    functions: tuple[str, ...] = ()
    """Functions whose time is not progress: ``LIB:FUNCTION``, or the name of a ready-made set."""
    events: tuple[str, ...] = ()
    """Events to be counted by state, in perf's words."""
    why: bool = False
    """Record what is behind the waits, and who held the processor."""
    stacks: bool = False
    """Charge the time off the processor to stacks, and tell the states of samples (`sources.profiler`)."""
