"""The budget: what measuring costs stays within it, on simulated machines whose events are counted against prices."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import FEW

from headway.linux.levels import Level
from headway.linux.sources.ebpf.budget import (
    FLOOR,
    KEEP,
    LONGEST_WAIT,
    SECOND,
    SHORTEST_WAIT,
    BudgetPolicy,
    Period,
    percent,
)

CLOCKS, SWITCHES, CALLS, INTERRUPTS = Level
EXACT = (SWITCHES, CALLS, INTERRUPTS)
"""The levels at which programs run at what happens."""
MS = 1_000_000
PRICES = {"switch": 500, "wake": 300, "enter": 120, "leave": 120, "fault": 150, "interrupt": 140, "interrupt_end": 140}
"""ns an event. They need not be right here."""
LAYERS: dict[Level, tuple[str, ...]] = {
    CLOCKS: (),
    SWITCHES: ("switch", "wake"),
    CALLS: ("enter", "leave", "fault"),
    INTERRUPTS: ("interrupt", "interrupt_end"),
}
SLACK = 1e-6
"""For the rounding of sums, of what they add up to."""


@dataclass(frozen=True)
class Load:
    """What a machine does for a time: events per second, and processor time."""

    seconds: float
    busy: float
    """Processors."""
    switches: int
    calls: int
    interrupts: int

    def events(self, layer: Level) -> dict[str, int]:
        """Events per second by kind."""
        count = {CLOCKS: 0, SWITCHES: self.switches, CALLS: self.calls, INTERRUPTS: self.interrupts}[layer]
        return dict.fromkeys(LAYERS[layer], count)

    def share(self, level: Level) -> float:
        """What the level costs, of the base."""
        layers = (layer for layer in Level if level.includes(layer))
        cost = sum(PRICES[kind] * rate for layer in layers for kind, rate in self.events(layer).items())
        return cost / SECOND / max(self.busy, FLOOR)

    @classmethod
    def of_shares(cls, seconds: float, busy: float, switches: float, calls: float, interrupts: float) -> Load:
        """The events that make the layers cost these shares of the base."""
        base = SECOND * max(busy, FLOOR)
        prices = {layer: sum(PRICES[kind] for kind in kinds) for layer, kinds in LAYERS.items()}
        return cls(
            seconds,
            busy,
            round(switches * base / prices[SWITCHES]),
            round(calls * base / prices[CALLS]),
            round(interrupts * base / prices[INTERRUPTS]),
        )


@dataclass(frozen=True)
class Step:
    """One period of a simulation, and what was decided at its end."""

    end: int
    level: Level
    period: Period
    cost: float
    """Of all events and the tool."""
    next: Level
    over_budget: float | None
    load: Load

    @property
    def left(self) -> bool:
        """Whether the level was too dear."""
        return self.next < self.level


def above_clocks(budget: float, price: float, start: Level = SWITCHES, levels: Sequence[Level] = EXACT) -> BudgetPolicy:
    """A policy that chooses among the levels at which programs run at what happens."""
    return BudgetPolicy(budget, price, start, levels)


def simulate(
    policy: BudgetPolicy, loads: Iterable[Load], period: int, own: float = 0.0, noise: float = 0.0, seed: int = 0
) -> list[Step]:
    """Run the policy on a machine; ``own``: what the tool takes, of a processor; ``noise``: of the rates, by period.

    At the level clocks the kernel's own counts tell what programs at each switch would cost.
    """
    steps, now, chance = [], 0, random.Random(seed)
    for load in loads:
        end = now + round(load.seconds * SECOND)
        while now < end:
            now += period
            level, part = policy.level, period / SECOND
            every = {
                layer: float(
                    sum(
                        PRICES[kind] * round(rate * part * (1 + noise * chance.uniform(-1, 1)))
                        for kind, rate in load.events(layer).items()
                    )
                )
                for layer in Level
            }
            costs = {layer: cost for layer, cost in every.items() if level.includes(layer)}
            foreseen = {SWITCHES: every[SWITCHES]} if level is CLOCKS else {}
            seen = Period(period, round(load.busy * period), costs, own * period, foreseen)
            following = policy.feed(seen)
            steps.append(Step(now, level, seen, sum(costs.values()) + seen.own, following, policy.over_budget, load))
    return steps


def windows(steps: Sequence[Step]) -> Iterable[list[Step]]:
    """The steps of each second, by its last one."""
    first = 0
    for last, step in enumerate(steps):
        while step.end - steps[first].end >= SECOND - step.period.elapsed + 1 and first < last:
            first += 1
        yield list(steps[first : last + 1])


def base(period: Period) -> float:
    """The processor time that a budget is a share of."""
    return max(period.measured, FLOOR * period.elapsed)


def allowed(steps: Iterable[Step], budget: float) -> float:
    return budget * sum(base(step.period) for step in steps)


def spent(steps: Iterable[Step]) -> float:
    return sum(step.cost for step in steps)


def changes(steps: Sequence[Step]) -> int:
    return sum(step.level is not step.next for step in steps)


def trials(steps: Sequence[Step]) -> list[Step]:
    """The periods in which a level was tried."""
    return [after for before, after in pairwise(steps) if before.next > before.level]


BUDGETS = st.sampled_from((0.001, 0.005, 0.01, 0.02, 0.05))
PERIODS = st.integers(100, 250).map(lambda ms: ms * MS)
CHANGE_PRICES = st.integers(0, 60).map(lambda ms: float(ms * MS))
BUSY = st.one_of(st.just(0.0), st.floats(0, 1), st.floats(1, 64))
RATES = st.one_of(st.integers(0, 1000), st.integers(0, 100_000), st.integers(0, 5_000_000))
LOADS = st.lists(st.builds(Load, st.floats(0.1, 30), BUSY, RATES, RATES, RATES), min_size=1, max_size=6)
LEVELS = st.sampled_from(EXACT)
NOISE = st.floats(0, 0.5)


# ---- whatever the load does ----


@given(BUDGETS, CHANGE_PRICES, LEVELS, LOADS, PERIODS, NOISE, st.floats(0, 0.02))
def test_a_level_is_kept_only_if_the_last_second_was_within_the_budget(
    budget: float, price: float, start: Level, loads: list[Load], period: int, noise: float, own: float
) -> None:
    """So no cost above the budget lasts for more than a second, as long as there is a cheaper level."""
    steps = simulate(above_clocks(budget, price, start), loads, period, own, noise)
    for window in windows(steps):
        last = window[-1]
        if last.next is last.level and last.level is not SWITCHES and not any(s.left for s in window):
            assert spent(window) <= allowed(window, budget) * (1 + SLACK)


@given(BUDGETS, CHANGE_PRICES, LEVELS, LOADS, PERIODS, NOISE)
def test_what_exceeds_the_budget_in_any_second_is_a_single_period_before_a_step_down(
    budget: float, price: float, start: Level, loads: list[Load], period: int, noise: float
) -> None:
    """A step down may come after a burst that used up the budget of its second: the second that spans it has both."""
    steps = simulate(above_clocks(budget, price, start), loads, period, 0.0, noise)
    before: dict[int, float] = {}
    for window in windows(steps):
        before[window[-1].end] = allowed(window, budget)
        if any(s.over_budget for s in window):
            continue
        most = allowed(window, budget) + sum(before.get(s.end - period, 0.0) for s in window if s.left)
        assert sum(s.cost for s in window if not s.left) <= most * (1 + SLACK)


@given(BUDGETS, CHANGE_PRICES, LEVELS, LOADS, PERIODS, NOISE)
def test_the_cheapest_level_above_the_budget_is_said_and_only_then(
    budget: float, price: float, start: Level, loads: list[Load], period: int, noise: float
) -> None:
    steps = simulate(above_clocks(budget, price, start), loads, period, 0.0, noise)
    for window in windows(steps):
        last = window[-1]
        share = sum(s.period.costs[SWITCHES] for s in window) / sum(base(s.period) for s in window)
        if last.over_budget is not None:
            assert last.level is last.next is SWITCHES
            assert last.over_budget == pytest.approx(share)
            assert share > budget
        elif last.level is SWITCHES:
            assert share <= budget * (1 + SLACK)


@given(BUDGETS, CHANGE_PRICES, LEVELS, LOADS, PERIODS, NOISE)
def test_only_the_next_level_is_tried_and_only_when_it_is_paid_for(
    budget: float, price: float, start: Level, loads: list[Load], period: int, noise: float
) -> None:
    policy = above_clocks(budget, price, start)
    banks = [policy.bank]
    steps: list[Step] = []
    for load in loads:
        for _ in range(round(load.seconds * SECOND / period)):
            one = Load(period / SECOND, load.busy, load.switches, load.calls, load.interrupts)
            steps += simulate(policy, [one], period, 0.0, noise)[:1]
            banks.append(policy.bank)
    for step, bank in zip(steps, banks[1:], strict=True):
        if step.next > step.level:
            assert step.next is step.level.above
            assert bank >= price - 1  # there, and the way back


@given(BUDGETS, CHANGE_PRICES, LEVELS, LOADS, PERIODS)
def test_every_decision_has_a_reason_that_names_the_level(
    budget: float, price: float, start: Level, loads: list[Load], period: int
) -> None:
    policy = above_clocks(budget, price, start)
    assert start.value in policy.why
    for load in loads:
        simulate(policy, [load], period)
        assert policy.why.startswith(policy.level.value)


@given(BUDGETS, CHANGE_PRICES, LEVELS, LOADS, PERIODS)
def test_the_policy_tells_what_everything_cost(
    budget: float, price: float, start: Level, loads: list[Load], period: int
) -> None:
    policy = above_clocks(budget, price, start)
    steps = simulate(policy, loads, period)
    assert policy.changes == changes(steps)
    whole = sum(base(s.period) for s in steps)
    assert policy.share == pytest.approx((spent(steps) + price * policy.changes) / whole, abs=1e-9)


# ---- at all levels: where the cheapest costs nothing but the tool's own time, no budget is exceeded for long ----

ANY_LEVEL = (CLOCKS, SWITCHES, INTERRUPTS)
"""Those that a budget chooses among."""
STARTS = st.sampled_from(ANY_LEVEL)
LONGER_LOADS = st.lists(st.builds(Load, st.floats(3, 30), BUSY, RATES, RATES, RATES), min_size=1, max_size=6)


def at_any_level(budget: float, price: float, start: Level, clocks_price: float | None = None) -> BudgetPolicy:
    return BudgetPolicy(budget, price, start, ANY_LEVEL, clocks_price)


@given(BUDGETS, CHANGE_PRICES, CHANGE_PRICES, STARTS, LONGER_LOADS, PERIODS, NOISE, st.floats(0, 0.5))
def test_no_cost_above_the_budget_lasts_longer_than_a_second(
    budget: float,
    price: float,
    clocks_price: float,
    start: Level,
    loads: list[Load],
    period: int,
    noise: float,
    own_part: float,
) -> None:
    """Whatever the load does. Only a trial, which was saved for, and a change of the load are above it, for a while."""
    own = own_part * budget * FLOOR
    policy = at_any_level(budget, price, start, clocks_price)
    steps = simulate(policy, loads, period, own, noise)
    assert all(step.over_budget is None for step in steps)
    for window in windows(steps):
        if spent(window) > allowed(window, budget) * (1 + SLACK):
            left = any(step.left for step in window)
            assert left, "the policy has left the level within this second"
    above = 0
    for step, following in pairwise(steps):
        dear = step.cost > budget * base(step.period) * (1 + SLACK)
        above = above + period if dear and step.load is following.load and not step.left else 0
        assert above <= SECOND + period


@given(BUDGETS, CHANGE_PRICES, STARTS, LONGER_LOADS, PERIODS)
def test_programs_at_switches_are_not_tried_where_it_is_known_that_they_are_too_dear(
    budget: float, price: float, start: Level, loads: list[Load], period: int
) -> None:
    for step, following in pairwise(simulate(at_any_level(budget, price, start), loads, period)):
        if step.level is CLOCKS and following.level is SWITCHES:
            assert step.period.foreseen[SWITCHES] <= budget * base(step.period) * 1.0001 or step.load != following.load


@settings(max_examples=10)
@given(BUDGETS, CHANGE_PRICES, PERIODS, STARTS, st.floats(1, 64), st.floats(1.2, 100))
def test_a_load_that_is_too_dear_for_programs_at_switches_is_read_from_clocks_until_it_ends(
    budget: float, price: float, period: int, start: Level, busy: float, times: float
) -> None:
    policy = at_any_level(budget, price, start)
    dear = Load.of_shares(30, busy, times * budget, 0.0, 0.0)
    steps = simulate(policy, [dear], period)
    assert all(step.level is CLOCKS for step in steps if step.end > SECOND + 2 * period)
    assert policy.level is CLOCKS
    quiet = Load.of_shares(400, busy, 0.1 * budget, 0.1 * budget, 0.1 * budget)
    simulate(policy, [quiet], period)
    assert policy.level is INTERRUPTS


def test_a_change_to_clocks_has_a_price_of_its_own() -> None:
    policy = at_any_level(0.01, 5.0 * MS, SWITCHES, 50.0 * MS)
    policy.feed(period_of((0.2, 0.0)))
    assert policy.level is CLOCKS
    assert policy.bank == pytest.approx(0.01 * 100 * MS - 0.2 * 100 * MS - 50 * MS)


def test_the_reason_says_what_the_next_level_would_cost() -> None:
    policy = at_any_level(0.01, 0.0, CLOCKS)
    policy.feed(Period(SECOND, SECOND, {CLOCKS: 0.0}, 0.0, {SWITCHES: 0.3 * SECOND}))
    assert policy.level is CLOCKS
    assert policy.why == "clocks: costs 0 % of at most 1 %; switches would cost 30 %"


# ---- steady loads ----

PARTS = st.floats(0, 1)


def steady(budget: float, busy: float, parts: Sequence[float], seconds: float) -> Load:
    """A load whose layers cost these parts of the budget."""
    switches, calls, interrupts = (part * budget for part in parts)
    return Load.of_shares(seconds, busy, switches, calls, interrupts)


def per_second(budget: float, busy: float) -> float:
    return budget * max(busy, FLOOR) * SECOND


def saving(price: float, part: float) -> float:
    """The seconds that it takes to save for two changes and a second's budget.

    ``price``: of a change, in seconds of the budget; ``part``: what is attached costs, of the budget.
    """
    return (2 * price + 1) / (1 - part) + 1


SECONDS_A_CHANGE = st.floats(0, 8)
"""The price of a change, in seconds of the budget."""
STEADY = settings(max_examples=4 if FEW else 25)
"""Of minutes of a machine, period by period."""


@STEADY
@given(BUDGETS, SECONDS_A_CHANGE, BUSY, PARTS, PARTS, PARTS, PERIODS)
def test_a_steady_cheap_load_is_seen_in_full_and_stays_so(
    budget: float, price: float, busy: float, a: float, b: float, c: float, period: int
) -> None:
    whole = max(a + b + c, 0.01) / 0.75  # all of it costs three quarters of the budget
    policy = above_clocks(budget, price * per_second(budget, busy))
    load = steady(budget, busy, (a / whole, b / whole, c / whole), 2 * saving(price, 0.75) + 30)
    steps = simulate(policy, [load], period)
    assert policy.level is INTERRUPTS
    assert policy.changes == 2
    assert all(s.over_budget is None for s in steps)


@STEADY
@given(BUDGETS, SECONDS_A_CHANGE, BUSY, st.floats(0, 0.7), st.floats(1.2, 50), PARTS, PERIODS, st.floats(0, 0.1))
def test_a_steady_dear_load_stays_at_switches_and_trials_stay_within_the_budget(
    budget: float, price: float, busy: float, a: float, b: float, c: float, period: int, noise: float
) -> None:
    change = price * per_second(budget, busy)
    steps = simulate(above_clocks(budget, change), [steady(budget, busy, (a, b, c), 300)], period, 0.0, noise)
    tried = trials(steps)
    assert all(s.level is CALLS and s.left for s in tried)
    assert len(tried) <= 6 + 300 * SECOND / LONGEST_WAIT
    assert sum(s.level is not SWITCHES for s in steps) == len(tried)
    for before, after in pairwise(tried):
        assert after.end - before.end >= SHORTEST_WAIT
    # What it all costs is within the budget at any moment, but for one trial: the first was not known to be so dear.
    dearest = max((s.cost for s in tried), default=0.0) + 2 * change
    total, budgeted = 0.0, 0.0
    for step in steps:
        total += step.cost + change * (step.level is not step.next)
        budgeted += allowed([step], budget)
        assert total <= (budgeted + dearest) * (1 + SLACK)


@STEADY
@given(BUDGETS, SECONDS_A_CHANGE, st.floats(0.5, 64), st.floats(0, 0.4), st.floats(0, 0.3), st.floats(1.1, 20), PERIODS)
def test_a_load_with_dear_interrupts_stays_at_calls(
    budget: float, price: float, busy: float, a: float, b: float, c: float, period: int
) -> None:
    first = saving(price, 0.7)
    policy = above_clocks(budget, price * per_second(budget, busy))
    steps = simulate(policy, [steady(budget, busy, (a, b, c), first + 200)], period)
    late = [s for s in steps if s.end > (first + 1) * SECOND]
    assert SWITCHES not in {s.next for s in late}
    assert all(s.left for s in late if s.level is INTERRUPTS)
    assert changes(late) <= 2 * (6 + 200 * SECOND / LONGEST_WAIT)


@STEADY
@given(BUDGETS, CHANGE_PRICES, st.floats(0, 64), st.floats(1.1, 50), PARTS, PARTS, PERIODS, LEVELS)
def test_a_load_too_dear_for_any_level_is_left_at_switches_and_told(
    budget: float, price: float, busy: float, a: float, b: float, c: float, period: int, start: Level
) -> None:
    policy = above_clocks(budget, price, start)
    load = steady(budget, busy, (a, b, c), 100)
    steps = simulate(policy, [load], period)
    assert changes(steps) == (start is not SWITCHES)
    assert steps[0].next is SWITCHES
    assert all(s.over_budget == pytest.approx(load.share(SWITCHES), rel=0.05) for s in steps[1:] if busy > 1)
    assert policy.over_budget
    assert "no cheaper level" in policy.why


# ---- loads that change ----


@STEADY
@given(BUDGETS, CHANGE_PRICES, st.floats(0.5, 64), st.floats(1.2, 100), PERIODS, LEVELS)
def test_a_load_that_becomes_dear_is_left_within_a_second(
    budget: float, price: float, busy: float, times: float, period: int, start: Level
) -> None:
    cheap = steady(budget, busy, (0.1, 0.1, 0.1), 30)
    dear = steady(budget, busy, (0.5, times, times), 10)
    steps = simulate(above_clocks(budget, price, start), [cheap, dear], period)
    begin = next(s.end for s in steps if s.load is dear)
    late = [s for s in steps if s.end > begin + SECOND + period]
    tried = trials(steps)
    assert all(s.level is SWITCHES for s in late if s not in tried)


@given(BUDGETS, st.floats(0.5, 64), st.floats(0, 0.8), st.floats(1.5, 10_000), st.integers(0, 249))
def test_a_burst_ends_a_period_as_soon_as_it_has_spent_a_second(
    budget: float, busy: float, before: float, times: float, into: int
) -> None:
    """Looks are 50 ms apart. The burst costs ``times`` the budget, and begins ``into`` ms after a period has."""
    policy = at_any_level(budget, 0.0, INTERRUPTS)
    second = budget * SECOND * max(busy, FLOOR)

    def so_far(quiet: int, burst: int) -> Period:
        cost = (quiet * before + burst * times) / 1000 * second
        return Period((quiet + burst) * MS, round(busy * (quiet + burst) * MS), {SWITCHES: 0.0, INTERRUPTS: cost})

    for _ in range(4):
        assert policy.feed(so_far(250, 0)) is INTERRUPTS
    looks = [ms for ms in range(50, 300, 50) if ms > into]
    seen = [so_far(into, ms - into) for ms in looks]
    dear = [policy.has_spent_a_second(period) for period in seen]
    assert sorted(dear) == dear, "what is spent stays spent"
    for ms, says in zip(looks, dear, strict=True):
        spent_by_burst = (ms - into) / 1000 * times
        assert says or spent_by_burst <= 1 + SLACK
        if says:
            assert spent_by_burst + before > 1 - SLACK, "in that second"
    if any(dear):
        assert policy.feed(seen[dear.index(True)]) in {SWITCHES, CLOCKS}


@STEADY
@given(BUDGETS, SECONDS_A_CHANGE, st.floats(1, 64), st.floats(1.2, 40), st.floats(0.05, 0.45), PERIODS)
def test_a_load_that_has_gone_is_followed(
    budget: float, price: float, busy: float, times: float, rest: float, period: int
) -> None:
    """At the latest when what was owed for a minute is paid, and the changes are saved for."""
    dear = steady(budget, busy, (0.4, times, times), 100)
    cheap = steady(budget, rest, (0.1, 0.1, 0.1), (60 + 60) / 0.6 + 2 * saving(price, 0.4) + 10)
    policy = above_clocks(budget, price * per_second(budget, rest))
    simulate(policy, [dear, cheap], period)
    assert policy.level is INTERRUPTS


@settings(max_examples=10)
@given(BUDGETS, CHANGE_PRICES, st.floats(1, 64), st.floats(1.2, 40), st.floats(0.5, 10), PERIODS)
def test_a_load_that_comes_and_goes_stays_within_the_budget_in_the_long_run(
    budget: float, price: float, busy: float, times: float, seconds: float, period: int
) -> None:
    """Each return finds the level of the quiet time attached: what that costs beyond the budget is owed."""
    dear = steady(budget, busy, (0.4, times, times), seconds)
    quiet = steady(budget, 0.5, (0.05, 0.05, 0.05), seconds)
    steps = simulate(above_clocks(budget, price), [dear, quiet] * round(100 / seconds), period)
    total = spent(steps) + price * changes(steps)
    dearest = max(spent(window) for window in windows(steps)) + 4 * price
    assert total <= allowed(steps, budget) + dearest


# ---- cases ----


def period_of(costs: Sequence[float], own: float = 0.0, busy: float = 1.0, ms: int = 100) -> Period:
    """Costs are parts of the elapsed time."""
    elapsed = ms * MS
    layers = dict(zip(EXACT, (cost * elapsed for cost in costs), strict=False))
    return Period(elapsed, round(busy * elapsed), layers, own * elapsed)


def test_the_levels_are_in_order() -> None:
    assert CLOCKS < SWITCHES < CALLS < INTERRUPTS
    assert (CLOCKS.below, CLOCKS.above, CALLS.above, INTERRUPTS.above) == (None, SWITCHES, INTERRUPTS, None)
    assert [CALLS.includes(layer) for layer in Level] == [True, True, True, False]


def test_a_burst_is_allowed_that_the_rest_of_its_second_makes_up_for() -> None:
    policy = above_clocks(0.01, 0.0, CALLS)
    for _ in range(9):
        policy.feed(period_of((0.001, 0.001)))
    assert policy.feed(period_of((0.001, 0.07))) is CALLS
    assert policy.feed(period_of((0.001, 0.07))) is SWITCHES
    assert policy.why == (
        "switches: calls cost 1.6 % in the last second, and the budget is 1 %; calls is tried again in 2 s at least"
    )


def test_a_period_that_has_just_begun_has_spent_no_second() -> None:
    policy = at_any_level(0.01, 0.0, INTERRUPTS)
    assert not policy.has_spent_a_second(Period(0, 0, {}))
    assert not policy.has_spent_a_second(period_of((0.0, 0.0, 0.1), ms=50)), "half of a second's budget"
    assert policy.has_spent_a_second(period_of((0.0, 0.0, 0.21), ms=50))
    assert policy.has_spent_a_second(period_of((0.0, 0.0), own=0.21, ms=50)), "the tool's own time counts"


def test_an_excess_is_left_at_once_down_to_the_level_that_fits() -> None:
    both = above_clocks(0.01, 0.0, INTERRUPTS)
    assert both.feed(period_of((0.001, 0.02, 0.02))) is SWITCHES
    one = above_clocks(0.01, 0.0, INTERRUPTS)
    assert one.feed(period_of((0.001, 0.002, 0.02))) is CALLS


def test_waits_between_trials_in_vain_double_up_to_a_minute() -> None:
    policy = above_clocks(0.05, 0.0)
    steps = simulate(policy, [Load.of_shares(400, 4, 0.001, 0.06, 0.0)], 100 * MS)
    waits = [(after.end - before.end) / SECOND for before, after in pairwise(trials(steps))]
    assert [round(wait) for wait in waits[:6]] == [2, 4, 8, 16, 32, 60]
    assert all(round(wait) == 60 for wait in waits[6:])


@pytest.mark.parametrize(
    ("load", "level"),
    [
        (Load.of_shares(5, 4, 0.001, 0.0, 0.0), INTERRUPTS),  # fewer switches
        (Load.of_shares(5, 1, 0.01, 0.0, 0.0), INTERRUPTS),  # less processor time
        (Load.of_shares(5, 4, 0.01, 0.0, 0.0), SWITCHES),  # what can be seen is the same
    ],
)
def test_another_load_is_tried_without_the_wait(load: Load, level: Level) -> None:
    policy = above_clocks(0.05, 0.0)
    simulate(policy, [Load.of_shares(100, 4, 0.01, 0.06, 0.0), load], 100 * MS)
    assert policy.level is level


def test_a_change_is_saved_for() -> None:
    """1 % of a processor is 10 ms a second: two changes of 40 ms and the trial take 9 s."""
    steps = simulate(above_clocks(0.01, 40.0 * MS), [Load.of_shares(60, 1, 0.0, 0.0, 0.0)], 100 * MS)
    first, second = (s.end / SECOND for s in steps if s.next > s.level)
    assert first == pytest.approx(9, abs=0.2)
    assert second == pytest.approx(first + 4, abs=0.2)  # the way back was not needed


def test_a_trial_that_was_dearer_than_expected_is_paid_off_before_the_next() -> None:
    """Calls cost 40 %: a period of it 40 ms, with both changes 120 ms; 0.8 % of a processor is left to pay that."""
    policy = above_clocks(0.01, 40.0 * MS)
    steps = simulate(policy, [Load.of_shares(200, 1, 0.002, 0.4, 0.0)], 100 * MS)
    first, second, *_ = trials(steps)
    assert second.end - first.end >= 15 * SECOND


def test_an_idle_machine_has_the_budget_of_half_a_processor() -> None:
    policy = above_clocks(0.01, 0.0)
    assert policy.share is None
    policy.feed(Period(SECOND, 0, {SWITCHES: 4.5e-3 * SECOND}))
    assert policy.over_budget is None
    assert policy.share == pytest.approx(0.009)
    policy.feed(Period(SECOND, 0, {SWITCHES: 5.5e-3 * SECOND}))
    assert policy.over_budget == pytest.approx(0.011)


def test_what_the_tool_does_in_bursts_is_averaged() -> None:
    """A page that takes 50 ms each 15 s is a third of a budget of 10 ms a second; it does not move the level."""
    policy = above_clocks(0.01, 0.0, INTERRUPTS)
    for number in range(600):
        policy.feed(period_of((0.001, 0.001, 0.001), own=0.5 if number % 150 == 149 else 0.0))
    assert policy.level is INTERRUPTS
    assert policy.changes == 0


def test_what_the_tool_does_all_the_time_is_noticed_within_a_second() -> None:
    policy = above_clocks(0.01, 0.0, INTERRUPTS)
    for _ in range(200):
        policy.feed(period_of((0.001, 0.001, 0.001)))
    for _ in range(10):
        policy.feed(period_of((0.001, 0.001, 0.001)[: policy.level.rank + 1], own=0.03))
    assert policy.level is SWITCHES
    assert policy.over_budget is not None


def test_a_level_that_is_not_attached_yet_is_waited_for() -> None:
    policy = above_clocks(0.01, 0.0)
    while policy.level is SWITCHES:
        policy.feed(period_of((0.001,)))
    for _ in range(5):
        assert policy.feed(period_of((0.001,))) is CALLS
    assert policy.feed(period_of((0.001, 0.0085))) is SWITCHES
    assert "calls cost 0.95 % when tried" in policy.why


def test_a_trial_stays_below_four_fifths_of_the_budget() -> None:
    assert KEEP == 0.8
    for cost, level in ((0.0065, CALLS), (0.0075, SWITCHES)):
        policy = above_clocks(0.01, 0.0)
        while policy.level is SWITCHES:
            policy.feed(period_of((0.001,)))
        assert policy.feed(period_of((0.001, cost))) is level


def test_no_time_changes_nothing() -> None:
    policy = above_clocks(0.01, 0.0, CALLS)
    assert policy.feed(Period(0, 0, {})) is CALLS
    assert policy.why == "calls: the level to start with"


def test_a_machine_that_stood_still_does_not_have_the_budget_of_that_time_to_spend() -> None:
    policy = above_clocks(0.01, 0.0, CALLS)
    policy.feed(Period(3600 * SECOND, 3600 * SECOND, {SWITCHES: 0.0, CALLS: 0.0}))
    assert policy.bank <= 0.01 * SECOND
    assert policy.feed(period_of((0.0, 0.2))) is SWITCHES


@pytest.mark.parametrize("budget", [0.0, -0.01, 1.5])
def test_a_budget_is_a_share(budget: float) -> None:
    with pytest.raises(ValueError, match="a share above 0 and at most 1"):
        above_clocks(budget, 0.0)


def test_no_price_and_no_cost_is_negative() -> None:
    with pytest.raises(ValueError, match="cannot cost -1"):
        above_clocks(0.01, -1)
    for wrong in ((-1, 0, 0.0, 0.0), (0, -1, 0.0, 0.0), (0, 0, -1.0, 0.0), (0, 0, 0.0, -1.0)):
        elapsed, measured, cost, own = wrong
        with pytest.raises(ValueError, match="can be negative"):
            Period(elapsed, measured, {SWITCHES: cost}, own)


@pytest.mark.parametrize(
    ("share", "words"), [(0.0001, "0.01 %"), (0.0123, "1.2 %"), (0.1, "10 %"), (0.996, "100 %"), (9.6, "960 %")]
)
def test_a_share_is_said_in_plain_digits(share: float, words: str) -> None:
    assert percent(share) == words
