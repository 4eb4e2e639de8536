"""One loop that collects from thousands of buffers: a timer for those whose policy says when, epoll for the others."""

from __future__ import annotations

import heapq
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .buffer import Buffer
from .policy import NEVER, Policy

__all__ = ["Collector", "Figures"]

Into = TypeVar("Into")
GRAIN = 1_000_000
"""ns. Looks that are due within so short a time are taken together."""
PATIENCE = 16
"""What waits for a thread's time may be late by a part in so many of the wait: so many more are taken together."""


@dataclass(slots=True)
class Figures:
    """What collecting came to."""

    looks: int = 0
    """How often the filling of a buffer was read."""
    clock_reads: int = 0
    """How often the processor time of a thread was read."""
    drains: int = 0
    useful: int = 0
    """Drains of half a buffer or more."""
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
        self.wait = 0  # from when it was last asked
        self.lost = buffer.lost_bytes


class Collector(Generic[Into]):
    """Serves buffers, each with its policy, and counts what that takes.

    A look that is due is found in a heap of moments, with all buffers that share one: what is not due costs nothing. Of
    a thread that has not run since it was last asked neither the clock is read nor the policy asked.
    """

    def __init__(self, into: Into, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """``into``: where drained records go; ``clock``: now, in ns."""
        self.figures = Figures()
        self._into = into
        self._clock = clock
        self._served: dict[int, _Served[Into]] = {}  # by id() of the buffer
        self._moments: list[int] = []
        self._at: dict[int, list[_Served[Into]]] = {}
        self._epoll = select.epoll()
        self._by_fd: dict[int, _Served[Into]] = {}
        self._watched: dict[int, Callable[[], None]] = {}

    def add(self, buffer: Buffer[Into], policy: Policy, *, fd: int = -1) -> None:
        """Serve a buffer; ``fd``: what becomes readable at its watermark, if the policy waits for that."""
        served = self._served[id(buffer)] = _Served(buffer, policy, fd)
        if fd >= 0:
            self._by_fd[fd] = served
            self._epoll.register(fd, select.EPOLLIN)
        now = self._clock()
        self._plan(served, policy.due(now, self._used(served)), now)

    def remove(self, buffer: Buffer[Into]) -> None:
        """Serve it no more; what is still in it is the owner's to drain. Before its file is closed."""
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
        """Collect until this moment, or until ``stop``, which is asked after each waking."""
        while self._clock() < until and not stop():
            self.step(until)

    def step(self, until: int = NEVER) -> None:
        """Sleep until something is to be done, ``until`` at last, and do it."""
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

    def drain_all(self) -> None:
        """Take everything that is there, whatever the policies say."""
        for served in self._served.values():
            self._drain(served)

    def close(self) -> None:
        """End the loop; the buffers stay as they are."""
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
        due = -(-due // grain) * grain  # together with all that are due in the same grain
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
