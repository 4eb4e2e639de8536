"""What every source for a running Linux offers to the commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from headway.model import Ledger, Piece

__all__ = ["MOST_IDS", "Criteria", "LinuxSource", "RecordingSource", "Selection", "SourceAround"]

MOST_IDS = 1 << 22
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
class Criteria:
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
    """Charge the time off the processor to stacks, and tell the states of samples (`headway.linux.sources.profiler`)."""


class LinuxSource(Protocol):
    """Yields ledgers. ``begin`` once, then ``read`` as often as wanted, then ``end``, and ``close`` in any case."""

    name: str

    def begin(self) -> None:
        """Start measuring. Raises HeadwayError where the selection cannot be measured; nothing is left attached."""

    def poll_fds(self) -> Iterable[int]:
        """File descriptors that become readable when `service` has work to do."""

    def service(self) -> float | None:
        """Do the work that cannot wait for a reading; seconds until it wants to be called again, None: by its fds."""

    def settle(self, pid: int) -> None:
        """Wait, for a moment at most, until a process that has ended is seen to have ended."""

    def read(self) -> Ledger:
        """Everything since `begin`, as of now."""

    def interval(self) -> Ledger:
        """What happened since the last `interval`, or since `begin`."""

    def end(self) -> Ledger:
        """Everything since `begin`, as of now, and measure no more."""

    def end_interval(self) -> Ledger:
        """What happened since the last `interval`, and measure no more."""

    def close(self) -> None:
        """Detach everything; may be called at any time, more than once."""


class RecordingSource(LinuxSource, Protocol):
    """A source that hands over every transition too: `take` as often as wanted, and once more after `end`."""

    @property
    def waiting(self) -> int:
        """Rows that `take` would hand over now."""

    def frame(self) -> Ledger:
        """What must be known to read the rows: window, units, precision, reasons; no threads, no processors."""

    def take(self) -> Piece:
        """All rows since the last call; after `end` those that its ledger has and that are still to be taken.

        Their arrays are the caller's.
        """


class SourceAround:
    """A source around another: what is not done otherwise is done as that one does it."""

    def __init__(self, source: LinuxSource) -> None:
        self.name = source.name
        self._source = source

    def poll_fds(self) -> Iterable[int]:
        """The source's."""
        return self._source.poll_fds()

    def settle(self, pid: int) -> None:
        """As the source does."""
        self._source.settle(pid)

    def read(self) -> Ledger:
        """The source's."""
        return self._source.read()

    def interval(self) -> Ledger:
        """The source's."""
        return self._source.interval()

    def close(self) -> None:
        """Detach everything."""
        self._source.close()
