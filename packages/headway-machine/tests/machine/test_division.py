"""Section 10 of docs/machine.md: the parts of caches and bus that harts and threads may use."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway_machine.config import L2, TCM, Bus, Cache, Division, MemoryConfig, Tlb

from .assembler import (
    A0,
    A1,
    A2,
    A3,
    A4,
    HALT,
    MRET,
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
    beq,
    bltu,
    bne,
    csrr,
    csrw,
    csrwi,
    div,
    j,
    la,
    li,
    li2,
    lw,
    sw,
    write_csr,
)

HWBLOCK, HWLEAVE = 0x7C3, 0x7C4
DVL1I, DVL1D, DVL2, DVBUS, HWSYNC = 0x7D3, 0x7D4, 0x7D5, 0x7D6, 0x803
DATA = RAM + 0x1_0000
NO_TLB = Tlb(entries=0)
MISS = 65
WAYS, SETS, LINE = 4, 4, 32
SMALL_CACHE = Cache(WAYS * SETS * LINE, ways=WAYS, line=LINE)


@dataclass
class Model:
    """A cache with ways, of which each access may fill some: what was used longest ago goes first."""

    clock: int = 0
    lines: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """(set, way) to (tag, when it was used)."""

    def misses(self, tag: int, where: int, ways: int) -> bool:
        self.clock += 1
        for way in range(WAYS):
            if self.lines.get((where, way), (-1, 0))[0] == tag:
                self.lines[where, way] = tag, self.clock
                return False
        allowed = [way for way in range(WAYS) if ways >> way & 1]
        empty = [way for way in allowed if (where, way) not in self.lines]
        victim = empty[0] if empty else min(allowed, key=lambda way: self.lines[where, way][1])
        self.lines[where, victim] = tag, self.clock
        return True


ACCESSES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 1), st.none() | st.integers(1, 15)), min_size=1, max_size=40
)


@settings(deadline=None)
@given(ACCESSES)
@example([(tag, 0, 1) for tag in (0, 1, 0, 1)])
@example([(0, 0, 15), (0, 0, 1), (1, 0, None), (0, 0, None)])
def test_lines_are_placed_in_the_ways_of_the_mask_and_found_in_all(steps: list[tuple[int, int, int | None]]) -> None:
    model, ways, expected = Model(), 15, 0
    program: list[Item] = []
    for tag, where, mask in steps:
        if mask is not None:
            ways = mask
            program += [li(A2, mask), csrw(DVL1D, A2)]
        program += [li2(A1, DATA + LINE * (SETS * tag + where)), lw(A0, A1), NOP, NOP]
        expected += model.misses(tag, where, ways)
    bench = Bench(program, HALT, tlb=NO_TLB, l1d=SMALL_CACHE, l1i=SMALL_CACHE).run(100_000)
    assert bench.states()[0].load == MISS * expected


def alternating(**values: Any) -> int:
    """Cycles of load stalls of a hart that reads eight times from each of two lines of one set."""
    reads: list[Item] = [li2(A1, DATA), li2(A2, DATA + LINE * SETS), [[lw(A0, A1), lw(A3, A2)] for _ in range(8)]]
    bench = Bench(reads, HALT, **{"tlb": NO_TLB, "l1d": SMALL_CACHE, "l1i": SMALL_CACHE, **values}).run(100_000)
    return bench.states()[0].load


def test_the_configuration_gives_harts_their_ways() -> None:
    assert alternating() == 2 * MISS
    assert alternating(divisions=(Division(1, l1d=1),)) == 16 * MISS
    assert alternating(divisions=(Division(1, l1d=8),)) == 16 * MISS
    assert alternating(divisions=(Division(1, l1d=9),)) == 2 * MISS
    assert alternating(divisions=(Division(2, l1d=1),)) == 2 * MISS, "it is for another hart"
    assert alternating(divisions=(Division(1, l1i=1),)) == 2 * MISS


def test_the_second_level_is_divided_too() -> None:
    """The first level has one line. What the second level delivers comes 15 ticks later than asked for."""
    tiny, l2 = Cache(64, ways=1, line=32), L2("128B", ways=2)
    shape: dict[str, Any] = {"l1d": tiny, "l1i": tiny, "l2": l2}
    strided: list[Item] = [li2(A1, DATA), li2(A2, DATA + 64), [[lw(A0, A1), lw(A3, A2)] for _ in range(8)]]

    def stalls(ways: int) -> int:
        bench = Bench(strided, HALT, tlb=NO_TLB, divisions=(Division(1, l2=ways),), **shape).run(100_000)
        return bench.states()[0].load

    assert stalls(0) == stalls(3) == 2 * MISS + 14 * 15
    assert stalls(1) == stalls(2) == 16 * MISS


def test_the_instruction_cache_is_divided_too() -> None:
    """Two pieces of code in one set, which call each other."""
    body: list[Item] = [
        li(T0, 8), j("first"), Org(0x80), Label("first"), j("second"),
        Org(0x80 + LINE * SETS), Label("second"), addi(T0, T0, -1), bne(T0, ZERO, "first"), HALT,
    ]  # fmt: skip

    def stalls(ways: int) -> int:
        shape: dict[str, Any] = {"l1i": SMALL_CACHE, "l1d": SMALL_CACHE, "tlb": NO_TLB}
        return Bench(body, at=RAM, divisions=(Division(1, l1i=ways),), **shape).run(100_000).states()[0].fetch

    assert stalls(0) == stalls(3) == 3 * MISS
    assert stalls(1) == (1 + 16) * MISS


# --- Registers --------------------------------------------------------------------------------------------------------


def written(csr: int, value: int, **values: Any) -> int | None:
    """What the register holds after the write; None if that was an illegal instruction."""
    bench = Bench(
        la(T0, "trap"), csrw(0x305, T0), li2(A1, value), csrw(csr, A1), csrr(S11, csr), li(S10, 1), HALT,
        Org(0x80), Label("trap"), li(S10, 2), HALT, **values,
    ).run()  # fmt: skip
    assert bench.x(S10) in (1, 2)
    return bench.x(S11) if bench.x(S10) == 1 else None


@pytest.mark.parametrize(
    ("csr", "value", "held"),
    [
        (DVL1I, 0, 15), (DVL1I, 3, 3), (DVL1I, 0x1F, 15), (DVL1I, 0x10, None),
        (DVL1D, 0, 15), (DVL1D, 8, 8), (DVL1D, 0xFFFF_FFFF, 15), (DVL1D, 0xFFFF_FFF0, None),
        (DVL2, 0, 0), (DVL2, 1, None),
        (DVBUS, 0, 0), (DVBUS, 1, 1), (DVBUS, 16, 16), (DVBUS, 17, None), (DVBUS, 0xFFFF_FFFF, None),
    ],
)  # fmt: skip
def test_a_register_takes_a_part_that_there_is(csr: int, value: int, held: int | None) -> None:
    assert written(csr, value) == held


def test_with_a_second_level_its_ways_can_be_named() -> None:
    assert written(DVL2, 0x81, l2=L2()) == 0x81
    assert written(DVL2, 0, l2=L2()) == 0xFF


def test_the_description_says_what_can_be_divided() -> None:
    reads: list[Item] = [li2(S0, 0x1002_0000), [lw(10 + n, S0, 24 + 4 * n) for n in range(4)], HALT]
    assert [Bench(reads).run().x(10 + n) for n in range(4)] == [4, 4, 0, 1024]
    other = Bench(reads, l1i=Cache("4KiB", ways=1), l1d=Cache("4KiB", ways=8), l2=L2(), bus=Bus(window=99)).run()
    assert [other.x(10 + n) for n in range(4)] == [1, 8, 8, 99]


def test_user_mode_may_only_synchronise() -> None:
    def cause(instruction: Item) -> int:
        return Bench(
            la(T0, "trap"), csrw(0x305, T0), la(T0, "user"), csrw(0x341, T0), li2(A1, DATA), MRET,
            Org(0x80), Label("trap"), csrr(S10, 0x342), HALT, Label("user"), instruction, 0x0000_0073,
        ).run().x(S10)  # fmt: skip

    ecall, illegal = 8, 2
    assert cause(csrw(HWSYNC, A1)) == ecall
    assert [cause(csrr(A0, csr)) for csr in (DVL1I, DVL1D, DVL2, DVBUS)] == [illegal] * 4
    assert cause([addi(A1, A1, 4), csrw(HWSYNC, A1)]) == illegal
    assert cause(csrw(HWSYNC, ZERO)) == illegal


# --- Threads ----------------------------------------------------------------------------------------------------------

BLOCK_A, BLOCK_B = DATA + 0x1000, DATA + 0x1080


def with_blocks(*program: Item, **values: Any) -> Bench:
    """Two blocks: s0 has A's address and s1 B's; the data cache is small, and nothing else misses."""
    shape = {"tlb": NO_TLB, "l1d": SMALL_CACHE, "l1i": SMALL_CACHE, "memory": MemoryConfig(ram="256KiB")}
    bench = Bench(li2(S0, BLOCK_A), li2(S1, BLOCK_B), *program, HALT, start=False, **{**shape, **values})
    for number, block in enumerate((BLOCK_A, BLOCK_B), 1):
        bench.processor.write(block + 64, number.to_bytes(4, "little"))
    bench.processor.start(TCM, None)
    return bench.run(200_000)


ROUNDS: list[Item] = [li2(A1, DATA), li2(A2, DATA + LINE * SETS), [[lw(A0, A1), lw(A3, A2)] for _ in range(8)]]
"""Eight times each of two lines of one set."""


def part(which: int, value: int, block: int = S0) -> Item:
    """The part in a thread's block; the store misses, and is none of the rounds."""
    return [li(A4, value), sw(A4, block, 112 + 4 * which)]


