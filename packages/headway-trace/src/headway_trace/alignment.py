"""The alignment of several streams in time, by the timestamps in them.

Each core counts its own cycles. All timestamps show one clock, in ticks. While no time is lost, the timestamps of a
stream therefore lie on a line whose slope is the stream's cycles per tick. One slope is fitted to all timestamps of the
stream, and the height of each line to its own timestamps. The residuals say how far the fit can be trusted; it cannot
be better than one tick, the resolution of the clock.

A line ends where time was lost. That is at a new epoch, or inside an epoch where only the timestamps show the loss, for
example when whole packets are missing without any other sign. A single timestamp off the line is damage: it is left out
and counted.

Cycles between two lines of an epoch, and cycles of an epoch without a timestamp, have no place in the common time. They
are unknown, with the reason. The frequency of a core is assumed to be constant during the capture; if it was not, there
are many lines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from .records import Timestamp

__all__ = ["AlignedTime", "Fit", "TimestampLine", "Unplaced", "fit"]

_MAX_PAIRS = 65_536
"""The number of timestamps that are kept for a stream. Of more, only every second, fourth … one is kept."""

_FAR = 2.5
"""Ticks between two neighbouring timestamps beyond those that the cycles explain, from which on time has been lost."""

_TRIED = 64
_COMPARED = 2048
"""The number of slopes that are tried, and the number of pairs of neighbours that each is compared with."""


@dataclass(frozen=True, slots=True)
class AlignedTime:
    """A moment of the common time, in ticks, and its uncertainty to either side, in ticks."""

    time: float
    uncertainty: float


@dataclass(frozen=True, slots=True)
class Unplaced:
    """The reason why a cycle has no place in the common time."""

    why: str


class TimestampLine(NamedTuple):
    """A line of timestamps between which no time was lost. ``height`` is in ticks, at cycle 0."""

    first: int
    last: int
    height: float


@dataclass(frozen=True, slots=True)
class Fit:
    """The mapping of a stream's cycles to the common time.

    ``rate``: cycles per tick. ``residuals``: for each timestamp that was used, its distance from its line in cycles.
    ``outliers``: the number of timestamps that were left out. ``lines``: the lines of each epoch, in order. ``worst``:
    the largest residual, in cycles. ``longest``: the cycles of the longest line. ``span``: the first and the last
    common time for which there are timestamps, in ticks.
    """

    rate: float | None
    residuals: tuple[float, ...]
    outliers: int
    lines: Mapping[int, Sequence[TimestampLine]]
    worst: float | None = None
    longest: int = 0
    span: tuple[float, float] | None = None

    def line(self, epoch: int, cycle: float) -> TimestampLine | None:
        """Return the line to which a cycle belongs. The first and the last line of an epoch extend to its ends."""
        lines = self.lines.get(epoch, ())
        if not lines:
            return None
        number = min(bisect_left(lines, cycle, key=lambda line: line.last), len(lines) - 1)
        return lines[number] if number == 0 or lines[number].first <= cycle else None

    def moment(self, epoch: int, cycle: int | None) -> AlignedTime | Unplaced:
        """Return the common time of a cycle, or why it has none."""
        if cycle is None:
            return Unplaced("the trace counts no cycles")
        if self.rate is None:
            return Unplaced("too few timestamps to know the cycles per tick")
        line = self.line(epoch, cycle)
        if line is None:
            return Unplaced("no timestamp between two losses of time")
        beyond = max(line.first - cycle, cycle - line.last, 0)
        width = max((self.worst or 0.0) / self.rate, 1.0)
        grown = beyond * 2 * width / self.longest if self.longest else 0.0
        return AlignedTime(line.height + cycle / self.rate, width + grown)

    def cycle(self, time: float, epoch: int) -> float | None:
        """Return the cycle of the epoch at a common time; None if it is not known."""
        if self.rate is None:
            return None
        lines = self.lines.get(epoch, ())
        before: int | None = None
        for number, (first, last, height) in enumerate(lines, 1):
            cycle = (time - height) * self.rate
            # A cycle at which two lines meet belongs to the first of them.
            if (before is None or (first <= cycle and cycle > before)) and (number == len(lines) or cycle <= last):
                return cycle
            before = last
        return None


def fit(timestamps: Iterable[Timestamp]) -> Fit:
    """Fit one stream's timestamps. This never fails: without enough timestamps ``rate`` is None."""
    points = _thinned(timestamps)
    epochs: dict[int, list[tuple[int, int]]] = {}
    for epoch, cycle, time in points:
        epochs.setdefault(epoch, []).append((cycle, time))
    rate = _slope(list(epochs.values()))
    if rate is None:
        return Fit(None, (), 0, {})
    parts = {epoch: list(_parts(line, rate)) for epoch, line in epochs.items()}
    rate = _least_squares([part for found in parts.values() for part in found]) or rate
    lines, residuals = dict[int, tuple[TimestampLine, ...]](), list[float]()
    for epoch, found in parts.items():
        of_epoch = []
        for part in found:
            height = sum(time - cycle / rate for cycle, time in part) / len(part)
            residuals += [cycle - (time - height) * rate for cycle, time in part]
            of_epoch.append(TimestampLine(part[0][0], part[-1][0], height))
        lines[epoch] = tuple(of_epoch)
    every = [line for of_epoch in lines.values() for line in of_epoch]
    return Fit(
        rate,
        tuple(residuals),
        len(points) - len(residuals),
        lines,
        max(map(abs, residuals), default=None),
        max(line.last - line.first for line in every),
        (min(line.height + line.first / rate for line in every), max(line.height + line.last / rate for line in every)),
    )


