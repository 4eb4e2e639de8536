"""The times of several streams laid over each other, by the timestamps in them.

Each core counts its own cycles; the timestamps all show one clock, in ticks. A stream's timestamps therefore lie on
lines of one slope, its cycles per tick, one line for each epoch (a stretch of trace in which no time was lost). The
slope is fitted to all of them, the lines' heights to each epoch's own, and the residuals say how far to trust it: a
tick is the best that a clock of ticks can do. Timestamps far off any line are damage: left out, and counted.

An epoch without a timestamp has no place in the common time: that is unknown, and says why. So is everything if the
slope cannot be known. The frequency of a core is taken to be constant over the capture: if it was not, the residuals
are large.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from .records import Timestamp

__all__ = ["Fit", "Moment", "Unplaced", "fit"]

_MOST = 65_536
"""Timestamps that are kept of a stream; of more, every second, fourth … one."""

_FAR = 4.0
"""Ticks off the line beyond which a timestamp is damage."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in the common time, in ticks, and how far it may be off to either side."""

    time: float
    uncertainty: float


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why there is no place in the common time."""

    why: str


@dataclass(frozen=True, slots=True)
class Fit:
    """How a stream's cycles lie in the common time.

    ``rate``: cycles per tick. ``residuals``: of each timestamp that was used, its distance from the line in cycles.
    ``outliers``: timestamps that were left out. ``heights``: by epoch, the time at its cycle 0, in ticks.
    """

    rate: float | None
    residuals: tuple[float, ...]
    outliers: int
    heights: dict[int, float]
    spans: dict[int, tuple[int, int]]
    """By epoch: cycles of its first and last timestamp."""

    @property
    def worst(self) -> float | None:
        """The largest residual, in cycles."""
        return max(map(abs, self.residuals), default=None)

    def moment(self, epoch: int, cycle: int | None) -> Moment | Unplaced:
        """The common time of a cycle."""
        if cycle is None:
            return Unplaced("the trace counts no cycles")
        if self.rate is None:
            return Unplaced("too few timestamps to know the cycles per tick")
        if epoch not in self.heights:
            return Unplaced("no timestamp between two losses of time")
        first, last = self.spans[epoch]
        beyond = max(first - cycle, cycle - last, 0)
        width = max(((self.worst or 0.0) / self.rate), 1.0)
        longest = max(end - start for start, end in self.spans.values())
        return Moment(
            self.heights[epoch] + cycle / self.rate, width + beyond * 2 * width / longest if longest else width
        )

    def cycle(self, time: float, epoch: int) -> float | None:
        """The cycle of the epoch at a common time."""
        if self.rate is None or epoch not in self.heights:
            return None
        return (time - self.heights[epoch]) * self.rate


def fit(timestamps: Iterable[Timestamp]) -> Fit:
    """Fits one stream's timestamps. Never fails: without enough of them ``rate`` is None."""
    points = _thinned(timestamps)
    epochs: dict[int, list[tuple[int, int]]] = {}
    for epoch, cycle, time in points:
        epochs.setdefault(epoch, []).append((cycle, time))
    rate = _slope(list(epochs.values()))
    if rate is None:
        return Fit(None, (), 0, {}, {})
    good = {epoch: _near(line, rate) for epoch, line in epochs.items()}
    rate = _least_squares(list(good.values())) or rate
    heights, residuals, spans = {}, list[float](), {}
    for epoch, line in good.items():
        heights[epoch] = sum(time - cycle / rate for cycle, time in line) / len(line)
        residuals += [cycle - (time - heights[epoch]) * rate for cycle, time in line]
        spans[epoch] = line[0][0], line[-1][0]
    used = sum(map(len, good.values()))
    return Fit(rate, tuple(residuals), len(points) - used, heights, spans)


def _thinned(timestamps: Iterable[Timestamp]) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    every = 1
    for number, stamp in enumerate(timestamps):
        if stamp.cycle is None or number % every:
            continue
        found.append((stamp.epoch, stamp.cycle, stamp.time))
        if len(found) > _MOST:
            del found[1::2]
            every *= 2
    return found


def _slope(lines: Sequence[Sequence[tuple[int, int]]]) -> float | None:
    """Cycles per tick: the median over pairs of one line, weighted by their length; a few that are wrong do no harm."""
    slopes = []
    for line in lines:
        step = max(len(line) // 2, 1)
        for (cycle, time), (later, after) in [*zip(line, line[step:], strict=False), *pairwise(line)]:
            if after > time and later > cycle:
                slopes.append(((later - cycle) / (after - time), after - time))
    if not slopes:
        return None
    slopes.sort()
    starts, total = [], 0
    for _, weight in slopes:
        total += min(weight, 1 << 20)
        starts.append(total)
    return slopes[bisect_left(starts, total / 2)][0]


def _near(line: Sequence[tuple[int, int]], rate: float) -> list[tuple[int, int]]:
    """The timestamps on one line of this slope. It is known only roughly, so neighbours are compared, not the ends."""
    heights = [time - cycle / rate for cycle, time in line]
    near = []
    for number, (point, height) in enumerate(zip(line, heights, strict=True)):
        around = heights[max(number - 3, 0) : number + 4]
        if abs(height - median(around)) <= _FAR:
            near.append(point)
    return near or [line[len(line) // 2]]


def _least_squares(lines: Sequence[Sequence[tuple[int, int]]]) -> float | None:
    above = below = 0.0
    for line in lines:
        cycles = sum(cycle for cycle, _ in line) / len(line)
        times = sum(time - line[0][1] for _, time in line) / len(line)
        above += sum((cycle - cycles) * (time - line[0][1] - times) for cycle, time in line)
        below += sum((time - line[0][1] - times) ** 2 for _, time in line)
    return above / below if below > 0 and above > 0 else None
