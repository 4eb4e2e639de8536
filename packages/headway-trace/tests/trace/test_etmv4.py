"""ETMv4 and ETE: packets are read as the architecture says, and what programs executed is what is decoded."""

from __future__ import annotations

import random
from itertools import pairwise, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway_trace.etmv4 import Setting, packets
from headway_trace.packets import Packet, PacketKind
from headway_trace.records import Exception_, Gap, Instruction, Record, Timestamp, Why

from .etmv4 import (
    BASE,
    MISPREDICT,
    ON,
    START,
    Program,
    atoms,
    cancel,
    commit,
    context,
    exception,
    long_address,
    program,
    run,
    short_address,
    timestamp,
)
from .test_flow import SEEDS, mutated

PLAIN = Setting(version=0x42)
SETTINGS = st.builds(
    Setting,
    version=st.sampled_from([0x40, 0x42, 0x46, 0x50, 0x53]),
    cycle_accurate=st.booleans(),
    machine_bytes=st.sampled_from([0, 1, 2, 4]),
    thread_bytes=st.sampled_from([0, 4]),
    conditions=st.booleans(),
    quotas=st.booleans(),
    data=st.booleans(),
    deepest=st.sampled_from([0, 6, 15, 255]),
    commits=st.booleans(),
    return_stack=st.booleans(),
)
RUNS = st.builds(Setting, version=st.just(0x42), deepest=st.sampled_from([0, 6, 30]), return_stack=st.booleans())
BYTES = st.one_of(
    st.binary(max_size=300),
    st.lists(
        st.sampled_from(
            [b"\0", b"\x80", b"\x81", b"\x06", b"\x02", b"\xf7", b"\xa5", b"\x00\x05", START, long_address(BASE)]
        ),
        max_size=60,
    ).map(b"".join),
)
NOP = b"\x1f\x20\x03\xd5"
RET = b"\xc0\x03\x5f\xd6"
HERE = START + ON + context() + long_address(BASE)


def read(data: bytes, setting: Setting = PLAIN) -> list[Packet]:
    return list(packets([data], setting))


def only(data: bytes, setting: Setting = PLAIN) -> Packet:
    found = read(data, setting)
    assert len(found) == 1
    assert found[0].size == len(data)
    return found[0]


def decode(
    code: Program, trace: bytes, *cuts: int, setting: Setting = PLAIN, lost: bool = False, assumes: bool = False
) -> list[Record]:
    parser, flow = setting.parser(), setting.flow(code.table(), assumes=assumes)
    found: list[Record] = []
    edges = [0, *sorted(cut % (len(trace) + 1) for cut in cuts), len(trace)]
    for start, end in pairwise(edges):
        found += flow.feed(parser.feed(trace[start:end]))
        while flow.waiting:
            found += flow.more()
        if lost and end < len(trace):
            found += flow.feed(parser.lost())
            flow.lost(end)
    found += flow.feed(parser.finish())
    while flow.waiting:
        found += flow.more()
    found += flow.finish()
    return found


def words(*pieces: bytes) -> Program:
    return Program([], [], b"".join(pieces))


def addresses(found: list[Record]) -> list[int]:
    return [one.address - BASE for one in found if isinstance(one, Instruction)]


def whys(found: list[Record]) -> list[Why]:
    return [one.why for one in found if isinstance(one, Gap)]


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


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (0xF7, "E"), (0xF6, "N"), (0xDA, "NE"), (0xF9, "ENN"), (0xDC, "NEEE"), (0xDD, "NNNN"), (0xDE, "NENE"),
        (0xDF, "ENEN"), (0xF5, "NEEEE"), (0xD5, "NNNNN"), (0xD6, "NENEN"), (0xD7, "ENENE"), (0xC0, "EEEE"),
        (0xE0, "EEEN"), (0xD4, "E" * 24), (0xF4, "E" * 23 + "N"),
    ],
)  # fmt: skip
def test_atoms_are_read_the_oldest_first(header: int, wanted: str) -> None:
    found = only(bytes([header]))
    assert "".join("N" if found.value >> at & 1 else "E" for at in range(found.bits)) == wanted


