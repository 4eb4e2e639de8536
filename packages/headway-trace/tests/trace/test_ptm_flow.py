"""What programs executed is what is decoded of PTM, with its cycles; damage is a gap, and nothing is made up."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway_trace.ptm import Setting
from headway_trace.records import Exception_, Gap, Instruction, Timestamp, Why

from .common import in_common
from .encoding import ALIGNMENT
from .programs import BASE, Program, listing, program
from .ptm import Run, atom, atoms, branch, decode, gaps, instructions, run, sync, timestamp, update
from .test_flow import PLAIN, RETURN, SEEDS, assert_times_pass, mutated

COUNTED, UNCOUNTED = Setting(), Setting(cycle_accurate=False)
SETTINGS = st.sampled_from(
    [Setting(cycle_accurate=counted, return_stack=stack) for counted, stack in product((True, False), repeat=2)]
)


def wanted(done: Run, setting: Setting) -> list[tuple[int, bool | None, int | None]]:
    return [
        (address, executed, cycles if setting.cycle_accurate else None) for address, executed, cycles in done.executed
    ]


@settings(max_examples=200, deadline=None)
@given(SEEDS, SETTINGS)
def test_what_was_executed_is_decoded_with_its_cycles(seed: int, setting: Setting) -> None:
    draw = random.Random(seed)
    code = program(draw)
    done = run(code, draw, setting)
    found = decode(code, bytes(done.trace), setting=setting)
    assert instructions(found) == wanted(done, setting)
    assert [gap.cycles for gap in gaps(found)] == [5 if setting.cycle_accurate else None, *done.gaps]
    assert [one.number for one in found if isinstance(one, Exception_)] == done.exceptions
    assert [one.time for one in found if isinstance(one, Timestamp)] == done.times


@settings(max_examples=50, deadline=None)
@given(SEEDS, SETTINGS, st.lists(st.integers(0, 10_000), max_size=6))
def test_how_the_input_is_divided_makes_no_difference(seed: int, setting: Setting, cuts: list[int]) -> None:
    draw = random.Random(seed)
    code = program(draw)
    trace = mutated(draw, bytes(run(code, draw, setting, 100).trace))
    assert decode(code, trace, *cuts, setting=setting) == decode(code, trace, setting=setting)


@settings(max_examples=500, deadline=None)
@given(SEEDS, SETTINGS)
def test_whatever_happens_to_a_stream_it_decodes_into_instructions_of_the_program(seed: int, setting: Setting) -> None:
    draw = random.Random(seed)
    code = program(draw, 8)
    trace = mutated(draw, bytes(run(code, draw, setting, 40).trace))
    found = decode(code, trace, draw.randrange(1000), setting=setting, lost=draw.random() < 0.3)
    for one in found:
        assert 0 <= one.index <= len(trace) if not isinstance(one, Gap) else 0 <= one.start <= one.end <= len(trace)
        if isinstance(one, Instruction):
            assert code.read(one.address, one.size)
    if setting.cycle_accurate:
        assert_times_pass(found)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), SETTINGS)
def test_any_bytes_decode(data: bytes, setting: Setting) -> None:
    decode(PLAIN, data, setting=setting)
    decode(PLAIN, ALIGNMENT + sync(BASE) + data, setting=setting)


@settings(max_examples=100, deadline=None)
@given(SEEDS, SETTINGS)
def test_a_flipped_bit_costs_no_more_than_the_way_to_the_next_i_sync(seed: int, setting: Setting) -> None:
    draw = random.Random(seed)
    code = program(draw)
    done, tail = run(code, draw, setting), run(code, draw, setting, 50)
    trace = bytearray(done.trace)
    trace[draw.randrange(len(trace))] ^= 1 << draw.randrange(8)
    found = instructions(decode(code, bytes(trace + tail.trace), setting=setting))
    assert found[-len(tail.executed) :] == wanted(tail, setting)


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(0, 400), st.integers(1, 400))
def test_what_is_executed_outside_the_program_is_a_gap_and_nothing_is_made_up_for_it(
    seed: int, start: int, size: int
) -> None:
    draw = random.Random(seed)
    code = program(draw)
    done = run(code, draw, UNCOUNTED)
    known = listing(code, without=(BASE + start, BASE + start + size))
    found = instructions(decode(code, bytes(done.trace), setting=UNCOUNTED, known=known))
    executed = [(address, taken) for address, taken, _ in done.executed]
    decoded = [(address, taken) for address, taken, _ in found]
    assert in_common(executed, decoded) == len(decoded)


def test_what_comes_before_the_first_i_sync_is_one_gap() -> None:
    found = decode(
        PLAIN, atom(True, 9) + ALIGNMENT + atom(True, 3) + sync(RETURN) + branch(BASE, cycles=2), setting=COUNTED
    )
    assert found[0] == Gap(Why.UNSYNCHRONISED, 3, 3, 0, 8, 0)
    assert instructions(found) == [(RETURN, True, 2)]


def test_a_run_has_no_cycles_but_those_of_its_waypoint() -> None:
    found = decode(PLAIN, ALIGNMENT + sync(RETURN - 4) + branch(BASE, cycles=300), setting=COUNTED)
    assert instructions(found) == [(RETURN - 4, True, 0), (RETURN - 2, True, 0), (RETURN, True, 300)]
    assert [one.cycle for one in found if isinstance(one, Instruction)] == [0, 0, 300]


def test_an_address_after_a_branch_that_is_not_indirect_is_a_contradiction() -> None:
    code = Program({}, [BASE], b"\x00\xbf\xfe\xe7" + b"\x00\xbf" * 6)  # nop; b .
    found = decode(code, ALIGNMENT + sync(BASE) + branch(BASE) + atoms([True]), setting=UNCOUNTED)
    assert [gap.why for gap in gaps(found)] == [Why.UNSYNCHRONISED, Why.CONTRADICTION]
    assert instructions(found) == [(BASE, True, None), (BASE + 2, True, None)]
    broadcast = Setting(cycle_accurate=False, branch_broadcast=True)
    found = decode(code, ALIGNMENT + sync(BASE) + branch(BASE + 2) + atoms([True]), setting=broadcast)
    assert [address for address, _, _ in instructions(found)] == [BASE, BASE + 2, BASE + 2]


def test_a_branch_without_a_condition_cannot_have_failed_it() -> None:
    code = Program({}, [BASE], b"\x00\xbf" * 4 + b"\x00\xe0" + b"\x00\xbf" * 6)  # 4 nop; b to the one after next
    found = decode(code, ALIGNMENT + sync(BASE) + atoms([False, True]) + sync(BASE), setting=UNCOUNTED)
    assert [gap.why for gap in gaps(found)] == [Why.UNSYNCHRONISED, Why.CONTRADICTION]
    assert not instructions(found)


def test_an_i_sync_that_repeats_another_address_is_a_contradiction() -> None:
    found = decode(PLAIN, ALIGNMENT + sync(BASE) + sync(RETURN) + branch(BASE), setting=UNCOUNTED)
    assert gaps(found)[1].why == Why.CONTRADICTION
    assert instructions(found) == [(RETURN, True, None)]


def test_an_indirect_branch_without_an_address_needs_the_return_stack() -> None:
    code = Program({}, [BASE], b"\x00\xf0\x02\xf8\xfe\xe7\x00\xbf\x70\x47" + b"\x00\xbf" * 4)  # bl; b .; nop; bx lr
    trace = ALIGNMENT + sync(BASE) + atoms([True, True, True])
    stack = Setting(cycle_accurate=False, return_stack=True)
    found = instructions(decode(code, trace, setting=stack))
    assert [address for address, _, _ in found] == [BASE, BASE + 8, BASE + 4]
    assert gaps(decode(code, trace, setting=UNCOUNTED))[1].why == Why.CONTRADICTION


def test_the_return_stack_is_unknown_after_code_that_is_in_no_image() -> None:
    """That code may have returned without an address: a return to an address from before is a gap, no contradiction."""
    code = Program({}, [BASE], b"\x00\xf0\x7e\xf8\xfe\xe7\x70\x47" + b"\x00\xbf" * 4)  # bl outside; b .; bx lr
    trace = ALIGNMENT + sync(BASE) + atoms([True, True]) + branch(BASE + 6) + atoms([True, True])
    found = decode(code, trace, setting=Setting(cycle_accurate=False, return_stack=True))
    assert [address for address, _, _ in instructions(found)] == [BASE, BASE + 6]
    assert [gap.why for gap in gaps(found)][1:] == [Why.IMAGE, Why.IMAGE]


def test_a_lost_place_is_found_by_the_atoms_before_the_next_address() -> None:
    """A loop of ten branches, beq out of it, and b back. One atom says that it was left too soon: no address comes."""
    code = Program({}, [BASE], b"\x00\xe0\x00\xbf" * 10 + b"\x00\xd0\xe9\xe7\x70\x47" + b"\x00\xbf" * 4)
    turn, out = [*range(0, 40, 4), 40, 42], [*range(0, 40, 4), 40, 44]

    def addresses(trace: bytes) -> list[int]:
        return [address - BASE for address, _, _ in instructions(decode(code, trace, setting=UNCOUNTED))]

    right, left = (atoms([True] * 5) * 2 + atoms([one, True]) for one in (False, True))
    begin, end = ALIGNMENT + sync(BASE), atoms([True] * 5) * 2 + atoms([True]) + branch(BASE) + atoms([True])
    assert addresses(begin + right * 40 + end) == [*turn * 40, *out, 0]
    found = addresses(begin + right * 40 + left + right * 20 + end)
    assert found[: 40 * 12 + 11] == turn * 40 + out[:-1]
    assert found[-18 * 12 - 13 :] == [*turn * 18, *out, 0]
    few = addresses(begin + right * 40 + left + end)
    assert few == [*turn * 40, *out[:-1], 0]


@pytest.mark.parametrize("barriers", [True, False])
def test_barriers_are_waypoints_as_the_unit_is_made(barriers: bool) -> None:
    dmb, isb, nop = b"\xbf\xf3\x5f\x8f", b"\xbf\xf3\x6f\x8f", b"\x00\xbf"
    code = Program({}, [BASE], nop + dmb + nop + isb + nop * 8)
    setting = Setting(cycle_accurate=False, barriers=barriers)
    found = instructions(decode(code, ALIGNMENT + sync(BASE) + atoms([True]), setting=setting))
    assert [address - BASE for address, _, _ in found] == ([0, 2] if barriers else [0, 2, 6, 8])


def test_an_exception_comes_after_what_the_waypoint_update_says() -> None:
    trace = ALIGNMENT + sync(BASE) + update(BASE + 4) + branch(RETURN, exception=14) + branch(BASE)
    found = decode(PLAIN, trace, setting=UNCOUNTED)
    assert [address for address, _, _ in instructions(found)] == [BASE, BASE + 2, BASE + 4, RETURN]
    assert [(one.number, one.address) for one in found if isinstance(one, Exception_)] == [(14, RETURN)]


def test_a_waypoint_update_beyond_a_branch_is_a_contradiction() -> None:
    found = decode(PLAIN, ALIGNMENT + sync(RETURN) + update(RETURN + 8), setting=UNCOUNTED)
    assert gaps(found)[1].why == Why.CONTRADICTION
    assert not instructions(found)


def test_a_partial_address_after_damage_must_prove_right() -> None:
    far = b"\x00\xbf" * 0x800
    code = Program({}, [BASE], b"\x70\x47" * 64 + far + b"\x00\xd1" * 4 + b"\x00\xbf\x70\x47" + b"\x00\xbf" * 9)
    place = BASE + 128 + len(far)
    start = ALIGNMENT + sync(BASE) + b"\x10" + branch(place, size=2)
    whole = start + atoms([False] * 4) + branch(place, size=1) + b"\x10"
    assert len(instructions(decode(code, whole, setting=UNCOUNTED))) == 6
    wrong = start + atoms([False] * 3) + branch(place, size=1) + b"\x10"
    found = decode(code, wrong + timestamp(5), setting=UNCOUNTED)
    assert not instructions(found)
    assert [gap.why for gap in gaps(found)] == [Why.UNSYNCHRONISED, Why.DAMAGE]


@pytest.mark.exhaustive  # the limit is as long as it takes
def test_memory_without_a_waypoint_is_no_program_and_costs_no_more_than_a_limit() -> None:
    code = Program({}, [BASE], b"\x00\xbf" * 70_000)
    found = decode(code, ALIGNMENT + (sync(BASE) + atoms([True])) * 3, setting=UNCOUNTED)
    assert not instructions(found)
    assert {gap.why for gap in gaps(found)} == {Why.UNSYNCHRONISED, Why.CONTRADICTION}


def test_records_of_few_packets_come_in_blocks() -> None:
    body = b"\x00\xbf" * 4000 + b"\xff\xf7\xfe\xaf"  # 4,000 nop, then bl to itself: only its place is of interest
    code = Program({}, [BASE], body + b"\x00\xbf" * 4)
    parser, flow = UNCOUNTED.parser(), UNCOUNTED.flow(listing(code))
    flow.feed(parser.feed(ALIGNMENT))
    found = [len(flow.feed(parser.feed((sync(BASE, reason=1) + atoms([True])) * 100 + b"\x66" * 20)))]
    while flow.waiting:
        found.append(len(flow.more()))
    assert sum(found) > 390_000
    assert max(found) < 40_000
