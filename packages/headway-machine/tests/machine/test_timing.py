"""Section 2 of docs/machine.md, rule by rule: every number here was worked out by hand from that page."""

from __future__ import annotations

from typing import Any

import pytest

from headway_machine.config import L2, Bus, Cache, MemoryConfig, Pipeline, ProfileConfig, ProgressUnitConfig, Tlb

from .assembler import (
    A0,
    A1,
    A2,
    A3,
    A4,
    A5,
    EBREAK,
    ECALL,
    FENCE,
    FENCE_I,
    HALT,
    MRET,
    NOP,
    RAM,
    S0,
    S10,
    S11,
    T0,
    T1,
    T2,
    ZERO,
    Bench,
    Item,
    Label,
    Org,
    add,
    addi,
    amoadd,
    auipc,
    beq,
    blt,
    bltu,
    bne,
    csrr,
    csrw,
    cycles_of,
    div,
    everywhere,
    j,
    la,
    lbu,
    lh,
    li,
    li2,
    lr,
    lui,
    lw,
    mul,
    mv,
    operate,
    sc,
    sh,
    sw,
)

NO_TLB = Tlb(entries=0)
DATA = RAM + 0x1_0000
UART_IE = 0x1000_0010
MISS = 1 + 4 + 60
"""Seen by the arbiter the tick after, a line's time on the bus, external memory."""
POINTERS: list[Item] = [li(A1, DATA), li(A2, 5), li(A3, 7), li2(S0, UART_IE)]


# --- Execution --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "instruction",
    [
        NOP,
        add(A0, A2, A3),
        lui(A0, 1),
        auipc(A0, 1),
        csrr(A0, 0x340),
        csrw(0x340, A2),
        FENCE,
        beq(A2, A3, 8),
        mul(A0, A2, A3),
        operate(3, 1, A0, A2, A3),
    ],
)
def test_most_instructions_hold_their_hart_for_one_cycle(instruction: Item) -> None:
    assert cycles_of(instruction, before=POINTERS) == 1
    assert cycles_of([instruction] * 5, before=POINTERS) == (
        5 if instruction not in (mul(A0, A2, A3), operate(3, 1, A0, A2, A3)) else 13
    )


@pytest.mark.parametrize("f3", [4, 5, 6, 7])
def test_a_division_takes_34_cycles_or_what_the_configuration_says(f3: int) -> None:
    division = operate(f3, 1, A0, A2, A3)
    assert cycles_of(division, before=POINTERS) == 34
    assert cycles_of(division, division, before=POINTERS) == 68
    assert cycles_of(division, mv(A4, A0), before=POINTERS) == 35
    assert cycles_of(division, before=POINTERS, pipeline=Pipeline(divide=7)) == 7


def test_a_device_is_4_cycles_away() -> None:
    assert cycles_of(lw(A0, S0), before=POINTERS) == 4
    assert cycles_of(sw(A2, S0), before=POINTERS) == 4
    assert cycles_of(sw(A2, S0), before=POINTERS, pipeline=Pipeline(device=9)) == 9


@pytest.mark.parametrize(("between", "stalls"), [(0, 1), (1, 0), (2, 0)])
def test_a_loaded_value_can_be_used_2_cycles_after_the_issue(between: int, stalls: int) -> None:
    load = lw(A0, T2)
    before: list[Item] = [la(T2, "here"), Label("here")]
    assert cycles_of(load, [NOP] * between, mv(A4, A0), before=before) == 2 + between + stalls
    assert cycles_of(load, [NOP] * between, mv(A4, A0), before=before, pipeline=Pipeline(load=1)) == 2 + between


@pytest.mark.parametrize(("between", "stalls"), [(0, 2), (1, 1), (2, 0), (3, 0)])
def test_a_product_can_be_used_3_cycles_after_the_issue(between: int, stalls: int) -> None:
    assert cycles_of(mul(A0, A2, A3), [NOP] * between, mv(A4, A0), before=POINTERS) == 2 + between + stalls