def test_a_thread_brings_the_parts_in_its_block_along() -> None:
    def loads(*program: Item) -> int:
        return with_blocks(*program).threads()[1][0].load

    assert loads(csrw(HWBLOCK, S0), ROUNDS) == 2 * MISS
    assert loads(part(1, 1), csrw(HWBLOCK, S0), ROUNDS) == 16 * MISS
    assert loads(part(1, 0xF0), csrw(HWBLOCK, S0), ROUNDS) == 2 * MISS, "no such way: the hart's own"
    assert loads(csrwi(DVL1D, 1), csrw(HWBLOCK, S0), ROUNDS) == 16 * MISS
    assert loads(csrwi(DVL1D, 1), part(1, 3), csrw(HWBLOCK, S0), ROUNDS) == 2 * MISS
    assert loads(part(1, 1), csrw(HWBLOCK, S0), csrw(HWBLOCK, S1), csrw(HWBLOCK, S0), ROUNDS) == 16 * MISS


def test_the_hart_has_its_own_parts_back_when_the_thread_leaves() -> None:
    bench = with_blocks(part(1, 1), csrw(HWBLOCK, S0), csrw(HWBLOCK, S1), ROUNDS)
    assert bench.threads()[2][0].load == 2 * MISS
    bench = with_blocks(part(1, 1), csrw(HWBLOCK, S0), csrr(S11, DVL1D), csrwi(HWBLOCK, 0), csrr(S10, DVL1D))
    assert (bench.x(S11), bench.x(S10)) == (15, 15), "the register is the hart's"


