"""The protocols of sources: what each source for a running Linux offers to those that measure with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headway.model import Batch, Ledger

__all__ = ["LinuxSource", "RecordingSource", "SourceAround"]


class LinuxSource(Protocol):
    """Yields ledgers of the threads that it was made for.

    Call `begin` once, then `read` or `interval` as often as wanted, then `end` or `end_interval`, and `close` in any
    case. Between `begin` and the end call `service` whenever a descriptor of `poll_fds` is readable, and after the time
    that `service` returned.
    """

    name: str

    def begin(self) -> None:
        """Start measuring. Raises HeadwayError where that cannot be; then nothing is left attached."""

    def poll_fds(self) -> Iterable[int]:
        """Return file descriptors that become readable when `service` has work to do."""

    def service(self) -> float | None:
        """Do the work that cannot wait for a reading. Return the seconds until the next call; None: no time is set."""

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait until the source has seen a process exit, a second at most.

        Call it when the process has ended, before the last reading. A process can be waited for a little before its
        threads have left their processors for the last time; what they do until then is in the reading after this.
        """

    def read(self) -> Ledger:
        """Return everything since `begin`, as of now."""

    def interval(self) -> Ledger:
        """Return what happened since the last `interval`, or since `begin`."""

    def end(self) -> Ledger:
        """Return everything since `begin`, as of now, and measure no more."""

    def end_interval(self) -> Ledger:
        """Return what happened since the last `interval`, and measure no more."""

    def close(self) -> None:
        """Detach everything; may be called at any time, more than once."""


class RecordingSource(LinuxSource, Protocol):
    """A source that hands over every transition too. Call `take` as often as wanted, and once more after `end`."""

    @property
    def waiting(self) -> int:
        """How many rows `take` would return now."""

    def empty_ledger(self) -> Ledger:
        """Return what must be known to read the rows: a ledger with units, precision and reasons, without threads."""

    def take(self) -> Batch:
        """Return all rows since the last call; after `end`, the rest of those that make its ledger.

        The arrays of the batch belong to the caller.
        """


class SourceAround:
    """A source around another, for subclasses: what they do not define is done by the other one."""

    def __init__(self, source: LinuxSource) -> None:
        self.name = source.name
        self._source = source

    def poll_fds(self) -> Iterable[int]:
        """Return the descriptors of the source."""
        return self._source.poll_fds()

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait as the source does."""
        self._source.wait_until_exit_is_seen(pid)

    def read(self) -> Ledger:
        """Return the reading of the source."""
        return self._source.read()

    def interval(self) -> Ledger:
        """Return the interval of the source."""
        return self._source.interval()

    def close(self) -> None:
        """Close the source."""
        self._source.close()
