"""Small damage to a trace is undone, large damage costs what it must, and neither is ever taken for the other."""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.effort import FEW
from tests.machine.examples import Shape
from tests.trace.threads.runs import Run, strayed, untrue
from tests.trace.threads.test_truth import traced

from headway_trace.threads._flow import ThreadDecoder
from headway_trace.threads._mending import LONGEST_BURST, WIDTH, mend, vouched_for
from headway_trace.threads.segments import Segment, Segments

if TYPE_CHECKING:
    from headway_trace.threads._flow import Row

HEAD = 63
"""Bytes of the head with which the stream ends, about: nothing comes after it by which it could be mended."""
VOUCHED = 256 + 46 + 6 * 13
"""Bytes from one check to the next: it waits for the end of a group, behind an I-sync of each thread at most."""
SYNC = b"\0\0\0\0\0\x80\x42"
SHAPES: list[Shape] = [(1, 6, "strict"), (1, 1, "strict"), (1, 6, "skip")]


def parity_of(data: bytes) -> bytes:
    columns = bytearray(WIDTH)
    for at, byte in enumerate(data):
        columns[at % WIDTH] ^= byte
    return bytes(columns)


def burst(data: bytes, kind: str, at: int, much: int, other: bytes) -> bytes:
    """Damage to at most LONGEST_BURST bytes in a row; ``much``: how many."""
    if kind == "drop":
        return data[:at] + data[at + much :]
    if kind == "zero":
        return data[:at] + bytes(len(data[at : at + much])) + data[at + much :]
    if kind == "garble":
        return data[:at] + other[: len(data[at : at + much])] + data[at + much :]
    if kind == "swap":
        half = much // 2
        return data[:at] + data[at + half : at + 2 * half] + data[at : at + half] + data[at + 2 * half :]
    if kind == "repeat":
        return data[:at] + data[max(at - much, 0) :]
    return data[:at] + other[:much] + data[at:]


KINDS = st.sampled_from(["drop", "zero", "garble", "swap", "repeat", "insert"])
MUCH = st.integers(1, LONGEST_BURST)
OTHER = st.binary(min_size=LONGEST_BURST, max_size=LONGEST_BURST)


@given(
    data=st.binary(min_size=100, max_size=600),
    before=st.binary(max_size=100),
    kind=KINDS,
    where=st.integers(0, 600),
    much=MUCH,
    other=OTHER,
)
def test_a_burst_is_undone_wherever_it_is(
    data: bytes, before: bytes, kind: str, where: int, much: int, other: bytes
) -> None:
    hit = burst(data, kind, where % len(data), much, other)
    found = mend(before + hit, zlib.crc32(data), len(data), parity_of(data))
    assert found is not None
    start, mended, bits = found
    assert mended == data
    assert 0 <= start <= len(before) + max(len(hit) - len(data), 0)
    assert (bits == 0) <= (before + hit)[start:].endswith(data)


@given(
    data=st.binary(min_size=100, max_size=600),
    places=st.lists(st.tuples(KINDS, st.integers(0, 600), MUCH, OTHER), min_size=2, max_size=4),
)
def test_other_damage_is_not_taken_for_a_burst(data: bytes, places: list[tuple[str, int, int, bytes]]) -> None:
    hit = data
    for kind, where, much, other in places:
        hit = burst(hit, kind, where % max(len(hit), 1), much, other)
    found = mend(hit, zlib.crc32(data), len(data), parity_of(data))
    assert found is None or found[1] == data


@given(
    data=st.binary(max_size=300),
    check=st.integers(0, 2**32 - 1),
    length=st.integers(0, 2**24 - 1),
    parity=st.binary(min_size=WIDTH, max_size=WIDTH),
    fill=st.booleans(),
)
def test_whatever_a_head_says_is_bearable(data: bytes, check: int, length: int, parity: bytes, fill: bool) -> None:
    if fill:
        length, parity = len(data) - length % 99, bytes(WIDTH)
    found = mend(data, check, max(length, 0), parity)
    assert found is None or zlib.crc32(found[1]) == check
    assert 0 <= vouched_for(data)[0] <= len(data)


def segments(data: bytes) -> list[Segment]:
    found = Segments()
    return [*found.feed(data), *found.finish()]


@cache
def rows_of(ran: int) -> list[Row]:
    return run_of(ran).decode(0)[0]


@cache
def run_of(number: int) -> Run:
    return traced("six-threads", SHAPES[number], 60_000, sync=512)


@given(where=st.integers(0, 1 << 20), bit=st.integers(0, 7), number=st.integers(0, len(SHAPES) - 1))
@settings(max_examples=300, deadline=None)
def test_no_single_bit_matters(where: int, bit: int, number: int) -> None:
    stream = bytearray(run_of(number).streams[0])
    # The very last head has none after it that it could be mended by.
    stream[where % stream.rindex(SYNC)] ^= 1 << bit
    assert run_of(number).decode(0, bytes(stream))[0] == rows_of(number)
    if where % len(stream) < len(stream) - HEAD:
        assert sum(segment.mended for segment in segments(bytes(stream))) == 1


@given(
    kind=KINDS,
    where=st.integers(0, 1 << 20),
    much=MUCH,
    other=OTHER,
    number=st.integers(0, len(SHAPES) - 1),
    cuts=st.lists(st.integers(0, 1 << 20), max_size=5),
)
@settings(max_examples=300, deadline=None)
def test_a_frame_costs_nothing(kind: str, where: int, much: int, other: bytes, number: int, cuts: list[int]) -> None:
    stream = run_of(number).streams[0]
    at = where % (len(stream) - 2 * HEAD - LONGEST_BURST)
    hit = burst(stream, kind, at, much, other)
    assert run_of(number).decode(0, hit, cuts)[0] == rows_of(number)
    if len(hit) != len(stream):
        assert sum(segment.end - segment.offset for segment in segments(hit)) == len(hit)


