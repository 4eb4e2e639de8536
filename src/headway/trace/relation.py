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

from headway.extras import load

__all__ = ["ClockRelation", "relate"]

_MOST = 1500
"""Events of one thread that are compared with each other."""
_THREADS = 16
_COARSE, _FINE = 1_000_000, 20_000
"""ns: the width in which differences count as the same, before the drift is known and afterwards."""
_CANDIDATES = 16
"""Differences that are tried. Programs with a period have many that fit roughly, and one that fits to microseconds."""
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
    np: Any = load("trace", "numpy")
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
    tried = [_fitted(np, moments, differences, (int(bins[at]) * 2 + 1) * _COARSE // 2) for at in order]
    found = sorted((one for one in tried if one is not None), key=lambda one: -one.matches)
    if not found:
        return None
    best = found[0]
    others = [one for one in found if abs(one.offset - best.offset) > _COARSE // 4]
    return None if others and best.matches < _CLEAR * others[0].matches else best


def _fitted(np: Any, moments: Any, differences: Any, about: int) -> ClockRelation | None:
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
