"""Section 1 of docs/machine.md: traps, modes, counters, reservations, reset and the end."""

from __future__ import annotations

from typing import Any

import pytest

from headway_machine._processor import HTIF, SEMIHOST, STANDSTILL
from headway_machine.config import Smi

from .assembler import (
    A0,
    A1,
    A2,
    A3,
    C_EBREAK,
    EBREAK,
    ECALL,
    HALT,
    MRET,
    NOP,
    RA,
    RAM,
    S0,
    S1,
    S10,
    S11,
    T0,
    T1,
    WFI,
    ZERO,
    Bench,
    Half,
    Item,
    Label,
    Org,
    addi,
    amoadd,
    bltu,
    bne,
    csrr,
    csrsi,
    csrw,
    csrwi,
    everywhere,
    j,
    jalr,
    la,
    lh,
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

DATA = RAM + 0x1_0000
TCM = 0x0800_0000
NOWHERE = 0x4000_0000


def trapped(*program: Item, **values: Any) -> tuple[int, int, int]:
    """mcause, mtval and mepc (from the label `here` on) of the first trap of a program in machine mode."""
    bench = Bench(
        la(T0, "trap"), csrw(0x305, T0), li2(A1, NOWHERE), li2(A2, DATA), j("here"),
        Org(0x40), Label("trap"), csrr(S10, 0x342), csrr(S11, 0x343), csrr(S0, 0x341), HALT,
        Label("here"), program, HALT, **values,
    ).run()  # fmt: skip
    return bench.x(S10), bench.x(S11), bench.x(S0) - bench.labels["here"]


UNKNOWN_CSR = csrr(A0, 0x5C0)


@pytest.mark.parametrize(
    ("instruction", "cause", "value"),
    [
        (0, 2, 0),
        (0xFFFF_FFFF, 2, 0xFFFF_FFFF),
        (UNKNOWN_CSR, 2, UNKNOWN_CSR),
        (Half(0x0000), 2, 0),
        (Half(0x8002), 2, 0x8002),
        (0x0000_100B, 2, 0x0000_100B),
        (EBREAK, 3, None),
        (C_EBREAK, 3, None),
        (ECALL, 11, 0),
        (lw(A0, A1), 5, NOWHERE),
        (lw(A0, A1, 2), 5, NOWHERE + 2),
        (sw(A0, A1, 5), 7, NOWHERE + 5),
        (lr(A0, A1), 5, NOWHERE),
        (sc(A0, A0, A1), 7, NOWHERE),
        (amoadd(A0, A0, A1), 7, NOWHERE),
        ([li2(A2, RAM + (256 << 10) - 2), lw(A0, A2)], 5, RAM + (256 << 10) - 2),
        ([li2(A2, TCM + (16 << 10) - 2), sw(A0, A2)], 7, TCM + (16 << 10) - 2),
        ([li2(A2, DATA + 2), lr(A0, A2)], 4, DATA + 2),
        ([li2(A2, DATA + 1), sc(A0, A0, A2)], 6, DATA + 1),
        ([li2(A2, DATA + 3), amoadd(A0, A0, A2)], 6, DATA + 3),
    ],
)
def test_what_is_wrong_traps_with_its_instruction_or_address(instruction: Item, cause: int, value: int | None) -> None:
    found = trapped(instruction)
    before = 8 if isinstance(instruction, list) else 0
    assert (found[0], found[2]) == (cause, before)
    if value is not None:
        assert found[1] == value


def test_a_jump_out_of_memory_traps_where_it_goes() -> None:
    bench = Bench(la(T0, "trap"), csrw(0x305, T0), li2(A1, NOWHERE), jalr(RA, A1), Org(0x40), Label("trap"),
                  csrr(S10, 0x342), csrr(S11, 0x343), csrr(S0, 0x341), HALT).run()  # fmt: skip
    assert (bench.x(S10), bench.x(S11), bench.x(S0)) == (1, NOWHERE, NOWHERE)
    assert bench.x(RA) == TCM + 0x1C - 4


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("device", [0x0200_0000, 0x0C00_0004, 0x1000_0004, 0x1001_0000, 0x1002_0000])
def test_devices_take_words_only(device: int, size: int) -> None:
    store, load = (sb, lh)[size - 1](A0, A2, 0) if size == 1 else sh(A0, A2), lh(A0, A2)
    assert trapped(li2(A2, device), load)[:2] == (5, device)
    assert trapped(li2(A2, device), store)[:2] == (7, device)
    assert trapped(li2(A2, device), lw(A0, A2, 2))[:2] == (5, device + 2)


def test_the_description_is_read_only_and_true() -> None:
    assert trapped(li2(A2, 0x1002_0000), sw(A0, A2))[:2] == (7, 0x1002_0000)
    words: list[Item] = [[lw(A0, A2, 4 * i), li2(T0, DATA + 4 * i), sw(A0, T0)] for i in range(6)]
    bench = everywhere(li2(A2, 0x1002_0000), words, HALT, cores=2, threads=3).run()
    assert [bench.word(DATA + 4 * i) for i in range(6)] == [2, 3, 256 << 10, 16 << 10, 1, 1]


def test_misaligned_loads_and_stores_work() -> None:
    bench = Bench(li2(A2, DATA + 29), li2(A0, 0x1122_3344), sw(A0, A2), lw(A1, A2), lh(A3, A2, 2), HALT).run()
    assert (bench.x(A1), bench.x(A3)) == (0x1122_3344, 0x1122)
    assert bench.processor.read(DATA + 28, 6) == b"\0\x44\x33\x22\x11\0"


def interrupt(vectored: bool) -> Bench:
    """A software interrupt with mtvec at the label `vectors`, direct or vectored."""
    return Bench(
        la(T0, "vectors"), *([addi(T0, T0, 1)] if vectored else []), csrw(0x305, T0), csrr(S1, 0x305),
        write_csr(0x304, 8), csrsi(0x300, 8), li2(A2, 0x0200_0000), li(A0, 1), Label("here"), sw(A0, A2),
        NOP, NOP, HALT,
        Org(0x80), Label("vectors"), j("direct"), NOP, NOP, j("third"),
        Label("direct"), li(S10, 1), j("both"), Label("third"), li(S10, 3), Label("both"), csrr(S11, 0x342),
        csrr(S0, 0x341), csrr(A3, 0x300), csrw(0x304, ZERO), HALT,
    ).run()  # fmt: skip


def test_interrupts_may_be_vectored() -> None:
    direct, vectored = interrupt(False), interrupt(True)
    assert (direct.x(S10), vectored.x(S10)) == (1, 3)
    for bench in (direct, vectored):
        assert bench.x(S11) == 0x8000_0003
        assert bench.x(S0) == bench.labels["here"] + 4
        assert bench.x(A3) == 0x1880, "MPIE and MPP are set, MIE is off"


def test_an_interrupt_takes_one_cycle_and_a_refill() -> None:
    handler = interrupt(False).states()[147]
    assert handler.instructions == 8
    # Entry 1 and refill 2, a jump 1 + 2, li, a jump 1 + 2, three csrr, csrw, WFI.
    assert handler.cycles == 3 + 3 + 1 + 3 + 3 + 1 + 1
    assert handler.stall == handler.refill == 6


def test_external_interrupts_come_before_software_ones_and_these_before_the_timer() -> None:
    bench = Bench(
        la(T0, "trap"), csrw(0x305, T0), write_csr(0x304, 0x888), li2(A2, 0x0200_0000), li(A0, 1), sw(A0, A2),
        li2(A2, 0x0200_4000), sw(ZERO, A2, 4), sw(ZERO, A2), csrr(S1, 0x344), csrsi(0x300, 8), NOP, HALT,
        Org(0x80), Label("trap"), csrr(S10, 0x342), HALT,
    ).run()  # fmt: skip
    assert (bench.x(S1), bench.x(S10)) == (0x88, 0x8000_0003)


def test_wfi_waits_whatever_mie_in_mstatus_says() -> None:
    program: list[Item] = [
        li2(A2, 0x0200_4000), li(A0, 500), sw(A0, A2), sw(ZERO, A2, 4), write_csr(0x304, 0x80), WFI, csrr(S10, 0xB00),
        csrr(S11, 0x344), HALT,
    ]  # fmt: skip
    bench = Bench(*program).run(600)
    assert bench.x(S10) == 502, "C1 takes 2 ticks to wake"
    assert bench.x(S11) == 0x80
    assert bench.states()[200].count == 1


def test_wfi_does_not_wait_for_what_is_pending_already() -> None:
    program: list[Item] = [li2(A2, 0x0200_0000), li(A0, 1), sw(A0, A2), write_csr(0x304, 8), WFI, WFI, csrr(S10, 0xB00)]
    assert Bench(*program, j("end"), Label("end"), li(A1, 1), csrw(0x304, ZERO), HALT).run().x(S10) == 2 + 1 + 4 + 2 + 2


def user(*program: Item, before: Item = (), **values: Any) -> Bench:
    """A program in user mode; its first trap puts cause, value and mstatus into s10, s11, s1 and halts."""
    return Bench(
        la(T0, "trap"), csrw(0x305, T0), la(T0, "user"), csrw(0x341, T0), before, MRET,
        Org(0x80), Label("trap"), csrr(S10, 0x342), csrr(S11, 0x343), csrr(S1, 0x300), csrw(0x304, ZERO), HALT,
        Label("user"), program, ECALL, **values,
    ).run(5000)  # fmt: skip


def test_wfi_in_user_mode_traps_if_tw_is_set() -> None:
    timer: list[Item] = [li2(A2, 0x0200_4000), li(A0, 500), sw(A0, A2), sw(ZERO, A2, 4), write_csr(0x304, 0x80)]
    assert user(WFI, before=timer).x(S10) == 0x8000_0007, "it waits, and then the interrupt is taken"
    bench = user(WFI, before=[*timer, write_csr(0x300, 0x20_0000)])
    assert (bench.x(S10), bench.x(S11)) == (2, WFI)


def test_user_mode_has_no_machine_instructions() -> None:
    assert user(MRET).x(S10) == 2
    assert user(csrr(A0, 0x300)).x(S10) == 2
    assert user(ECALL).x(S10) == 8
    assert user(NOP).x(S1) & 0x1800 == 0, "it came from user mode"


@pytest.mark.parametrize("n", [0, 1, 2, 3, 31])
def test_user_mode_reads_the_counters_that_mcounteren_allows(n: int) -> None:
    for csr in (0xC00 + n, 0xC80 + n):
        assert user(csrr(A0, csr)).x(S10) == 2
        assert user(csrr(A0, csr), before=[li2(T0, 1 << n), csrw(0x306, T0)]).x(S10) == 8
        assert user(csrr(A0, csr), before=[li2(T0, ~(1 << n)), csrw(0x306, T0)]).x(S10) == 2


# --- Physical memory protection ---------------------------------------------------------------------------------------

ALL_BUT: list[Item] = [li2(T0, 0xFFFF_FFFF), csrw(0x3B1, T0)]


def protected(how: int, *program: Item, more: Item = ()) -> Bench:
    """User mode with rights `how` to 64 bytes at DATA (NAPOT), all rights elsewhere."""
    guard: list[Item] = [
        li2(T0, DATA >> 2 | 7),
        csrw(0x3B0, T0),
        ALL_BUT,
        li2(T0, 0x1F00 | 0x18 | how),
        csrw(0x3A0, T0),
    ]
    return user(li2(A2, DATA), *program, before=[*guard, more])


def test_protection_binds_user_mode() -> None:
    assert protected(0, lw(A0, A2)).x(S10) == 5
    assert protected(0, lw(A0, A2)).x(S11) == DATA
    assert protected(1, lw(A0, A2)).x(S10) == 8
    assert protected(1, sw(A0, A2)).x(S10) == 7
    assert protected(3, sw(A0, A2, 60)).x(S10) == 8
    assert protected(0, lw(A0, A2, 64)).x(S10) == 8
    assert protected(1, lw(A0, A2, 62)).x(S10) == 5, "it is half outside"
    assert protected(3, jalr(RA, A2)).x(S10) == 1


def test_mprv_makes_machine_mode_access_as_the_mode_it_came_from() -> None:
    guard: list[Item] = [li2(T0, DATA >> 2 | 7), csrw(0x3B0, T0), ALL_BUT, li2(T0, 0x1F18), csrw(0x3A0, T0)]
    assert trapped(guard, lw(A0, A2), ECALL)[0] == 11
    assert trapped(guard, write_csr(0x300, 0x2_0000), lw(A0, A2), ECALL)[0] == 5
    assert trapped(guard, write_csr(0x300, 0x2_1800), lw(A0, A2), ECALL)[0] == 11


# --- Counters ---------------------------------------------------------------------------------------------------------


def test_mcycle_and_minstret_count_and_can_be_written() -> None:
    program: list[Item] = [
        csrr(A0, 0xB00), csrr(A1, 0xB02), li(T0, 100), csrw(0xB00, T0), csrr(A2, 0xB00), csrw(0xB02, T0),
        csrr(A3, 0xB02),
        li(T0, -1), csrw(0xB02, T0), csrr(S0, 0xB02), csrr(S1, 0xB82), HALT,
    ]  # fmt: skip
    bench = Bench(*program).run()
    assert [bench.x(n) for n in (A0, A1, A2, A3)] == [0, 1, 100, 100]
    assert (bench.x(S0), bench.x(S1)) == (0xFFFF_FFFF, 1)


def test_mcountinhibit_stops_them_and_nothing_else() -> None:
    program: list[Item] = [
        csrwi(0x320, 5), csrr(A0, 0xB00), csrr(A1, 0xB02), NOP, NOP, csrr(A2, 0xB00), csrr(A3, 0xB02), csrwi(0x320, 0),
        csrr(S0, 0xB00), NOP, csrr(S1, 0xB00), csrr(S10, 0xCC0), HALT,
    ]  # fmt: skip
    bench = Bench(*program).run()
    assert bench.x(A0) == bench.x(A2)
    assert bench.x(A1) == bench.x(A3)
    assert bench.x(S1) - bench.x(S0) == 2
    assert bench.x(S10) == 11


@pytest.mark.parametrize(
    ("csr", "value"),
    [(0x301, 0x4010_1105), (0xF11, 0), (0xF12, 0), (0xF13, 0), (0xF14, 0), (0xF15, 0), (0x310, 0), (0x30A,
    0), (0x31A, 0),
     (0xB03, 0), (0xB9F, 0), (0x323, 0), (0x33F, 0), (0xC1F, 0)],
)  # fmt: skip
def test_constant_registers_read_so_and_ignore_writes(csr: int, value: int) -> None:
    write: list[Item] = [] if csr >> 10 == 3 else [li(T0, -1), csrw(csr, T0)]
    bench = Bench(
        la(T0, "trap"), csrw(0x305, T0), write, csrr(A0, csr), li(S1, 1), HALT, Org(0x80), Label("trap"), HALT
    ).run()
    assert (bench.x(A0), bench.x(S1)) == (value, 1)


# --- Reservations -----------------------------------------------------------------------------------------------------

RESERVE: list[Item] = [li2(A2, DATA), li(A0, 7)]


@pytest.mark.parametrize(
    ("between", "fails"),
    [
        ([], 0),
        ([lw(A1, A2), NOP], 0),
        ([sw(A0, A2, 8)], 0),
        ([sc(A1, A0, A2)], 1),
        ([ECALL], 1),
        ([li2(T0, DATA + 64), lr(A1, T0)], 1),
        ([li2(A2, DATA + 28)], 0),
        ([li2(A2, DATA + 32)], 1),
    ],
)
def test_what_ends_a_reservation_of_the_own_hart(between: list[Item], fails: int) -> None:
    program: list[Item] = [
        la(T0, "trap"), csrw(0x305, T0), j("go"), Org(0x40), Label("trap"), csrr(T0, 0x341), addi(T0, T0, 4),
        csrw(0x341, T0), MRET,
        Label("go"), RESERVE, lr(A1, A2), between, sc(S10, A0, A2), HALT,
    ]  # fmt: skip
    assert Bench(*program).run().x(S10) == fails


@pytest.mark.parametrize(("cores", "threads"), [(1, 2), (2, 1)])
@pytest.mark.parametrize(("offset", "fails"), [(0, 1), (28, 1), (31, 1), (32, 0), (-4, 0), (-2, 1)])
def test_a_store_by_another_hart_into_the_line_ends_a_reservation(
    cores: int, threads: int, offset: int, fails: int
) -> None:
    wait: list[Item] = [li2(T0, 20_000), csrr(T1, 0xB00), bltu(T1, T0, -4)]
    program: list[Item] = [
        li2(A2, DATA), bne(A0, ZERO, "other"), lr(A1, A2), wait, sc(S10, A0, A2), HALT,
        Label("other"), li2(T0, 10_000), csrr(T1, 0xB00), bltu(T1, T0, -4), sw(ZERO, A2, offset), HALT,
    ]  # fmt: skip
    assert everywhere(*program, cores=cores, threads=threads).run(60_000).x(S10) == fails


def test_a_store_to_another_cores_own_memory_does_not() -> None:
    wait: list[Item] = [li2(T0, 20_000), csrr(T1, 0xB00), bltu(T1, T0, -4)]
    program: list[Item] = [
        li2(A2, TCM + 0x800), bne(A0, ZERO, "other"), lr(A1, A2), wait, sc(S10, A0, A2), HALT,
        Label("other"), li2(T0, 10_000), csrr(T1, 0xB00), bltu(T1, T0, -4), sw(ZERO, A2), HALT,
    ]  # fmt: skip
    assert everywhere(*program, cores=2).run(60_000).x(S10) == 0
    assert everywhere(*program, threads=2).run(60_000).x(S10) == 1


# --- Reset and the end ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boot", ["first", "all"])
def test_harts_after_a_reset_have_their_number_and_no_other_register_set(boot: str) -> None:
    bench = Bench(csrr(S10, 0xF14), csrr(S11, 0x300), HALT, threads=4, boot=boot).run(1000)
    for hart in range(4 if boot == "all" else 1):
        assert bench.x(A0, hart) == bench.x(S10, hart) == hart
        assert all(bench.x(n, hart) == 0 for n in range(1, 32) if n not in (A0, S10))
    assert [bench.counters(hart)["started"] for hart in range(4)] == ([1] * 4 if boot == "all" else [1, 0, 0, 0])


def test_a_write_of_msip_starts_a_hart_and_stays_pending() -> None:
    program: list[Item] = [
        csrr(S1, 0x344), bne(A0, ZERO, "other"), li2(A2, 0x0200_0000), li(A1, 1), [NOP] * 50, sw(A1, A2, 8), HALT,
        Label("other"), csrr(S10, 0xF14), HALT,
    ]  # fmt: skip
    bench = Bench(*program, threads=3).run(5000)
    assert [bench.counters(hart)["started"] for hart in range(3)] == [1, 0, 1]
    assert (bench.x(S10, 2), bench.x(S1, 2), bench.x(A0, 2), bench.x(A1, 2)) == (2, 8, 2, 0)
    assert bench.states(1) == {204: bench.states(1)[204]}
    assert bench.states(2)[204].time > 3 * 50


def test_a_standstill_ends_the_run_when_it_comes() -> None:
    bench = Bench([NOP] * 7, HALT)
    assert bench.processor.run(100_000) == STANDSTILL
    assert bench.processor.run(200_000) == STANDSTILL
    waiting = Bench(
        li2(A2, 0x0200_4000), li(A0, 500), sw(A0, A2), sw(ZERO, A2, 4), write_csr(0x304, 0x80), WFI, NOP, HALT
    )
    assert waiting.processor.run(400) == 0, "the timer will wake it"
    assert waiting.processor.run(1000) == 0, "it is still pending, so WFI does not wait any more"
    assert waiting.states()[200].time == 500 - (2 + 1 + 4 + 4 + 1 + 1 + 1)


def test_a_machine_that_only_management_interrupts_disturb_stands_still() -> None:
    bench = Bench(HALT, smi=Smi(at=100, every=1000, ticks=10))
    assert bench.processor.run(1 << 40) == STANDSTILL


def test_what_the_host_is_for_stops_the_run() -> None:
    shift = 0x01F0_1013
    bench = Bench(shift, EBREAK, 0x4070_5013, NOP, HALT, at=RAM)
    assert bench.processor.run(10_000) == SEMIHOST
    assert bench.processor.stopped_hart == 0
    bench = Bench(li2(A2, DATA), li(A0, 3), sw(A0, A2), NOP, HALT, start=False)
    bench.processor.start(TCM, DATA)
    assert bench.processor.run(10_000) == HTIF
    assert bench.word(DATA) == 3