def test_an_instruction_that_writes_the_register_waits_too_and_others_do_not() -> None:
    assert cycles_of(mul(A0, A2, A3), mv(A0, A2), before=POINTERS) == 4
    assert cycles_of(mul(A0, A2, A3), mv(A4, A2), before=POINTERS) == 2
    assert cycles_of(mul(ZERO, A2, A3), mv(A4, ZERO), before=POINTERS) == 2


def test_atomics_are_as_late_as_loads() -> None:
    before: list[Item] = [la(T2, "here"), j("on"), Label("here"), NOP, Label("on")]
    assert cycles_of(lr(A0, T2), mv(A4, A0), before=before) == 3
    assert cycles_of(amoadd(A0, ZERO, T2), mv(A4, A0), before=before) == 3
    assert cycles_of(sc(A0, ZERO, T2), mv(A4, A0), before=before) == 3


def test_the_wait_for_a_value_is_stall_data() -> None:
    bench = Bench(mul(A0, A2, A3), mv(A4, A0), lw(A0, T2), mv(A4, A0), HALT, at=0x0800_0000)
    assert bench.run().states()[128 + 5].count == 1  # address 0 is not in memory: the trap, and then a trap for ever
    bench = Bench(la(T2, "here"), Label("here"), mul(A0, A2, A3), mv(A4, A0), lw(A0, T2), mv(A4, A0), HALT).run()
    user = bench.states()[0]
    assert (user.instructions, user.cycles, user.stall, user.data) == (7, 10, 3, 3)


@pytest.mark.parametrize("jump", [beq(ZERO, ZERO, 8), bne(A2, A3, 8), blt(A2, A3, 8), bltu(A2, A3, 8), j(8), FENCE_I])
def test_the_pipeline_is_refilled_after_a_taken_branch_in_2_cycles(jump: Item) -> None:
    program: list[Item] = [jump, *([NOP] if jump != FENCE_I else [])]
    assert cycles_of(*program, before=POINTERS) == 3
    assert cycles_of(*program, before=POINTERS, pipeline=Pipeline(refill=0)) == 1
    assert cycles_of(*program, before=POINTERS, pipeline=Pipeline(refill=5)) == 6


def test_a_trap_refills_the_pipeline_on_its_way_in_and_out() -> None:
    program: list[Item] = [la(T0, "handler"), csrw(0x305, T0), j("go"), Org(0x40), Label("handler"), csrr(T0, 0x341)]
    program += [addi(T0, T0, 4), csrw(0x341, T0), MRET, Label("go")]
    assert cycles_of(ECALL, before=program) == 3 + 3 + 3
    assert cycles_of(EBREAK, before=program) == 3 + 3 + 3
    assert cycles_of(0, before=[*program]) == 3 + 3 + 3


def test_refilling_is_stall_refill() -> None:
    user = Bench(j(4), j(4), NOP, HALT).run().states()[0]
    assert (user.instructions, user.cycles, user.stall, user.refill) == (4, 8, 4, 4)


def test_the_writes_of_hwblock_and_hwauth_take_16_and_40_cycles() -> None:
    before: list[Item] = [li(A1, DATA)]
    assert cycles_of(csrw(0x7C3, A1), before=before) == 16
    assert cycles_of(csrw(0x7C3, A1), before=before, progress=ProgressUnitConfig(switch=3)) == 3
    assert cycles_of(csrw(0x801, ZERO), before=before) == 40
    assert cycles_of(csrw(0x801, ZERO), before=before, profile=ProfileConfig(authorise=5)) == 5


# --- Strict turn ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instructions", "rotations"),
    [
        ([NOP], 1),
        ([mul(A0, A2, A3), mv(A4, A0)], 2),
        ([j(4)], 1),
        ([div(A0, A2, A3)], 6),
        ([lw(A0, S0)], 1),
        ([csrw(0x7C3, A1)], 3),
        ([csrw(0x801, ZERO)], 7),
    ],
)
def test_with_6_harts_in_strict_turn_everything_takes_whole_rotations(instructions: list[Item], rotations: int) -> None:
    assert cycles_of(*instructions, before=POINTERS, threads=6, issue="strict") + 1 == 6 * (rotations + 1)


