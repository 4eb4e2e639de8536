"""When work will be done: steady progress gives the moment, uneven progress an interval that is as good as it says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model.forecast import Forecast

SECOND = 10**9


@given(st.integers(1, 100), st.integers(1, 40), st.integers(1, 10**6))
def test_steady_progress_is_done_when_it_says(per_cent: int, readings: int, seconds: int) -> None:
    made = SECOND * per_cent // 100
    forecast = Forecast(made * (readings + seconds))
    for _ in range(readings):
        forecast.add(made, SECOND)
    found = forecast.expect()
    assert found.left == pytest.approx(seconds * SECOND, rel=1e-9)
    if readings >= 3:
        assert found.least == pytest.approx(found.left, rel=1e-6)
        assert found.most == pytest.approx(found.left, rel=1e-6)
    else:
        assert (found.least, found.most) == (None, None)


@given(st.lists(st.tuples(st.integers(0, 2 * SECOND), st.integers(0, SECOND)), max_size=60), st.integers(1, 10**12))
def test_whatever_is_read_an_expectation_makes_sense(readings: list[tuple[int, int]], work: int) -> None:
    forecast = Forecast(work)
    for made, span in readings:
        forecast.add(made, span)
    found = forecast.expect()
    assert found.done == sum(made for made, _ in readings)
    assert (found.left == 0) == (found.done >= work)
    if found.least is not None:
        assert found.left is not None
        assert 0 <= found.least <= found.left
        assert found.most is None or found.most >= found.left


def test_without_progress_nothing_is_expected() -> None:
    forecast = Forecast(SECOND)
    assert forecast.expect().left is None
    for _ in range(31):
        forecast.add(0, SECOND)
    assert forecast.expect().left is None
    forecast.add(SECOND, 0)
    assert forecast.expect().left == 0


def test_the_interval_has_the_truth_as_often_as_it_says() -> None:
    """Rates that vary by a third, 400 pieces of work, each expected after ten readings: 95 % are 380 ± 13 (3 σ)."""
    generator, right = random.Random(4), 0
    for _ in range(400):
        forecast, took = Forecast(60 * SECOND), 0
        for _ in range(10):
            forecast.add(round(SECOND * min(max(generator.gauss(0.5, 0.15), 0.0), 1.0)), SECOND)
        found, rest = forecast.expect(), forecast.work - forecast.done
        while rest > 0:
            made = round(SECOND * min(max(generator.gauss(0.5, 0.15), 0.0), 1.0))
            took += SECOND if made <= rest else SECOND * rest // made
            rest -= made
        assert found.least is not None
        right += found.least <= took and (found.most is None or took <= found.most)
    assert 366 <= right <= 394