@given(st.integers(0, 2**62 - 1), st.integers(0, 2**62 - 1), st.booleans())
def test_addresses_replace_the_low_bits_and_the_last_three_are_kept(first: int, second: int, short: bool) -> None:
    first, second = first * 4, second * 4
    data = START + long_address(first) + (short_address(second) if short else long_address(second, wide=False))
    found = read(data + b"\x91\x90\x92")[2:]
    bits = 17 if short else 32
    merged = first >> bits << bits | second & (1 << bits) - 1
    assert [packet.value for packet in found] == [first, merged, first, first, merged]


def test_a_context_and_an_address_with_one_are_read_to_their_end() -> None:
    setting = Setting(version=0x42, machine_bytes=2, thread_bytes=4)
    data = b"\x85" + long_address(BASE)[1:] + b"\xd1" + b"\x01\x02" + b"\x04\x03\x02\x01"
    found = only(data, setting)
    assert (found.kind, found.value, found.context) == (PacketKind.ADDRESS, BASE, 0x01020304)
    assert only(b"\x81\xd1\x01\x02\x04\x03\x02\x01", setting).context == 0x01020304


@given(st.integers(0, 2**64 - 1))
def test_a_timestamp_is_decoded(time: int) -> None:
    assert only(timestamp(time)).value == time


@pytest.mark.parametrize("data", [b"\x05", b"\x09", b"\x20", b"\x40", b"\x84", b"\xa5", b"\xb4", b"\x00\x07"])
def test_what_the_unit_cannot_send_is_noise(data: bytes) -> None:
    assert read(data)[0].kind == PacketKind.NOISE


@pytest.mark.parametrize("wrong", [b"\x00\x00\x13", bytes(5) + b"\x80", bytes(11) + b"\x81", bytes(40) + b"\xf7"])
def test_a_byte_that_no_a_sync_has_is_noise_with_the_zeros_before_it(wrong: bytes) -> None:
    found = read(wrong + b"\xf7")
    assert [(one.kind, one.size) for one in found] == [(PacketKind.NOISE, len(wrong)), (PacketKind.ATOMS, 1)]


def test_overflow_and_discard_are_two_bytes() -> None:
    assert [(one.kind, one.size) for one in read(b"\x00\x05\x00\x03")] == [
        (PacketKind.LOST, 2),
        (PacketKind.DISCARD, 2),
    ]


@settings(max_examples=300, deadline=None)
@given(SEEDS, RUNS)
def test_what_was_executed_is_decoded(seed: int, setting: Setting) -> None:
    draw = random.Random(seed)
    code = program(draw)
    done = run(code, draw, setting)
    found = decode(code, bytes(done.trace), setting=setting)
    assert [(one.address, one.executed) for one in found if isinstance(one, Instruction)] == done.executed
    assert [one.number for one in found if isinstance(one, Exception_)] == done.exceptions
    assert [one.time for one in found if isinstance(one, Timestamp)] == done.times
    assert set(whys(found)) <= {Why.UNSYNCHRONISED, Why.OFF}
    assert decode(code, bytes(done.trace), setting=setting, assumes=True) == found  # nothing has to be assumed


@settings(max_examples=50, deadline=None)
@given(SEEDS, RUNS, st.lists(st.integers(0, 10_000), max_size=6))
def test_how_the_stream_is_divided_makes_no_difference(seed: int, setting: Setting, cuts: list[int]) -> None:
    draw = random.Random(seed)
    code = program(draw)
    trace = mutated(draw, bytes(run(code, draw, setting, 100).trace))
    assert decode(code, trace, *cuts, setting=setting) == decode(code, trace, setting=setting)


@settings(max_examples=500, deadline=None)
@given(SEEDS, SETTINGS)
def test_whatever_happens_to_a_stream_it_decodes_into_instructions_of_the_program(seed: int, setting: Setting) -> None:
    draw = random.Random(seed)
    code = program(draw, 30)
    trace = mutated(draw, bytes(run(code, draw, setting, 40).trace))
    lost, assumes = draw.random() < 0.3, draw.random() < 0.3
    found = decode(code, trace, draw.randrange(1000), setting=setting, lost=lost, assumes=assumes)
    for one in found:
        assert 0 <= one.index <= len(trace) if not isinstance(one, Gap) else 0 <= one.start <= one.end <= len(trace)
        if isinstance(one, Instruction):
            assert code.read(one.address, one.size)
            assert assumes or not one.assumed