@pytest.mark.parametrize(
    ("threads", "use", "branch"),
    # A product is 3 cycles away: 2 harts lose a rotation, 3 none. A refill is over in the third cycle after.
    [(1, 4, 3), (2, 6, 4), (3, 6, 3), (4, 8, 4), (8, 16, 8)],
)
def test_strict_turn_rounds_stalls_up_to_rotations(threads: int, use: int, branch: int) -> None:
    product = cycles_of(mul(A0, A2, A3), mv(A4, A0), before=POINTERS, threads=threads)
    jump = cycles_of(j(4), before=POINTERS, threads=threads)
    assert (product + 1 - threads, jump + 1 - threads) == (use, branch)


def test_cycle_c_belongs_to_hart_c_mod_t() -> None:
    bench = Bench(csrr(A0, 0xB00), csrr(A1, 0xB00), HALT, threads=6, boot="all").run(1000)
    assert [bench.x(A0, hart) for hart in range(6)] == [6, 7, 8, 9, 10, 5]
    assert [bench.x(A1, hart) for hart in range(6)] == [12, 13, 14, 15, 16, 11]


def test_strict_time_does_not_depend_on_the_other_harts() -> None:
    def program(others: Item) -> list[Item]:
        work = [mul(A0, A2, A3), add(A0, A0, A0), div(A1, A2, A0), lw(A4, T2), add(A4, A4, A4), j(4)]
        return [csrr(T0, 0xF14), la(T2, "work"), bne(T0, ZERO, "other"), csrr(S10, 0xB00), Label("work"), *work,
                csrr(S11, 0xB00), HALT, Label("other"), others, j("other")]  # fmt: skip

    times = set()
    for others in (NOP, div(A0, A0, A1), mul(A0, A0, A0), [0x1050_0073]):
        bench = Bench(*program(others), threads=6, boot="all").run(5000)
        times.add(bench.x(S11) - bench.x(S10))
        user = bench.states()[0]
        assert user.cycles == 6 * user.instructions + 30, "a division holds five rotations more"
        assert user.stall == 0
    assert times == {6 * 12}


# --- Skipping ---------------------------------------------------------------------------------------------------------


def test_harts_that_can_issue_share_the_cycles_in_turn() -> None:
    bench = Bench([NOP] * 30, HALT, threads=3, boot="all", issue="skip").run(1000)
    for hart in range(3):
        user = bench.states(hart)[0]
        assert user.instructions == 31
        assert (user.slot, user.stall) == (60, 60), "two others before each instruction but the first"
        assert user.cycles == user.instructions + user.slot


def test_a_hart_that_cannot_issue_is_skipped() -> None:
    program: list[Item] = [bne(A0, ZERO, "other"), [div(A1, A2, A3)] * 10, HALT, Label("other"), [NOP] * 340, HALT]
    bench = Bench(*program, threads=2, boot="all", issue="skip").run(5000)
    divider, other = bench.states(0)[0], bench.states(1)[0]
    assert divider.instructions == 12
    assert divider.cycles <= 1 + 340 + 1 + divider.slot
    assert other.cycles == other.instructions + other.slot + other.refill
    assert other.slot <= 12


# --- Memory -----------------------------------------------------------------------------------------------------------


def test_a_miss_waits_for_the_arbiter_the_bus_and_the_memory() -> None:
    assert cycles_of(lw(A0, A1), before=POINTERS, tlb=NO_TLB) == MISS + 1
    assert cycles_of(lw(A0, A1), lw(A0, A1, 28), lw(A0, A1, 4), before=POINTERS, tlb=NO_TLB) == MISS + 3 + 2
    assert cycles_of(sw(A0, A1), lw(A4, A1), before=POINTERS, tlb=NO_TLB) == MISS + 2
    slow: dict[str, Any] = {"bus": Bus(line=9), "memory": MemoryConfig(ram="256KiB", latency=100)}
    assert cycles_of(lw(A0, A1), before=POINTERS, tlb=NO_TLB, **slow) == 1 + 9 + 100 + 1


