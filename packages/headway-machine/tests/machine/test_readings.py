"""Software that reads counters while it is disturbed, judged by the machine: wrong naively, right synchronised."""

from __future__ import annotations

from functools import cache

import pytest
from benchmarks.readings import ROUNDS, SHAPES, Run, Shape, Verdict, config_of, judge
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import FEW

from headway_machine.config import Smi

TRIED = SHAPES[:3:2] if FEW else SHAPES
"""In any case one hart alone, and harts that share a core."""
MAX_LATE = 6
"""Ticks: the counter is read an instruction after the time, and each other hart may have its turn before that."""

judged = cache(lambda shape: judge(config_of(shape)))


def check(found: Verdict) -> None:
    """Every reading that was kept is right to the instruction, and none that was disturbed was kept."""
    assert not any(of.wrong for of in found.synchronised)
    assert all(1 <= late <= MAX_LATE for late in found.late)
    assert not any(kept for kept, disturbed in zip(found.kept, found.disturbed, strict=True) if disturbed)
    assert sum(found.readings.kept) >= ROUNDS * 9 // 10


@pytest.mark.parametrize("shape", TRIED, ids=str)
def test_synchronised_readings_are_right_and_disturbed_ones_are_dropped(shape: Shape) -> None:
    found = judged(shape)
    check(found)
    assert found.readings.status == 0


@pytest.mark.parametrize("shape", TRIED, ids=str)
def test_naive_readings_of_the_same_run_are_wrong(shape: Shape) -> None:
    """By tens of MHz of a clock of 100, as often as something comes between a counter and the time."""
    found = judged(shape)
    wrong = [of for of in found.naive if of.wrong]
    assert len(wrong) > len(found.naive) / 50
    assert max(abs(of.error) for of in wrong) > 15
    assert max(abs(of.error) for of in found.synchronised) < 0.1


@pytest.mark.parametrize("shape", TRIED[1:], ids=str)
def test_harts_that_wait_for_each_other_read_at_the_same_time(shape: Shape) -> None:
    found = judged(shape)
    assert max(found.skew) < sorted(found.naive_skew)[ROUNDS // 2]


@pytest.mark.parametrize("shape", TRIED[1:], ids=str)
def test_disturbed_readings_occur_and_enough_are_kept(shape: Shape) -> None:
    found = judged(shape)
    assert sum(found.disturbed) >= 5
    assert len(found.kept) > ROUNDS


@given(
    shape=st.sampled_from(SHAPES),
    at=st.integers(20_000, 80_000),
    every=st.integers(3_000, 40_000),
    ticks=st.integers(300, 2_500),
)
@settings(max_examples=2 if FEW else 10, deadline=None)
@pytest.mark.end_to_end
def test_whenever_management_interrupts_come_no_wrong_reading_is_kept(
    shape: Shape, at: int, every: int, ticks: int
) -> None:
    found = judge(config_of(shape).with_values(smi=Smi(at=at, every=every, ticks=ticks)))
    assert not any(of.wrong for of in found.synchronised)
    assert all(1 <= late <= MAX_LATE for late in found.late)
    assert not any(kept for kept, disturbed in zip(found.kept, found.disturbed, strict=True) if disturbed)


def test_what_nothing_disturbs_is_right_at_once() -> None:
    """Without management interrupts on one hart, whose urgent work never comes upon the synchronised reading."""
    found = judge(config_of((1, 1, "strict")).with_values(smi=Smi()))
    check(found)
    assert found.kept == [True] * ROUNDS


def test_looking_at_a_run_does_not_change_it() -> None:
    config = config_of(TRIED[-1])
    watched = Run(config)
    for tick in range(0, 300_000, 997):
        watched.until(tick)
        watched.charged()
        watched.processor.hart(tick % config.harts)
    assert watched.readings() == judged(TRIED[-1]).readings
