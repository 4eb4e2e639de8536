"""Every packet is read as the architecture says; whatever the bytes, each of them ends up in exactly one packet."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_trace.etmv3 import Setting, atoms, packets
from headway_trace.packets import Isa, Packet, PacketKind, Reason, Says

from .encoding import ALIGNMENT, atom, branch, number, sync, timestamp

SETTING = Setting()
SETTINGS = st.builds(
    Setting,
    cycle_accurate=st.booleans(),
    context_bytes=st.sampled_from([0, 1, 2, 4]),
    timestamp_bits=st.sampled_from([48, 64]),
    alternative_branches=st.booleans(),
    data_values=st.booleans(),
    data_addresses=st.booleans(),
    virtual_machines=st.booleans(),
    deprecated_branches=st.booleans(),
)
BYTES = st.one_of(
    st.binary(max_size=300),
    st.lists(
        st.sampled_from(
            [b"\0", b"\x80", b"\x08", b"\x70", b"\x42", b"\x84", b"\xff", b"\x25", ALIGNMENT, sync(0x8000)]
        ),
        max_size=60,
    ).map(b"".join),
)


def read(data: bytes, setting: Setting = SETTING) -> list[Packet]:
    return list(packets([data], setting))


def only(data: bytes, setting: Setting = SETTING) -> Packet:
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


@given(BYTES)
def test_after_an_alignment_all_is_as_if_nothing_had_been_before(data: bytes) -> None:
    rest = ALIGNMENT + sync(0xC0008000) + branch(0xC0008124, size=2)
    found = read(data + b"\xff\x80" + rest)
    if found[-3].kind == PacketKind.ALIGNMENT:
        assert [packet.value for packet in found[-2:]] == [0xC0008000, 0xC0008124]


@pytest.mark.parametrize("zeros", [5, 6, 9, 40])
def test_an_alignment_may_have_more_zeros(zeros: int) -> None:
    found = read(bytes(zeros) + b"\x80")
    assert found[-1] == Packet(PacketKind.ALIGNMENT, zeros - 5, 6, 0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=30))
def test_atoms_come_back_with_their_cycles(wanted: list[tuple[bool, int]]) -> None:
    parser = SETTING.parser()
    found = parser.feed(b"".join(atom(*one) for one in wanted))
    rest = parser.finish()
    seen, waited = [], 0
    for _, executed, cycles in atoms(found, True) + atoms(rest, True):
        waited += cycles
        if executed is not None:
            seen.append((executed, waited))
            waited = 0
    assert seen == wanted


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (0xD8, [(True, 1)] * 6 + [(False, 1)]),
        (0x8A, [(False, 1), (True, 0)]),
        (0xFC, [(True, 8)]),
        (0xBC, [(None, 8)]),
        (0x92, [(True, 0)]),
        (0x96, [(False, 0)]),
    ],
)
def test_p_headers_that_count_cycles(header: int, wanted: list[tuple[bool | None, int]]) -> None:
    parser = SETTING.parser()
    parser.feed(bytes([header]))
    assert [one[1:] for one in atoms(parser.finish(), True)] == wanted


def test_p_headers_that_count_no_cycles() -> None:
    parser = replace(SETTING, cycle_accurate=False).parser()
    parser.feed(b"\xc8\x8a")
    assert [one[1] for one in atoms(parser.finish(), False)] == [True, True, False, False, True]


@pytest.mark.parametrize("cycle_accurate", [True, False])
def test_a_p_header_is_one_exactly_if_it_has_something_to_say(cycle_accurate: bool) -> None:
    for header in range(0x80, 0x100, 2):
        parser = replace(SETTING, cycle_accurate=cycle_accurate).parser()
        parser.feed(bytes([header]))
        found = parser.finish()
        assert (found[0].kind == PacketKind.ATOMS) == bool(
            atoms(found, cycle_accurate) or (header & 0xE3 == 0xA0 and cycle_accurate)
        )


@given(st.integers(0, 2**32 - 1), st.booleans(), st.none() | st.integers(0, 2**32 - 1), st.sampled_from(Reason))
def test_an_i_sync_is_decoded(address: int, thumb: bool, cycles: int | None, reason: Reason) -> None:
    address &= ~1 if thumb else ~3
    found = only(sync(address, thumb=thumb, cycles=cycles, reason=reason))
    assert (found.kind, found.value, found.reason) == (PacketKind.SYNC, address, reason)
    assert found.isa == (Isa.THUMB if thumb else Isa.ARM)
    assert found.cycles == (cycles or 0)
    assert bool(found.says & Says.COUNT) == (cycles is not None)


def test_an_i_sync_with_a_context_id_is_decoded() -> None:
    found = only(sync(0x8000, context=b"\x01\x02\x03\x04"), replace(SETTING, context_bytes=4))
    assert found.context == 0x04030201


def test_i_sync_amid_a_load_has_the_instruction_and_the_one_after_it() -> None:
    found = only(b"\x08\x89" + (0xC0008001).to_bytes(4, "little") + branch(0xC0008104, size=2))
    assert (found.before, found.value) == (0xC0008000, 0xC0008104)


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(1, 5))
def test_a_branch_replaces_the_low_bits(before: int, target: int, size: int) -> None:
    before, target = before * 2, target * 2
    found = read(sync(before) + branch(target, size=size))[-1]
    bits = (0, 7, 14, 21, 28, 32)[size]
    assert found.value == before >> bits << bits | target & (1 << bits) - 1
    assert found.bits == bits
    assert bool(found.says & Says.FULL) == (size == 5)


def test_a_branch_to_arm_code_changes_the_instruction_set() -> None:
    found = only(branch(0x8004, thumb=False))
    assert (found.value, found.isa) == (0x8004, Isa.ARM)


def test_an_exception_is_decoded_from_its_packets() -> None:
    found = only(branch(0xFFFF0018, thumb=False, exception=14, cancel=True))
    assert (found.value, found.context) == (0xFFFF0018, 14)
    assert found.says & Says.EXCEPTION
    assert found.says & Says.CANCEL


def test_the_alternative_encoding_has_exceptions_after_short_addresses() -> None:
    alternative = replace(SETTING, alternative_branches=True)
    found = only(b"\x85\x41\x1d", alternative)  # 000001 000010, ARM state: shifted by 2
    assert (found.value, found.context, found.bits) == (0b000001_000010 << 2, 14, 14)
    assert only(b"\x85\x01", alternative).context == 0


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(1, 9))
def test_a_timestamp_replaces_the_low_bits(before: int, time: int, size: int) -> None:
    found = read(timestamp(before) + timestamp(time, size))[-1]
    bits = 64 if size == 9 else 7 * size
    assert found.value == before >> bits << bits | time & (1 << bits) - 1


def test_small_packets_are_decoded_to_kind_and_value() -> None:
    data = b"\x04" + number(300) + b"\x6e\x07\x3c\x09\x0c\x66\x76\x7e"
    found = read(data, replace(SETTING, context_bytes=1))
    assert [(packet.kind, packet.value) for packet in found[:3]] == [
        (PacketKind.CYCLES, 300),
        (PacketKind.CONTEXT, 7),
        (PacketKind.MACHINE, 9),
    ]
    assert [packet.kind for packet in found[3:]] == [
        PacketKind.TRIGGER,
        PacketKind.IGNORE,
        PacketKind.RETURN,
        PacketKind.ENTRY,
    ]


def test_data_is_passed_over_only_where_it_is_traced() -> None:
    data = b"\x2e\x05\x01\x02\x03\x04"  # normal data, an address of one byte, a value of four
    assert only(data, replace(SETTING, data_values=True, data_addresses=True)).kind == PacketKind.DATA
    assert read(data)[0].kind == PacketKind.NOISE


@pytest.mark.parametrize("data", [b"\x10", b"\x6e\x01", b"\x80", b"\x08\x08\0\0\0\0", b"\x85" * 5, b"\x85" * 4 + b"\0"])
def test_what_cannot_be_a_packet_costs_one_byte(data: bytes) -> None:
    found = read(data + b"\x84" * 30)
    assert found[0] == found[0]._replace(kind=PacketKind.NOISE, size=1)
    assert found[1].offset == 1


def test_a_packet_that_the_stream_ends_in_is_said_to_be_cut_off() -> None:
    assert read(b"\x84" + sync(0x8000)[:3])[-1] == Packet(PacketKind.INCOMPLETE, 1, 3, 8, header=8)
