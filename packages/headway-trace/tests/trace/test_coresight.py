"""Frames of several sources are taken apart by trace ID, however the buffer was divided."""

from __future__ import annotations

from array import array
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headway_trace._coresight import Deformatter
from headway_trace.decode import StreamPlaces

from .encoding import frames

PIECES = st.lists(st.tuples(st.integers(1, 0x6F), st.binary(min_size=1, max_size=40)), min_size=1, max_size=20)


def taken_apart(data: bytes, *cuts: int) -> dict[int, bytes]:
    deformatter, found = Deformatter(), dict[int, bytes]()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        for stream, piece, _ in deformatter.feed(data[start:end]):
            found[stream] = found.get(stream, b"") + piece
    return found


@given(PIECES)
def test_every_stream_gets_back_what_it_wrote(pieces: list[tuple[int, bytes]]) -> None:
    wrote = dict[int, bytes]()
    for stream, data in pieces:
        wrote[stream] = wrote.get(stream, b"") + data
    found = taken_apart(frames(pieces))
    found.pop(0, None)
    if any(any(data[at : at + 15] == bytes(15) for at in range(len(data))) for data in wrote.values()):
        return  # a whole frame of zeros is taken for a loss
    assert found == wrote


@given(st.binary(max_size=200), st.lists(st.integers(0, 1000), max_size=5))
def test_how_the_input_is_divided_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    assert taken_apart(data, *cuts) == taken_apart(data)


def test_before_the_first_id_nobody_owns_a_byte() -> None:
    deformatter = Deformatter()
    assert deformatter.feed(bytes([2] * 15 + [0])) == []
    assert deformatter.unassigned == 15


def test_a_frame_of_zeros_cuts_the_stream_that_was_being_written() -> None:
    data = frames([(5, bytes(range(2, 30, 2)))]) + bytes(16) + bytes([8] * 15 + [0]) + frames([(6, b"\x02" * 14)])
    pieces = [(stream, bytes(piece)) for stream, piece, _ in Deformatter().feed(data)]
    assert pieces == [(5, bytes(range(2, 30, 2))), (5, b""), (5, b"\x08" * 15), (6, b"\x02" * 14)]


def test_bytes_are_found_again_in_the_buffer() -> None:
    data = frames([(5, b"\x02" * 100), (6, b"\x04" * 100), (5, b"\x06" * 100)])
    places = StreamPlaces()
    for stream, _, pairs in Deformatter().feed(data):
        if stream == 5:
            places.add(pairs)
    start, end = places.span(100, 101)  # the first of the second piece
    assert data[start : end + 16].find(6) >= 0
    assert places.span(0, 1) == (0, 16)


@given(PIECES, st.integers(1, 0x6F), st.integers(1, 99))
def test_one_stream_alone_is_what_it_is_among_all(wrote: list[tuple[int, bytes]], only: int, step: int) -> None:
    data, only = frames(wrote), wrote[only % len(wrote)][0]
    everything, alone = Deformatter(), Deformatter(only)
    found, wanted = list[object](), list[object]()
    for at in range(0, len(data), step):
        wanted += [piece for piece in everything.feed(data[at : at + step]) if piece[0] == only]
        found += alone.feed(data[at : at + step])
    assert found == wanted
    assert alone.sizes == everything.sizes
    assert alone.first == everything.first


@given(st.lists(st.integers(1, 50), min_size=1, max_size=300))
def test_places_of_a_long_trace_stay_right_and_few(steps: list[int]) -> None:
    places, pairs, offset = StreamPlaces(16), list[tuple[int, int]](), 0
    for frame, step in enumerate(steps):
        pairs.append((offset, frame * 16))
        places.add(array("Q", pairs[-1]))
        offset += step
    assert len(places) <= 17
    for start, position in pairs:
        first, last = places.span(start, start + 1)
        assert first <= position <= last
