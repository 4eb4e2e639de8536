"""Policies against a model of threads (`fleet.py`): no look that can be of no use, few losses, changes are learnt."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.buffers.policies.cpu_time import CpuTime, Usual
from headway.buffers.policies.fixed import Fixed
from headway.buffers.policies.watermark import Watermark
from headway.buffers.policy import NEVER

from .fleet import MS, SECOND, Fleet, ModelBuffer, Phase

CAPACITY = 65536
rates = st.floats(2_000, 2_000_000)
shares = st.sampled_from([0.0, 0.001, 0.1, 0.5, 1.0])
phases = st.lists(st.builds(Phase, st.integers(10 * MS, 3 * SECOND), shares, rates), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(phases, st.booleans())
def test_no_look_is_taken_before_it_can_be_useful(given_phases: list[Phase], counts: bool) -> None:
    """Each look comes when the thread has used the time in which, as far as was known, half of the buffer fills."""
    buffer, policy = ModelBuffer(CAPACITY, given_phases, counts=counts), CpuTime(CAPACITY)
    fleet = Fleet([buffer], [policy])
    known: list[tuple[int, float, float, float]] = []
    fleet.before_look = lambda _, used: known.append((used, policy.rate, policy.part, policy.interval))
    fleet.run(10 * SECOND)
    since = last = 0
    before = MS * 10.0
    waiting = full = False
    for (used, rate, part, interval), look in zip(known, fleet.looks, strict=True):
        assert used > last, "a thread that has used no time since the last look has produced nothing"
        if not waiting:
            assert used - since >= interval * 0.999
            if rate:
                shortest = before / 2 if full else before * 2  # losses halve it, and else it doubles at most
                assert interval >= min(part * CAPACITY / rate, shortest) * 0.999
        last, before, waiting = used, interval, not look.drained
        full = look.lost > 0 or look.filled >= CAPACITY
        since = used if look.drained else since
    assert policy.rate >= 0


@settings(max_examples=40, deadline=None)
@given(st.floats(3_000, 300_000), st.sampled_from([0.01, 0.3, 1.0]), st.booleans())
def test_a_steady_thread_loses_nothing_and_most_looks_are_useful(rate: float, share: float, counts: bool) -> None:
    buffer = ModelBuffer(CAPACITY, [Phase(SECOND, share, rate)], counts=counts)
    fleet = Fleet([buffer], [CpuTime(CAPACITY)])
    fills = 40
    fleet.run(int(fills * CAPACITY / 2 / (rate * share) * SECOND))
    assert buffer.dropped == 0
    assert fleet.useful >= fills * 0.6
    learning = math.log2(CAPACITY / 2 / (rate * 0.01)) + 2  # looks at 10 ms, 20 ms, 40 ms, ...
    assert len(fleet.looks) <= fleet.useful * 1.2 + max(0, learning)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.5, 2), st.sampled_from([0.1, 0.5, 1.0]), st.floats(4, 10)), min_size=3, max_size=12),
    st.booleans(),
)
def test_losses_stay_in_the_budget_while_rates_change_at_most_twofold(
    changes: list[tuple[float, float, float]], counts: bool
) -> None:
    rate, steps = 20_000.0, []
    for factor, share, fills in changes:
        rate = min(max(rate * factor, 1_000), 1_000_000)
        steps.append(Phase(int(fills * CAPACITY / 2 / rate / share * SECOND), share, rate))
    fleet = Fleet([ModelBuffer(CAPACITY, steps, counts=counts)], [CpuTime(CAPACITY, usual=Usual(20_000 / SECOND))])
    fleet.run(sum(step.length for step in steps))
    assert fleet.lost_share <= 0.05


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("factor", [4, 12, 50])
def test_a_thread_with_bursts_loses_no_more_than_the_budget(factor: float, counts: bool) -> None:
    """Its rate is a multiple of the usual one, and again the usual one, for 50 to 200 ms each."""
    chance = random.Random(factor)
    steps = [Phase(chance.randint(50 * MS, 200 * MS), 1.0, 20_000.0 * (factor if n % 2 else 1)) for n in range(300)]
    fleet = Fleet([ModelBuffer(CAPACITY // 8, steps, counts=counts)], [CpuTime(CAPACITY // 8)])
    fleet.run(sum(step.length for step in steps))
    assert fleet.lost_share <= 0.05
    assert len(fleet.looks) <= 4 * fleet.useful


@pytest.mark.parametrize("counts", [True, False])
def test_the_rate_of_bursts_is_given_back_when_they_are_over(counts: bool) -> None:
    policy = CpuTime(CAPACITY // 8)
    rates = [20_000.0, 240_000.0] * 20
    steps = [Phase(100 * MS, 1.0, rate) for rate in rates] + [Phase(400 * SECOND, 1.0, 20_000.0)]
    fleet = Fleet([ModelBuffer(CAPACITY // 8, steps, counts=counts)], [policy])
    fleet.run(4 * SECOND)
    assert policy.rate * SECOND > 200_000
    fleet.run(400 * SECOND)
    assert policy.rate * SECOND == pytest.approx(20_000, rel=0.05)


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("factor", [1 / 20, 1 / 3, 3, 20])
def test_a_new_rate_is_learnt(factor: float, counts: bool) -> None:
    before = 20_000.0
    first = Phase(int(10 * CAPACITY / before * SECOND), 1.0, before)
    second = Phase(int(120 * CAPACITY / (before * factor) * SECOND), 1.0, before * factor)
    fleet = Fleet([ModelBuffer(CAPACITY, [first, second], counts=counts)], [CpuTime(CAPACITY)])
    fleet.run(first.length + second.length)
    later = [look for look in fleet.looks if look.now > first.length and look.drained][100:]
    assert later
    assert all(CAPACITY / 2 <= look.filled < CAPACITY and not look.lost for look in later)


def test_losses_halve_the_interval() -> None:
    policy = CpuTime(1000, usual=Usual(1.0))
    assert policy.due(0, 0) == 550
    assert policy.due(550, 550) == 550
    assert policy.looked(550, 550, 1000, 0)
    assert policy.due(550, 550) == 550 + 275
    assert policy.looked(825, 825, 1000, 0)
    assert policy.due(825, 825) <= 825 + 137
    assert policy.part == 0.25, "more than the budget is lost: less is worth a look"


def test_too_little_is_left_to_fill() -> None:
    policy = CpuTime(1000, usual=Usual(1.0))
    policy.due(0, 0)
    assert not policy.looked(550, 550, 440, 0)
    due = policy.due(550, 550)
    assert 550 + 60 < due < 550 + 275, "the rest, at the slower rate"


def test_a_thread_that_stands_still_is_asked_less_often_but_before_its_buffer_can_be_full() -> None:
    policy = CpuTime(1000, usual=Usual(1.0))
    assert policy.due(0, 0) == 550
    assert policy.due(550, 0) == 550 + 750
    assert policy.due(1300, 300) == 1300 + 450, "it cannot be fuller than three quarters then"
    unknown = CpuTime(1000, first=10)
    waits = [unknown.due(10_000 * n, 0) - 10_000 * n for n in range(9)]
    assert waits == [10, 20, 40, 80, 160, 320, 640, 640, 640]


def test_a_new_thread_is_expected_to_be_as_fast_as_the_fastest_of_the_others() -> None:
    usual = Usual()
    first, second = CpuTime(1000, usual=usual, first=10), CpuTime(1000, usual=usual, first=10)
    assert first.due(0, 0) == second.due(0, 0) == 10
    first.looked(100, 100, 800, 0)
    assert second.rate == 0
    assert second.due(100, 60) == 100 + int(550 / 8 - 60)
    assert second.rate == 8
    second.looked(200, 100, 600, 0)
    assert second.rate == 6, "what it found itself counts, not what was expected"
    assert 7.9 < usual.rate < 8


@given(st.floats(1e5, 1e9))
@settings(max_examples=20, deadline=None)
def test_a_processors_ring_is_read_a_little_at_a_time_by_the_clock(rate: float) -> None:
    """Its time is the clock's, and little of it is read in one go, so most is there for when that comes late."""
    capacity, useful = 8 << 20, 1 / 64
    policy = CpuTime(capacity, useful=useful, first=2 * MS)
    fleet = Fleet([ModelBuffer(capacity, [Phase(SECOND, 1.0, rate)])], [policy])
    fleet.run(int(100 * capacity * useful / rate * SECOND))
    drained = [look for look in fleet.looks if look.drained][5:]
    assert len(drained) > 50
    assert all(useful <= look.filled / capacity < 2 * useful for look in drained)


