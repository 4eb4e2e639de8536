"""Predictions in words: a range is one only where it has a width, and what takes longer is no gain."""

from __future__ import annotations

import pytest

from headway.errors import HeadwayError
from headway.replay.predict import Model, check_error
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


class Replayed(Model):
    """A model of a run that is so far off."""

    def __init__(self, error: float) -> None:
        self._error = error

    @property
    def error(self) -> float:
        return self._error


@pytest.mark.parametrize(("error", "said"), [(0.29, "29% longer"), (-0.11, "11% less")])
def test_a_replay_that_is_far_off_predicts_nothing(error: float, said: str) -> None:
    with pytest.raises(HeadwayError, match=f"takes {said} than it took.*: record it again"):
        check_error(Replayed(error), "record it again")


@pytest.mark.parametrize("error", [0.1, 0.0, -0.1])
def test_a_replay_that_is_little_off_does(error: float) -> None:
    check_error(Replayed(error), "record it again")
