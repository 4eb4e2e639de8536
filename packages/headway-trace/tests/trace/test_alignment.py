"""Clocks of a fixed rate are found again, with a residual no larger than a tick; what cannot be known is not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_trace.alignment import AlignedTime, Fit, Unplaced, fit
from headway_trace.records import Timestamp


def stamps(draw: random.Random, rate: float, start: float, count: int, epoch: int = 0) -> list[Timestamp]:
    """As hardware makes them: the tick that has begun."""
    cycles = sorted(draw.randrange(200_000) for _ in range(count))
    return [Timestamp(int(start + cycle / rate), cycle, epoch, 0) for cycle in cycles]


def placed(found: Fit, epoch: int, cycle: int) -> AlignedTime:
    moment = found.moment(epoch, cycle)
    assert isinstance(moment, AlignedTime)
    return moment


CLOCKS = st.tuples(st.integers(0, 2**32), st.floats(1.5, 60), st.floats(0, 2**45))


@given(CLOCKS, st.integers(8, 60))
def test_the_rate_and_every_moment_are_found_as_well_as_they_say(clock: tuple[int, float, float], count: int) -> None:
    seed, rate, start = clock
    draw = random.Random(seed)
    found = fit(stamps(draw, rate, start, count))
    if found.rate is None:
        return
    assert found.worst is not None
    assert found.worst <= 1.5 * rate + 1
    for cycle in (0, 5_000, 100_000, 199_999):
        moment = placed(found, 0, cycle)
        assert abs(moment.time - (start + cycle / rate)) <= moment.uncertainty + 1


@given(CLOCKS, st.integers(2, 5))
def test_each_epoch_has_its_own_place_and_shares_the_rate(clock: tuple[int, float, float], epochs: int) -> None:
    seed, rate, start = clock
    draw = random.Random(seed)
    begins = [start + 1_000_000 * epoch for epoch in range(epochs)]
    all_stamps = [one for epoch, begin in enumerate(begins) for one in stamps(draw, rate, begin, 12, epoch)]
    found = fit([*all_stamps, Timestamp(int(start + 9_000_000), 40, epochs, 0)])
    assert set(found.lines) == set(range(epochs + 1))
    for epoch, begin in enumerate(begins):
        moment = placed(found, epoch, 100_000)
        assert abs(moment.time - (begin + 100_000 / rate)) <= moment.uncertainty + 1
    assert abs(placed(found, epochs, 40).time - (start + 9_000_000)) <= 2


def test_a_timestamp_far_off_is_left_out_and_counted() -> None:
    good = stamps(random.Random(1), 14.55, 1000, 40)
    bad = Timestamp(good[20].time ^ 1 << 40, good[20].cycle, 0, 0)
    found = fit([*good[:20], bad, *good[20:]])
    assert found.outliers == 1
    assert found.rate == pytest.approx(14.55, rel=1e-3)


def test_what_cannot_be_placed_says_why() -> None:
    one = fit([Timestamp(5, 100, 0, 0)])
    assert one.moment(0, 100) == Unplaced("too few timestamps to know the cycles per tick")
    found = fit(stamps(random.Random(1), 10, 0, 20))
    assert found.moment(1, 100) == Unplaced("no timestamp between two losses of time")
    assert found.moment(0, None) == Unplaced("the trace counts no cycles")


def test_far_from_any_timestamp_is_less_certain() -> None:
    found = fit(stamps(random.Random(1), 10, 0, 20))
    assert placed(found, 0, 10_000_000).uncertainty > 10 * placed(found, 0, 100_000).uncertainty


def test_a_cycle_and_its_time_are_the_same_place() -> None:
    found = fit(stamps(random.Random(1), 10, 500, 20))
    assert found.cycle(placed(found, 0, 777).time, 0) == pytest.approx(777)
    assert found.cycle(5, 3) is None


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**40), st.integers(0, 3)), max_size=30))
def test_any_timestamps_can_be_fitted(values: list[tuple[int, int, int]]) -> None:
    found = fit(Timestamp(time, cycle, epoch, 0) for time, cycle, epoch in values)
    for _, cycle, epoch in values:
        found.moment(epoch, cycle)


def test_a_loss_that_only_timestamps_show_is_found_and_what_is_amid_it_is_unknown() -> None:
    """As when whole packets are missing and everything else still agrees."""
    before = stamps(random.Random(1), 14.55, 1000, 30)
    shift = before[-1].cycle or 0
    after = [
        Timestamp(one.time + 1_000_000, (one.cycle or 0) + shift + 50, 0, 0)
        for one in stamps(random.Random(2), 14.55, 1000, 30)
    ]
    found = fit([*before, *after])
    assert [len(lines) for lines in found.lines.values()] == [2]
    assert found.outliers == 0
    assert found.worst is not None
    assert found.worst < 30
    amid = ((before[-1].cycle or 0) + (after[0].cycle or 0)) // 2
    assert found.moment(0, amid) == Unplaced("no timestamp between two losses of time")
