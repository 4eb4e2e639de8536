"""A model of threads that fill buffers, to test policies with: it is told what the threads do, and measures nothing."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from headway.buffers.policy import NEVER, Policy

MS = 1_000_000
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Phase:
    """For so many ns the thread has this share of a processor, and produces so many bytes per second of it."""

    length: int
    share: float
    rate: float


@dataclass
class ModelBuffer:
    """The buffer of a thread that goes through its phases, over and over; times are ns of the model's clock."""

    capacity: int
    phases: Sequence[Phase]
    now: int = 0
    produced: float = 0.0
    used: float = 0.0
    waiting: float = 0.0
    dropped: float = 0.0
    collected: float = 0.0
    counts: bool = True
    """Whether it knows what it lost."""

    @property
    def lost(self) -> int:
        return self.lost_bytes

    @property
    def lost_bytes(self) -> int:
        return int(self.dropped) if self.counts else 0

    def cpu_time(self) -> int:
        return int(self.used)

    def stood_still(self) -> bool:
        return False

    def look(self) -> int:
        return int(self.waiting)

    def drain(self, into: object) -> int:
        moved, self.waiting = int(self.waiting), 0.0
        self.collected += moved
        return moved

    def advance(self, to: int) -> None:
        cycle = sum(phase.length for phase in self.phases)
        while self.now < to:
            at = self.now % cycle
            for phase in self.phases:
                if at < phase.length:
                    break
                at -= phase.length
            step = min(to - self.now, phase.length - at)
            self.now += step
            self.used += step * phase.share
            new = step * phase.share * phase.rate / SECOND
            room = max(0.0, self.capacity - self.waiting)
            self.waiting += min(new, room)
            self.dropped += max(0.0, new - room)
            self.produced += new


@dataclass
class Look:
    """One look, and what the policy knew of it."""

    thread: int
    now: int
    used: int
    filled: int
    lost: int
    drained: bool


@dataclass
class Fleet:
    """Buffers with their policies under an ideal collector, which looks at the very moment that it was told."""

    buffers: list[ModelBuffer]
    policies: list[Policy]
    looks: list[Look] = field(default_factory=list)
    clock_reads: int = 0
    before_look: Callable[[int, int], None] | None = None
    """Called with the thread and its processor time before each look."""

    def run(self, until: int) -> None:
        order = count()
        heap: list[tuple[int, int, int]] = []
        lost = [0] * len(self.buffers)
        for thread in range(len(self.buffers)):
            heapq.heappush(heap, (self._due(thread, 0), next(order), thread))
        while heap and heap[0][0] <= until:
            now, _, thread = heapq.heappop(heap)
            buffer, policy = self.buffers[thread], self.policies[thread]
            buffer.advance(now)
            due = self._due(thread, now)
            if due <= now:
                used, filled = buffer.cpu_time(), buffer.look()
                if self.before_look:
                    self.before_look(thread, used)
                drain = policy.looked(now, used, filled, buffer.lost_bytes - lost[thread])
                self.looks.append(Look(thread, now, used, filled, buffer.lost_bytes - lost[thread], drain))
                lost[thread] = buffer.lost_bytes
                if drain:
                    buffer.drain(None)
                due = self._due(thread, now)
            if due != NEVER:
                heapq.heappush(heap, (max(due, now + 1), next(order), thread))
        for buffer in self.buffers:
            buffer.advance(until)

    def _due(self, thread: int, now: int) -> int:
        policy = self.policies[thread]
        self.clock_reads += policy.reads_clock
        return policy.due(now, self.buffers[thread].cpu_time() if policy.reads_clock else 0)

    @property
    def useful(self) -> int:
        return sum(look.drained and 2 * look.filled >= self.buffers[look.thread].capacity for look in self.looks)

    @property
    def lost_share(self) -> float:
        produced = sum(buffer.produced for buffer in self.buffers)
        return sum(buffer.dropped for buffer in self.buffers) / produced if produced else 0.0
