"""PTM packets are read as the architecture says; whatever the bytes, each of them ends up in exactly one packet."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_trace.packets import Isa, Packet, PacketKind, Reason, Says
from headway_trace.ptm import Setting, packets

from .encoding import ALIGNMENT
from .ptm import atom, atoms, branch, size_of, sync, timestamp, update

COUNTED = Setting()
PLAIN = Setting(cycle_accurate=False)
SETTINGS = st.builds(
    Setting,
    cycle_accurate=st.booleans(),
    context_bytes=st.sampled_from([0, 1, 2, 4]),
    timestamp_bits=st.sampled_from([48, 64]),
    gray_timestamps=st.booleans(),
    virtual_machines=st.booleans(),
)
BYTES = st.one_of(
    st.binary(max_size=300),
    st.lists(
        st.sampled_from(
            [b"\0", b"\x80", b"\x08", b"\x72", b"\x42", b"\x84", b"\xff", b"\x25", ALIGNMENT, sync(0x8000)]
        ),
        max_size=60,
    ).map(b"".join),
)


def read(data: bytes, setting: Setting = PLAIN) -> list[Packet]:
    return list(packets([data], setting))


def only(data: bytes, setting: Setting = PLAIN) -> Packet:
    found = read(data, setting)
    assert len(found) == 1
    assert found[0].size == len(data)
    return found[0]


@given(BYTES, SETTINGS)
def test_each_byte_is_in_exactly_one_packet(data: bytes, setting: Setting) -> None:
    found = read(data, setting)
    ends = [packet.offset + packet.size for packet in found]
    assert [packet.offset for packet in found] == [0, *ends][: len(found)]
    assert not data or ends[-1] == len(data)


@given(BYTES, SETTINGS, st.lists(st.integers(0, 300), max_size=8))
def test_how_the_input_is_divided_makes_no_difference(data: bytes, setting: Setting, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert list(packets((data[a:b] for a, b in pairwise(edges)), setting)) == read(data, setting)


@given(st.lists(st.booleans(), min_size=1, max_size=5))
def test_atoms_are_read_the_oldest_first(executed: list[bool]) -> None:
    found = only(atoms(executed))
    assert (found.kind, found.bits) == (PacketKind.ATOMS, len(executed))
    assert [not found.value >> at & 1 for at in range(found.bits)] == executed


@pytest.mark.parametrize("header", [0x82, 0x80])
def test_a_header_without_an_atom_is_none(header: int) -> None:
    assert read(b"\x84" + bytes([header]))[1].kind == PacketKind.NOISE


@given(st.booleans(), st.integers(0, 2**32 - 1))
def test_an_atom_has_its_cycles(executed: bool, cycles: int) -> None:
    found = only(atom(executed, cycles), COUNTED)
    assert (found.kind, found.bits, found.value, found.cycles) == (PacketKind.ATOMS, 1, not executed, cycles)


@given(
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.integers(0, 2**32 - 1),
    st.sampled_from(Reason),
    st.integers(0, 2**32 - 1),
)
def test_an_i_sync_is_decoded(address: int, thumb: bool, cycles: int, reason: Reason, context: int) -> None:
    address &= ~1 if thumb else ~3
    counted = cycles if reason else None
    data = sync(address, thumb=thumb, cycles=counted, reason=reason, context=context.to_bytes(4, "little"))
    found = only(data, replace(COUNTED, context_bytes=4))
    assert (found.kind, found.value, found.reason, found.context) == (PacketKind.SYNC, address, reason, context)
    assert (found.isa, found.cycles) == (Isa.THUMB if thumb else Isa.ARM, counted or 0)


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(1, 5), st.booleans())
def test_a_branch_replaces_the_low_bits(before: int, target: int, size: int, thumb: bool) -> None:
    shift = 1 if thumb else 2
    before, target = before << shift & 0xFFFFFFFF, target << shift & 0xFFFFFFFF
    found = read(sync(before, thumb=thumb) + branch(target, size=size, thumb=thumb))[-1]
    bits = (0, 6, 12, 19, 26, 32 - shift)[size] + shift
    assert found.value == before >> bits << bits | target & (1 << bits) - 1
    assert (found.bits, found.isa) == (bits, Isa.THUMB if thumb else Isa.ARM)
    assert bool(found.says & Says.FULL) == (size == 5)
    assert found.says & Says.BASED


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_the_shortest_address_is_enough(before: int, target: int) -> None:
    found = read(sync(before * 2) + branch(target * 2, size=size_of(before * 2, target * 2)))[-1]
    assert found.value == target * 2


@given(st.integers(2, 5), st.integers(1, 511), st.integers(0, 2**32 - 1))
def test_an_exception_is_decoded_after_an_address_of_any_size(size: int, number: int, cycles: int) -> None:
    found = only(branch(0x8004, size=size, exception=number, cycles=cycles), COUNTED)
    assert (found.context, found.cycles) == (number, cycles)
    assert found.says & Says.EXCEPTION


@given(st.integers(0, 2**31 - 1), st.integers(1, 5))
def test_a_waypoint_update_has_an_address(address: int, size: int) -> None:
    found = read(sync(0x8000) + update(address * 2, size=size))[-1]
    bits = (0, 7, 13, 20, 27, 32)[size]
    assert (found.kind, found.value) == (
        PacketKind.WAYPOINT,
        0x8000 >> bits << bits | address * 2 & (1 << bits) - 1 & 0xFFFFFFFF,
    )


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_a_timestamp_replaces_the_low_bits_and_has_a_count(before: int, time: int, size: int, cycles: int) -> None:
    found = read(timestamp(before, cycles=0) + timestamp(time, size, cycles=cycles), COUNTED)[-1]
    bits = 64 if size == 9 else 7 * size
    assert (found.value, found.cycles) == (before >> bits << bits | time & (1 << bits) - 1, cycles)


@given(st.integers(0, 2**64 - 1))
def test_a_timestamp_in_gray_code_is_decoded(time: int) -> None:
    found = only(timestamp(time ^ time >> 1), replace(PLAIN, gray_timestamps=True))
    assert found.value == time


def test_a_timestamp_of_48_bits_ends_with_six() -> None:
    found = only(b"\x42" + b"\xff" * 6 + b"\x3f", replace(PLAIN, timestamp_bits=48))
    assert found.value == (1 << 48) - 1


def test_small_packets_are_decoded_to_kind_and_value() -> None:
    found = read(b"\x6e\x07\x3c\x09\x0c\x66\x76", replace(PLAIN, context_bytes=1))
    assert [(packet.kind, packet.value) for packet in found[:2]] == [(PacketKind.CONTEXT, 7), (PacketKind.MACHINE, 9)]
    assert [packet.kind for packet in found[2:]] == [PacketKind.TRIGGER, PacketKind.IGNORE, PacketKind.RETURN]


@pytest.mark.parametrize("data", [b"\x10", b"\x6e\x01", b"\x70", b"\x08\0\0\0\0\0", b"\x85" * 4 + b"\x80", b"\x04"])
def test_what_cannot_be_a_packet_costs_one_byte(data: bytes) -> None:
    found = read(data + b"\x84" * 30)
    assert (found[0].kind, found[0].size) == (PacketKind.NOISE, 1)
    assert found[1].offset == 1


def test_after_lost_bytes_an_address_without_all_its_bits_is_not_based() -> None:
    parser = PLAIN.parser()
    parser.feed(sync(0x8000))
    parser.lost()
    found = [*parser.feed(branch(0x8124, size=2) + branch(0xC0008000)), *parser.finish()]
    assert [bool(packet.says & Says.BASED) for packet in found] == [False, True]


@pytest.mark.parametrize(
    ("registers", "setting"),
    [
        ((0x10001000, 0x411CF312, 0x34C01AC2), Setting()),
        (
            (0x20000400, 0x411CF312, 0x34C01AC2),
            Setting(cycle_accurate=False, return_stack=True),
        ),
        (
            (0x1000C100, 0x411CF301, 0x010008EA),
            Setting(False, 4, 48, True, False, True, False, True),
        ),
    ],
)
def test_the_setting_is_that_of_the_registers(registers: tuple[int, int, int], setting: Setting) -> None:
    assert Setting.from_registers(*registers) == setting