def test_a_miss_is_charged_to_the_class_it_turned_out_to_be() -> None:
    bench = Bench(POINTERS, lw(A0, A1), sw(A0, A1, 64), HALT, tlb=NO_TLB).run()
    user = bench.states()[0]
    assert (user.load, user.store, user.fetch, user.tlb) == (MISS, MISS, 0, 0)
    assert (user.memory, user.external) == (2 * MISS, 2 * MISS)
    counters = bench.counters()
    assert (counters["mpcx"], counters["mpci"], counters["epc"]) == (2 * MISS, 0, user.instructions)


TINY = Cache("64B", ways=1, line=32)


def test_the_second_level_is_10_ticks_away_and_internal() -> None:
    program: list[Item] = [lw(A0, A1), lw(A0, A1, 64), csrr(S10, 0xB00), lw(A4, A1), csrr(S11, 0xB00)]
    bench = Bench(POINTERS, *program, HALT, tlb=NO_TLB, l1d=TINY, l2=L2()).run()
    assert bench.x(S11) - bench.x(S10) == 1 + (1 + 4 + 10) + 1
    user = bench.states()[0]
    assert (user.memory, user.external) == (2 * MISS + 15, 2 * MISS)
    assert bench.counters()["mpci"] == 15


def test_the_second_level_forgets_what_was_used_longest_ago() -> None:
    reads: list[Item] = [lw(A0, A1), lw(A0, A1, 64), lw(A0, A1), lw(A0, A1, 128)]
    l2 = L2("64B", ways=2)
    # In a set of two lines 64 is the older one when 128 comes.
    assert cycles_of(lw(A4, A1), before=[POINTERS, reads], tlb=NO_TLB, l1d=TINY, l1i=TINY, l2=l2) == 16
    assert cycles_of(lw(A4, A1, 64), before=[POINTERS, reads], tlb=NO_TLB, l1d=TINY, l1i=TINY, l2=l2) == MISS + 1


def test_a_set_forgets_the_line_that_was_used_longest_ago() -> None:
    stride = 4096
    reads: list[Item] = [POINTERS, li(T0, stride), mv(T1, A1)]
    reads += [[lw(A0, T1), add(T1, T1, T0)] for _ in range(4)]
    reads += [lw(A0, A1), lw(A0, T1), sub_stride(T2, A1, T0)]
    assert cycles_of(lw(A4, A1), before=reads, tlb=NO_TLB) == 1
    assert cycles_of(lw(A4, T2), before=reads, tlb=NO_TLB) == MISS + 1


def sub_stride(rd: int, base: int, stride: int) -> Item:
    """The address of the second line of the set."""
    return add(rd, base, stride)


@pytest.mark.parametrize(("dirty", "wait"), [(False, 0), (True, 2)])
def test_a_dirty_line_is_written_back_after_the_one_that_displaces_it(dirty: bool, wait: int) -> None:
    """With no latency: B asks at 0, is on the bus from 1 to 5; C asks at 6; a write-back has the bus from 5 to 9."""
    first: list[Item] = [POINTERS, sw(A2, A1) if dirty else lw(A0, A1)]
    measured: list[Item] = [lw(A0, A1, 64), lw(A4, A1, 32)]
    took = cycles_of(*measured, before=first, tlb=NO_TLB, l1d=TINY, memory=MemoryConfig(ram="256KiB", latency=0))
    assert took == 5 + 1 + 5 + wait + 1


