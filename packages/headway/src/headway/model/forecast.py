"""When work will be done that needs so much progress, by the progress that its threads have made so far.

Work is a known amount of EPI: what the same program needed before for the same input. How long it takes depends on what
else runs. So each reading tells how much EPI the threads made in how much time, and the rate of the last readings is
expected to go on. The interval is the prediction interval of Student's t for the mean of the rates to come:

   m ± t(n - 1, 97.5 %) · s · √(1/n + 1/k)

with the mean m and the standard deviation s of the last n rates, and k readings to come. It holds if the rates are
independent of each other and go on as they were; a program whose phases differ does not keep to it.
"""

from __future__ import annotations

from collections import deque
from math import sqrt

from headway.dataclass import dataclass

__all__ = ["Expectation", "Forecast"]

_KEPT = 30
"""Readings on which an expectation rests at most."""
_FEWEST = 3
"""With fewer readings there is no interval."""
_T: tuple[float, ...] = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045),
)
"""Student's t at 97.5 %, by degrees of freedom from 1 on."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected of the work, in ns from the last reading on. None: that cannot be told."""

    work: int
    """What the work needs: EPI in ns, or a number of steps (`headway.model.work`)."""
    done: int
    """What was made so far."""
    left: int | None
    """How long the rest will take; 0: it is done. None: no progress was made lately."""
    least: int | None
    most: int | None
    """The 95 % interval of that. ``most`` is None too where the rest may never be done."""
    reason: str | None = None
    """Why something of it cannot be told, as a clause. None: it can, or the rest may never be done."""


class Forecast:
    """Follows the progress of work that needs ``work`` ns of EPI, or so many steps."""

    def __init__(self, work: int) -> None:
        self.work, self.done = work, 0
        self._readings: deque[tuple[int, int]] = deque(maxlen=_KEPT)

    def add(self, made: int, span: int) -> None:
        """Add a reading: ``made`` ns of EPI, or steps, in ``span`` ns.

        One of no length counts as progress, and tells no rate.
        """
        self.done += made
        if span > 0:
            self._readings.append((made, span))

    def expect(self) -> Expectation:
        """Return what is expected now."""
        rest = self.work - self.done
        if rest <= 0:
            return Expectation(self.work, self.done, 0, 0, 0)
        made, span, n = sum(m for m, _ in self._readings), sum(s for _, s in self._readings), len(self._readings)
        if not made:
            why = f"no progress was made in the last {n:,} readings" if n else "there is no reading yet"
            return Expectation(self.work, self.done, None, None, None, why)
        rate = made / span
        left = round(rest / rate)
        if n < _FEWEST:
            why = f"an interval takes {_FEWEST} readings"
            return Expectation(self.work, self.done, left, None, None, why)
        deviation = sqrt(sum((m / s - rate) ** 2 for m, s in self._readings) / (n - 1))
        to_come = max(rest / rate / (span / n), 1.0)
        error = _T[n - 2] * deviation * sqrt(1 / n + 1 / to_come)
        most = round(rest / (rate - error)) if rate > error else None
        return Expectation(self.work, self.done, left, round(rest / (rate + error)), most)