def _thinned(timestamps: Iterable[Timestamp]) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    every = 1
    for number, stamp in enumerate(timestamps):
        if stamp.cycle is None or number % every:
            continue
        found.append((stamp.epoch, stamp.cycle, stamp.time))
        if len(found) > _MAX_PAIRS:
            del found[1::2]
            every *= 2
    return found


def _slope(lines: Sequence[Sequence[tuple[int, int]]]) -> float | None:
    """Return the cycles per tick: of the slopes between timestamps, the one that explains most cycles of neighbours."""
    pairs = [
        (later - cycle, after - time)
        for line in lines
        for (cycle, time), (later, after) in pairwise(line)
        if later > cycle and after > time
    ]
    wide = [
        (line[at + len(line) // 2][0] - line[at][0], line[at + len(line) // 2][1] - line[at][1])
        for line in lines
        for at in range(len(line) - len(line) // 2)
        if len(line) > 2
    ]
    tried = sorted(((c, t) for c, t in [*pairs, *wide] if c > 0 and t > 0), reverse=True)
    compared = sorted(pairs, reverse=True)[:_COMPARED]
    best, most = None, 0
    for cycles, ticks in tried[:: max(len(tried) // _TRIED, 1)]:
        rate = cycles / ticks
        explained = sum(c for c, t in compared if abs(t - c / rate) <= _FAR)
        if explained > most:
            best, most = rate, explained
    return best


def _parts(line: Sequence[tuple[int, int]], rate: float) -> Iterator[list[tuple[int, int]]]:
    """Split the timestamps where time was lost. Only neighbours are compared, as the slope is only roughly known."""

    def together(one: tuple[int, int], other: tuple[int, int]) -> bool:
        return abs(other[1] - one[1] - (other[0] - one[0]) / rate) <= _FAR

    part = [line[0]]
    for number, point in enumerate(line[1:], 1):
        last = number + 1 == len(line)
        if together(part[-1], point):
            part.append(point)
        elif len(part) == 1 if last else not together(part[-1], line[number + 1]):  # otherwise only this one is off
            yield part
            part = [point]
    yield part


def _least_squares(lines: Sequence[Sequence[tuple[int, int]]]) -> float | None:
    above = below = 0.0
    for line in lines:
        cycles = sum(cycle for cycle, _ in line) / len(line)
        times = sum(time - line[0][1] for _, time in line) / len(line)
        above += sum((cycle - cycles) * (time - line[0][1] - times) for cycle, time in line)
        below += sum((time - line[0][1] - times) ** 2 for _, time in line)
    return above / below if below > 0 and above > 0 else None
