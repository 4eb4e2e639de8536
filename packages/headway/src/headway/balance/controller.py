"""The controller: from what each party did in an interval to the weights of the next one.

Parties that compete for the same processors get processor time in proportion to their weights. What they make of it
differs: one computes, another is in the kernel, a third polls. So the controller changes the logarithm u of each weight
by a part of the error

   e = log T - log(progress / share),   u := u + GAIN · e

where T is the geometric mean of progress / share over the parties that are in the balance. The difference between two
parties' logarithms of progress follows that of their u one to one, so the errors shrink by 1 - GAIN each interval.
Progress may be sampled, and processor time is exact. So progress is taken to be the processor time of the interval
times the efficiency (progress / processor time) of the last intervals, each of which counts MEMORY times as much as the
one after it.

A weight helps only who waits for a processor. So a party is out of the balance, and T is of the others, if it makes
less than T and

- hardly waits for a processor: it has what it wants, and its weight returns to what it was;
- rests for most of the time: its weight is never raised above what it was; or
- has the largest weight already.

Likewise out is a party that makes more than T and has the least weight. What was before is not made up for: a party
that slept has no claim to more than the others afterwards.

The parties in the balance keep the sum of their weights, so that others on the machine get as much as before. Where
weights cannot be raised, the largest is what it was.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum
from math import exp, log
from typing import Generic, TypeVar

from headway.dataclass import dataclass

__all__ = ["Controller", "Limits", "Place", "Seen"]

GAIN = 0.5
"""The part of an error that one interval takes away."""
MEMORY = 0.75
"""How much less an interval says about the efficiency than the next one."""
QUIET = 0.03
"""Errors up to this, as a logarithm (3 %), change nothing."""
CONTENT = 0.05
"""A party that waits for a processor for at most this part of the time in which it could run has what it wants."""
AWAKE = 0.5
"""A party that could run for less than this part of an interval rests, threads added up."""
IDLE = 0.001
"""A party that could run for less than this part of an interval says nothing about its progress."""
RETURN = 0.8
"""The part of its logarithm that a weight keeps in each interval in which there is no need of it."""

P = TypeVar("P", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Limits:
    """Between what a weight stays, as a factor of what it was, and by which factor it may change in an interval."""

    least: float = 0.1
    most: float = 10.0
    """1: weights can only be lowered."""
    step: float = 2.0

    def __post_init__(self) -> None:
        """Raises ValueError if nothing could be within the limits, or the weight as it was is not."""
        if not (0 < self.least <= 1 <= self.most and self.step > 1):
            raise ValueError(f"a weight cannot stay between {self.least} and {self.most}, changing by {self.step}")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a party did in an interval, its threads added up. All but ``progress`` is in ns."""

    progress: int | None
    """EPI, in the same unit for all parties. None: it is not known."""
    ran: int
    """How long it had processors."""
    ready: int
    """How long it was able to run and had none."""


class Place(Enum):
    """How a party stands to the balance in an interval."""

    NEW = "new"
    """It is seen for the first time, perhaps not for all of the interval."""
    HELD = "held"
    """Its weight holds it at its share."""
    CONTENT = "content"
    """It makes less than its share, and does not wait for a processor: a weight cannot help it."""
    RESTS = "rests"
    """It makes less than its share because it rests for most of the time. Its weight is not raised."""
    LIMIT = "limit"
    """Its weight is as large, or as small, as it may be, and its progress is still not its share."""
    IDLE = "idle"
    """It did next to nothing."""
    ALONE = "alone"
    """Nobody is there to be balanced with."""
    UNKNOWN = "unknown"
    """Its progress is not known."""


