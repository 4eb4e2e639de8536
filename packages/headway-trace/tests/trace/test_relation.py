"""The clocks of two recordings of one run are related by the switches that both have, or not at all."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from headway_trace.relation import relate


def starts(seed: int, threads: int, events: int, *, period: int | None = None) -> dict[int, list[int]]:
    """Times at which threads got a processor; with a period they do so regularly, but for 30 µs."""
    chance = random.Random(seed)
    found = {}
    for tid in range(10, 10 + threads):
        time, times = 5_000_000_000 + chance.randrange(10**9), []
        for _ in range(events):
            time += period + chance.randrange(200_000) if period else 100_000 + chance.randrange(20_000_000)
            times.append(time)
        found[tid] = times
    return found


@given(
    st.integers(0, 1 << 30),
    st.integers(1, 4),
    st.integers(-(10**12), 10**12),
    st.floats(-5e-5, 5e-5),
    st.sampled_from([None, 5_000_000]),
)
def test_offset_and_drift_are_found(seed: int, threads: int, offset: int, drift: float, period: int | None) -> None:
    here = starts(seed, threads, 60, period=period)
    chance = random.Random(seed)
    there = {
        tid: [time + offset + round(drift * time) + chance.randrange(6000) for time in times if chance.random() < 0.9]
        for tid, times in here.items()
    }
    found = relate(here, there)
    assert found is not None
    for times in here.values():
        for time in times:
            assert abs(found.there(time) - (time + offset + round(drift * time) + 3000)) <= 20_000
            assert abs(found.here(found.there(time)) - time) <= 2
    assert found.uncertainty <= 20_000


@given(st.integers(0, 1 << 30), st.integers(1, 3))
def test_what_is_not_of_one_run_is_not_related(seed: int, threads: int) -> None:
    assert relate(starts(seed, threads, 40), starts(seed + 1, threads, 40)) is None


def test_without_events_in_common_nothing_is_related() -> None:
    assert relate({}, {}) is None
    assert relate({1: [5]}, {2: [5]}) is None
    assert relate({1: [5]}, {1: [5]}) is None
