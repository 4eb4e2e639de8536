"""The laws that a soak checks: what breaks them is found, and what does not is not."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from benchmarks.soak import _Laws, _Scrape, _tenths
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.unit

WINDOW = "headway_measured_seconds_total"


def scrape(at: float, counters: Mapping[str, float]) -> _Scrape:
    lines = [f"headway_reading_timestamp_seconds {at}", *(f"{name} {value}" for name, value in counters.items())]
    return _Scrape.of("\n".join(lines))


def machine(seconds: float, **more: float) -> dict[str, float]:
    """The counters of one processor that was idle and busy for half of the time each."""
    states = {f'headway_processor_state_seconds_total{{cpu="0",state="{s}"}}': seconds / 2 for s in ("idle", "user")}
    return {WINDOW: seconds, **states, **more}


def checked(*scrapes: _Scrape) -> _Laws:
    laws = _Laws()
    for one in scrapes:
        laws.check(one)
    return laws


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=6))
def test_a_counter_that_goes_down_is_found_and_no_other(values: list[int]) -> None:
    scrapes = [scrape(at, machine(at, headway_a_total=value)) for at, value in enumerate(values, 1)]
    laws = checked(*scrapes)
    assert laws.sums == []
    assert len(laws.lower) == sum(b < a for a, b in pairwise(values))


def test_a_counter_of_the_machine_may_not_disappear_and_one_of_a_thread_may() -> None:
    thread = 'headway_thread_state_seconds_total{pid="1",state="user"}'
    laws = checked(scrape(1, machine(1, headway_a_total=1) | {thread: 1}), scrape(2, machine(2)))
    assert laws.lower == ["headway_a_total{} is gone"]


@given(st.floats(-1, 1).filter(lambda more: abs(more) > 1e-3))
def test_states_that_do_not_add_up_to_the_time_are_found(more: float) -> None:
    wrong = machine(5)
    wrong['headway_processor_state_seconds_total{cpu="0",state="idle"}'] += more
    assert len(checked(scrape(5, machine(5)), scrape(5, wrong)).sums) == 1


def test_time_that_grows_unlike_the_clock_is_found() -> None:
    assert len(checked(scrape(1, machine(1)), scrape(3, machine(2))).sums) == 1


@given(st.lists(st.integers(1, 1 << 40), min_size=20))
def test_the_tenths_lie_around_the_median_and_leave_the_beginning_out(sizes: list[int]) -> None:
    median, tenths = _tenths(sizes)
    assert len(tenths) == 10
    assert min(tenths) <= median <= max(tenths)
    assert _tenths([1 << 50] * (len(sizes) // 5) + sizes[len(sizes) // 5 :]) == (median, tenths)
