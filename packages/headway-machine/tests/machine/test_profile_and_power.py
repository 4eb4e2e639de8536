"""Sections 7 and 8 of docs/machine.md: profile buffers, clocks, sleep, and what stops all cores."""

from __future__ import annotations

from typing import Any

import pytest

from headway.model import violations
from headway_machine.config import PowerConfig, ProfileConfig, Smi

from .assembler import (
    A0,
    A1,
    A2,
    A3,
    HALT,
    NOP,
    RAM,
    S0,
    S1,
    S2,
    S10,
    S11,
    T0,
    WFI,
    ZERO,
    Bench,
    Item,
    Label,
    Org,
    State,
    addi,
    bne,
    csrr,
    csrw,
    csrwi,
    div,
    everywhere,
    j,
    la,
    li,
    li2,
    lw,
    sw,
    write_csr,
)

BUFFER = RAM + 0x8000
CTL, BASE, SIZE, HEAD, PERIOD, AUTH = 0x7C8, 0x7C9, 0x7CA, 0x7CB, 0x7CC, 0x801
TCM = 0x0800_0000


# --- Profile buffers --------------------------------------------------------------------------------------------------


def profiled(event: int, period: int, *body: Item, size: int = 1024, **values: Any) -> Bench:
    """Code with the buffer authorised around it; the label `body` is where it begins."""
    values = {"profile": ProfileConfig(authorise=1), **values}
    setup: list[Item] = [
        li2(T0, BUFFER),
        csrw(BASE, T0),
        li2(T0, size),
        csrw(SIZE, T0),
        li2(T0, period),
        csrw(PERIOD, T0),
    ]
    return Bench(
        setup, csrwi(CTL, event), csrwi(AUTH, 1), Label("body"), body, csrwi(AUTH, 0), csrr(S10, HEAD), HALT, **values
    ).run()


def records(bench: Bench) -> list[tuple[int, int, int]]:
    """(PC from the body's start on, state, tick) of each record."""
    found = []
    for at in range(BUFFER, BUFFER + bench.x(S10), 16):
        found.append((bench.word(at) - bench.labels["body"], bench.word(at + 4), bench.long(at + 8)))
    return found


def test_a_record_for_each_instruction() -> None:
    found = records(profiled(2, 1, [NOP] * 4))
    assert [pc for pc, _, _ in found] == [0, 4, 8, 12]
    ticks = [tick for _, _, tick in found]
    assert ticks == [ticks[0] + k for k in range(4)]
    assert {state for _, state, _ in found} == {0}


def test_a_record_for_each_third_instruction() -> None:
    assert [pc for pc, _, _ in records(profiled(2, 3, [NOP] * 10))] == [8, 20, 32]


def test_a_record_for_each_second_taken_branch() -> None:
    body: list[Item] = [j(4), NOP, bne(ZERO, ZERO, 8), j(4), j(4), NOP, j(4), j(4)]
    assert [pc for pc, _, _ in records(profiled(3, 2, body))] == [12, 24]


def test_a_record_for_so_many_cycles() -> None:
    found = records(profiled(1, 10, [NOP] * 15, div(A0, A0, A0), [NOP] * 20))
    # The authorising cycle is the last before the first; those that a division holds come behind it.
    assert [pc for pc, _, _ in found] == [36, *[64] * 4, 104]


def test_a_record_has_the_state() -> None:
    found = records(profiled(2, 1, [csrwi(0x800, 2), NOP, csrwi(0x800, 0), NOP]))
    assert [state for _, state, _ in found] == [64, 64, 0, 0], "as it is when the instruction has been done"


def test_a_wfi_is_an_instruction_like_another() -> None:
    timer: list[Item] = [li2(A2, 0x0200_4000), sw(ZERO, A2, 4), li(A0, 300), sw(A0, A2), write_csr(0x304, 0x80)]
    found = records(profiled(2, 1, timer, WFI, NOP))
    assert [pc for pc, _, _ in found] == [4 * k for k in range(9)]


