"""What events cost is followed while measuring: the truth lies in the range that is told, whatever the machine does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux.bpf.costs.calibration import Comparison, Costs, mean_runs, middle_of
from headway.linux.bpf.costs.drift import CERTAIN, CostDrift, bounds
from headway.linux.bpf.shared.layout import TIMED

FOUND = Costs(
    {"enter": 200.0, "leave": 200.0, "ask": 50.0, "switch": 900.0, "wake": 800.0, "sample": 5.0},
    runs={"enter": 90.0, "switch": 400.0},
)


@dataclass
class Machine:
    """Runs handlers of calls at some speed, and takes what it is told from what they cost."""

    runs: list[list[int]] = field(default_factory=lambda: [[0, 0] for _ in TIMED])
    cost: float = FOUND.of["enter"]
    taken: float = 0.0
    truly: float = 0.0

    def timed(self) -> list[tuple[int, int]]:
        return [(time, runs) for time, runs in self.runs]

    def take(self, costs: Costs) -> None:
        self.cost = costs.of["enter"]

    def work(self, runs: int, slower: float, longer: float) -> None:
        """So many events happen, slower than in calibration, in handlers that are longer by their cache misses, ns."""
        of_calls = self.runs[TIMED["enter"]]
        of_calls[0] += round(runs * (FOUND.runs["enter"] * slower + longer))
        of_calls[1] += runs
        self.taken += runs * self.cost
        self.truly += runs * (FOUND.of["enter"] * slower + longer)


def assert_in_range(truly: float, taken: float, known: tuple[float, float]) -> None:
    """Rounding to whole ns is allowed for."""
    least, most = known
    assert least * taken * 0.98 <= truly <= most * taken * 1.02


KNOWN = 1 - CERTAIN, 1 + CERTAIN
STRETCHES = st.lists(st.tuples(st.integers(30, 100_000), st.floats(0.3, 5), st.floats(0, 500)), min_size=1, max_size=12)


@given(STRETCHES)
def test_what_events_cost_in_truth_is_in_the_range(stretches: list[tuple[int, float, float]]) -> None:
    machine = Machine()
    drift = CostDrift(FOUND, machine.timed, machine.take)
    for stretch in stretches:
        machine.work(*stretch)
        drift.look()
    assert_in_range(machine.truly, machine.taken, drift.range())


@given(STRETCHES)
def test_a_steady_machine_is_followed_to_where_its_cost_is_known(stretches: list[tuple[int, float, float]]) -> None:
    """The first look may find another speed than calibration did; what comes then is taken out at that speed."""
    machine = Machine()
    drift = CostDrift(FOUND, machine.timed, machine.take)
    _, slower, _ = stretches[0]
    machine.work(1000, slower, 0)
    drift.look()
    drift.range(recent=True)
    before = machine.taken, machine.truly
    for runs, _, _ in stretches:
        machine.work(runs, slower, 0)
        drift.look()
    known = drift.range(recent=True)
    taken, truly = machine.taken - before[0], machine.truly - before[1]
    assert_in_range(truly, taken, known)
    if 0.9 < slower < 1.2:
        assert known == KNOWN


def test_few_runs_say_nothing() -> None:
    machine = Machine()
    drift = CostDrift(FOUND, machine.timed, machine.take)
    machine.work(29, 3.0, 0)
    drift.look()
    assert (machine.cost, drift.range()) == (FOUND.of["enter"], KNOWN)


def test_where_nothing_was_timed_the_costs_stay() -> None:
    machine = Machine()
    drift = CostDrift(replace(FOUND, runs={}), machine.timed, machine.take)
    machine.work(10_000, 3.0, 0)
    drift.look()
    assert (machine.cost, drift.range()) == (FOUND.of["enter"], KNOWN)


def test_what_calibration_was_unsure_of_stays_unsure() -> None:
    machine = Machine()
    drift = CostDrift(replace(FOUND, certainty=(0.5, 1.25)), machine.timed, machine.take)
    assert drift.range() == (0.5, 1.25)
    machine.work(10_000, 1.0, 0)
    drift.look()
    assert drift.range() == pytest.approx((0.5, 1.25), rel=1e-3)


@given(st.lists(st.floats(1, 1e4), min_size=1, max_size=6), st.floats(1e-300, 1e4))
def test_no_cost_becomes_nothing_or_endless(means: list[float], cost: float) -> None:
    machine = Machine()
    drift = CostDrift(replace(FOUND, of={**FOUND.of, "enter": cost}), machine.timed, machine.take)
    for mean in means:
        of_calls = machine.runs[TIMED["enter"]]
        of_calls[0] += round(100 * mean)
        of_calls[1] += 100
        drift.look()
        assert cost / 17 <= machine.cost <= 17 * cost
        least, most = drift.range(recent=True)
        assert 0 < least <= 0.9
        assert 1.1 <= most <= 1000


@given(st.floats(1, 1e4), st.floats(1, 1e4), st.floats(1, 1e4))
def test_bounds_are_one_where_nothing_changed_and_grow_with_the_handler(now: float, then: float, cost: float) -> None:
    least, most = bounds(now, then, cost)
    assert 0 <= least <= most
    assert bounds(then, then, cost) == pytest.approx((1.0, 1.0))
    longer = bounds(now + 1, then, cost)
    assert longer[0] >= least
    assert longer[1] >= most


# ---- comparisons that something disturbed ----


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(1, 500)), min_size=1, max_size=5))
def test_the_middle_comparison_is_taken_and_the_range_has_the_others(found: list[tuple[float, float]]) -> None:
    many = [Comparison(Costs({"enter": cost}, runs={"enter": run}), 1.0, False) for cost, run in found]
    costs = middle_of(many).costs
    least, most = costs.certainty
    assert 0 <= least <= 1 <= most
    for cost, run in found:
        now = costs.runs["enter"] / run * cost  # what it would have been at the speed of the one that is taken
        assert least * costs.of["enter"] * 0.999 - 1e-6 <= now <= most * costs.of["enter"] * 1.001 + 1e-6


def test_runs_that_were_timed_between_have_a_mean() -> None:
    assert mean_runs([(100, 1), (0, 0)], [(300, 3), (0, 0)]) == {"enter": 100.0}
    assert mean_runs([(5, 5)] * 2, [(5, 5)] * 2) == {}
