"""Buckets add up to the time that went into them."""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.views.html import levels as module
from headway.views.html.levels import WHOLE, Levels

LENGTH = 5_000
KINDS = 3


@st.composite
def tilings(draw: st.DrawFn) -> tuple[tuple[int, int], list[tuple[int, int, int]]]:
    """A lane's life, and stretches of a kind that fill it."""
    start, end = sorted(draw(st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH))))
    cuts = sorted({start, end, *draw(st.lists(st.integers(start, end), max_size=12))})
    return (start, end), [(a, b, draw(st.integers(0, KINDS - 1))) for a, b in itertools.pairwise(cuts)]


def levels_of(lanes: list[tuple[tuple[int, int], list[tuple[int, int, int]]]], most: int, finest: int = 256) -> Levels:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FINEST", finest)
        levels = Levels(LENGTH, [life for life, _ in lanes], most)
    rows = [(lane, *row) for lane, (_, some) in enumerate(lanes) for row in some]
    if rows:
        levels.add(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))
    return levels


def planes(levels: Levels, most: int = 1 << 30) -> dict[int, np.ndarray]:
    kinds, data = levels.packed(most)
    cells = np.frombuffer(zlib.decompress(data, -15), np.uint8).reshape(len(kinds), int(levels.offset[-1]))
    return dict(zip(kinds, cells, strict=True))


@given(st.lists(tilings(), min_size=1, max_size=5), st.sampled_from([4, 40, 400, 4000]))
def test_each_kind_has_its_time_in_its_lane(
    lanes: list[tuple[tuple[int, int], list[tuple[int, int, int]]]], most: int
) -> None:
    levels = levels_of(lanes, most)
    found = planes(levels)
    for lane, (life, rows) in enumerate(lanes):
        own = slice(levels.offset[lane], levels.offset[lane + 1])
        size = int(levels.until[lane] - levels.first[lane])
        assert levels.first[lane] * levels.width <= life[0]
        assert levels.until[lane] * levels.width >= life[1]
        for kind in range(KINDS):
            exact = np.zeros(size)
            for start, end, of in rows:
                for bucket in range(size):
                    left = (levels.first[lane] + bucket) * levels.width
                    exact[bucket] += (of == kind) * max(min(end, left + levels.width) - max(start, left), 0)
            shown = found[kind][own] / WHOLE if kind in found else np.zeros(size)
            assert np.abs(shown - exact / levels.width).max(initial=0) <= 0.5 / WHOLE + 1e-9


@given(st.lists(tilings(), min_size=1, max_size=5))
def test_a_level_has_no_more_cells_than_allowed_unless_lanes_alone_are_more(
    lanes: list[tuple[tuple[int, int], list[tuple[int, int, int]]]],
) -> None:
    levels = levels_of(lanes, 100)
    assert levels.offset[-1] <= 100


def test_buckets_become_wider_until_they_fit() -> None:
    random = np.random.default_rng(1)
    cuts = sorted(random.integers(0, LENGTH, 2000).tolist())
    rows = [(a, b, int(random.integers(KINDS))) for a, b in itertools.pairwise(cuts) if b > a]
    fine, coarse = levels_of([((0, LENGTH), rows)], 10**6), levels_of([((0, LENGTH), rows)], 10**6)
    wide = planes(fine)
    narrow = planes(coarse, 150)
    assert coarse.width > fine.width
    for kind, cells in narrow.items():
        assert int(cells.sum()) * coarse.width == pytest.approx(int(wide[kind].sum()) * fine.width, rel=0.02)


def test_what_is_outside_a_lane_is_not_in_it() -> None:
    levels = levels_of([((1000, 2000), [(0, LENGTH, 0)])], 10**6)
    (cells,) = planes(levels).values()
    assert set(cells.tolist()) == {WHOLE}
