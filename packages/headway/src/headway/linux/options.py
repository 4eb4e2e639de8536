"""The user's choice for every source: what to measure, and what counts as progress."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headway.dataclass import dataclass
from headway.linux.levels import Level

if TYPE_CHECKING:
    from headway.conditions import Condition

__all__ = ["MAX_IDS", "PROTOCOLS", "STATE_NAME", "MarkedFunctions", "MeasureOptions", "Selection"]

MAX_IDS = 1 << 22
"""PID_MAX_LIMIT of 64-bit kernels (include/linux/threads.h)."""
STATE_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""What may follow ``user.`` in the name of a state."""


PROTOCOLS = ("http", "redis", "postgres")
"""Protocols whose requests are recognised by their first bytes."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The target options: which threads to measure, and on which processors.

    The choices add up; with ``everything`` the others have no effect. Threads and processes that a measured thread
    creates are measured too, unless ``follow`` is false. All ids are those of the pid namespace that headway runs in.
    """

    pids: tuple[int, ...] = ()
    """Processes, with all their threads."""
    tids: tuple[int, ...] = ()
    """Single threads."""
    name: str | None = None
    """Threads of this name (at most 15 bytes, as in /proc/PID/comm). A final ``*`` selects all that begin so."""
    cgroup: str | None = None
    """A cgroup v2 directory: all threads in it and below it."""
    everything: bool = False
    """Every thread of the machine (of the pid namespace)."""
    command: int | None = None
    """The suspended child: it is measured from the moment it executes its program."""
    argv: tuple[str, ...] = ()
    """The suspended child's program and arguments."""
    cpus: tuple[int, ...] | None = None
    """Only what happens on these processors; None: on all."""
    follow: bool = True
    descendants: bool = False
    """The living descendants of ``pids`` too: what these had started before measuring began."""


@dataclass(frozen=True, slots=True)
class MarkedFunctions:
    """Functions that a user marks, in programs that stay as they are."""

    words: str
    """``LIB:FUNCTION``, or the name of a ready-made set."""
    kind: str = "noneffective"
    """The first word of their states: ``noneffective`` (KPI), ``poll`` (IOPI) or ``user`` (EPI)."""
    name: str = ""
    """The second word; empty: the name of each function."""
    option: str = "--noneffective"
    """How the user gave it, for errors."""


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """What counts as progress, and what is recorded besides time."""

    checks: str | None = None
    """A TOML file of status checks beside the built-in ones (`headway.linux.bpf.polling.checks`); None: only those."""
    functions: tuple[MarkedFunctions, ...] = ()
    """Functions whose time is in states of their own."""
    events: tuple[str, ...] = ()
    """Events to count by state, in perf's notation."""
    why: bool = False
    """Record the causes of waits, and who had the processor meanwhile."""
    calls: bool = False
    """Count system calls by process, call and file."""
    locks: bool = False
    """Tell how long each lock was held while others waited, and what its holder did meanwhile. This needs ``why``."""
    level: Level = Level.INTERRUPTS
    """How much of the threads' time is divided exactly, by eBPF."""
    budget: float | None = None
    """What measuring may cost, of the processor time of what is measured, 0.01 for 1 %; the level follows from it.
    None: the level is fixed."""
    when: tuple[Condition, ...] = ()
    """When one of these holds for a thread, a process or a cgroup, that is measured at the level `Level.CALLS`. All
    others are measured at ``level``, which is then `Level.SWITCHES`."""
    tasks: bool = False
    """Charge the time of threads to the tasks that they work on, too."""
    task_attributes: tuple[str, ...] = ()
    """Attributes of thread contexts of OpenTelemetry after which their tasks are named, the best first; then those that
    headway knows follow.
    """
    task_probes: tuple[str, ...] = ()
    """Tasks that begin and end at static probes of programs, as the user wrote them (`headway.linux.probes`). With
    ``tasks``.
    """
    requests: tuple[str, ...] = ()
    """Protocols of which requests are tasks, recognised by their first bytes: of `PROTOCOLS`. With ``tasks``."""
    cgroups: bool = False
    """Tell the control group of each thread."""
    stacks: bool = False
    """Charge the time off the processor to stacks, and record the states of samples (`sources.profiler`)."""
    unwind: bool = False
    """Walk user stacks by call frame information, not by frame pointers: with ``stacks``."""
    spin: bool = False
    """Find user code that spins, by samples: the state ``poll.spin``."""
    durations: int = 0
    """Keep histograms of how long each occurrence of a state lasted, with so many buckets for each power of two: 1, 2,
    4 or 8. 0: keep none.
    """
    publish: bool = False
    """Let the measured threads read what they have done so far (``headway_progress`` in headway.h), and what others of
    their user have done."""
    publish_all: bool = False
    """And what all measured threads have done, whoever's they are. With ``publish``."""

    @property
    def most(self) -> Level:
        """The most that is seen of any thread."""
        return Level.CALLS if self.when else self.level

    @property
    def uses(self) -> bool:
        """Whether what threads used is told apart from the times of their states."""
        return self.calls or self.locks

    @property
    def changes(self) -> bool:
        """Whether what is seen of a thread may change while it is measured. It does so at a snapshot."""
        return self.budget is not None or bool(self.when)