def test_a_store_that_writes_through_takes_the_bus_for_a_word_and_allocates_nothing() -> None:
    through: dict[str, Any] = {"tlb": NO_TLB, "l1d": Cache("16KiB", ways=4, write="through")}
    assert cycles_of(sw(A2, A1), before=POINTERS, **through) == 1
    # The first is on the bus in the next cycle: the second finds the buffer full for one.
    assert cycles_of(sw(A2, A1), sw(A2, A1, 64), before=POINTERS, **through) == 3
    assert cycles_of(sw(A2, A1), NOP, sw(A2, A1, 64), before=POINTERS, **through) == 3
    assert cycles_of(sw(A2, A1), sw(A2, A1), before=POINTERS, bus=Bus(word=5), **through) == 1 + 5 + 1
    assert cycles_of(sw(A2, A1), lw(A4, A1), before=POINTERS, bus=Bus(word=2), **through) == 1 + 1 + MISS + 1
    bench = Bench(POINTERS, sw(A2, A1), sw(A2, A1), HALT, bus=Bus(word=5), **through).run()
    assert (bench.states()[0].store, bench.states()[0].external) == (5, 5)


def test_an_atomic_that_writes_through_must_still_read_its_line() -> None:
    through: dict[str, Any] = {"tlb": NO_TLB, "l1d": Cache("16KiB", ways=4, write="through")}
    assert cycles_of(amoadd(A0, A2, A1), before=POINTERS, **through) == MISS + 1
    assert cycles_of(amoadd(A0, A2, A1), before=[POINTERS, lw(A0, A1), NOP], **through) == 1


@pytest.mark.parametrize("instruction", [lw(A0, A1, 30), sw(A2, A1, 29), lh(A0, A1, 31), sh(A2, A1, 31)])
def test_an_access_that_crosses_a_line_takes_2_cycles(instruction: Item) -> None:
    warm: list[Item] = [POINTERS, sw(A2, A1), sw(A2, A1, 32)]
    assert cycles_of(instruction, before=warm, tlb=NO_TLB) == 2
    assert cycles_of(lw(A0, A1, 28), lbu(A0, A1, 31), lw(A0, A1, 1), before=warm, tlb=NO_TLB) == 3 + 2
    assert cycles_of(instruction, before=POINTERS, tlb=NO_TLB) == 2 * MISS + 2


def test_a_page_that_the_micro_tlb_does_not_know_takes_20_ticks() -> None:
    a, b, c = DATA, DATA + 0x1000, DATA + 0x2000
    warm: list[Item] = [li(A1, a), li(A2, b), li(A3, c), lw(A0, A1), lw(A0, A2), lw(A0, A3)]
    two = Tlb(entries=2)
    assert cycles_of(lw(A4, A3), before=warm, tlb=two) == 1
    assert cycles_of(lw(A4, A2), before=warm, tlb=two) == 1
    assert cycles_of(lw(A4, A1), before=warm, tlb=two) == 21
    assert cycles_of(lw(A4, A2), lw(A0, A1), lw(A5, A2), lw(A0, A3), before=warm, tlb=two) == 1 + 21 + 1 + 21
    assert cycles_of(lw(A4, A1), before=warm, tlb=Tlb(entries=3)) == 1
    assert cycles_of(lw(A4, A1), before=warm, tlb=Tlb(entries=2, miss=7)) == 8
    assert cycles_of(lw(A4, A1), before=warm, tlb=Tlb(entries=2, miss=0)) == 1
    user = Bench(*warm, HALT, tlb=two).run().states()[0]
    assert (user.tlb, user.load, user.memory, user.external) == (60, 3 * MISS, 3 * MISS + 60, 3 * MISS)


@pytest.mark.parametrize("entries", [1, 2, 3])
def test_an_instruction_that_needs_more_pages_than_the_micro_tlb_has_is_still_served(entries: int) -> None:
    """Four pages: its own two, and its data's two."""
    program: list[Item] = [li(A1, DATA + 0xFFE), j("there"), Org(0xFFE), Label("there")]
    program += [lw(A0, A1), csrr(S10, 0xB00), HALT]
    bench = Bench(*program, at=RAM, tlb=Tlb(entries=entries)).run(20_000)
    assert bench.x(S10) > 0


