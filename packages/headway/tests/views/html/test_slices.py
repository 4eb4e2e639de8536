"""Every row that goes into slices comes out of them, once, where the page will look for it."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.views.html import slices as module
from headway.views.html.slices import Packed, SliceColumns, SlicePacker

from .reading import Row, rows_of

WAITS = [False, False, True, False]
OFF = [False, False, True, True]
LENGTH = 10_000


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Any rows, lawful or not; in a state of waiting they may have a waker."""
    found = []
    for _ in range(draw(st.integers(0, 60))):
        lane = draw(st.integers(-3, 4))
        start = draw(st.integers(-50, LENGTH))
        end = start + draw(st.integers(1, 300) | st.integers(1, 2 * LENGTH))
        state = draw(st.integers(0, 3))
        cpu = -1 - lane if lane < 0 else draw(st.integers(-1, 5))
        found.append((lane, start, end, state, cpu, draw(st.integers(0, 50)) if WAITS[state] else 0))
    return found


def columns(some: list[Row]) -> SliceColumns:
    return SliceColumns(*(np.array(column, np.int64) for column in (zip(*some, strict=True) if some else [()] * 6)))


def packed(parts: list[list[Row]], each: int = 7, most: int = 10**9) -> Packed | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "A_SLICE", each)
        patch.setattr(module, "_HELD", 3 * each)
        slices = SlicePacker(LENGTH, most, lambda state: np.array(WAITS)[state], lambda state: np.array(OFF)[state])
        for part in parts:
            slices.add(columns(part))
        return slices.packed()


def unpacked(found: Packed) -> list[list[Row]]:
    """The rows of each slice, and last those that reach over an edge."""
    inside = [
        list(rows_of(zlib.decompress(data, -15), begin, WAITS, OFF))
        for data, begin in zip(found.slices, found.edges, strict=False)
    ]
    return [*inside, list(rows_of(zlib.decompress(found.over_edges, -15), 0, WAITS, OFF))]


@given(st.lists(rows(), max_size=4))
def test_rows_come_back_each_once_and_within_their_slice(parts: list[list[Row]]) -> None:
    found = packed(parts)
    assert found is not None
    every = unpacked(found)
    assert sorted(row for some in every for row in some) == sorted(row for part in parts for row in part)
    assert found.rows == sum(map(len, parts))
    assert len(found.edges) == len(found.slices) + 1
    assert list(found.edges) == sorted(set(found.edges))
    assert found.edges[0] == 0
    assert found.edges[-1] >= LENGTH
    for some, begin, end in zip(every, found.edges, found.edges[1:], strict=False):
        assert all(begin <= start and until <= end for _, start, until, *_ in some)
        assert [row[:2] for row in some] == sorted(row[:2] for row in some)


@given(st.integers(1, 5), st.integers(20, 200))
def test_of_lawful_rows_one_a_thread_and_edge_is_over_edges(threads: int, count: int) -> None:
    made: list[Row] = []
    for lane in range(threads):
        time = 0
        for at in range(count):
            end = time + (7 * at + 3 * lane) % 11 + 1
            made.append((lane, time, end, at % 2, lane, 0))
            time = end
    made.sort(key=lambda row: row[2])
    found = packed([made[at : at + 20] for at in range(0, len(made), 20)])
    assert found is not None
    assert len(unpacked(found)[-1]) <= threads * (len(found.edges) - 1)


def test_what_takes_too_much_room_is_given_up_and_counted() -> None:
    made: list[Row] = [(0, at * 3, at * 3 + 2, at % 2, 0, 0) for at in range(1000)]
    assert packed([made], most=50) is None
    assert packed([made]) is not None


def test_of_no_rows_there_is_one_empty_slice() -> None:
    found = packed([])
    assert found is not None
    assert found.edges == (0, LENGTH)
    assert unpacked(found) == [[], []]
