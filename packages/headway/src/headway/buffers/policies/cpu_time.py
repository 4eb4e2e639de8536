"""A policy that looks when the thread has used the processor time in which it half fills its buffer."""

from __future__ import annotations

from ..policy import USEFUL

__all__ = ["CpuTime", "Usual"]

AIM = 1.1
"""Looks aim at this multiple of the useful part. Aimed at that part itself, every other look would find too little."""
IDLE = 0.75
"""A thread that used less than half a processor is asked again when it could have filled this part of its buffer."""
MAX_BACKOFF = 64
"""While the rate of a thread is unknown, its wait doubles up to this many first intervals."""
WEIGHT = 0.5
"""The weight of the latest look in the mean rate."""
MEMORY = 1 / 16
"""The weight of the latest look in the mean loss."""
MIN_PART = 1 / 16
"""The smallest part of a buffer that losses can make worth a look."""
AT_ONCE = 1 / 8
"""The shortest wait for the rest of the useful part, as a fraction of the interval."""
TOO_SOON = 1 / 16
"""The shortest time between two reads of the thread's clock, as a fraction of the interval."""
FADING = 1 / 256
"""The weight of a slower drain in the usual rate."""
GIVING_BACK = 1 / 256
"""The part of the rate of bursts that each look gives back which finds room in the buffer."""


class Usual:
    """The rate at which the fastest of several buffers filled lately, as the first estimate for a new buffer."""

    def __init__(self, rate: float = 0.0) -> None:
        """``rate`` holds until the first drain, in bytes per unit of processor time; 0 means unknown."""
        self.rate = rate
        self._found = False

    def learn(self, found: float) -> None:
        """Take the rate that a drain found into account."""
        if found > self.rate or not self._found:
            self.rate = found
        else:
            self.rate += FADING * (found - self.rate)
        self._found = True


class CpuTime:
    """A policy by processor time: a thread that has used little of it has produced little to collect.

    The policy keeps for its buffer the processor time of the last drain, and the rate at which the buffer fills, in
    bytes per unit of processor time. The rate is the exponentially weighted mean of what looks found; a rise counts at
    once, and the first look replaces the estimate before it. The next look is due when the time used since the drain
    fills the part ``useful`` of the buffer. Before that time has passed on the clock no look can be useful, because no
    thread uses more than one processor; the thread's clock is not even read. After a look that found too little, the
    policy waits for the rest. After a look that found a full buffer, it halves the interval. While more than ``budget``
    is lost, it halves ``useful`` as well, and looks are made for the rate at which the buffer ran full, and no longer
    for the mean. That rate is given back slowly, so that it outlasts what is between two bursts.
    """

    reads_clock = True
    waits_for_kernel = False

    def __init__(
        self,
        capacity: int,
        *,
        usual: Usual | None = None,
        first: int = 10_000_000,
        useful: float = USEFUL,
        budget: float = 0.05,
    ) -> None:
        """``usual`` is shared with other buffers. While it is unknown, the first look is after ``first``."""
        if capacity <= 0 or first <= 0 or not 0 < useful < 1:
            raise ValueError("capacity and first must be above 0, and useful between 0 and 1")
        self._capacity = capacity
        self._useful = self._part = useful
        self._budget = budget
        self._loss = 0.0
        self._usual = usual or Usual()
        self._rate = 0.0
        self._held = 0.0  # the rate of bursts, while they cost more than the budget
        self._own = False  # whether the rate comes from looks of its own
        self._interval = float(first)
        self._since: int | None = None  # the processor time of the last drain
        self._next = 0.0  # the processor time of the next look
        self._asked = self._asked_at = -1
        self._backing_off = 1

    @property
    def rate(self) -> float:
        """The rate that looks are made for, in bytes per unit of processor time: the mean, or that of bursts."""
        return max(self._rate, self._held)

    @property
    def interval(self) -> float:
        """The processor time from a drain to the next look."""
        return self._interval

    @property
    def part(self) -> float:
        """The part of the buffer that currently makes a look worthwhile."""
        return self._part

    def due(self, now: int, used: int) -> int:
        """Return the moment of the next look; see `headway.buffers.policy.Policy`."""
        if self._since is None:
            self._since = used
            self._next = used + self._interval
        if not self._own and self._usual.rate != self._rate:
            self._rate = self._usual.rate
            self._interval = self._wanted()
            self._next = self._since + self._interval
        idle = self._asked_at >= 0 and 2 * (used - self._asked) < now - self._asked_at
        self._asked, self._asked_at = used, now
        left = self._next - used
        if left <= 0:
            return now
        left = max(left, self._interval * TOO_SOON)
        if idle and self.rate:
            left = max(left, IDLE * self._capacity / self.rate - (used - self._since))
        elif idle:
            self._backing_off = min(2 * self._backing_off, MAX_BACKOFF)
            left *= self._backing_off
        return now + max(1, int(left))

    def looked(self, now: int, used: int, filled: int, lost: int) -> bool:
        """Adapt rate and interval to a look; see `headway.buffers.policy.Policy`."""
        spent = max(1, used - (used if self._since is None else self._since))
        found = (filled + lost) / spent
        full = lost > 0 or filled >= self._capacity
        if full:
            # If losses are not counted, the true rate may be any amount higher than this.
            self._rate = max(found, self._rate if lost else 2 * self._rate)
        elif found > self._rate or not self._own:
            self._rate = found
        else:
            self._rate += WEIGHT * (found - self._rate)
        self._own = True
        drained = full or filled >= self._part * self._capacity
        if drained:
            self._usual.learn(found)
            # If losses are not counted, assume that a full buffer lost as much again.
            expected = filled + lost if lost or not full else max(2 * filled, self._rate * spent)
            self._loss += MEMORY * (1 - filled / max(1, expected) - self._loss)
            if full and self._loss > self._budget:
                self._part = max(min(MIN_PART, self._useful), self._part / 2)
            elif self._loss < self._budget / 2 and self._part < self._useful:
                self._part = min(self._useful, self._part * 2)
        if not full:
            self._held *= 1 - GIVING_BACK
        elif self._loss > self._budget:
            self._held = max(self._held, self._rate)
        before = self._interval
        self._interval = min(self._wanted(), before / 2 if full else before * 2)
        if drained:
            self._since = used
            self._next = used + self._interval
        else:
            rate = max(found, self._held)
            rest = max(0, AIM * self._part * self._capacity - filled) / rate if rate else float("inf")
            self._next = used + max(min(rest, 2 * spent), self._interval * AT_ONCE)
        return drained

    def _wanted(self) -> float:
        """Return the processor time in which the buffer fills to the wanted part."""
        if not self.rate:
            return float("inf")
        return max(1.0, min(AIM * self._part, (1 + self._part) / 2) * self._capacity / self.rate)