def test_a_thread_that_crawls_is_not_asked_all_the_time() -> None:
    fleet = Fleet(
        [ModelBuffer(CAPACITY, [Phase(SECOND, 0.001, 15_000)])], [CpuTime(CAPACITY, usual=Usual(15_000 / SECOND))]
    )
    fleet.run(20_000 * SECOND)
    assert fleet.clock_reads < 20_000
    assert fleet.useful >= 8
    assert fleet.lost_share == 0


@given(st.integers(1, 10**12), st.integers(1, 10**9), st.integers(0, 200))
def test_a_fixed_period_is_kept_whatever_is_found(now: int, period: int, filled: int) -> None:
    policy = Fixed(100, period=period)
    due = policy.due(now, 0)
    assert due % period == 0
    assert now < due <= now + period
    assert policy.looked(due, 0, filled, 0) == (filled >= 50)
    assert policy.due(due, 0) == due + period
    late = due + 7 * period + period // 2
    policy.looked(late, 0, filled, 0)
    assert late < policy.due(late, 0) <= late + period


def test_the_watermark_waits_for_the_kernel_and_takes_everything() -> None:
    policy = Watermark()
    assert policy.due(5, 0) == NEVER
    assert policy.looked(5, 0, 1, 0)
    assert not policy.looked(5, 0, 0, 0)


@pytest.mark.parametrize(
    "wrong",
    [{"capacity": 0}, {"capacity": 9, "first": 0}, {"capacity": 9, "useful": 1.0}],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        CpuTime(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not above 0"):
        Fixed(10, period=0)