@settings(max_examples=300, deadline=None)
@given(SEEDS, RUNS)
def test_what_another_program_contradicts_is_followed_and_marked(seed: int, setting: Setting) -> None:
    """One instruction of the dump is not that which ran: as with a kernel that changed its code when it started."""
    draw = random.Random(seed)
    ran = program(draw)
    done = run(ran, draw, setting)
    at = draw.randrange(len(ran.kinds)) * 4
    dump = words(ran.image[:at], draw.choice((NOP, RET, b"\xfe\xff\xff\x17", b"\x40\x00\x00\x54")), ran.image[at + 4 :])
    exact, followed = (decode(dump, bytes(done.trace), setting=setting, assumes=one) for one in (False, True))
    lost = {Why.CONTRADICTION, Why.IMAGE}
    before = list(takewhile(lambda one: not (isinstance(one, Gap) and one.why in lost), exact))
    if len(before) == len(exact):
        assert followed == exact
    start = [(one.address, one.executed) for one in before if isinstance(one, Instruction)]
    came = [(one.address, one.executed) for one in followed if isinstance(one, Instruction)]
    assert came[: len(start)] == start
    assert [one.time for one in followed if isinstance(one, Timestamp)] == done.times
    assert not any(one.assumed for one in exact if isinstance(one, Instruction))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), SETTINGS)
def test_any_bytes_decode(data: bytes, setting: Setting) -> None:
    code = words(NOP * 40, RET, NOP * 20)
    decode(code, data, setting=setting)
    decode(code, HERE + data, setting=setting)


@settings(max_examples=100, deadline=None)
@given(SEEDS, RUNS)
def test_a_flipped_bit_costs_no_more_than_the_way_to_the_next_trace_info(seed: int, setting: Setting) -> None:
    draw = random.Random(seed)
    code = program(draw)
    done, tail = run(code, draw, setting), run(code, draw, setting, 50)
    trace = bytearray(done.trace)
    trace[draw.randrange(len(trace))] ^= 1 << draw.randrange(8)
    found = decode(code, bytes(trace + b"\x70" * 40 + b"\x00\x03" + tail.trace), setting=setting)
    decoded = [(one.address, one.executed) for one in found if isinstance(one, Instruction)]
    assert decoded[-len(tail.executed) :] == tail.executed


def test_an_exception_returns_to_what_comes_after_all_that_was_executed() -> None:
    code = words(NOP * 8)
    found = decode(code, HERE + exception(14, BASE + 12) + long_address(BASE + 24) + exception(1, BASE + 28))
    assert addresses(found) == [0, 4, 8, 24]
    assert [(one.number, one.address) for one in found if isinstance(one, Exception_)] == [(14, BASE + 24), (1, None)]


def test_what_is_cancelled_was_not_executed_and_a_mispredict_turns_an_atom_round() -> None:
    branch = (0x54000000 | 4 << 5).to_bytes(4, "little")  # b.eq to the fourth after it
    code = words(NOP, branch, NOP, RET, NOP, RET, NOP)
    speculative = Setting(version=0x42, deepest=8)
    trace = HERE + atoms([False, True]) + long_address(BASE) + cancel(1) + MISPREDICT
    found = decode(code, trace + atoms([True]) + commit(2) + long_address(BASE) + commit(0), setting=speculative)
    assert addresses(found) == [0, 4, 20]
    assert whys(found) == [Why.UNSYNCHRONISED]


def test_a_lost_place_is_found_by_the_atoms_before_the_next_address() -> None:
    """A loop of ten branches, b.eq out of it, and b back. One atom says that it was left too soon, without an address.

    A turn has so many branches without a condition that after one the place is certain.
    """
    code = words((b"\x02\x00\x00\x14" + NOP) * 10, b"\x40\x00\x00\x54", b"\xeb\xff\xff\x17", RET)
    turn, out = [*range(0, 80, 8), 80, 84], [*range(0, 80, 8), 80, 88]
    right, left = (atoms([True] * 3) * 3 + atoms([True, one]) + atoms([True]) for one in (False, True))
    end = left + long_address(BASE)
    found = addresses(decode(code, HERE + right * 40 + left + right * 20 + end + atoms([True])))
    assert found[: 41 * 12] == turn * 40 + out
    assert found[-18 * 12 - 13 :] == [*turn * 18, *out, 0]
    assert len(found) < 62 * 12
    another = decode(code, HERE + (right * 3 + left) * 40 + end)  # so many contradictions are no damage
    assert len(addresses(another)) < 50 * 12
    few = words(b"\x60\x00\x00\x54", NOP, b"\xfe\xff\xff\x17", RET)  # a loop of b.eq, nop, b: it fits too easily
    right, left = atoms([False, True]), atoms([True, True])
    found = addresses(decode(few, HERE + right * 40 + left + right * 20 + left + long_address(BASE) + atoms([False])))
    assert found == [*[0, 4, 8] * 40, 0, 12, 0]