def test_a_full_buffer_stops_and_tells_nobody() -> None:
    bench = profiled(2, 1, [NOP] * 10, csrr(S11, 0x344), size=64)
    assert bench.x(S10) == 64
    assert bench.processor.read(BUFFER + 64, 16) == bytes(16)
    assert bench.processor.losses["profile_records"] == 7
    assert bench.x(S11) == 0


def test_the_head_is_as_of_the_last_deauthorisation() -> None:
    bench = profiled(
        2, 1, NOP, csrr(S0, HEAD), NOP, csrwi(AUTH, 0), csrr(S1, HEAD), csrwi(AUTH, 1), NOP, csrr(S2, HEAD)
    )
    assert (bench.x(S0), bench.x(S1), bench.x(S2), bench.x(S10)) == (0, 48, 48, 80)


def test_a_written_head_is_where_the_next_record_goes() -> None:
    bench = profiled(2, 1, csrwi(AUTH, 0), csrwi(HEAD, 16), csrwi(AUTH, 1), NOP)
    assert bench.x(S10) == 32
    assert bench.processor.read(BUFFER, 16) == bytes(16)


def trap_of(*program: Item) -> int:
    """mcause of the first trap, or 0."""
    setup: list[Item] = [la(T0, "trap"), csrw(0x305, T0), li2(T0, BUFFER), csrw(BASE, T0), li(T0, 64), csrw(SIZE, T0)]
    setup += [csrwi(PERIOD, 1), csrwi(CTL, 2), j("go"), Org(0x80), Label("trap"), csrr(S10, 0x342), HALT, Label("go")]
    return Bench(setup, program, HALT).run().x(S10)


@pytest.mark.parametrize("csr", [CTL, BASE, SIZE, HEAD, PERIOD])
def test_the_buffers_registers_are_written_only_while_it_is_deauthorised(csr: int) -> None:
    assert trap_of(csrwi(csr, 0)) == 0
    assert trap_of(csrwi(AUTH, 1), csrwi(csr, 0)) == 2
    assert trap_of(csrwi(AUTH, 1), csrwi(AUTH, 0), csrwi(csr, 0)) == 0
    assert trap_of(csrwi(AUTH, 1), csrr(A0, csr)) == 0


@pytest.mark.parametrize(("head", "base"), [(-16, RAM), (-16, RAM + 16), (0x7FFF_FFF0, RAM), (4096, RAM)])
def test_no_record_goes_outside_the_buffer(head: int, base: int) -> None:
    program: list[Item] = [li2(T0, base), csrw(BASE, T0), li2(T0, 256), csrw(SIZE, T0), li2(T0, head), csrw(HEAD, T0)]
    bench = Bench(program, csrwi(PERIOD, 1), csrwi(CTL, 2), csrwi(AUTH, 1), NOP, NOP, HALT).run()
    assert bench.processor.read(RAM, 256 << 10) == bytes(256 << 10)
    assert bench.processor.losses["profile_records"] == 3


# --- Sleep ------------------------------------------------------------------------------------------------------------


def asleep(state: int, at: int = 1000, **values: Any) -> Bench:
    program: list[Item] = [
        li2(A2, 0x0200_4000), sw(ZERO, A2, 4), li(A0, at), sw(A0, A2), write_csr(0x304, 0x80), csrwi(0x7D0, state), WFI,
        csrr(S10, 0xB00), csrr(S11, 0xCC8), csrr(S0, 0xCC9), csrr(S1, 0xCC9 + state), csrr(S2,
        0xCE0 + 1 + state), csrw(0x304, ZERO),
        HALT,
    ]  # fmt: skip
    return Bench(*program, **values).run(3000)


ASLEEP_FROM = 2 + 4 + 1 + 4 + 1 + 1 + 1 + 1
"""The cycle after WFI: li2, a store, li, a store, li, csrw, csrwi, WFI."""


