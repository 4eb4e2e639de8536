"""Parties on a simulated processor come to their shares of progress, within limits; nobody gains by sleeping."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.balance import Controller, Limits, Place, Seen, steps_for

pytestmark = pytest.mark.unit

SECOND = 10**9


@dataclass(frozen=True)
class Party:
    """Threads, each of which wants a processor for a part of the time, and makes progress for a part of that."""

    efficiency: float
    threads: int = 1
    demand: float = 1.0
    share: float = 1.0


def scheduled(parties: Mapping[int, Party], weights: Mapping[int, float]) -> dict[int, float]:
    """Divide one processor by weight. Who wants less than that gets what it wants, and the others have the rest."""
    got: dict[int, float] = {}
    free, hungry = 1.0, dict(parties)
    while hungry:
        total = sum(weights[key] * party.threads for key, party in hungry.items())
        full = {
            key: party.threads * party.demand
            for key, party in hungry.items()
            if party.threads * party.demand <= free * weights[key] * party.threads / total
        }
        if not full:
            return got | {key: free * weights[key] * p.threads / total for key, p in hungry.items()}
        got |= full
        free -= sum(full.values())
        hungry = {key: party for key, party in hungry.items() if key not in full}
    return got


class Simulated:
    """A processor whose parties have nice values, and progress that is read with noise."""

    def __init__(self, limits: Limits = Limits(), noise: float = 0.0, seed: int = 0) -> None:  # noqa: B008
        self.controller: Controller[int] = Controller(limits)
        self.nice: dict[int, int] = {}
        self._noise, self._random = noise, random.Random(seed)

    def run(self, parties: Mapping[int, Party]) -> dict[int, float]:
        """Run for a second, and weigh anew. Return the true progress."""
        got = scheduled(parties, {key: 1.25 ** -self.nice.get(key, 0) for key in parties})
        true = {key: got[key] * party.efficiency for key, party in parties.items()}
        seen = {}
        for key, party in parties.items():
            read = true[key] * exp(self._random.gauss(0, self._noise))
            ready = party.threads * party.demand - got[key]
            seen[key] = Seen(round(read * SECOND), round(got[key] * SECOND), round(max(ready, 0.0) * SECOND))
        weights = self.controller.next(seen, {key: party.share for key, party in parties.items()}, SECOND)
        self.nice = {key: steps_for(weight, self.nice.get(key, 0)) for key, weight in weights.items()}
        return true


def ratio(parties: Mapping[int, Party], made: list[dict[int, float]]) -> float:
    sums = [sum(one[key] for one in made) / party.share for key, party in parties.items()]
    return max(sums) / min(sums)


hungry = st.builds(
    Party, efficiency=st.floats(0.25, 1.0), threads=st.integers(1, 3), share=st.sampled_from([0.5, 1.0, 1.5])
)


@given(st.lists(hungry, min_size=2, max_size=5), st.integers(0, 1000), st.sampled_from([10.0, 1.0]))
def test_who_always_wants_a_processor_comes_to_its_share(listed: list[Party], seed: int, most: float) -> None:
    """The largest spread of these is 4 × 3 × 3 = 36, which the limits allow: 100, or 50 where weights only fall."""
    parties = dict(enumerate(listed))
    simulated = Simulated(Limits(0.02 if most == 1.0 else 0.1, most), noise=0.1, seed=seed)
    for _ in range(20):
        simulated.run(parties)
    made = [simulated.run(parties) for _ in range(30)]
    assert ratio(parties, made) <= 1.1
    assert set(simulated.controller.places.values()) == {Place.HELD}


anything = st.builds(
    Seen, st.none() | st.integers(0, 10 * SECOND), st.integers(0, 10 * SECOND), st.integers(0, 10 * SECOND)
)


@given(
    st.lists(st.dictionaries(st.integers(0, 4), anything), max_size=40),
    st.builds(Limits, st.floats(0.01, 1.0), st.floats(1.0, 20.0), st.floats(1.01, 4.0)),
    st.dictionaries(st.integers(0, 4), st.floats(0.01, 100.0)),
)
def test_whatever_is_seen_weights_stay_within_the_limits(
    intervals: list[dict[int, Seen]], limits: Limits, shares: dict[int, float]
) -> None:
    controller: Controller[int] = Controller(limits)
    before: dict[int, float] = {}
    for seen in intervals:
        weights = controller.next(seen, shares, SECOND)
        assert weights.keys() == controller.places.keys() == seen.keys()
        for party, weight in weights.items():
            assert limits.least * (1 - 1e-9) <= weight <= limits.most * (1 + 1e-9)
            assert abs(log(weight / before.get(party, 1.0))) <= log(limits.step) + 1e-9
        before = weights


@given(
    st.lists(hungry, min_size=1, max_size=3),
    st.floats(0.0, 0.4),
    st.floats(0.05, 1.0),
    st.integers(0, 1000),
)
def test_who_mostly_sleeps_is_not_raised_and_costs_nobody_anything(
    listed: list[Party], demand: float, efficiency: float, seed: int
) -> None:
    sleeper = Party(efficiency, demand=demand)
    parties = {**dict(enumerate(listed)), -1: sleeper}
    simulated = Simulated(noise=0.1, seed=seed)
    for _ in range(40):
        simulated.run(parties)
        assert simulated.nice[-1] >= 0
    others = dict(enumerate(listed))
    made = [simulated.run(parties) for _ in range(30)]
    if simulated.controller.places[-1] in (Place.CONTENT, Place.RESTS, Place.IDLE):
        assert ratio(others, made) <= 1.1
    for key, party in others.items():  # the sum of the weights is what it was
        assert sum(one[key] for one in made) > 0.02 * party.efficiency * party.share


@given(st.lists(hungry, min_size=2, max_size=3), hungry, st.integers(0, 1000))
def test_parties_come_and_go(listed: list[Party], guest: Party, seed: int) -> None:
    parties = dict(enumerate(listed))
    simulated = Simulated(noise=0.05, seed=seed)
    for there in (parties, {**parties, -1: guest}, parties):
        for _ in range(25):
            simulated.run(there)
        assert ratio(there, [simulated.run(there) for _ in range(20)]) <= 1.1


@given(st.lists(st.builds(Party, st.floats(0.1, 1.0), demand=st.floats(0.0, 0.3)), min_size=1, max_size=3))
def test_without_competition_nothing_is_changed(listed: list[Party]) -> None:
    parties = dict(enumerate(listed))
    simulated = Simulated()
    for _ in range(20):
        simulated.run(parties)
        assert not any(simulated.nice.values())


def test_what_cannot_be_held_stops_at_the_limit() -> None:
    parties = {0: Party(1.0), 1: Party(0.001)}
    simulated = Simulated()
    for _ in range(30):
        simulated.run(parties)
    assert simulated.nice[0] == 10  # a tenth of what it had
    assert simulated.controller.places == {0: Place.LIMIT, 1: Place.ALONE}


def test_unknown_progress_changes_nothing() -> None:
    controller: Controller[int] = Controller()
    for _ in range(5):
        seen = {0: Seen(None, SECOND, SECOND), 1: Seen(None, SECOND, SECOND)}
        assert controller.next(seen, {}, SECOND) == {0: 1.0, 1: 1.0}
    assert set(controller.places.values()) == {Place.UNKNOWN}


@given(st.floats(0.01, 100.0), st.integers(-19, 19))
def test_a_nice_value_stands_for_its_weight(weight: float, present: int) -> None:
    found = steps_for(weight, present)
    assert abs(log(1.25**-found / weight)) <= 0.6 * log(1.25) + 1e-9
    assert steps_for(weight, found) == found
