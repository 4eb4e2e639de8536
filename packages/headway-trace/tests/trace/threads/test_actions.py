"""The trace unit as a program sees it: actions of the sequencer, the trace buffer, and what the profile counts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.assembler import (
    A0,
    A1,
    A2,
    A3,
    A4,
    HALT,
    NOP,
    RAM,
    S0,
    S1,
    S2,
    S3,
    S10,
    S11,
    T0,
    ZERO,
    Bench,
    Item,
    Label,
    Org,
    addi,
    atomic,
    bltu,
    bne,
    csrr,
    csrw,
    csrwi,
    div,
    la,
    lb,
    lbu,
    lh,
    lhu,
    li,
    li2,
    lr,
    lw,
    sb,
    sc,
    sh,
    sw,
    write_csr,
)
from tests.machine.examples import program as example
from tests.machine.programs import DATA
from tests.trace.threads.runs import run
from tests.trace.threads.test_events import SELECT, STORE, VALUE, loop, sequence, traced

from headway_machine.config import Action, Config, ProfileCounter, SequencerMove, TraceUnitConfig, Trigger
from headway_machine.image import MachineImage

# --- Actions, read back by the program itself -------------------------------------------------------------------------

PENDING, CLAIM, LINE = 0x0C00_1000, 0x0C20_0004, 9
WORD = DATA + 0x200


def unit(*, actions: tuple[Action, ...], second: int = 1, first: int = 1, **values: Any) -> dict[str, Any]:
    """Sequencer: 0 to 1 at each ``first``-th store to WORD, 1 to 2 at each ``second``-th store to the word after it."""
    triggers = (Trigger(first=WORD, watch="store", count=first), Trigger(first=WORD + 4, watch="store", count=second))
    moves = (SequencerMove(0, 1, 1), SequencerMove(1, 2, 2))
    return {
        "trace": TraceUnitConfig(enabled=True, line=LINE, triggers=triggers, moves=moves, actions=actions, **values)
    }


def stores_and_looks(steps: str) -> list[Item]:
    """Step `a` stores to WORD, `b` to the word after it, `?` reads what is pending into s2, s3 …"""
    program: list[Item] = [li2(S0, PENDING), li2(A1, WORD)]
    seen = S2
    for step in steps:
        program.append(sw(A0, A1, 4 * (step == "b")) if step != "?" else lw(seen, S0))
        seen += step == "?"
    return [*program, HALT]


def test_a_held_line_is_up_as_long_as_the_state_lasts() -> None:
    bench = Bench(stores_and_looks("?a??b?"), **unit(actions=(Action(1, hold=True),))).run()
    assert [bench.x(S2 + n) for n in range(4)] == [0, 1 << LINE, 1 << LINE, 0]


def test_an_interrupt_of_the_sequencer_stays_pending_when_the_state_ends() -> None:
    bench = Bench(stores_and_looks("?a?b?"), **unit(actions=(Action(1, interrupt=True),))).run()
    assert [bench.x(S2 + n) for n in range(3)] == [0, 1 << LINE, 1 << LINE]
    without = unit(actions=(Action(1, interrupt=True, hold=True),))
    without["trace"] = replace(without["trace"], line=0)
    bench = Bench(stores_and_looks("?a?b?"), **without).run()
    assert [bench.x(S2 + n) for n in range(3)] == [0, 0, 0], "no line is configured"


def test_an_interrupt_of_the_sequencer_is_taken_and_claimed() -> None:
    bench = Bench(
        la(T0, "on"), csrw(0x305, T0), li2(S0, 0x0C00_0000), li(T0, 1), sw(T0, S0, 4 * LINE),
        li2(S0, 0x0C00_2000), li2(T0, 1 << LINE), sw(T0, S0), write_csr(0x304, 0x800), csrwi(0x300, 8),
        li2(A1, WORD), sw(A0, A1), [NOP] * 3, li(S3, 1), HALT,
        Org(0x100), Label("on"), li2(S0, CLAIM), lw(S2, S0), csrr(S11, 0x342), HALT,
        **unit(actions=(Action(1, interrupt=True),)),
    ).run()  # fmt: skip
    assert (bench.x(S2), bench.x(S11), bench.x(S3)) == (LINE, 0x8000_000B, 0)


@pytest.mark.parametrize(("reload", "left"), [(True, 5), (False, 3)])
def test_reloading_starts_the_counts_of_the_triggers_anew(reload: bool, left: int) -> None:
    """Two of five are counted when the sequencer enters the state."""
    values = unit(actions=(Action(1, reload=reload),), first=5)
    trace = values["trace"]
    moves = (SequencerMove(0, 1, 2),)
    program: list[Item] = [stores_and_looks("aab")[:-1], write_csr(SELECT, 6), csrr(S2, VALUE), HALT]
    bench = Bench(program, trace=replace(trace, moves=moves)).run()
    assert bench.x(S2) == left


def test_each_core_holds_its_own_line_and_another_does_not_drop_it() -> None:
    """Core 1 enters its state first, and core 0 a state that holds nothing after it; then core 1 leaves its own."""
    hold: list[Item] = [li2(A1, WORD), sw(A0, A1)]
    release: list[Item] = [li2(A1, WORD), sw(A0, A1, 4)]
    program: list[Item] = [
        li2(S0, PENDING), bne(A0, ZERO, "one"), [NOP] * 200, hold, release, [NOP] * 20, lw(S2, S0), [NOP] * 400,
        lw(S3, S0), HALT, Label("one"), hold, [NOP] * 400, release, HALT,
    ]  # fmt: skip
    bench = Bench(
        program, at=RAM, cores=2, boot="all", **unit(actions=(Action(1, hold=True), Action(2, mark=True)))
    ).run(40_000)  # fmt: skip
    assert (bench.x(S2), bench.x(S3)) == (1 << LINE, 0)


@pytest.mark.parametrize(
    ("register", "value", "line"),
    [(42, 0, 0), (42, 2, 0), (38 + 1, 0, 0), (43, 7, 1 << 7), (43, 0, 0), (44, 100, 1 << 9)],
)
def test_a_held_line_follows_what_a_program_writes_to_the_sequencer(register: int, value: int, line: int) -> None:
    program: list[Item] = [*stores_and_looks("a?")[:-1], write_csr(SELECT, register), write_csr(VALUE, value)]
    bench = Bench(program, lw(S3, S0), HALT, **unit(actions=(Action(1, hold=True),))).run()
    assert (bench.x(S2), bench.x(S3)) == (1 << LINE, line)
    entered: list[Item] = [*stores_and_looks("?")[:-1], write_csr(SELECT, 42), write_csr(VALUE, 1), lw(S3, S0), HALT]
    bench = Bench(entered, **unit(actions=(Action(1, hold=True),))).run()
    assert (bench.x(S2), bench.x(S3)) == (0, 1 << LINE)


# --- What the data comparators see ------------------------------------------------------------------------------------

AMOS: dict[int, Callable[[int, int], int]] = {
    0: operator.add, 1: lambda _, b: b, 4: operator.xor, 8: operator.or_, 12: operator.and_,
    16: lambda a, b: min(a, b, key=signed), 20: lambda a, b: max(a, b, key=signed), 24: min, 28: max,
}  # fmt: skip
"""By function: what an AMO stores, of what is there and its operand."""
LOADS: dict[str, tuple[Callable[[int, int], int], int, bool]] = {
    "lb": (lb, 8, True), "lbu": (lbu, 8, False), "lh": (lh, 16, True), "lhu": (lhu, 16, False), "lw": (lw, 32, False),
}  # fmt: skip
STORES: dict[str, tuple[Callable[[int, int], int], int]] = {"sb": (sb, 8), "sh": (sh, 16), "sw": (sw, 32)}


def signed(value: int) -> int:
    return value - (value >> 31 << 32)


def accesses(name: str, there: int, operand: int, rd: int) -> tuple[list[Item], int | None, int | None]:
    """Code that accesses the word at a1, and what it loads and stores; None: it does not."""
    if name in LOADS:
        encode, width, extends = LOADS[name]
        value = there & (1 << width) - 1
        if extends and value >> (width - 1):
            value |= 0xFFFF_FFFF >> width << width
        return [encode(rd, A1)], value, None
    if name in STORES:
        store, width = STORES[name]
        return [store(A2, A1)], None, operand & (1 << width) - 1
    if name == "lr":
        return [lr(rd, A1)], there, None
    if name == "sc":  # behind the reservation that the program makes before it looks
        return [sc(rd, A2, A1)], None, operand
    if name == "failed sc":
        return [sc(rd, A2, A1)], None, None
    function = int(name.removeprefix("amo "))
    return [atomic(function, rd, A2, A1)], there, AMOS[function](there, operand) & 0xFFFF_FFFF


EDGES = st.sampled_from([0, 0x41, 0x80, 0x141, 0x8000, 0x1_8041, 0x8000_0000, 0xFFFF_FFFF])


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from([*LOADS, *STORES, "lr", "sc", "failed sc", *(f"amo {n}" for n in AMOS)]),
    there=EDGES | st.integers(0, 0xFFFF_FFFF),
    operand=EDGES | st.integers(0, 0xFFFF_FFFF),
    watch=st.sampled_from(["load", "store", "access"]),
    mask=st.sampled_from([0xFF, 0xFFFF, 0xFFFF_FFFF, 0x8000_0000]),
    wanted=st.sampled_from(["there", "operand", "loaded", "stored"]),
    rd=st.sampled_from([ZERO, A3]),
)
def test_a_trigger_compares_what_an_access_loads_or_stores(
    name: str, there: int, operand: int, watch: str, mask: int, wanted: str, rd: int
) -> None:
    access, loaded, stored = accesses(name, there, operand, rd)
    value = {"there": there, "operand": operand, "loaded": loaded, "stored": stored}[wanted] or 0
    seen = [one for kind, one in (("load", loaded), ("store", stored)) if one is not None and watch in (kind, "access")]
    trigger = Trigger(first=WORD, watch=watch, mask=mask, value=value & mask)
    bench = Bench(
        li2(A1, WORD), li2(A2, operand), li2(T0, there), sw(T0, A1), lr(S1, A1) if name == "sc" else NOP,
        # The block looks at no hart before this.
        write_csr(SELECT, 0), write_csr(VALUE, trigger.registers()[0]), write_csr(SELECT, 42),
        access, csrr(S2, VALUE), HALT,
        trace=TraceUnitConfig(enabled=True, **{**sequence(trigger), "triggers": (replace(trigger, harts=0),)}),
    ).run()  # fmt: skip
    assert bench.x(S2) == any(not (one ^ value) & mask for one in seen)


# --- The trace buffer, read by the program ----------------------------------------------------------------------------


@given(rounds=st.integers(1, 60), words=st.sampled_from([16, 64, 1024]))
@settings(max_examples=20, deadline=None)
def test_a_program_reads_the_trace_buffer(rounds: int, words: int) -> None:
    """It stops its trace, and copies pointers and words into memory."""
    copied = WORD + 0x100
    bench = Bench(
        li2(T0, rounds), li2(A1, WORD), Label("on"), sw(T0, A1), lw(A2, A1), div(A3, A2, A2),
        addi(T0, T0, -1), bne(T0, ZERO, "on"), csrwi(0x802, 0), NOP, NOP,
        [[write_csr(SELECT, 58 + n), csrr(S2 + n, VALUE)] for n in range(5)],
        li2(A1, copied), li2(A2, 0x0100_0000), li2(A3, 0x0100_0000 + words), Label("next"), csrw(SELECT, A2),
        csrr(A4, VALUE), sw(A4, A1), addi(A1, A1, 4), addi(A2, A2, 1), bltu(A2, A3, "next"), HALT,
        trace=TraceUnitConfig(enabled=True, buffer=words, sync=64),
    ).run(400_000)  # fmt: skip
    size, held, next_byte, oldest, status = (bench.x(S2 + n) for n in range(5))
    contents = bench.processor.read(copied, 4 * words)
    assert (size, status) == (4 * words, 0)
    assert held <= size
    assert bench.processor.trace(0) == (contents[oldest:] + contents[:oldest])[:held]
    assert oldest == (next_byte if held == size else 0)
    assert held == size or next_byte == held


def test_the_buffers_registers_cannot_be_written_and_end_with_it() -> None:
    def causes(select: int, write: bool, **trace: Any) -> int:
        access = csrw(VALUE, A1) if write else csrr(A1, VALUE)
        return Bench(
            la(T0, "trap"), csrw(0x305, T0), li2(A2, select), csrw(SELECT, A2), access, li(S10, 99), HALT,
            Org(0x80), Label("trap"), csrr(S10, 0x342), HALT,
            trace=TraceUnitConfig(enabled=True, **trace),
        ).run().x(S10)  # fmt: skip

    illegal, fine = 2, 99
    assert [causes(n, False, buffer=16) for n in (58, 62, 0x0100_0000, 0x0100_000F)] == [fine] * 4
    assert [causes(n, True, buffer=16) for n in (58, 62, 0x0100_0000)] == [illegal] * 3
    assert [causes(n, False, buffer=16) for n in (63, 0x0100_0010, 0x00FF_FFFF)] == [illegal] * 3
    assert causes(0x0100_0000, False) == illegal, "there is no buffer"
    assert [causes(n, True) for n in (52, 57)] == [fine] * 2


def test_the_status_says_that_a_trigger_was_marked_and_that_the_buffer_is_full() -> None:
    for after, status in ((0, 3), (16, 1)):
        values = unit(actions=(Action(1, mark=True),), buffer=16, after=after)
        bench = Bench([stores_and_looks("a")[:-1], write_csr(SELECT, 62), csrr(S2, VALUE), HALT], **values).run()
        assert bench.x(S2) == status


# --- What the profile counts ------------------------------------------------------------------------------------------

CODES = {
    "data_cache_stall_cycles": (6, 7, 9, 10),
    "instruction_cache_stall_cycles": (4, 5),
    "tlb_stall_cycles": (11,),
    "external_stall_cycles": (5, 7, 10),
    "dependency_stall_cycles": (1,),
    "refill_cycles": (2,),
    "slot_cycles": (3,),
    "stall_cycles": tuple(range(1, 12)),
}


@given(
    chosen=st.lists(st.tuples(st.sampled_from(sorted(CODES)), st.integers(1, 7)), min_size=1, max_size=6),
    issue=st.sampled_from(["strict", "skip"]),
)
@settings(max_examples=15, deadline=None)
def test_each_counter_has_its_source_and_its_harts(chosen: list[tuple[str, int]], issue: str) -> None:
    counters = tuple(ProfileCounter(source, harts) for source, harts in chosen)
    trace = TraceUnitConfig(enabled=True, window=3000, counters=counters)
    ran = run(Config.of(threads=3, issue=issue, trace=trace), MachineImage.of(example("pointer-chase")), 40_000)
    windows = ran.decode(0)[1].profile()
    for number in range(6):
        expected = 0
        if number < len(chosen):
            source, harts = chosen[number]
            expected = sum(
                cycles
                for hart, log in ran.log.items()
                for cycle, cycles, _, what in log
                if harts >> hart & 1 and what in CODES[source] and cycle + cycles <= 40_000
            )
        assert sum(window[1 + number] for window in windows) == expected


def test_instructions_branches_and_traps_are_counted() -> None:
    counters = tuple(ProfileCounter(source) for source in ("instructions", "taken_branches", "traps"))
    stop = sequence(Trigger(first=STORE, count=3), actions=(Action(1, stop=True),))
    ran = traced(loop(30), window=100_000, counters=counters, **stop)
    ((_, instructions, taken, traps, *rest),) = ran.decode(0)[1].profile()
    assert instructions == sum(what in (16, 17) for *_, what in ran.log[0])
    assert (traps, rest) == (sum(what == 18 for *_, what in ran.log[0]), [0, 0, 0])
    jumps = [n for n, (*_, what) in enumerate(ran.log[0]) if what == 16]
    assert 0 < taken <= len(jumps)


def test_a_program_chooses_what_is_counted() -> None:
    bench = Bench(
        [write_csr(SELECT, 52), write_csr(VALUE, 11), write_csr(SELECT, 53), write_csr(VALUE, 13)],
        write_csr(SELECT, 52), csrr(S2, VALUE), write_csr(SELECT, 57), csrr(S3, VALUE),
        la(T0, "trap"), csrw(0x305, T0), write_csr(VALUE, 15), li(S10, 1), HALT,
        Org(0x80), Label("trap"), csrr(S10, 0x342), HALT, trace=TraceUnitConfig(enabled=True),
    ).run()  # fmt: skip
    assert [bench.x(n) for n in (S2, S3, S10)] == [11, 5, 2]
