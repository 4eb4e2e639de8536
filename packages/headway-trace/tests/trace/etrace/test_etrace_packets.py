"""Packets of every format, for RV32 and RV64: what a decoder makes of them, and of those that do not fit."""

from __future__ import annotations

import struct

import pytest
from tests.trace.etrace import encoding
from tests.trace.etrace.encoding import packet, report, start, support, trap
from tests.trace.etrace.runs import rows_of

from headway.errors import HeadwayError
from headway_trace.etrace._decoder import EtraceDecoder
from headway_trace.etrace.parameters import OPTIONS, EtraceParameters

RV32 = EtraceParameters(ioptions=OPTIONS, f0s_width=1, bpred_size=4, cache_size=3, return_stack_size=3)
RV64 = EtraceParameters(
    iaddress_width=64, ioptions=OPTIONS, f0s_width=1, bpred_size=4, cache_size=3, return_stack_size=3,
    context_width=16, nocontext=False, time_width=20, notime=False,
)  # fmt: skip
BASE = 0x1000
NOP, RET, ECALL, MRET = 0x13, 0x8067, 0x73, 0x3020_0073
RETURNS, EXCEPTION, FULL, CACHE, PREDICTION, SEQUENTIAL = (1 << bit for bit in range(6))


def branch(offset: int) -> int:
    """``beq x0, x0``"""
    return (
        0x63 | (offset >> 12 & 1) << 31 | (offset >> 5 & 0x3F) << 25 | (offset >> 1 & 15) << 8 | (offset >> 11 & 1) << 7
    )


def call(offset: int, link: int = 1) -> int:
    """``jal``"""
    return (
        0x6F | link << 7 | (offset >> 20 & 1) << 31 | (offset >> 1 & 0x3FF) << 21 | (offset >> 11 & 1) << 20
        | (offset >> 12 & 0xFF) << 12
    )  # fmt: skip


def jalr(register: int, offset: int = 0, link: int = 0) -> int:
    return 0x67 | link << 7 | register << 15 | (offset & 0xFFF) << 20


