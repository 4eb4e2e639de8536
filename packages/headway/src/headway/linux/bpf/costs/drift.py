"""How much dearer events are now than they were during calibration.

What an event costs changes all the time: with what else runs on the core, with caches, with the clock rate. So the eBPF
programs time some of their own runs (handler.h), during calibration and while measuring. Where a handler takes longer
than it did, the whole event costs more: by the same factor where the processor is slower, and by no more than the
handler's own time where the handler misses its caches. The truth lies between the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from headway.dataclass import dataclass

from ..shared.layout import TIMED
from .calibration import Costs

__all__ = ["CERTAIN", "CostDrift", "bounds"]

CERTAIN = 0.1
"""How far a cost may be off, as a part of itself, however quiet the machine is (docs/accuracy.md)."""

_ENOUGH = 30
"""Timed runs from which a mean is taken: their times vary by some 30 %."""
_MOST_DRIFT = 16.0
"""No event costs so many times as much as another time, or as little."""
_MOST_RANGE = 1000.0
_ONE_IN = {"enter": 32, "switch": 8}
"""How many runs there are for each that is timed (handler.h)."""
_CHARGED = {"enter": ("enter", "leave"), "switch": ("switch", "wake")}
"""What such a run stands for: an event of each of these kinds."""


def bounds(now: float, then: float, cost: float) -> tuple[float, float]:
    """Return how often as much an event costs as it did then, at least and at most.

    ``now``, ``then``: how long its handler runs, ns; ``cost``: what the event cost then, ns.
    """
    found = now / then, 1 + (now - then) / cost
    slower, longer = (min(max(each, 1 / _MOST_DRIFT), _MOST_DRIFT) for each in found)
    return min(slower, longer), max(slower, longer)


@dataclass(slots=True)
class _Sums:
    """Over timed runs: what the events cost at least and at most, and what was taken for them; ns."""

    least: float = 0.0
    most: float = 0.0
    taken: float = 0.0


class CostDrift:
    """Follows the costs of a measurement from their beginning on.

    ``costs``: those found by calibration. ``timed``: the time in timed runs, ns, and their number, by `layout.TIMED`.
    ``take``: has the programs take these costs from now on. Where nothing was timed during calibration, no drift is
    known, and the costs stay what they are.
    """

    def __init__(
        self, costs: Costs, timed: Callable[[], Sequence[tuple[int, int]]], take: Callable[[Costs], None]
    ) -> None:
        self._costs, self._timed, self._take = costs, timed, take
        self._handlers = tuple(name for name in TIMED if costs.runs.get(name) and costs.of.get(name))
        self._seen = list(timed())
        self._factors = dict.fromkeys(TIMED, 1.0)
        self._whole, self._recent = _Sums(), _Sums()

    @property
    def now(self) -> Costs:
        """What events cost, as of the last look."""
        return self._costs.scaled(calls=self._factors["enter"], switches=self._factors["switch"])

    def look(self) -> None:
        """Compare the runs since the last look with those of calibration. From now on events cost what these cost."""
        timed, changed = self._timed(), False
        for name in self._handlers:
            (time, runs), (time_before, runs_before) = timed[TIMED[name]], self._seen[TIMED[name]]
            if runs - runs_before < _ENOUGH:
                continue
            self._seen[TIMED[name]] = time, runs
            mean = (time - time_before) / (runs - runs_before)
            least, most = bounds(mean, self._costs.runs[name], self._costs.of[name])
            self._add(name, runs - runs_before, least, most)
            self._factors[name] = math.sqrt(least * most)
            changed = True
        if changed:
            self._take(self.now)

    def _add(self, name: str, runs: int, least: float, most: float) -> None:
        cost = runs * _ONE_IN[name] * sum(self._costs.of.get(kind, 0.0) for kind in _CHARGED[name])
        for sums in (self._whole, self._recent):
            sums.least += cost * least
            sums.most += cost * most
            sums.taken += cost * self._factors[name]

    def range(self, *, recent: bool = False) -> tuple[float, float]:
        """Return how often as much as was taken events cost, at least and at most, since the beginning.

        ``recent``: since the last time that it was asked so. No cost is known better than within `CERTAIN`.
        """
        sums = self._recent if recent else self._whole
        if recent:
            self._recent = _Sums()
        least, most = self._costs.certainty
        if sums.taken:
            least, most = least * sums.least / sums.taken, most * sums.most / sums.taken
        return min(least, 1 - CERTAIN), min(max(most, 1 + CERTAIN), _MOST_RANGE)