CALLS = [0, 8, 24, 16, 0, 16, 8, 24]


def called(starts: list[int]) -> list[bytes]:
    """An instruction and a return, of each of some functions: the atom of the return, and where the next begins."""
    return [atoms([True]) + long_address(BASE + start, wide=False) for start in starts]


def test_addresses_without_a_context_are_tried_after_damage() -> None:
    """Neither a context nor an address with all its bits comes again: both are those from before the damage."""
    code, pieces = words((NOP + RET) * 4), called(CALLS * 2)
    found = decode(code, HERE + b"".join([*pieces[:4], b"\x84", *pieces[4:]]) + atoms([True]))
    assert addresses(found) == [at for start in [0, *CALLS[:3], *CALLS[4:], *CALLS] for at in (start, start + 4)]
    assert whys(found) == [Why.UNSYNCHRONISED, Why.DAMAGE]
    # The bits above those of the address are wrong, or the place: its return cannot be one that is not executed.
    elsewhere = long_address(BASE + (1 << 20), wide=False) + atoms([True])
    for wrong in (elsewhere, long_address(BASE, wide=False) + atoms([True]) + long_address(BASE) + atoms([False])):
        found = decode(code, HERE + atoms([True]) + long_address(BASE + 8) + b"\x84" + wrong)
        assert addresses(found) == [0, 4]
    few = HERE + atoms([True]) + long_address(BASE + 8) + b"\x84" + b"".join(called([0, 8]))
    assert addresses(decode(code, few)) == [0, 4]  # too few atoms are no evidence


def test_no_thread_is_shown_after_damage_before_the_next_context() -> None:
    code, pieces = words((NOP + RET) * 4), called(CALLS * 2)
    setting = Setting(version=0x42, thread_bytes=4, threads=True)
    start = START + ON + context(thread=7) + long_address(BASE)
    damaged = start + b"".join([*pieces[:4], b"\x84", *pieces[4:]])
    found = decode(code, damaged + context(thread=9) + long_address(BASE + 16) + atoms([True]), setting=setting)
    shown = [(one.thread, one.address - BASE) for one in found if isinstance(one, Instruction)]
    before, after = [0, *CALLS[:3]], [*CALLS[4:], *CALLS]
    assert shown == [
        *((7, at) for one in before for at in (one, one + 4)),
        *((None, at) for one in after[:-1] for at in (one, one + 4)), (9, 16), (9, 20),
    ]  # fmt: skip


def test_an_address_where_no_processor_can_execute_is_not_what_others_are_completed_from() -> None:
    """A wrong bit in a header makes a packet of 9 bytes of one of 5, and of the 4 bytes behind it."""
    code, pieces = words((NOP + RET) * 4), called(CALLS * 2)
    wrong = bytearray(b"".join(pieces[4:]))
    assert wrong[1] == 0x9A
    wrong[1] = 0x9D
    found = decode(code, HERE + b"".join(pieces[:4]) + bytes(wrong) + atoms([True]))
    right = [at for start in [0, *CALLS * 2] for at in (start, start + 4)]
    assert len(addresses(found)) >= len(right) - 8
    assert addresses(found)[-16:] == right[-16:]


def test_a_commit_of_more_than_there_is_is_a_contradiction() -> None:
    trace = HERE + atoms([True]) + long_address(BASE) + commit(3) + atoms([True]) + commit(1)
    found = decode(words(NOP, RET), trace, setting=Setting(version=0x42, deepest=8))
    assert addresses(found) == [0, 4]
    assert whys(found) == [Why.UNSYNCHRONISED, Why.CONTRADICTION]