@given(
    kind=st.sampled_from(["drop", "zero"]),
    where=st.integers(0, 1 << 20),
    much=st.integers(LONGEST_BURST + 1, 1500),
    number=st.integers(0, len(SHAPES) - 1),
)
@settings(max_examples=4 if FEW else 60, deadline=None)
def test_larger_damage_costs_no_more_than_from_the_check_before_it_to_the_head_after_it(
    kind: str, where: int, much: int, number: int
) -> None:
    ran = run_of(number)
    stream = ran.streams[0]
    at = where % len(stream)
    hit = burst(stream, kind, at, much, b"")
    assume(hit != stream)
    decoder = ran.decoder()
    found = Segments()
    *known, last = [*found.feed(hit), *found.finish()]
    for segment in known:
        decoder.feed(segment)
    decoder.finish(last)
    rows = decoder.take()
    end = at + (0 if kind == "drop" else much)
    heads = [segment.offset for segment in known if segment.whole and segment.offset >= end]
    # Each thread's I-sync comes with its first turn after the head, behind groups of others.
    resumed = heads[0] + 600 if heads else len(hit)
    seen = set[int]()
    for place in range(len(rows)):
        thread, what, span = rows[place][0], rows[place][5], rows.span(place)
        if span is None:
            seen.add(thread)
        elif what in (35, 39):
            assert span[0] >= at - VOUCHED or thread not in seen
            assert span[1] <= resumed or thread not in seen
    found_rows = [rows[place] for place in range(len(rows))]
    for hart, stretches in ran.stretches(0, found_rows).items():
        assert untrue(stretches, ran.log[hart]) == []
        assert strayed(found_rows, hart, ran.log[hart]) == []
    # And before and after nothing is missing.
    whole = sum(segment.end - segment.offset for segment in known if segment.whole)
    assert whole >= len(hit) - (end - at) - VOUCHED - 2 * (512 + 100) - 2 * HEAD


def head(segment: bytes, number: int) -> bytes:
    """What follows a segment."""
    told = zlib.crc32(segment).to_bytes(4, "little") + len(segment).to_bytes(3, "little") + parity_of(segment)
    mask = next(mask for mask in range(1, 256) if mask not in told)
    clock = b"\0\0\x90\x80\x08\0"
    return SYNC + bytes([mask, *(byte ^ mask for byte in told)]) + number.to_bytes(2, "little") + clock


# As many as heads are waited for; the head before them ends with a zero.
LOOKS = st.lists(st.sampled_from([SYNC, b"\0", b"\x80", b"\x42", bytes(60)])).filter(
    lambda one: b"".join((b"\0", *one)).count(SYNC) <= 2
)


@given(bodies=st.lists(LOOKS, min_size=1, max_size=5))
def test_what_looks_like_a_head_is_none_within_a_segment(bodies: list[list[bytes]]) -> None:
    stream, segment = b"", b""
    for number, body in enumerate(bodies):
        start = len(stream)
        stream += head(segment, number) + b"".join(body)
        segment = stream[start:]
    found = [one for one in segments(stream + head(segment, len(bodies))) if one.whole]
    assert [one.number for one in found] == list(range(len(bodies)))
    assert b"".join(one.data for one in found) == stream
    assert not any(one.mended for one in found)


@pytest.mark.parametrize("name", ["six-threads", "mix", "sleepers", "interrupt-storm"])
def test_a_segment_is_found_where_it_is(name: str) -> None:
    stream = traced(name, (1, 6, "skip")).streams[0]
    found = segments(stream)
    assert b"".join(segment.data for segment in found) == stream
    assert [segment.number for segment in found] == list(range(len(found)))
    assert [segment.whole for segment in found] == [True] * (len(found) - 1) + [False]
    assert [stream[segment.offset : segment.end] for segment in found] == [segment.data for segment in found]
    assert not any(segment.mended or segment.cut for segment in found)
    vouched = [vouched_for(segment.data) for segment in found]
    assert all(right for _, right in vouched)
    assert all(len(segment.data) - part < VOUCHED for segment, (part, _) in zip(found[:-2], vouched, strict=False))


def test_a_clock_that_never_runs_is_none() -> None:
    """It has no tick for a cycle; only who makes a trace himself can say so, as all checks are right."""
    first = head(b"", 0)
    stopped = first[: first.rindex(b"\x80\x08\0")] + b"\0\0"
    for stream, told in ((first, 1), (stopped, 0)):
        decoder = ThreadDecoder((), threads=1, strict=True, cycle_accurate=True)
        for segment in segments(stream + head(stream, 1)):
            decoder.feed(segment)
        assert len(decoder.changes_of_clock()) >= told
        assert all(running for _, _, _, running, _ in decoder.changes_of_clock())


@pytest.mark.parametrize("packet", [b"\x04\x08\x01", b"\x44\x08\x01\x01\x01"])
def test_a_stall_of_no_reason_there_is_is_not_believed(packet: bytes) -> None:
    """Nor printed: code 8 is no state."""
    place = b"\x08\x80" + b"\x80" + bytes(4) + b"\x01\0\0\x80"
    for stall, known in ((b"\x04\x09\x01", True), (packet, False)):
        first = head(b"", 0) + place + stall
        decoder = ThreadDecoder([(0x80000000, bytes(64))], threads=1, strict=True, cycle_accurate=True, stalls=True)
        for segment in segments(first + head(first, 1)):
            decoder.feed(segment)
        rows = decoder.take()
        states = [rows[place][5] for place in range(len(rows))]
        assert 8 not in states
        assert (9 in states) == known