class Controller(Generic[P]):
    """Holds parties at shares of progress. ``limits``: of every weight, which is 1 in the beginning."""

    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008
        self._low, self._high, self._step = log(limits.least), log(limits.most), log(limits.step)
        self._logs: dict[P, float] = {}
        self._sums: dict[P, tuple[float, float]] = {}
        """Progress and processor time of the last intervals, the older the less."""
        self.places: Mapping[P, Place] = {}
        """How the parties of the last interval stand."""

    def next(self, seen: Mapping[P, Seen], shares: Mapping[P, float], span: int) -> dict[P, float]:
        """Return the weights of the next interval, for the parties that were seen in this one; others are forgotten.

        Args:
            seen: What each party did.
            shares: How much progress each is to make, compared with the others; 1 if it is not there.
            span: Length of the interval, ns.
        """
        places = {party: self._first_look(party, did, span) for party, did in seen.items()}
        self._sums = {party: self._added(party, did) for party, did in seen.items()}
        rates = {
            party: log(max(self._smoothed(party, seen[party]), 1.0) / shares.get(party, 1.0))
            for party, place in places.items()
            if place is Place.HELD
        }
        target = self._target(seen, rates, places, span)
        wanted = {party: self._logs.get(party, 0.0) for party in seen}
        held = [party for party, place in places.items() if place is Place.HELD]
        for party in held:
            error = target - rates[party]
            wanted[party] += GAIN * error if abs(error) > QUIET else 0.0
        shift = self._shift([(wanted[party], seen[party].ran + seen[party].ready) for party in held])
        for party, place in places.items():
            if place is Place.HELD:
                wanted[party] += shift
            elif place not in (Place.LIMIT, Place.UNKNOWN):
                wanted[party] *= RETURN
        self._logs = {party: self._bounded(party, seen[party], span, u) for party, u in wanted.items()}
        self.places = places
        return {party: exp(u) for party, u in self._logs.items()}

    def _first_look(self, party: P, did: Seen, span: int) -> Place:
        if party not in self._logs:
            return Place.NEW
        if did.progress is None:
            return Place.UNKNOWN
        return Place.IDLE if did.ran + did.ready < IDLE * span else Place.HELD

    def _added(self, party: P, did: Seen) -> tuple[float, float]:
        progress, ran = self._sums.get(party, (0.0, 0.0))
        if did.progress is None:
            return progress, ran
        return progress * MEMORY + did.progress, ran * MEMORY + did.ran

    def _smoothed(self, party: P, did: Seen) -> float:
        progress, ran = self._sums[party]
        return did.ran * progress / ran if ran else 0.0

    def _target(self, seen: Mapping[P, Seen], rates: Mapping[P, float], places: dict[P, Place], span: int) -> float:
        """Return log T, and put parties that are out of the balance into their places.

        A party that goes changes the mean, so that others may have to go. Each round takes one at least.
        """
        while held := [party for party in rates if places[party] is Place.HELD]:
            target = sum(rates[party] for party in held) / len(held)
            out = {party: self._out(party, seen[party], target - rates[party], span) for party in held}
            for party, place in out.items():
                places[party] = place
            if len(held) == 1:
                places[held[0]] = Place.ALONE
            if all(places[party] is Place.HELD for party in held):
                return target
        return 0.0

    def _out(self, party: P, did: Seen, error: float, span: int) -> Place:
        u = self._logs[party]
        if error < 0:
            return Place.LIMIT if u <= self._low + 1e-9 and error < -QUIET else Place.HELD
        if did.ready <= CONTENT * (did.ran + did.ready):
            return Place.CONTENT if error > QUIET else Place.HELD
        if did.ran + did.ready < AWAKE * span and u >= -1e-9:
            return Place.RESTS
        highest = self._high > 0 and u >= self._high - 1e-9
        return Place.LIMIT if highest and error > QUIET else Place.HELD

    def _shift(self, wanted: list[tuple[float, int]]) -> float:
        """Return what is to be added to the logarithms so that the weights add up to what they were, or none is larger.

        With each logarithm comes the time for which threads of that weight could run.
        """
        if not wanted:
            return 0.0
        if self._high <= 0:
            return -max(u for u, _ in wanted)
        return log(sum(time for _, time in wanted) / sum(exp(u) * time for u, time in wanted))

    def _bounded(self, party: P, did: Seen, span: int, u: float) -> float:
        before = self._logs.get(party, 0.0)
        high = min(self._high, max(before, 0.0)) if did.ran + did.ready < AWAKE * span else self._high
        return min(max(u, self._low, before - self._step), high, before + self._step)