@pytest.mark.parametrize(("state", "latency"), [(1, 2), (2, 20), (3, 200)])
def test_wfi_sleeps_in_the_state_asked_for_and_wakes_after_its_latency(state: int, latency: int) -> None:
    bench = asleep(state)
    assert bench.states()[203].time == latency
    assert bench.x(S10) == 1000 + latency
    assert bench.x(S1) == 1000 - ASLEEP_FROM
    assert bench.x(S2) == 1000 - ASLEEP_FROM, "the core sleeps with its only hart"
    # Unhalted and reference: until it slept, and since it went on, two readings later.
    assert (bench.x(S11), bench.x(S0)) == (ASLEEP_FROM + 1, ASLEEP_FROM + 2)
    assert violations(bench.ledger()) == []


def test_latencies_are_the_configurations() -> None:
    assert asleep(2, power=PowerConfig(c2=77)).x(S10) == 1077
    assert asleep(1, power=PowerConfig(c1=0)).x(S10) == 1000


def test_pwstate_is_1_to_3() -> None:
    for value in (0, 4, 31):
        assert trap_of(csrwi(0x7D0, value)) == 2


def test_a_core_is_halted_when_all_its_harts_are_in_the_shallowest_state() -> None:
    program: list[Item] = [
        li2(A2, 0x0200_4000), bne(A0, ZERO, "other"), sw(ZERO, A2, 4), li2(A0, 2000), sw(A0, A2),
        write_csr(0x304, 0x80),
        csrwi(0x7D0, 3), WFI, csrw(0x304, ZERO), csrr(S10, 0xCE3), csrr(S11, 0xCE4), csrr(S0, 0xCCC), HALT,
        Label("other"), csrwi(0x7D0, 2), [NOP] * 50, HALT,
    ]  # fmt: skip
    bench = Bench(*program, threads=2, boot="all").run(3000)
    assert bench.x(S11) == 0, "the other hart's C2 is shallower"
    assert 1900 - 120 < bench.x(S10) < bench.x(S0) < 2000


def test_c3_of_a_whole_core_empties_its_caches() -> None:
    def cycles(state: int) -> int:
        program: list[Item] = [
            li2(A3, RAM + 0x1_0000), lw(A1, A3), li2(A2, 0x0200_4000), sw(ZERO, A2, 4), li2(A0, 1000), sw(A0, A2),
            write_csr(0x304, 0x80), csrwi(0x7D0, state), WFI, csrr(S10, 0xB00), lw(A1, A3), csrr(S11, 0xB00),
            csrw(0x304, ZERO),
            HALT,
        ]  # fmt: skip
        bench = Bench(*program).run(4000)
        return bench.x(S11) - bench.x(S10) - 1

    assert (cycles(1), cycles(2), cycles(3)) == (1, 1, 66)


# --- Clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("speed", [1, 4, 5, 8, 15, 16])
def test_a_core_runs_at_so_many_sixteenths(speed: int) -> None:
    program: list[Item] = [
        csrwi(0x7D1, speed),
        csrr(S0, 0xC01),
        csrr(S1, 0xB00),
        [NOP] * 158,
        csrr(S10, 0xC01),
        csrr(S11, 0xB00),
    ]
    bench = Bench(*program, csrr(A0, 0x7D1), HALT).run()
    assert bench.x(A0) == speed
    assert bench.x(S11) - bench.x(S1) == 160
    # 160 cycles, of which the ticks are a whole number rounded down from where the clock was set, two cycles before.
    assert bench.x(S10) - bench.x(S0) == (160 * 16) // speed
    user = bench.states()[0]
    assert user.cycles == 160 + 4 + 1
    assert bench.counters()["unhalted"] == user.cycles
    assert bench.counters()["reference"] == user.time
    assert violations(bench.ledger()) == []


def test_a_speed_that_there_is_not_is_illegal() -> None:
    assert trap_of(csrwi(0x7D1, 0)) == 2
    assert trap_of(csrwi(0x7D1, 17)) == 2
    assert trap_of(csrwi(0x7D2, 8)) == 2


def test_a_clock_that_is_stopped_for_eighths_of_a_window() -> None:
    program: list[Item] = [csrwi(0x7D2, 3), csrr(S0, 0xC01), [NOP] * 99, csrr(S10, 0xC01), HALT]
    bench = Bench(*program, power=PowerConfig(window=64)).run()
    # The clock runs for 40 of 64 ticks from the write on: the 100th cycle after the first is 20 ticks into the third
    # window.
    assert bench.x(S10) - bench.x(S0) == 2 * 64 + 20
    assert violations(bench.ledger()) == []