def test_a_branch_that_was_not_executed_is_passed_by_and_what_follows_is_assumed() -> None:
    """The dump has a return where the program that ran had another instruction with a condition."""
    code = words(NOP, RET, NOP, RET, NOP, RET)
    trace = HERE + atoms([False, True]) + long_address(BASE + 16) + atoms([True])
    found = decode(code, trace, assumes=True)
    shown = [(one.address - BASE, one.executed, one.state) for one in found if isinstance(one, Instruction)]
    assert shown == [
        (0, True, "assumed"), (4, False, "assumed"), (8, True, "assumed"), (12, True, "assumed"),
        (16, True, "executed"), (20, True, "executed"),
    ]  # fmt: skip
    assert whys(found) == [Why.UNSYNCHRONISED]
    assert addresses(decode(code, trace)) == [16, 20]


def test_an_address_where_the_program_has_no_branch_is_gone_on_from_and_loses_no_time() -> None:
    counted = Setting(version=0x42, cycle_accurate=True)
    trace = START[:-1] + b"\x09\x01\x04" + ON + context() + long_address(BASE)
    branch = (0x54000000 | 2 << 5).to_bytes(4, "little")
    trace += atoms([False]) + b"\x11" + long_address(BASE + 12) + atoms([True]) + b"\x12"
    code = words(branch, NOP, NOP, branch, NOP, NOP, NOP)
    found = [one for one in decode(code, trace, setting=counted, assumes=True) if isinstance(one, Instruction)]
    assert [(one.address - BASE, one.epoch, one.cycle, one.assumed) for one in found] == [
        (0, 0, 5, False), (12, 0, 11, False),
    ]  # fmt: skip
    assert [one.epoch for one in decode(code, trace, setting=counted) if isinstance(one, Instruction)] == [0, 1]


def test_a_return_after_code_that_is_not_there_is_assumed_to_go_where_the_last_call_returns() -> None:
    """A call, code outside the image, an address behind it, and a return without an address."""
    stack = Setting(version=0x42, return_stack=True)
    call = (0x94000000 | 3).to_bytes(4, "little")  # of the third after it
    outside = (0x14000000 | 0x1000).to_bytes(4, "little")
    code = words(call, NOP, RET, outside, NOP, RET)
    trace = HERE + atoms([True, True, True]) + long_address(BASE + 16) + atoms([True, True]) + long_address(BASE + 16)
    trace += atoms([True])
    found = decode(code, trace + long_address(BASE), setting=stack, assumes=True)
    shown = [(one.address - BASE, one.assumed) for one in found if isinstance(one, Instruction)]
    assert shown[:6] == [(0, False), (12, False), (16, False), (20, False), (4, True), (8, True)]
    assert Why.IMAGE in whys(found)
    assert not any(one.assumed for one in decode(code, trace, setting=stack) if isinstance(one, Instruction))


def test_a_return_to_a_call_before_what_was_assumed_is_assumed() -> None:
    stack = Setting(version=0x42, return_stack=True)
    call, away = (0x94000000 | 3).to_bytes(4, "little"), (0xD61F0000).to_bytes(4, "little")
    code = words(call, NOP, RET, RET, away, NOP, NOP, RET, NOP)
    trace = HERE + atoms([True, False, True]) + long_address(BASE + 24) + atoms([True, True]) + long_address(BASE + 32)
    found = decode(code, trace, setting=stack, assumes=True)
    assert [(one.address - BASE, one.assumed) for one in found if isinstance(one, Instruction)] == [
        (0, False), (12, True), (16, True), (24, False), (28, False), (4, True), (8, True),
    ]  # fmt: skip


def test_an_address_of_the_trace_ends_what_is_assumed_where_it_is_the_place_too() -> None:
    trace = HERE + atoms([False]) + long_address(BASE + 8) + atoms([True]) + long_address(BASE + 16) + atoms([True])
    found = decode(words((NOP + RET) * 3), trace, assumes=True)
    assert [(one.address - BASE, one.assumed) for one in found if isinstance(one, Instruction)] == [
        (0, True), (4, True), (8, False), (12, False), (16, False), (20, False),
    ]  # fmt: skip


