"""Predictions in words: a range is one only where it has a width, and what takes longer is no gain."""

from __future__ import annotations

import pytest

from headway.views.what_if import _gains, _range

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("least", "most", "said"),
    [
        (0.12, 0.6, "12 % to 60 %"),
        (0.3, 0.301, "30 %"),
        (-0.05, 0.1, "-5 % to 10 %"),
        (-0.6, -0.12, "nothing"),
        (-0.3, 0.0, "nothing"),
        (0.0, 0.001, "nothing"),
    ],
)
def test_a_gain_is_more_than_nothing(least: float, most: float, said: str) -> None:
    assert _gains(least, most) == said


def test_a_range_without_width_is_one_figure() -> None:
    assert _range("773 ms", "773 ms") == "773 ms"
    assert _range("700 ms", "773 ms") == "700 ms to 773 ms"
