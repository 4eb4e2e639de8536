"""Slices of what tracks did: whatever a producer tells, they nest, and nothing is told twice."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.perfetto import read_back
from tests.trace.slices import Told, block, check_nesting

from headway.errors import HeadwayError
from headway.views.perfetto.tracks import File
from headway_trace._edges import LineClock, SliceEdges
from headway_trace.edges import Edge, Edges


class Named:
    """A program of functions of 16 bytes."""

    def symbol(self, address: int) -> str:
        return f"f{address >> 4}" if address < 64 else ""

    def line(self, address: int) -> str:
        return f"six.c:{address}" if address % 3 else ""


stretches = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 60), st.integers(0, 20), st.integers(0, 100), st.integers(0, 4)),
    max_size=30,
)


@given(stretches)
def test_slices_nest_in_whatever_order_stretches_are_told(told: list[tuple[int, int, int, int, int]]) -> None:
    edges: list[Edge] = []
    slices = SliceEdges(Named(), edges.extend)
    for track, start, length, address, what in told:
        if what == 0:
            slices.apart(track, start, start + length, "unknown.damage", "gap")
        elif what == 1:
            slices.pause(track)
        elif slices.executes(track, start, start + length, address, what) and what == 2:
            slices.within(track, start, start + length, "stall.load", "stall", address)
    slices.close()
    assert check_nesting(edges) <= 2


@given(stretches)
def test_a_time_is_in_one_outer_slice_at_most(told: list[tuple[int, int, int, int, int]]) -> None:
    edges: list[Edge] = []
    slices = SliceEdges(Named(), edges.extend)
    for track, start, length, address, _ in told:
        slices.executes(track, start, start + length, address)
    slices.close()
    for track in (1, 2, 3):
        reached, wanted = 0, set[int]()
        for _, start, length, _, _ in (one for one in told if one[0] == track and one[2]):
            wanted |= set(range(max(start, reached), start + length))
            reached = max(reached, start + length)
        times = [edge.time for edge in edges if edge.track == track]
        covered = [time for start, end in zip(times[::2], times[1::2], strict=True) for time in range(start, end)]
        assert sorted(wanted) == covered


@pytest.mark.exhaustive  # only make test-all has Perfetto's reader
def test_a_function_is_one_slice_with_its_first_address_and_line() -> None:
    out = io.BytesIO()
    file = File(out)
    file.describe(1, "hart 0")
    slices = SliceEdges(Named(), file.put, LineClock(0.0, 0.1))
    for number, address in enumerate((1, 2, 3, 17, 3, 100)):
        slices.executes(1, number, number + 1, address, 7)
    slices.close()
    file.close()
    found, tracks = read_back(out.getvalue())
    assert tracks == {1: "hart 0"}
    assert [(one.name, one.start, one.end) for one in found] == [
        ("f0", 0, 30),
        ("f1", 30, 40),
        ("f0", 40, 50),
        ("0x00000000", 50, 60),
    ]
    assert found[0].notes == {"address": 1, "line": "six.c:1", "thread": 7}
    assert found[2].notes == {"address": 3, "thread": 7}
    assert file.slices == 4


def test_a_time_before_zero_is_refused() -> None:
    with pytest.raises(HeadwayError, match="Perfetto"):
        File(io.BytesIO()).put(block([Edge(1, -1)]))


def test_a_time_beyond_all_clocks_is_refused() -> None:
    slices = SliceEdges(Named(), lambda edges: None, LineClock(0.0, 1e-3))
    with pytest.raises(HeadwayError, match="too large"):
        slices.executes(1, (1 << 63) - 2, (1 << 63) - 1, 0)


def test_a_clock_that_stands_still_is_refused() -> None:
    with pytest.raises(ValueError, match="0"):
        LineClock(0.0, 0.0)


@given(stretches, st.lists(st.integers(0, 30)))
def test_edges_are_those_of_the_reports_one_by_one(told: list[tuple[int, int, int, int, int]], cuts: list[int]) -> None:
    edges: list[Edge] = []
    slices, plain = SliceEdges(Named(), edges.extend), Told(Named())
    for number, (track, start, length, address, what) in enumerate(told):
        track, end = track * 64, start + length  # these share a place among the tracks that were used last
        thread = None if address % 5 == 0 else what
        if what == 0:
            for one in (slices, plain):
                one.apart(track, start, end, "unknown.damage", "gap", None if address % 2 else address)
        elif what == 1:
            slices.pause(track)
            plain.pause(track)
        elif slices.executes(track, start, end, address, thread) | plain.executes(track, start, end, address, thread):
            for one in (slices, plain) if what == 2 else ():
                one.within(track, start, end, "stall.load", "stall", address)
        if number in cuts:
            slices.flush()
    slices.close()
    for track in plain.reached:
        plain.pause(track)
    assert edges == plain.edges
    assert slices.passed == plain.passed


def test_more_heads_than_a_list_holds_are_in_several() -> None:
    blocks, count = list[Edges](), (1 << 16) + 1000
    slices = SliceEdges(Named(), blocks.append)
    for number in range(count):
        slices.executes(1, number, number + 1, number << 8)
    slices.close()
    assert len({id(block.heads) for block in blocks}) == 2
    written = [edge for block in blocks for edge in block]
    assert [edge.address for edge in written if edge.name is not None] == [number << 8 for number in range(count)]


@pytest.mark.exhaustive  # only make test-all has Perfetto's reader
def test_a_file_knows_heads_by_their_list() -> None:
    """A list that follows another has other heads at the same places."""
    out = io.BytesIO()
    file = File(out)
    file.describe(1, "hart 0")
    for time, name in enumerate(("one", "two")):
        file.put(block([Edge(1, time, name, "function"), Edge(1, time + 1)]))
    file.close()
    found, _ = read_back(out.getvalue())
    assert [one.name for one in found] == ["one", "two"]
