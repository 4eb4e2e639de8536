"""How the clocks of two recordings of one run lie to each other, found by events that both have.

Both know when threads got a processor. The difference between the two times of one such event is the same for all of
them, but for the drift of the clocks and some microseconds. So the difference that most pairs of events of one thread
agree on is that of the clocks, if far more agree on it than on any other. A line through the pairs that agree gives the
drift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ClockRelation", "TickRelation", "relate", "relate_ticks"]

_MOST = 1500
"""Events of one thread that are compared with each other."""
_THREADS = 16
_COARSE, _FINE = 1_000_000, 20_000
"""ns: the width in which differences count as the same, before the drift is known and afterwards."""
_CANDIDATES = 16
"""Differences that are tried. Programs with a period have many that fit roughly, and one that fits to microseconds."""
_SPACING = 4 * _FINE
"""ns between the events of a thread, on the average, at least: others would fit anywhere."""
_SLOWEST, _FASTEST = 1e-5, 4.0
"""Ticks in a ns that a clock may have."""
_WINDOW = 256
"""Events of a thread among whose times those of ticks are sought, at most."""
_FEWEST = 8
"""Pairs that must agree."""
_CLEAR = 2
"""How many times more pairs must agree on the difference than on any other."""


@dataclass(frozen=True, slots=True)
class ClockRelation:
    """``there`` = ``here`` + ``offset`` + ``drift`` × (``here`` − ``middle``), in ns, give or take ``uncertainty``.

    ``matches`` is the number of events that agree; 0: both are the same clock.
    """

    offset: int = 0
    drift: float = 0.0
    middle: int = 0
    uncertainty: int = 0
    matches: int = 0

    def there(self, here: int) -> int:
        """Return the time of the other recording."""
        return here + self.offset + round(self.drift * (here - self.middle))

    def here(self, there: int) -> int:
        """Return the time of this recording."""
        return there - self.offset - round(self.drift * (there - self.offset - self.middle))


def relate(here: Mapping[int, Sequence[int]], there: Mapping[int, Sequence[int]]) -> ClockRelation | None:
    """Relate the clocks by the times (ns) of the events of each thread; None: too few agree."""
    shared = sorted((tid for tid in here if there.get(tid)), key=lambda tid: -len(here[tid]) * len(there[tid]))
    pairs = []
    for tid in shared[:_THREADS]:
        first, second = (np.asarray(_thinned(times), dtype=np.int64) for times in (here[tid], there[tid]))
        differences = second[None, :] - first[:, None]
        pairs.append((differences.ravel(), np.repeat(first, len(second))))
    if not pairs:
        return None
    differences = np.concatenate([one for one, _ in pairs])
    moments = np.concatenate([one for _, one in pairs])
    bins, counts = np.unique(differences // _COARSE, return_counts=True)
    order = np.argsort(counts)[::-1][:_CANDIDATES]
    tried = [_fitted(moments, differences, (int(bins[at]) * 2 + 1) * _COARSE // 2) for at in order]
    found = sorted((one for one in tried if one is not None), key=lambda one: -one.matches)
    if not found:
        return None
    best = found[0]
    others = [one for one in found if abs(one.offset - best.offset) > _COARSE // 4]
    return None if others and best.matches < _CLEAR * others[0].matches else best


@dataclass(frozen=True, slots=True)
class TickRelation:
    """Ticks of another clock = ``rate`` × (time − ``middle``) + ``offset``; times are in ns, ± ``uncertainty``.

    ``matches`` is the number of events that agree.
    """

    rate: float
    middle: int
    offset: float
    uncertainty: int
    matches: int

    def there(self, here: int) -> float:
        """Return the tick at a time of this recording."""
        return self.rate * (here - self.middle) + self.offset

    def here(self, there: float) -> int:
        """Return the time of this recording at a tick."""
        return self.middle + round((there - self.offset) / self.rate)


def relate_ticks(here: Mapping[int, Sequence[int]], there: Mapping[int, Sequence[float]]) -> TickRelation | None:
    """Relate ns to ticks of a clock of unknown frequency, by the events of each thread; None: too few agree.

    The ticks are of a short part of the run, in which no event is missing. So the times between the events of a thread
    are, but for the unit, some of those between its events here.
    """
    shared = sorted((tid for tid in there if here.get(tid)), key=lambda tid: -len(there[tid]))
    tried = [
        one
        for tid in shared[:_THREADS]
        if len(there[tid]) >= _FEWEST
        for one in _aligned(np.asarray(here[tid], dtype=np.int64), np.asarray(there[tid][:_WINDOW], dtype=float))
    ]
    counted = [_counted(here, there, *one) for one in tried]
    found = sorted((one for one in counted if one is not None), key=lambda one: -one.matches)
    if not found:
        return None
    best = found[0]
    others = [one for one in found if abs(one.here(best.offset) - best.middle) > _COARSE // 4]
    return None if others and best.matches < _CLEAR * others[0].matches else best


def _aligned(times: Any, ticks: Any) -> list[tuple[float, int, float]]:
    """Return the lines (rate, time, tick) on which events of a thread lie, one after the other, best first."""
    count = len(ticks)
    if len(times) < count or ticks[-1] <= ticks[0]:
        return []
    spans = (times[count - 1 :] - times[: len(times) - count + 1]).astype(float)
    share = (ticks - ticks[0]) / (ticks[-1] - ticks[0])
    worst = np.zeros(len(spans))
    for at in range(1, count - 1):
        worst = np.maximum(worst, np.abs(times[at : at + len(spans)] - times[: len(spans)] - share[at] * spans))
    rates = (ticks[-1] - ticks[0]) / np.maximum(spans, 1)
    worst[(spans < _SPACING * count) | (rates < _SLOWEST) | (rates > _FASTEST)] = np.inf
    order = [int(at) for at in np.argsort(worst)[:_CANDIDATES] if worst[at] <= 2 * _FINE]
    return [(float(rates[at]), int(times[at]), float(ticks[0])) for at in order]


def _counted(
    here: Mapping[int, Sequence[int]],
    there: Mapping[int, Sequence[float]],
    rate: float,
    middle: int,
    tick: float,
) -> TickRelation | None:
    """Return the line through all events that are near to one, and how many these are."""
    pairs = []
    for tid, ticks in there.items():
        times = np.asarray(here.get(tid, ()), dtype=np.int64)
        if not len(times):
            continue
        wanted = middle + (np.asarray(ticks, dtype=float) - tick) / rate
        after = np.clip(np.searchsorted(times, wanted), 1, max(len(times) - 1, 1))
        near = np.stack([times[after - 1], times[np.minimum(after, len(times) - 1)]])
        nearest = near[np.abs(near - wanted).argmin(axis=0), np.arange(len(wanted))]
        close = np.abs(nearest - wanted) <= _FINE
        pairs += [(int(time), float(at)) for time, at in zip(nearest[close], np.asarray(ticks)[close], strict=True)]
    if len(pairs) < _FEWEST:
        return None
    x = np.array([time - middle for time, _ in pairs], dtype=float)
    y = np.array([at - tick for _, at in pairs], dtype=float)
    if np.ptp(x) > 0:
        slope, height = np.polyfit(x, y, 1)
        if slope > 0:
            rate, tick = float(slope), tick + float(height)
            y -= float(height)
    rest = np.abs(y / rate - x)
    return TickRelation(rate, middle, tick, int(np.percentile(rest, 95)) + 1, len(pairs))


def _fitted(moments: Any, differences: Any, about: int) -> ClockRelation | None:
    """Return the line through the differences near one, and how many are within some microseconds of it."""
    near = np.abs(differences - about) <= _COARSE
    x, y = moments[near], differences[near]
    if len(x) < _FEWEST:
        return None
    bins, counts = np.unique(y // (_FINE * 4), return_counts=True)
    middle, offset, drift = int(np.median(x)), int((bins[np.argmax(counts)] * 2 + 1) * _FINE * 2), 0.0
    for width in (_FINE * 8, _FINE * 4, _FINE * 2, _FINE):
        rest = y - offset - drift * (x - middle)
        close = np.abs(rest) <= width
        if close.sum() < _FEWEST:
            return None
        if np.ptp(x[close]) > 0:
            slope, height = np.polyfit((x[close] - middle).astype(float), (y[close] - offset).astype(float), 1)
            drift, offset = float(slope), offset + round(float(height))
    rest = np.abs(y - offset - drift * (x - middle))
    close = rest <= _FINE
    if close.sum() < _FEWEST:
        return None
    return ClockRelation(offset, drift, middle, int(np.percentile(rest[close], 95)) + 1, int(close.sum()))


def _thinned(times: Sequence[int]) -> Sequence[int]:
    """Return a stretch of times that is not too long. Neighbours stay neighbours, so that both sides keep pairs."""
    return times[:_MOST]
