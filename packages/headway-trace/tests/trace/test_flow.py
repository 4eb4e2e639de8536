"""What programs executed is what is decoded, cycle for cycle; damage is a gap, and nothing after it is made up."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway_trace.records import Exception_, Gap, Instruction, Record, Timestamp, Why

from .common import in_common
from .encoding import ALIGNMENT, atom, branch, sync, timestamp
from .programs import BASE, SETTING, Program, decode, follower, gaps, instructions, listing, program, run

SEEDS = st.integers(0, 2**32)
PLAIN = Program({}, [BASE], b"\x00\xbf" * 64 + b"\x70\x47" + b"\x00\xbf" * 64)
"""64 nop, bx lr, 64 nop."""
RETURN = BASE + 128


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_what_was_executed_is_decoded_with_its_cycles(seed: int) -> None:
    draw = random.Random(seed)
    code = program(draw)
    done = run(code, draw)
    found = decode(code, bytes(done.trace))
    assert instructions(found) == done.executed
    assert [gap.cycles for gap in gaps(found)] == [5, *done.gaps]


@settings(max_examples=50, deadline=None)
@given(SEEDS, st.lists(st.integers(0, 10_000), max_size=6))
def test_how_the_input_is_divided_makes_no_difference(seed: int, cuts: list[int]) -> None:
    draw = random.Random(seed)
    code = program(draw)
    trace = bytearray(run(code, draw, 100).trace)
    for _ in range(draw.randint(0, 3)):
        trace[draw.randrange(len(trace))] ^= 1 << draw.randrange(8)
    assert decode(code, bytes(trace), *cuts) == decode(code, bytes(trace))


def mutated(draw: random.Random, trace: bytes) -> bytes:
    data = bytearray(trace)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data) + 1)
        kind = draw.randrange(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del data[at : at + draw.randint(1, 40)]
        elif kind == 2:
            data[at : at + 16] = bytes(16)
        elif kind == 3:
            data[at:at] = draw.randbytes(draw.randint(1, 20))
        else:
            data[at:at] = data[: draw.randint(0, 60)]
    return bytes(data)


@settings(max_examples=500, deadline=None)
@given(SEEDS)
def test_whatever_happens_to_a_stream_it_decodes_into_instructions_of_the_program(seed: int) -> None:
    draw = random.Random(seed)
    code = program(draw, 8)
    trace = mutated(draw, bytes(run(code, draw, 40).trace))
    found = decode(code, trace)
    for one in found:
        assert 0 <= one.index <= len(trace) if not isinstance(one, Gap) else 0 <= one.start <= one.end <= len(trace)
        if isinstance(one, Instruction):
            assert code.read(one.address, one.size)
    assert_times_pass(found)


def assert_times_pass(found: list[Record]) -> None:
    """Within an epoch, cycles add up, instructions and gaps together."""
    cycle, epoch = 0, 0
    for one in found:
        if one.epoch != epoch:
            assert one.epoch > epoch
            epoch, cycle = one.epoch, 0
            known = False
        else:
            known = True
        if isinstance(one, Instruction | Gap):
            assert one.cycle is not None
            assert one.cycle >= cycle
            if known and one.cycles is not None and isinstance(one, Gap):
                assert one.cycle - cycle >= 0
            cycle = one.cycle


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_decode(data: bytes) -> None:
    decode(PLAIN, data)
    decode(PLAIN, ALIGNMENT + sync(BASE) + data)


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_a_flipped_bit_costs_no_more_than_the_way_to_the_next_full_address(seed: int) -> None:
    draw = random.Random(seed)
    code = program(draw)
    done = run(code, draw)
    tail = run(code, draw, 50)
    trace = bytearray(done.trace)
    trace[draw.randrange(len(trace))] ^= 1 << draw.randrange(8)
    found = instructions(decode(code, bytes(trace + tail.trace)))
    assert found[-len(tail.executed) :] == tail.executed


def test_what_comes_before_the_first_alignment_is_one_gap() -> None:
    found = decode(PLAIN, b"\x84" * 10 + ALIGNMENT + b"\xbc" + sync(BASE) + atom(True, 2))
    assert found[0] == Gap(Why.UNSYNCHRONISED, 8, 8, 0, 17, 0)
    assert instructions(found) == [(BASE, True, 2)]


def test_an_instruction_that_cannot_fail_and_did_is_a_contradiction() -> None:
    wrong = atom(True, 1) * 6 + atom(False, 1) + atom(True, 1) * 3
    trace = ALIGNMENT + sync(BASE) + wrong + sync(BASE + 60, reason=1, cycles=5) + atom(True, 7)
    found = decode(PLAIN, trace)
    assert instructions(found) == [(BASE + at, True, 1) for at in range(0, 12, 2)] + [(BASE + 60, True, 7)]
    assert [(gap.why, gap.cycles) for gap in gaps(found)][1:] == [(Why.CONTRADICTION, None), (Why.OFF, 5)]


def test_an_indirect_branch_without_an_address_is_a_contradiction() -> None:
    trace = ALIGNMENT + sync(RETURN) + atom(True, 1) * 3 + sync(BASE) + atom(True, 1)
    found = decode(PLAIN, trace)
    assert instructions(found) == [(RETURN, True, 1), (BASE, True, 1)]
    assert gaps(found)[1].why == Why.CONTRADICTION


def test_an_i_sync_that_repeats_another_address_is_a_contradiction() -> None:
    found = decode(PLAIN, ALIGNMENT + sync(BASE) + atom(True, 1) + sync(BASE + 8) + atom(True, 1))
    assert gaps(found)[1].why == Why.CONTRADICTION
    assert instructions(found)[-1] == (BASE + 8, True, 1)


def test_where_there_is_no_program_time_goes_on() -> None:
    trace = ALIGNMENT + sync(BASE + 254) + atom(True, 1) + atom(True, 5) * 3 + sync(BASE) + atom(True, 1)
    found = decode(PLAIN, trace)
    assert instructions(found) == [(BASE + 254, True, 1), (BASE + 256, True, 5), (BASE, True, 1)]
    gap = gaps(found)[1]
    assert (gap.why, gap.cycles, gap.epoch) == (Why.IMAGE, 10, 0)
    assert found[-1].cycle == 17


def test_an_overflow_loses_the_time() -> None:
    trace = ALIGNMENT + sync(BASE) + atom(True, 1) + sync(BASE + 8, reason=2, cycles=9) + atom(True, 1)
    found = decode(PLAIN, trace)
    assert (gaps(found)[1].why, gaps(found)[1].cycles) == (Why.OVERFLOW, None)
    assert found[-1].epoch == 1


def test_cycles_without_an_instruction_go_to_the_next_over_a_periodic_i_sync() -> None:
    found = decode(PLAIN, ALIGNMENT + sync(BASE) + atom(True, 1) + b"\xbc" + sync(BASE + 2) + atom(True, 1))
    assert instructions(found)[-1] == (BASE + 2, True, 9)


def test_a_cancelled_instruction_was_not_executed_and_its_time_is_the_next_ones() -> None:
    trace = ALIGNMENT + sync(BASE) + atom(True, 1) + atom(True, 3) + branch(BASE + 16, exception=14, cancel=True)
    found = decode(PLAIN, trace + atom(True, 1))
    assert instructions(found) == [(BASE, True, 1), (BASE + 16, True, 4)]
    assert [one.number for one in found if isinstance(one, Exception_)] == [14]


def test_a_cancelled_instruction_is_not_given_before_it_is_certain() -> None:
    trace = ALIGNMENT + sync(BASE) + atom(True, 1) + atom(True, 3) + branch(BASE + 16, exception=14, cancel=True)
    whole = decode(PLAIN, trace + atom(True, 1))
    assert decode(PLAIN, trace + atom(True, 1), *range(len(trace))) == whole


def test_timestamps_come_with_the_cycle() -> None:
    found = decode(PLAIN, ALIGNMENT + sync(BASE) + atom(True, 3) + timestamp(77) + atom(True, 1))
    assert [one for one in found if isinstance(one, Timestamp)] == [Timestamp(77, 3, 0, 13)]


def test_damage_is_a_gap_with_its_bytes() -> None:
    good = ALIGNMENT + sync(BASE) + atom(True, 1)
    found = decode(PLAIN, good + b"\x10" + atom(True, 1) * 4 + sync(BASE + 40) + atom(True, 1))
    gap = gaps(found)[1]
    assert (gap.why, gap.start, gap.cycles) == (Why.DAMAGE, len(good), None)
    assert instructions(found)[-1] == (BASE + 40, True, 1)


def test_after_damage_a_partial_address_must_prove_right() -> None:
    """Its high bits come from before the damage: taken for granted, they would lead anywhere."""
    far = b"\x00\xbf" * 0x800
    code = Program({}, [BASE], b"\x70\x47" * 64 + far + b"\x00\xbf" * 6 + b"\x70\x47" + b"\x00\xbf" * 9)
    place = BASE + 128 + len(far)
    trace = ALIGNMENT + sync(BASE) + atom(True, 1) + b"\x10" + branch(place, size=1) + atom(True, 1) * 7
    found = decode(code, trace + branch(BASE + 2) + atom(True, 1))
    assert [one[0] for one in instructions(found)] == [BASE, *range(place, place + 14, 2), BASE + 2]


def test_an_address_is_regained_from_atoms_where_one_place_alone_fits() -> None:
    code = Program({}, [BASE], b"\x00\xbf" * 4 + (b"\x00\xd1" + b"\x00\xbf") * 6 + b"\x70\x47" + b"\x00\xbf" * 8)
    start = ALIGNMENT + sync(BASE)
    body = atom(True, 1) * 4 + (atom(False, 1) + atom(True, 1)) * 6 + atom(True, 1) + branch(BASE)
    damaged = atom(True, 1) * 2 + b"\x10" + body[6:]
    whole, found = decode(code, start + body * 2), decode(code, start + body + damaged + body)
    assert len(instructions(whole)) == 34
    assert set(instructions(found)) <= set(instructions(whole))
    assert len(instructions(found)) > 34


@pytest.mark.parametrize("cut", range(1, 10))
def test_a_stream_that_ends_in_a_packet_says_so(cut: int) -> None:
    trace = ALIGNMENT + sync(BASE) + atom(True, 1) + timestamp(1 << 60)
    found = decode(PLAIN, trace[:-cut])
    assert gaps(found)[-1].why == Why.TRUNCATED


def test_what_is_given_does_not_wait_for_an_instruction() -> None:
    """Memory must not grow with a stream that has none."""
    flow, parser = follower(listing(PLAIN)), SETTING.parser()
    flow.feed(parser.feed(ALIGNMENT + sync(BASE)))
    held = fed = 0
    for _ in range(20):
        fed += 1000
        held += 1000 - len(flow.feed(parser.feed(timestamp(5) * 1000)))
    assert fed > 10_000
    assert held < 10_000


def test_a_stream_that_begins_with_an_i_sync_has_lost_no_more_than_its_a_sync() -> None:
    found = decode(PLAIN, sync(BASE, reason=1, cycles=5) + atom(True, 1) * 3)
    assert [address for address, _, _ in instructions(found)] == [BASE, BASE + 2, BASE + 4]


def test_another_i_sync_before_the_first_a_sync_is_not_believed() -> None:
    found = decode(PLAIN, atom(True, 1) + sync(BASE, reason=1, cycles=5) + atom(True, 1) * 3)
    assert not instructions(found)


def test_a_timestamp_that_has_lost_its_high_bits_is_not_shown() -> None:
    found = decode(PLAIN, ALIGNMENT + sync(BASE) + timestamp(1234, size=3) + atom(True, 1) + timestamp(1 << 40))
    assert [one.time for one in found if isinstance(one, Timestamp)] == [1 << 40]


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_what_other_streams_have_done_makes_no_difference(seed: int) -> None:
    """They share what is known of the program, not where they have been."""
    draw = random.Random(seed)
    code = program(draw)
    traces = [mutated(draw, bytes(run(code, draw, 100).trace)) for _ in range(2)]
    shared = listing(code)
    together = [decode(code, trace, known=shared) for trace in traces]
    assert together == [decode(code, trace) for trace in traces]


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(0, 400), st.integers(1, 400))
def test_what_is_executed_outside_the_program_is_a_gap_and_nothing_is_made_up_for_it(
    seed: int, start: int, size: int
) -> None:
    draw = random.Random(seed)
    code = program(draw)
    done = run(code, draw)
    found = instructions(
        decode(code, bytes(done.trace), known=listing(code, without=(BASE + start, BASE + start + size)))
    )
    executed = [(address, taken) for address, taken, _ in done.executed]
    known = [(address, taken) for address, taken, _ in found]
    assert in_common(executed, known) == len(known)
