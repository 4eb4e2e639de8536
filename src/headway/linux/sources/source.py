"""What every source for a running Linux offers to the commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from headway.model import Batch, Ledger

__all__ = ["LinuxSource", "RecordingSource", "SourceAround"]


class LinuxSource(Protocol):
    """Yields ledgers. ``begin`` once, then ``read`` as often as wanted, then ``end``, and ``close`` in any case."""

    name: str

    def begin(self) -> None:
        """Start measuring. Raises HeadwayError where the selection cannot be measured; nothing is left attached."""

    def poll_fds(self) -> Iterable[int]:
        """File descriptors that become readable when `service` has work to do."""

    def service(self) -> float | None:
        """Do the work that cannot wait for a reading; seconds until it wants to be called again, None: by its fds."""

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait until the source has seen a process exit, a second at most.

        Call it when the process has ended, before the last reading. A process can be waited for a little before its
        threads have left their processors for the last time; what they do until then is in the reading after this.
        """

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

    def take(self) -> Batch:
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

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """As the source does."""
        self._source.wait_until_exit_is_seen(pid)

    def read(self) -> Ledger:
        """The source's."""
        return self._source.read()

    def interval(self) -> Ledger:
        """The source's."""
        return self._source.interval()

    def close(self) -> None:
        """Detach everything."""
        self._source.close()