def test_hwsync_loads_the_parts_of_a_thread_that_runs() -> None:
    def loads(*program: Item) -> int:
        return with_blocks(csrw(HWBLOCK, S0), *program).threads()[1][0].load

    assert loads(part(1, 1), ROUNDS) == 2 * MISS
    assert loads(part(1, 1), csrw(HWSYNC, S0), ROUNDS) == 16 * MISS
    assert loads(part(1, 1), csrw(HWSYNC, S0), part(1, 0), csrw(HWSYNC, S0), ROUNDS) == 2 * MISS
    assert loads(part(1, 1), csrw(HWSYNC, S1), ROUNDS) == 2 * MISS, "that thread does not run"


def test_hwsync_stores_the_counters_of_a_thread_that_runs() -> None:
    """Those before the instruction, whose write takes as long as a switch."""
    bench = with_blocks(csrw(HWBLOCK, S0), [NOP] * 7, csrw(HWSYNC, S0), csrr(S11, 0xCC0), csrr(S10, 0xCC5))
    assert bench.long(BLOCK_A) == 15 + 7
    assert bench.long(BLOCK_A + 40) == 15 + 7
    assert bench.x(S11) == 15 + 7 + 16
    bench = with_blocks(csrw(HWBLOCK, S0), [NOP] * 7, csrw(HWSYNC, S1))
    assert bench.long(BLOCK_B) == 0


@settings(deadline=None)
@given(st.integers(0, 120), st.sampled_from(["strict", "skip"]))
def test_a_threads_counters_can_be_read_from_another_hart(wait: int, issue: str) -> None:
    """What was read is what the counters were at that time: never more than later, and all of RPC in its parts."""
    other: list[Item] = [csrw(HWBLOCK, S0), Label("on"), [NOP] * 5, div(A3, A3, A3), lw(A4, A1), addi(A1, A1, 32),
        j("on")]  # fmt: skip
    reader: list[Item] = [li2(A2, 400), Label("before"), addi(A2, A2, -1), bne(A2, ZERO, "before"), [NOP] * wait,
        csrw(HWSYNC, S0), HALT]  # fmt: skip
    bench = with_blocks(
        li2(A1, DATA), beq(A0, ZERO, "reads"), other, Label("reads"), reader, threads=2, boot="all", issue=issue
    )
    read = [bench.long(BLOCK_A + 8 * n) for n in range(8)]
    assert read[5] == sum(read[n] for n in (0, 1, 2, 3, 4, 6))
    assert 0 < read[0] < read[5] <= bench.counters(1)["rpc"]
    bench2 = with_blocks(
        li2(A1, DATA), beq(A0, ZERO, "reads"), other, Label("reads"), [*reader[:-2], csrw(HWSYNC, S1), HALT],
        threads=2, boot="all", issue=issue,
    )  # fmt: skip
    assert bench2.counters(1) == bench.counters(1), "reading changes nothing"


# --- The bus ----------------------------------------------------------------------------------------------------------

