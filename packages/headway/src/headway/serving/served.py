"""A source whose readings are handed to the process that listens."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable

from headway.linux.sources.source import LinuxSource, SourceAround
from headway.model import Ledger
from headway.model.work import FollowedWork
from headway.views.metrics.totals import Totals
from headway.views.metrics.work import Promised, promised

from .feed import hand_over
from .notify import Notifier
from .site import cost_of_ourselves

__all__ = ["Served"]

IDLE_SECONDS = 10.0
"""Seconds between two readings at most when there are no requests, so that ended threads are taken in."""
AT_ONCE = 5_000
"""About how many ended threads are taken in at once. Each takes a kilobyte until then."""


class Served(SourceAround):
    """A source (`LinuxSource`) whose readings are handed over when the listening process asks for them."""

    def __init__(
        self,
        source: LinuxSource,
        totals: Totals,
        channel: socket.socket,
        interval: float,
        manager: Notifier | None = None,
        work: FollowedWork | None = None,
    ) -> None:
        """``source``: begun; ``channel``: to the process that listens; ``interval``: s between readings, at least.

        ``manager``, if there is one, is told that headway is alive; ``work`` is what is to be done.
        """
        super().__init__(source)
        self._totals, self._channel, self._interval, self._manager = totals, channel, interval, manager
        self._work = work
        self._promised: Promised | None = None
        self._last = float("-inf")
        self._idle = IDLE_SECONDS
        self._asked = False
        self.alone = False
        """Whether the listening process is gone."""

    def begin(self) -> None:
        """Do nothing: the source has begun."""

    def poll_fds(self) -> Iterable[int]:
        """Return the descriptors of the source and of the channel."""
        return (*super().poll_fds(), self._channel.fileno())

    def service(self) -> float | None:
        """Let the source do its work, and read it if a reading was asked for, or none was taken for long."""
        pause = self._source.service()
        self._hear()
        due = self._last + (self._interval if self._asked else self._idle)
        if (now := time.monotonic()) >= due:
            self._take(self._source.interval(), now - self._last)
            self._last = now
            due = now + (self._interval if self._asked else self._idle)
        pauses = (pause, max(due - now, 0.0), None if self._manager is None else self._manager.alive())
        return min(seconds for seconds in pauses if seconds is not None)

    def end(self) -> Ledger:
        """Stop measuring, and hand over the last reading."""
        if self._manager is not None:
            self._manager.stopping()
        ledger = self._source.end_interval()
        self._asked = True
        self._take(ledger, IDLE_SECONDS)
        return ledger

    def end_interval(self) -> Ledger:
        """Stop measuring, and hand over the last reading."""
        return self.end()

    def _hear(self) -> None:
        """Find out whether a reading is wanted. The bytes themselves carry no information."""
        while not self.alone:
            try:
                self.alone = not self._channel.recv(16)
            except BlockingIOError:
                return
            except OSError:
                self.alone = True
            else:
                self._asked = True

    def _take(self, ledger: Ledger, seconds: float) -> None:
        """Add the ledger of an interval of this many seconds."""
        self._totals.add(ledger)
        if self._work is not None:
            self._promised = promised(self._work, ledger)
        ended = sum(thread.end is not None for thread in ledger.threads)
        self._idle = max(self._interval, min(IDLE_SECONDS, AT_ONCE * seconds / max(ended, 1)))
        if self._asked and not self.alone:
            epoch = time.time_ns() - time.monotonic_ns()
            if hand_over(
                self._channel, self._totals.snapshot(epoch=epoch, cost=cost_of_ourselves(), work=self._promised)
            ):
                self._asked = False
