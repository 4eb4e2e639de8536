from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.testing.levels import FigureLevel, level


@pytest.mark.parametrize("values", [[], [None], [3, None, 4]])
def test_what_is_not_known_of_every_round_is_not_known(values: list[int | None]) -> None:
    assert level(values) is None


def test_one_round_has_no_spread() -> None:
    assert level([7]) == FigureLevel(7, None, 1)


@given(st.lists(st.integers(1000, 1010), min_size=5, max_size=20), st.integers(0, 10**15))
def test_one_bad_round_moves_neither_median_nor_spread_out_of_the_others_range(values: list[int], bad: int) -> None:
    found = level([*values, bad])
    assert found is not None
    assert found.spread is not None
    assert 1000 <= found.median <= 1010
    assert found.spread <= 15