BUS_LINE, WINDOW = 8, 256


def arrivals(share: int, lines: int = 60, **values: Any) -> list[int]:
    """When lines came that a hart asked for, one after the other; the times lie in its tightly coupled memory."""
    at = TCM + 0x1000
    program: list[Item] = [
        li2(A1, DATA), li2(S2, at), li2(S3, at + 4 * lines), Label("on"), lw(A0, A1), addi(A0, A0, 0),
        csrr(A2, 0xB00), sw(A2, S2), addi(S2, S2, 4), addi(A1, A1, 32), bltu(S2, S3, "on"), HALT,
    ]  # fmt: skip
    shape: dict[str, Any] = {
        "bus": Bus(line=BUS_LINE, window=WINDOW),
        "memory": MemoryConfig(ram="256KiB", tcm="16KiB", latency=0),
        "tlb": NO_TLB,
        "divisions": (Division(1, bus=share),) if share else (),
    }
    bench = Bench(program, **{**shape, **values}).run(400_000)
    return [int.from_bytes(bench.processor.read(at + 4 * n, 4), "little") for n in range(lines)]


@pytest.mark.parametrize("share", range(1, 17))
def test_a_hart_gets_its_share_of_each_window_and_no_more(share: int) -> None:
    """The line that reaches the share is still served."""
    most = -(-share * WINDOW // 16 // BUS_LINE)
    # The reading of the clock follows the line's last tick on the bus after three cycles.
    windows = [(time - BUS_LINE - 3) // WINDOW for time in arrivals(share)]
    counts = [windows.count(window) for window in range(windows[-1])]
    assert max(counts) <= most
    free = arrivals(0)
    unlimited = max([(time - BUS_LINE - 3) // WINDOW for time in free].count(window) for window in range(9))
    if most < unlimited:
        assert counts[1:] == [most] * (len(counts) - 1)
    else:
        assert arrivals(share) == free


def test_without_a_share_the_windows_mean_nothing() -> None:
    free = arrivals(0)
    assert len({later - earlier for earlier, later in pairwise(free[2:])}) <= 2
    assert arrivals(0, bus=Bus(line=BUS_LINE, window=16)) == free


def test_a_hart_over_its_share_does_not_keep_the_others_waiting() -> None:
    """Hart 1 asks for lines all the time; hart 0 counts how long its own take."""
    program: list[Item] = [
        bne(A0, ZERO, "much"), li2(A1, DATA), li(S2, 20), csrr(S10, 0xB00),
        Label("on"), lw(A0, A1), addi(A0, A0, 0), addi(A1, A1, 32), addi(S2, S2, -1), bne(S2, ZERO, "on"),
        csrr(S11, 0xB00), HALT,
        Label("much"), li2(A1, DATA + 0x8000), Label("more"), lw(A0, A1), addi(A1, A1, 32), j("more"),
    ]  # fmt: skip

    def took(*divisions: Division) -> int:
        bench = Bench(
            program, threads=2, boot="all", issue="skip", tlb=NO_TLB, bus=Bus(line=30, window=1024),
            memory=MemoryConfig(ram="256KiB", latency=0), divisions=divisions,
        ).run(20_000)  # fmt: skip
        return bench.x(S11) - bench.x(S10)

    assert took(Division(2, bus=1)) < 0.8 * took()
    assert took(Division(1, bus=1)) > 2 * took()


def test_dvbus_and_a_threads_block_give_shares_too() -> None:
    def cycles(*program: Item) -> int:
        reads: list[Item] = [li2(A1, DATA), [[lw(A0, A1, 32 * n), addi(A0, A0, 0)] for n in range(40)]]
        bench = with_blocks(
            *program, csrw(HWBLOCK, S0), csrr(S10, 0xB00), reads, csrr(S11, 0xB00), l1d=Cache("16KiB"),
            bus=Bus(line=8, window=256), l1i=Cache("16KiB"), memory=MemoryConfig(ram="256KiB", latency=0),
        )  # fmt: skip
        return bench.x(S11) - bench.x(S10)

    free = cycles(NOP)
    assert cycles(csrwi(DVBUS, 16)) == free
    limited = cycles(csrwi(DVBUS, 1))
    assert limited > 4 * free
    assert abs(cycles(part(3, 1)) - limited) < 256
    assert cycles(part(3, 16), csrwi(DVBUS, 1)) < 2 * free, "the thread's stands in for the hart's"
    assert cycles(part(3, 17), csrwi(DVBUS, 1)) > 4 * free, "no such share: the hart's own"


def test_write_csr_is_the_only_way_to_change_the_harts_own() -> None:
    bench = with_blocks(write_csr(DVL1D, 2), part(1, 1), csrw(HWBLOCK, S0), csrwi(HWBLOCK, 0), csrr(S11, DVL1D))
    assert bench.x(S11) == 2