def test_instruction_lines_are_looked_up_as_they_are_entered() -> None:
    # Two lines of eight: both missed, the page's miss before the first.
    bench = Bench([NOP] * 15, HALT, at=RAM).run()
    user = bench.states()[0]
    assert (user.instructions, user.tlb, user.fetch) == (16, 20, 2 * MISS)
    assert user.cycles == 16 + 20 + 2 * MISS


def test_an_instruction_across_two_lines_needs_both() -> None:
    bench = Bench(b"\x01\x00", [NOP] * 7, NOP, HALT, at=RAM, tlb=NO_TLB).run()
    user = bench.states()[0]
    assert (user.instructions, user.fetch) == (10, 2 * MISS)


def test_fence_i_empties_the_instruction_cache() -> None:
    loop: list[Item] = [li(T0, 3), Label("again"), addi(T0, T0, -1), bne(T0, ZERO, "again"), HALT]
    user = Bench(*loop, at=RAM, tlb=NO_TLB).run().states()[0]
    assert user.fetch == MISS
    loop.insert(2, FENCE_I)
    user = Bench(*loop, at=RAM, tlb=NO_TLB).run().states()[0]
    assert user.fetch == 4 * MISS


def test_a_jump_within_a_page_and_line_looks_nothing_up() -> None:
    program: list[Item] = [li(T0, 50), Label("again"), addi(T0, T0, -1), bne(T0, ZERO, "again"), HALT]
    user = Bench(*program, at=RAM).run().states()[0]
    assert (user.memory, user.refill) == (MISS + 20, 2 * 49)


# --- Several harts and cores ------------------------------------------------------------------------------------------


def wait_until(cycle: int) -> list[Item]:
    """Spins until the core's cycle, three cycles a turn and more."""
    return [li2(T0, cycle), csrr(T1, 0xB00), bltu(T1, T0, -4)]


def test_harts_of_a_core_that_miss_the_same_line_wait_for_one_request() -> None:
    def waits(second: int) -> tuple[int, int]:
        program: list[Item] = [li(A1, DATA), beq(A0, ZERO, 8), addi(A1, A1, second)]
        bench = Bench(*program, [NOP] * 3, lw(A4, A1), HALT, threads=2, boot="all", tlb=NO_TLB).run()
        return bench.states(0)[0].load, bench.states(1)[0].load

    # In strict turn of two hart 1 asks in cycle 15 and hart 0, which took a branch, in cycle 16. The line comes at
    # 15 + 65 = 80;
    # hart 0 goes on in cycle 80 and hart 1 in 81: what lies between, in whole rotations.
    assert waits(0) == (64, 66)
    # A line of its own is seen at 17, has the bus from 20, and comes at 84.
    assert waits(64) == (68, 66)


def test_cores_that_ask_at_the_same_time_are_served_in_turn() -> None:
    bench = Bench(csrr(S10, 0xB00), HALT, at=RAM, cores=4, boot="all").run()
    came = [bench.x(S10, hart) for hart in range(4)]
    first = came.index(min(came))
    assert [came[(first + i) % 4] for i in range(4)] == [85, 89, 93, 97]


def test_a_core_that_asks_for_much_does_not_keep_the_bus_from_one_that_asks_for_little() -> None:
    """Four harts of core 0 ask before the one of core 1, which is served right after the first of them."""
    work: list[Item] = [slot_address(A1, A0), lw(A4, A1), csrr(S11, 0xB00), HALT]
    program: list[Item] = [
        li(T2, 4), bltu(A0, T2, "first"), bne(A0, T2, "never"), wait_until(20_040), work,
        Label("never"), HALT, Label("first"), wait_until(20_000), work,
    ]  # fmt: skip
    bench = everywhere(
        *program,
        cores=2,
        threads=4,
        issue="skip",
        tlb=NO_TLB,
        bus=Bus(line=100),
        memory=MemoryConfig(ram="256KiB", latency=0),
    ).run(40_000)
    ends = [bench.x(S11, hart) for hart in range(5)]
    assert ends[4] > min(ends[:4])
    assert sorted(ends).index(ends[4]) == 1
    assert max(ends) - min(ends) in range(395, 406)


