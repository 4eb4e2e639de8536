"""Look when the thread has used the processor time in which it half fills its buffer (MISSION P3 and P4)."""

from __future__ import annotations

from ..policy import USEFUL

__all__ = ["CpuTime", "Usual"]

AIM = 1.1
"""Looks are aimed so much beyond what is worth a look: at exactly that, every other look would find a little less."""
IDLE = 0.75
"""A thread that used less than half a processor is asked again when it could have filled this part of its buffer."""
MAX_BACKOFF = 64
"""While nothing is known of its rate, the wait doubles up to so many first intervals."""
WEIGHT = 0.5
"""Of what was just found, in the mean rate."""
MEMORY = 1 / 16
"""Of the last look, in the mean loss."""
MIN_PART = 1 / 16
"""The smallest part of a buffer that losses make worth a look."""
AT_ONCE = 1 / 8
"""Of an interval: the least that is waited for the rest."""
TOO_SOON = 1 / 16
"""Of an interval: the least after which the clock is read again."""


FADING = 1 / 256
"""Of a slower drain, in the usual rate."""


class Usual:
    """The rate at which the fastest of some buffers filled lately: what is known of the next one beforehand."""

    def __init__(self, rate: float = 0.0) -> None:
        """``rate``: until there was a drain, in bytes per unit of processor time; 0: not known."""
        self.rate = rate
        self._found = False

    def learn(self, found: float) -> None:
        """A drain found this rate."""
        if found > self.rate or not self._found:
            self.rate = found
        else:
            self.rate += FADING * (found - self.rate)
        self._found = True


class CpuTime:
    """A thread that has used little processor time has produced little to collect.

    Kept per buffer: the processor time of the last drain, and the rate at which it fills, in bytes per unit of
    processor time: the exponentially weighted mean of what was found; a rise counts at once, and what was known before
    its first look no more. The next look is due when
    the time used since is what fills ``useful`` of the buffer. Before that many units have passed on the clock no look
    can be of use, as no thread uses more than one processor: its clock is not even read. Too little found: the rest is
    waited for. Found full: the interval is halved. While more than ``budget`` is lost, ``useful`` is halved as well.
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
        """``usual``: shared with other buffers; where it knows nothing the first look is after ``first``."""
        if capacity <= 0 or first <= 0 or not 0 < useful < 1:
            raise ValueError("capacity and first are above 0, and useful is between 0 and 1")
        self._capacity = capacity
        self._useful = self._part = useful
        self._budget = budget
        self._loss = 0.0
        self._usual = usual or Usual()
        self._rate = 0.0
        self._own = False  # whether that is of its own looks
        self._interval = float(first)
        self._since: int | None = None  # the processor time of the last drain
        self._next = 0.0  # the processor time of the next look
        self._asked = self._asked_at = -1
        self._backing_off = 1

    @property
    def rate(self) -> float:
        """Bytes per unit of processor time, as it is known now."""
        return self._rate

    @property
    def interval(self) -> float:
        """Processor time from a drain to the next look."""
        return self._interval

    @property
    def part(self) -> float:
        """The part of the buffer that makes a look worth it now."""
        return self._part

    def due(self, now: int, used: int) -> int:
        """See `headway.buffers.policy.Policy`."""
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
        if idle and self._rate:
            left = max(left, IDLE * self._capacity / self._rate - (used - self._since))
        elif idle:
            self._backing_off = min(2 * self._backing_off, MAX_BACKOFF)
            left *= self._backing_off
        return now + max(1, int(left))

    def looked(self, now: int, used: int, filled: int, lost: int) -> bool:
        """See `headway.buffers.policy.Policy`."""
        spent = max(1, used - (used if self._since is None else self._since))
        found = (filled + lost) / spent
        full = lost > 0 or filled >= self._capacity
        if full:
            # Where losses are not counted, it is not known how much faster than this it was.
            self._rate = max(found, self._rate if lost else 2 * self._rate)
        elif found > self._rate or not self._own:
            self._rate = found
        else:
            self._rate += WEIGHT * (found - self._rate)
        self._own = True
        drained = full or filled >= self._part * self._capacity
        if drained:
            self._usual.learn(found)
            # Where losses are not counted, a full buffer stands for as much again that found no room.
            expected = filled + lost if lost or not full else max(2 * filled, self._rate * spent)
            self._loss += MEMORY * (1 - filled / max(1, expected) - self._loss)
            if full and self._loss > self._budget:
                self._part = max(min(MIN_PART, self._useful), self._part / 2)
            elif self._loss < self._budget / 2 and self._part < self._useful:
                self._part = min(self._useful, self._part * 2)
        before = self._interval
        self._interval = min(self._wanted(), before / 2 if full else before * 2)
        if drained:
            self._since = used
            self._next = used + self._interval
        else:
            rest = max(0, AIM * self._part * self._capacity - filled) / found if found else float("inf")
            self._next = used + max(min(rest, 2 * spent), self._interval * AT_ONCE)
        return drained

    def _wanted(self) -> float:
        """The processor time in which the buffer fills as far as it should."""
        if not self._rate:
            return float("inf")
        return max(1.0, min(AIM * self._part, (1 + self._part) / 2) * self._capacity / self._rate)