def decoded(
    p: EtraceParameters, words: list[int], *packets: list[encoding.Field], base: int = BASE, options: int = 0
) -> list[tuple[int, int]]:
    """The address, counted in words from the base, and the code of each row."""
    program = [(base, struct.pack(f"<{len(words)}I", *words))]
    stream = packet(*support(p, options)) + b"".join(packet(*fields) for fields in packets)
    stream += packet(*support(p, options, enabled=False, status=1))
    rows = rows_of(EtraceDecoder(program, p, traps=True), [stream])
    return [((row[3] - base) // 4 if row[5] < 32 else -1, row[5]) for row in rows]


E, N, TRAP = 16, 17, 18


@pytest.mark.parametrize(("p", "base"), [(RV32, BASE), (RV64, 0xFFFF_FFFF_8000_0000)])
def test_branches_and_a_place(p: EtraceParameters, base: int) -> None:
    words = [NOP, branch(8), NOP, branch(-12), NOP, NOP]
    found = decoded(p, words, start(p, base), report(p, 16, "tn"), base=base)
    assert found == [(0, E), (1, E), (3, N), (4, E)]


@pytest.mark.parametrize("options", [0, FULL])
def test_the_target_of_a_jump(options: int) -> None:
    words = [jalr(5), NOP, NOP, NOP]
    to = BASE + 8 if options else 8
    found = decoded(
        RV32, words, start(RV32, BASE), report(RV32, to), report(RV32, to + 4 if options else 4), options=options
    )
    assert found == [(0, E), (2, E), (3, E)]


def test_a_target_and_a_place_with_one_address_are_told_apart() -> None:
    # A loop that a jump closes: the place is reached by falling into it, and again by the jump.
    words = [NOP, NOP, NOP, jalr(5)]
    once = decoded(RV32, words, start(RV32, BASE), report(RV32, 4), trap(RV32, BASE))
    assert once == [(0, E), (1, E), (1, TRAP), (0, E)]
    twice = decoded(RV32, words, start(RV32, BASE), report(RV32, 4, updiscon=True), trap(RV32, BASE))
    assert twice == [(0, E), (1, E), (2, E), (3, E), (1, E), (1, TRAP), (0, E)]
    goes_on = decoded(RV32, words, start(RV32, BASE), report(RV32, 4), report(RV32, 4))
    assert goes_on == [(0, E), (1, E), (2, E), (3, E), (1, E), (2, E)]


def test_notify_is_a_place() -> None:
    words = [NOP, NOP, NOP, jalr(5)]
    found = decoded(RV32, words, start(RV32, BASE), report(RV32, 4, notify=True), report(RV32, 4))
    assert found == [(0, E), (1, E), (2, E)]


def test_a_full_map_stops_at_its_last_branch() -> None:
    words = [branch(8), NOP, branch(-8), NOP]
    full = report(RV32, None, "t" * 31)
    found = decoded(RV32, words, start(RV32, BASE, taken=True), full, report(RV32, 4, "n"))
    assert found == [*[(0, E), (2, E)] * 16, (0, N), (1, E)]


def test_predicted_branches_are_counted() -> None:
    words = [NOP, branch(-4), NOP]
    # The predictor expects the branch not to be taken until it has been twice.
    first = report(RV32, -4, "tt", notify=True)
    found = decoded(RV32, words, start(RV32, BASE + 4, taken=True), first, encoding.predicted(RV32, 40),
                    report(RV32, 8), options=PREDICTION)  # fmt: skip
    taken = sum(row == (1, E) for row in found)
    assert taken == 43
    assert found[-2:] == [(1, N), (2, E)]


def test_a_jump_target_comes_from_the_cache() -> None:
    words = [NOP, NOP, NOP, NOP, jalr(5), NOP]
    packets = [start(RV32, BASE), report(RV32, 4), encoding.jump_index(RV32, (BASE + 4) >> 1 & 7), report(RV32, 4)]
    found = decoded(RV32, words, *packets, options=CACHE)
    loop = [(1, E), (2, E), (3, E), (4, E)]
    assert found == [(0, E), *loop, *loop, (1, E), (2, E)]
    assert -1 in {place for place, _ in decoded(RV32, words, start(RV32, BASE), packets[2], options=CACHE)}


def test_a_return_goes_to_its_call() -> None:
    words = [call(12), NOP, NOP, RET]
    found = decoded(RV32, words, start(RV32, BASE), report(RV32, 8), options=RETURNS)
    assert found == [(0, E), (3, E), (1, E), (2, E)]
    elsewhere = decoded(RV32, words, start(RV32, BASE), report(RV32, 8, depth=1), report(RV32, 4), options=RETURNS)
    assert elsewhere == [(0, E), (3, E), (2, E), (3, E)]


@pytest.mark.parametrize("depth", range(1, 8))
def test_a_full_stack_of_returns_drops_the_oldest_call(depth: int) -> None:
    """Functions that call each other: the last two returns need no address, also in a decoder that goes on."""
    p = EtraceParameters(ioptions=OPTIONS, return_stack_size=1)
    words = [word for _ in range(depth) for word in (call(12), NOP, RET)] + [NOP, RET]
    program = [(BASE, struct.pack(f"<{len(words)}I", *words))]
    last, kept = 3 * depth, min(depth, 2)
    before = packet(*support(p, RETURNS)) + packet(*start(p, BASE))
    before += packet(*report(p, 4 * (last + 1), notify=True)) + bytes(40)
    back = 3 * (depth - kept) + 1
    after = packet(*report(p, 4 * (back - last - 1), notify=True)) + packet(*support(p, RETURNS, status=1))
    executed = [*range(0, last, 3), last, last + 1]
    for level in range(depth - 1, depth - kept, -1):
        executed += [3 * level + 1, 3 * level + 2]
    executed.append(back)
    assert [(row[3] - BASE) // 4 for row in rows_of(EtraceDecoder(program, p), [before + after])] == executed
    first, second = EtraceDecoder(program, p), EtraceDecoder(program, p)
    first.feed(before + after)
    while not first.resumable or not first.offset:
        assert first.more()
    second.load(first.save())
    found = rows_of(second, [(before + after)[first.offset :]])
    assert [(row[3] - BASE) // 4 for row in found] == executed[-len(found) :]
    assert len(found) >= 2 * kept - 1


def test_a_jump_that_the_instruction_before_tells() -> None:
    words = [0x0000_1337, jalr(6, 16), NOP, NOP, NOP, NOP]  # lui t1, 1; jalr x0, 16(t1)
    assert decoded(RV32, words, start(RV32, BASE), report(RV32, 20), options=SEQUENTIAL) == [
        (0, E), (1, E), (4, E), (5, E),
    ]  # fmt: skip


def test_traps() -> None:
    words = [NOP, ECALL, NOP, NOP, NOP]
    found = decoded(RV32, words, start(RV32, BASE), trap(RV32, BASE + 12, cause=11))
    assert found == [(0, E), (0, TRAP), (3, E)]
    twice = decoded(RV32, words, start(RV32, BASE), trap(RV32, BASE + 4, handler=False), start(RV32, BASE + 12))
    assert twice == [(0, E), (1, TRAP), (3, E)]


def test_a_trap_whose_handler_is_known() -> None:
    p = EtraceParameters(ioptions=OPTIONS, mtvec=BASE + 8 | 1)
    words = [NOP] * 8
    assert decoded(p, words, start(p, BASE), trap(p, None), options=EXCEPTION) == [(0, E), (0, TRAP), (2, E)]
    vectored = trap(p, None, cause=3, interrupt=True)
    assert decoded(p, words, start(p, BASE), vectored, options=EXCEPTION) == [(0, E), (0, TRAP), (5, E)]
    unknown = EtraceParameters(ioptions=OPTIONS)
    assert (-1, 37) in decoded(unknown, words, start(unknown, BASE), trap(unknown, None), options=EXCEPTION)


def test_context_and_time() -> None:
    words = [NOP] * 4
    program = [(BASE, struct.pack("<4I", *words))]
    stream = b"".join(
        packet(*fields)
        for fields in (
            support(RV64),
            start(RV64, BASE, time=100, number=7),
            report(RV64, 4, notify=True),
            encoding.context(RV64, time=120, number=9),
            report(RV64, 4),
            support(RV64, enabled=False, status=1),
        )
    )
    rows = rows_of(EtraceDecoder(program, RV64), [stream])
    assert [(row[1], row[2]) for row in rows] == [(100, 7), (None, 7), (None, 9)]


def test_timestamps_of_the_encapsulation() -> None:
    p = EtraceParameters(source_width=8, sources=4, timestamp_bytes=2)
    program = [(BASE, struct.pack("<4I", *[NOP] * 4))]
    stream = packet(*support(p), source=3) + packet(*start(p, BASE), source=3, stamp=b"\x10\x02")
    stream += packet(*report(p, 8), source=3, stamp=b"\x20\x02") + packet(*support(p, status=1), source=3)
    rows = rows_of(EtraceDecoder(program, p), [stream])
    assert [(row[0], row[1]) for row in rows] == [(3, 0x210), (3, None), (3, 0x220)]


def test_code_that_is_not_in_the_image_is_a_gap_up_to_the_next_address() -> None:
    words = [jalr(5), NOP, NOP, NOP]
    found = decoded(RV32, words, start(RV32, BASE), report(RV32, 0x4000), report(RV32, 8 - 0x4000), report(RV32, 4))
    assert found == [(0, E), (-1, 37), (2, E), (3, E)]


def test_lost_packets_and_tracing_that_ends_are_gaps() -> None:
    words = [NOP] * 4
    lost = support(RV32, status=2)
    found = decoded(RV32, words, start(RV32, BASE), report(RV32, 4), lost, start(RV32, BASE + 12))
    assert found == [(0, E), (1, E), (-1, 34), (3, E)]
    off = decoded(RV32, words, start(RV32, BASE), report(RV32, 4), support(RV32, status=1), start(RV32, BASE + 12))
    assert off == [(0, E), (1, E), (-1, 33), (3, E)]


@pytest.mark.parametrize("wrong", [report(RV32, 4, "t"), report(RV32, None, "t" * 31)])
def test_packets_that_do_not_fit_the_program_are_a_contradiction(wrong: list[encoding.Field]) -> None:
    found = decoded(RV32, [NOP] * 4 + [jalr(5)], start(RV32, BASE), wrong, start(RV32, BASE + 4))
    assert found == [(-1, 36), (1, E)]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"iaddress_width": 65}, "iaddress_width"),
        ({"ioptions": ["magic"]}, "ioptions"),
        ({"nocontext": 1}, "nocontext"),
        ({"colour": 1}, "no parameter"),
        ({"sources": 1024, "cache_size": 16}, "too many"),
        ({"return_stack_size": 12, "call_counter_size": 12}, "both large"),
    ],
)
def test_impossible_parameters_are_one_sentence(values: dict[str, object], says: str) -> None:
    with pytest.raises(HeadwayError, match=says):
        EtraceParameters.of(values)


def test_parameters_survive_a_file() -> None:
    assert EtraceParameters.of(RV64.described()) == RV64
    assert EtraceParameters().described() == {}