def slot_address(rd: int, number: int) -> Item:
    """A line of its own for each hart, apart from the sets that code was copied through."""
    return [li2(rd, DATA), 5 << 20 | number << 15 | 1 << 12 | T2 << 7 | 0x13, add(rd, rd, T2)]


SHARING: list[Item] = [li(A1, DATA), li(A2, 1)]


def two_cores(zero: list[Item], one: list[Item], **values: Any) -> Bench:
    """Programs for two cores of one hart, from their tightly coupled memories."""
    program: list[Item] = [SHARING, bne(A0, ZERO, "one"), zero, HALT, Label("one"), one, HALT]
    return everywhere(*program, cores=2, tlb=NO_TLB, **values).run(60_000)


def measure(instruction: Item) -> list[Item]:
    return [csrr(S10, 0xB00), instruction, csrr(S11, 0xB00)]


def took(bench: Bench, hart: int) -> int:
    return bench.x(S11, hart) - bench.x(S10, hart) - 1


def test_a_store_takes_the_bus_for_a_word_where_another_core_has_the_line_too() -> None:
    zero: list[Item] = [lw(A4, A1), wait_until(10_000), measure(sw(A2, A1))]
    alone = two_cores(zero, [NOP])
    assert took(alone, 0) == 1
    shared = two_cores(zero, [lw(A4, A1)])
    assert took(shared, 0) == 3
    assert shared.states(0)[0].store == 2
    assert took(two_cores(zero, [lw(A4, A1)], bus=Bus(word=7)), 0) == 9
    again = two_cores([lw(A4, A1), wait_until(10_000), sw(A2, A1), measure(sw(A2, A1))], [lw(A4, A1)])
    assert took(again, 0) == 1, "nobody else has it any more"


@pytest.mark.parametrize("write", ["back", "through"])
def test_a_store_takes_the_line_out_of_the_other_cores_caches(write: str) -> None:
    one: list[Item] = [lw(A4, A1), wait_until(20_000), measure(lw(A5, A1))]
    values = {"l1d": Cache("16KiB", ways=4, write=write)}
    bench = two_cores([wait_until(10_000), sw(A2, A1)], one, **values)
    assert took(bench, 1) == MISS + 1
    assert bench.x(A5, 1) == 1
    bench = two_cores([wait_until(10_000), sw(A2, A1, 32)], one, **values)
    assert took(bench, 1) == 1


def test_what_another_core_displaced_is_no_longer_shared() -> None:
    """Core 1 reads the line and then enough others of its set; core 0's store needs no upgrade."""
    one: list[Item] = [lw(A4, A1), lw(A4, A1, 64)]
    zero: list[Item] = [lw(A4, A1), wait_until(10_000), measure(sw(A2, A1))]
    assert took(two_cores(zero, one, l1d=TINY, l1i=TINY), 0) == 1


def test_the_first_time_round_a_loop_is_like_any_other() -> None:
    """In skip turn a hart that waits for a product leaves its cycle to the other, the first time as later."""

    def cycles(rounds: int) -> int:
        work: list[Item] = [[mul(A1, A2, A3), mv(A4, A1)] for _ in range(8)]
        program: list[Item] = [bne(A0, ZERO, "other"), li(T0, rounds), Label("again"), work, addi(T0, T0, -1)]
        program += [bne(T0, ZERO, "again"), HALT, Label("other"), [NOP] * 400, HALT]
        return Bench(*program, threads=2, boot="all", issue="skip").run(3000).states()[0].cycles

    assert cycles(3) - cycles(2) == cycles(4) - cycles(3) == cycles(2) - cycles(1)
    assert cycles(2) - cycles(1) == 45
