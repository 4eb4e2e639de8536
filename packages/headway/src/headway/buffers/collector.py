"""A loop that collects from thousands of buffers: by a timer if their policy gives a moment, by epoll otherwise."""

from __future__ import annotations

import heapq
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .buffer import Buffer
from .policy import NEVER, Policy

__all__ = ["CollectionFigures", "Collector"]

Into = TypeVar("Into")
GRAIN = 1_000_000
"""ns. Looks that are due within this time are taken together."""
PATIENCE = 16
"""A look that depends on a thread's time may be late by the wait divided by this, so that more looks are merged."""


@dataclass(slots=True)
class CollectionFigures:
    """The counts and the cost of collecting."""

    looks: int = 0
    """How often the fill level of a buffer was read."""
    clock_reads: int = 0
    """How often the processor time of a thread was read."""
    drains: int = 0
    useful: int = 0
    """Drains of at least half a buffer."""
    bytes: int = 0
    wakeups: int = 0
    """How often the loop was woken, by a timer or by the kernel."""
    cpu_ns: int = 0
    """Processor time of the loop itself."""


class _Served(Generic[Into]):
    __slots__ = ("buffer", "fd", "lost", "policy", "removed", "wait")

    def __init__(self, buffer: Buffer[Into], policy: Policy, fd: int) -> None:
        self.buffer, self.policy, self.fd = buffer, policy, fd
        self.removed = False
        self.wait = 0  # the time from its last due() to its look
        self.lost = buffer.lost_bytes


class Collector(Generic[Into]):
    """A loop that serves buffers, each with its policy, and counts what that costs.

    Looks are planned in a heap of moments; all buffers that share a moment are looked at together. A buffer that is not
    due costs nothing. If a thread has not run since the last look, neither is its clock read nor its policy asked.
    """

    def __init__(self, into: Into, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """``into`` receives the drained records; ``clock`` returns the current time in ns."""
        self.figures = CollectionFigures()
        self._into = into
        self._clock = clock
        self._served: dict[int, _Served[Into]] = {}  # by id() of the buffer
        self._moments: list[int] = []
        self._at: dict[int, list[_Served[Into]]] = {}
        self._epoll = select.epoll()
        self._by_fd: dict[int, _Served[Into]] = {}
        self._watched: dict[int, Callable[[], None]] = {}

    def add(self, buffer: Buffer[Into], policy: Policy, *, fd: int = -1) -> None:
        """Serve a buffer. ``fd`` becomes readable at its watermark, if the policy waits for the kernel."""
        served = self._served[id(buffer)] = _Served(buffer, policy, fd)
        if fd >= 0:
            self._by_fd[fd] = served
            self._epoll.register(fd, select.EPOLLIN)
        now = self._clock()
        self._plan(served, policy.due(now, self._used(served)), now)

    def remove(self, buffer: Buffer[Into]) -> None:
        """Stop serving a buffer, before its file is closed. Records that are still in it are left to the owner."""
        served = self._served.pop(id(buffer), None)
        if served is None:
            return
        served.removed = True
        self._silence(served)

    def watch(self, fd: int, ready: Callable[[], None]) -> None:
        """Call ``ready`` in the loop when the file is readable."""
        self._watched[fd] = ready
        self._epoll.register(fd, select.EPOLLIN)

    def run(self, until: int, *, stop: Callable[[], bool] = lambda: False) -> None:
        """Collect until this moment, or until ``stop`` returns true; it is called after each wakeup."""
        while self._clock() < until and not stop():
            self.step(until)

    def step(self, until: int = NEVER) -> None:
        """Sleep until a look is due, but at most to ``until``, and take it."""
        began = time.thread_time_ns()
        figures = self.figures
        moment = self._moments[0] + GRAIN if self._moments else NEVER
        wait = min(moment, until) - self._clock()
        timeout = -1.0 if min(moment, until) == NEVER else max(0.0, wait / 1e9)
        ready = self._epoll.poll(timeout, maxevents=4096)
        figures.wakeups += 1
        for fd, events in ready:
            called = self._watched.get(fd)
            if called is not None:
                called()
            elif fd in self._by_fd:
                self._look(self._by_fd[fd], self._clock(), 0)
                if events & (select.EPOLLHUP | select.EPOLLERR) and fd in self._by_fd:
                    self._silence(self._by_fd[fd])
        now = self._clock()
        while self._moments and self._moments[0] <= now:
            for served in self._at.pop(heapq.heappop(self._moments)):
                if served.removed:
                    continue
                if served.policy.reads_clock and served.buffer.stood_still():
                    self._plan(served, now + served.wait, now)
                else:
                    self._serve(served, now)
        figures.cpu_ns += time.thread_time_ns() - began

    def pause(self) -> float | None:
        """Return the seconds until the next look that the clock gives; None: the kernel tells of all looks."""
        if not self._moments:
            return None
        return max(0.0, (self._moments[0] + GRAIN - self._clock()) / 1e9)

    def drain_all(self) -> None:
        """Drain all buffers, whatever the policies say."""
        for served in self._served.values():
            self._drain(served)

    def close(self) -> None:
        """End the loop. The buffers stay as they are."""
        self._epoll.close()
        self._served.clear()
        self._by_fd.clear()
        self._at.clear()
        self._moments.clear()

    def _used(self, served: _Served[Into]) -> int:
        if not served.policy.reads_clock:
            return 0
        self.figures.clock_reads += 1
        return served.buffer.cpu_time()

    def _plan(self, served: _Served[Into], due: int, now: int) -> None:
        if due == NEVER:
            return
        served.wait = due - now
        grain = GRAIN
        if served.policy.reads_clock and due - now > GRAIN * PATIENCE:
            grain = 1 << ((due - now) // PATIENCE).bit_length() - 1
        due = -(-due // grain) * grain  # merged with all looks that are due in the same grain
        sharing = self._at.get(due)
        if sharing is None:
            self._at[due] = [served]
            heapq.heappush(self._moments, due)
        else:
            sharing.append(served)

    def _serve(self, served: _Served[Into], now: int) -> None:
        used = self._used(served)
        due = served.policy.due(now, used)
        if due <= now:
            self._look(served, now, used)
            if served.removed:
                return
            due = served.policy.due(now, used)
        self._plan(served, max(due, now + 1), now)

    def _look(self, served: _Served[Into], now: int, used: int) -> None:
        figures = self.figures
        figures.looks += 1
        buffer = served.buffer
        filled = buffer.look()
        lost = buffer.lost_bytes
        if served.policy.looked(now, used, filled, lost - served.lost):
            self._drain(served)
        served.lost = lost

    def _drain(self, served: _Served[Into]) -> None:
        figures = self.figures
        moved = served.buffer.drain(self._into)
        figures.drains += 1
        figures.bytes += moved
        figures.useful += 2 * moved >= served.buffer.capacity

    def _silence(self, served: _Served[Into]) -> None:
        if self._by_fd.pop(served.fd, None) is not None:
            self._epoll.unregister(served.fd)
            served.fd = -1