def test_memory_is_no_slower_for_a_slow_core() -> None:
    program: list[Item] = [
        li2(A3, RAM + 0x1_0000),
        csrwi(0x7D1, 1),
        csrr(S0, 0xC01),
        lw(A1, A3),
        csrr(S10, 0xC01),
        HALT,
    ]
    bench = Bench(*program).run()
    # It reads the time at 3, loads at 19; the page is there at 39, so it goes on at 51; the line at 116, so again at
    # 131.
    assert bench.x(S10) - bench.x(S0) == 147 - 3
    assert bench.states()[0].memory == 7


def test_each_core_has_its_own_clock() -> None:
    program: list[Item] = [
        bne(A0, ZERO, "one"),
        csrwi(0x7D1, 8),
        Label("one"),
        csrr(S0, 0xC01),
        [NOP] * 99,
        csrr(S10, 0xC01),
        HALT,
    ]
    bench = everywhere(*program, cores=2).run(40_000)
    assert [bench.x(S10, n) - bench.x(S0, n) for n in (0, 1)] == [200, 100]


# --- System-management interrupts -------------------------------------------------------------------------------------


def test_a_management_interrupt_stops_a_running_hart() -> None:
    program: list[Item] = [
        csrr(S0, 0xC01),
        [NOP] * 99,
        csrr(S1, 0xC01),
        csrr(S10, 0xCC8),
        csrr(S11, 0xCC9),
        csrr(A2, 0xCC0),
        HALT,
    ]
    bench = Bench(*program, smi=Smi(at=50, ticks=1000)).run()
    assert bench.x(S1) - bench.x(S0) == 1100
    assert bench.states()[208] == State(time=1000, count=1)
    # Unhalted and reference counters go on; effective cycles do not.
    assert (bench.x(S10), bench.x(S11), bench.x(A2)) == (1101, 1102, 103)
    assert violations(bench.ledger()) == []


def test_a_management_interrupt_while_a_hart_sleeps_is_not_sleep() -> None:
    bench = asleep(1, smi=Smi(at=300, ticks=100))
    quiet = asleep(1)
    assert bench.x(S10) == 1002 - 100, "the core's clock has stopped, the machine's timer has not"
    assert bench.states()[208].time == 100
    assert bench.x(S1) == quiet.x(S1) - 100
    assert bench.x(S11) == quiet.x(S11)


def test_a_hart_that_is_woken_meanwhile_goes_on_when_it_is_over() -> None:
    bench = asleep(1, smi=Smi(at=990, ticks=500))
    assert bench.states()[208].time == 500
    assert bench.states()[203].time <= 2
    assert bench.x(S11) == asleep(1).x(S11), "it slept when it began, so none of it is unhalted"
    assert violations(bench.ledger()) == []


def test_memory_goes_on_while_cores_are_stopped() -> None:
    program: list[Item] = [li2(A3, RAM + 0x1_0000), lw(A1, A3), csrr(S0, 0xC01), HALT]
    bench = Bench(*program, smi=Smi(at=10, ticks=200)).run()
    # The page is there during it, the line is asked for at 210.
    assert bench.x(S0) == 210 + 65 + 1
    assert bench.states()[208].time == 200
    assert violations(bench.ledger()) == []


@pytest.mark.parametrize("issue", ["strict", "skip"])
def test_many_in_a_row_are_all_counted(issue: str) -> None:
    program: list[Item] = [[addi(A0, A0, 1)] * 200, HALT]
    bench = Bench(*program, threads=4, boot="all", issue=issue, smi=Smi(at=1, every=12, ticks=11)).run(3000)
    for hart in range(4):
        assert bench.states(hart)[208].time == 3000 * 11 // 12
        assert bench.states(hart)[0].cycles == bench.states(hart)[0].time
    assert violations(bench.ledger()) == []