def test_an_exception_without_an_address_is_assumed_to_go_on_where_it_returns() -> None:
    trace = HERE + exception(14, BASE + 4) + atoms([True])
    found = decode(words(NOP, NOP, RET), trace, assumes=True)
    assert [(one.address - BASE, one.assumed) for one in found if isinstance(one, Instruction)] == [
        (0, False), (4, True), (8, True),
    ]  # fmt: skip
    assert addresses(decode(words(NOP, NOP, RET), trace)) == [0]


def test_an_overflow_is_a_gap_until_the_next_context_and_address() -> None:
    code = words(NOP, RET, NOP, RET)
    trace = HERE + atoms([True]) + b"\x00\x05" + START + ON + context() + long_address(BASE + 8) + atoms([True])
    found = decode(code, trace)
    assert addresses(found) == [0, 4, 8, 12]
    assert whys(found)[1] == Why.OVERFLOW


def test_a_source_address_tells_that_branches_before_it_were_not_taken() -> None:
    branch = (0x54000000 | 6 << 5).to_bytes(4, "little")
    code = words(NOP, branch, NOP, RET, NOP)
    trace = HERE + b"\xb4" + bytes([BASE + 12 >> 2 & 0x7F]) + long_address(BASE)
    found = decode(code, trace + exception(1, BASE + 4), setting=Setting(version=0x50))
    assert [(one.address - BASE, one.executed) for one in found if isinstance(one, Instruction)] == [
        (0, True), (4, False), (8, True), (12, True), (0, True),
    ]  # fmt: skip


def test_a_q_element_counts_instructions_and_is_a_gap_past_a_branch() -> None:
    code = words(NOP * 4, RET, NOP * 8)
    quotas = Setting(version=0x50, quotas=True)
    one = HERE + b"\xa5" + short_address(BASE + 12)[1:] + b"\x03" + exception(1, BASE + 16)
    assert addresses(decode(code, one, setting=quotas)) == [0, 4, 8, 12]
    other = HERE + b"\xa5" + short_address(BASE + 24)[1:] + b"\x06" + exception(1, BASE + 28)
    found = decode(code, other, setting=quotas)
    assert addresses(found) == [24]
    assert Why.COUNTED in whys(found)
    last = HERE + b"\xa5" + short_address(BASE + 24)[1:] + b"\x05" + exception(1, BASE + 28)
    assert addresses(decode(code, last, setting=quotas)) == [0, 4, 8, 12, 16, 24]


def test_cycles_belong_to_the_waypoint_before_the_count() -> None:
    counted = Setting(version=0x42, cycle_accurate=True)
    trace = START[:-1] + b"\x09\x01\x04" + ON + context() + long_address(BASE)  # cycle counts from a threshold of 4 on
    trace += atoms([True]) + b"\x0e\x10" + long_address(BASE + 4) + atoms([True]) + b"\x11"
    found = decode(words(NOP, RET), trace, setting=counted)
    assert [(one.address - BASE, one.cycles) for one in found if isinstance(one, Instruction)] == [
        (0, 0),
        (4, 20),
        (4, 5),
    ]


@pytest.mark.parametrize(
    ("registers", "setting"),
    [
        ((0xC1, 0x28000EA1, 0x4100F403, 0x488), Setting(0x40, threads=True, quotas=False)),
        (
            (0xA001, 0x2801CEA1, 0x4100FFF0, 0xD0001088, 6, 0x47735A13),
            Setting(0x53, machine_bytes=4, quotas=True, deepest=6, waits=True, transactions=True),
        ),
    ],
)
def test_the_setting_is_that_of_the_registers(registers: tuple[int, ...], setting: Setting) -> None:
    assert Setting.from_registers(*registers) == setting


@pytest.mark.parametrize("thumb", [False, True])
def test_an_address_of_32_bits_does_not_reach_a_program_above(thumb: bool) -> None:
    """The units' registers keep bits of the A64 address before it: of A32 and T32 they mean nothing."""
    code = Program([], [], NOP * 8)
    for beyond in (BASE, BASE ^ 1 << 63, BASE ^ 1 << 62):
        trace = START + ON + context(wide=False) + long_address(beyond, thumb=thumb) + atoms([True, True])
        assert not any(isinstance(record, Instruction) for record in decode(code, trace))
