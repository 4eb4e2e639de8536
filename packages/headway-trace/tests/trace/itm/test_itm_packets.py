"""Packets of ITM and DWT are read back as they were written, and nothing of a stream is lost without being counted."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trace.itm import encoding as itm

from headway_trace.itm.packets import Parser
from headway_trace.packets import Packet, PacketKind

SEEDS = st.integers(0, 2**32)
CUTS = st.lists(st.integers(0, 10_000), max_size=6)


def packets(data: bytes, *cuts: int) -> list[Packet]:
    parser, found = Parser(), list[Packet]()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        found += parser.feed(data[start:end])
    return [*found, *parser.finish()]


@given(SEEDS, CUTS)
def test_what_was_written_is_all_packets_however_it_is_divided(seed: int, cuts: list[int]) -> None:
    data = itm.packets(random.Random(seed))
    found = packets(data, *cuts)
    assert {one.kind for one in found} & {PacketKind.NOISE, PacketKind.INCOMPLETE, PacketKind.HARDWARE} == set()
    assert b"".join(data[one.offset : one.offset + one.size] for one in found) == data


@given(st.binary(max_size=300), CUTS)
def test_any_bytes_decode_and_each_belongs_to_one_packet(data: bytes, cuts: list[int]) -> None:
    found = packets(data, *cuts)
    assert found == packets(data)
    assert sum(one.size for one in found) == len(data)


@given(SEEDS, st.integers(0, 10_000))
def test_a_lost_byte_never_hides_a_synchronisation(seed: int, at: int) -> None:
    data = itm.packets(random.Random(seed), 60) + itm.SYNC + itm.source(0, b"x")
    at %= len(data) - 8
    found = packets(data[:at] + data[at + 1 :])
    assert [one.kind for one in found[-2:]] == [PacketKind.ALIGNMENT, PacketKind.INSTRUMENTATION]


@pytest.mark.parametrize(
    ("data", "kind", "value", "context", "reason"),
    [
        (itm.source(31, b"\x01\x02"), PacketKind.INSTRUMENTATION, 0x201, 31, 0),
        (itm.exception(15, 2), PacketKind.RAISED, 0x200F, 15, 2),
        (itm.exception(0x1FF, 3), PacketKind.RAISED, 0x31FF, 0x1FF, 3),
        (itm.sample(0x08000100), PacketKind.SAMPLE, 0x08000100, 2, 0),
        (itm.sample(None), PacketKind.SAMPLE, 0, 2, 0),
        (itm.data_value(3, b"\x05", write=True), PacketKind.DATA, 5, 0x17, 0),
        (itm.counters(0x20), PacketKind.COUNTERS, 0x20, 0, 0),
        (itm.local(6), PacketKind.LOCAL, 6, 0, 0),
        (itm.local((1 << 28) - 1, 3), PacketKind.LOCAL, (1 << 28) - 1, 0, 3),
        (itm.global_low(0x3FFFFFF, wrap=True), PacketKind.TIMESTAMP, 0x3FFFFFF, 1, 1),
        (itm.global_high(0xFFFFFC000000), PacketKind.TIMESTAMP, 0x3FFFFF, 2, 0),
        (itm.OVERFLOW, PacketKind.LOST, 0x70, 0, 0),
        (b"\xf5\x01", PacketKind.HARDWARE, 1, 30, 0),
    ],
)
def test_each_kind_is_as_the_manual_has_it(data: bytes, kind: int, value: int, context: int, reason: int) -> None:
    found = packets(itm.SYNC + data + itm.SYNC)[1]
    assert (found.kind, found.value, found.context, found.reason) == (kind, value, context, reason)


@pytest.mark.parametrize("data", [b"\x04", b"\x80", b"\xc0\x80\x80\x80\x80", b"\x94\x80\x80\x80\x80"])
def test_what_the_manual_does_not_have_is_no_packet(data: bytes) -> None:
    assert packets(itm.SYNC + data + itm.SYNC)[1].kind == PacketKind.NOISE
