"""Sections 4 to 6 of docs/machine.md: what is counted where, to the cycle; threads and their blocks; the monitor."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.model import violations
from headway_machine.config import ANY, Pipeline, ProgressUnitConfig, Range, Script, StatusRegister, Tlb, Uart

from .assembler import (
    A0,
    A1,
    A2,
    A3,
    A4,
    A5,
    A7,
    ECALL,
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
    blt,
    csrr,
    csrw,
    csrwi,
    div,
    j,
    la,
    li,
    li2,
    lw,
    mul,
    mv,
    sw,
    write_csr,
)

EPC, MPCI, MPCX, KPC, IOPC, RPC, SPC, OPC = range(8)
NAMES = ("epc", "mpci", "mpcx", "kpc", "iopc", "rpc", "spc", "opc")
HWCTL, HWLATCH, HWCORR, HWBLOCK, HWLEAVE, HWWAKE, HWMON, HWSTATE, HWSW = (*range(0x7C0, 0x7C8), 0x800)
DATA = RAM + 0x1_0000
NO_TLB = Tlb(entries=0)
MISS = 65
SWNE, KPSW, IOSW = 1, 2, 4


def counts(bench: Bench, hart: int = 0) -> dict[str, int]:
    """The counters of a hart that has halted, without those that are 0."""
    return {name: bench.counters(hart)[name] for name in NAMES if bench.counters(hart)[name]}


def difference(*measured: Item, n: int, before: Item = (), **values: Any) -> int:
    """By how much counter n goes up, from before the first to before what follows the last."""
    program: list[Item] = [before, NOP, NOP, csrr(S10, 0xCC0 + n), measured, csrr(S11, 0xCC0 + n), HALT]
    bench = Bench(*program, **values).run()
    return (bench.x(S11) - bench.x(S10)) & 0xFFFF_FFFF


# --- Which counter ----------------------------------------------------------------------------------------------------


def test_what_executes_is_effective_and_what_waits_is_not() -> None:
    bench = Bench(
        li(A1, DATA), lw(A2, A1), mv(A3, A2), mul(A2, A2, A2), mv(A3, A2), j(4), div(A2, A2, A2), HALT, tlb=NO_TLB
    )
    # Two for li, lw, mv after a cycle, mul, mv after two, a jump and its refill, a division, WFI.
    assert counts(bench.run()) == {
        "epc": 2 + 1 + 1 + 1 + 1 + 1 + 34 + 1,
        "mpcx": MISS,
        "spc": 1 + 2 + 2,
        "rpc": 42 + MISS + 5,
    }


def test_a_reading_is_the_value_before_the_instruction_that_reads() -> None:
    bench = Bench(csrr(A0, 0xCC0), csrr(A1, 0xBC0), csrr(A2, 0xCC5), csrr(A3, 0xCD5), HALT).run()
    assert [bench.x(n) for n in (A0, A1, A2, A3)] == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("signals", "counter"),
    [
        (SWNE, SPC),
        (KPSW, KPC),
        (IOSW, IOPC),
        (SWNE | KPSW, KPC),
        (KPSW | IOSW, KPC),
        (SWNE | IOSW, IOPC),
        (7, KPC),
        (0, EPC),
    ],
)
def test_marked_time_goes_where_its_signals_say(signals: int, counter: int) -> None:
    for n in (EPC, KPC, IOPC, SPC):
        assert difference(NOP, NOP, n=n, before=[csrwi(HWSW, signals)]) == (3 if n == counter else 0)
    assert difference(NOP, NOP, n=RPC, before=[csrwi(HWSW, signals)]) == 3


@pytest.mark.parametrize(
    ("signals", "stalled"), [(0, MPCX), (SWNE, MPCX), (IOSW, IOPC), (KPSW, KPC), (SWNE | IOSW, IOPC), (7, KPC)]
)
def test_memory_counts_before_marks_but_after_kernel_and_polling(signals: int, stalled: int) -> None:
    before: list[Item] = [li(A1, DATA), csrwi(HWSW, signals)]
    own = {0: EPC, SWNE: SPC}.get(signals, stalled)
    assert difference(lw(A2, A1), n=stalled, before=before, tlb=NO_TLB) == MISS + (2 if own == stalled else 0)
    if own != stalled:
        assert difference(lw(A2, A1), n=own, before=before, tlb=NO_TLB) == 2
    for n in {MPCI, MPCX, KPC, IOPC, SPC, EPC} - {stalled, own}:
        assert difference(lw(A2, A1), n=n, before=before, tlb=NO_TLB) == 0


def test_the_micro_tlb_is_memory_inside() -> None:
    assert difference(lw(A2, A1), n=MPCI, before=[li(A1, DATA)]) == 20
    assert difference(lw(A2, A1), n=MPCX, before=[li(A1, DATA)]) == MISS


@pytest.mark.parametrize("n", range(8))
def test_each_counter_is_enabled_alone(n: int) -> None:
    program: list[Item] = [li(A1, DATA), li(T0, 0x700 | 1 << n), csrwi(HWCORR, 2), csrw(HWCTL, T0)]
    program += [lw(A2, A1), mv(A3, A2), csrwi(HWSW, KPSW), NOP, csrwi(HWSW, IOSW), NOP, csrwi(HWSW, 0), HALT]
    enabled = counts(Bench(*program).run())
    # From reset until hwctl is written all are enabled, which are effective cycles.
    before = len([*li(A1, DATA), *li(T0, 0x700 | 1 << n)]) + 2
    expected = {"epc": before, "rpc": before}
    # After it: effective lw, mv, csrwi; hwsw = 0 and WFI after the kernel's two cycles and the poll's two; the
    # correction at the end.
    total = {EPC: 4, MPCI: 20, MPCX: MISS, KPC: 2, IOPC: 2, RPC: 4 + 20 + MISS + 2 + 2 + 1, SPC: 1, OPC: 0}
    expected[NAMES[n]] = expected.get(NAMES[n], 0) + total[n]
    assert enabled == {name: count for name, count in expected.items() if count}


def test_without_hwne_stalls_are_effective() -> None:
    before: list[Item] = [li(A1, DATA), *write_csr(HWCTL, 0x6FF)]
    assert difference(lw(A2, A1), mv(A3, A2), n=EPC, before=before) == 1 + 20 + MISS + 2 + 1
    assert difference(lw(A2, A1), mv(A3, A2), n=MPCX, before=before) == 0
    assert difference(lw(A2, A1), mv(A3, A2), n=SPC, before=before) == 0


def test_without_swne_in_hwctl_its_mark_is_not_honoured_and_the_others_are() -> None:
    control = write_csr(HWCTL, 0x5FF)
    assert difference(NOP, n=EPC, before=[*control, csrwi(HWSW, SWNE)]) == 2
    assert difference(NOP, n=KPC, before=[*control, csrwi(HWSW, KPSW)]) == 2


def test_with_mk_machine_mode_is_the_kernel() -> None:
    assert difference(NOP, n=KPC, before=write_csr(HWCTL, 0xFFF)) == 2
    assert difference(NOP, n=EPC, before=write_csr(HWCTL, 0xFFF)) == 0


def test_counters_are_64_bits_wide_and_writable_while_they_count() -> None:
    bench = Bench(li(T0, -2), csrw(0xBC0, T0), NOP, NOP, NOP, csrr(A0, 0xBC0), csrr(A1, 0xBD0), csrwi(0xBD0, 5),
                  csrr(A2, 0xCD0), csrr(A3, 0xCC0), HALT).run()  # fmt: skip
    assert bench.x(A0) == 1
    assert bench.x(A1) == 1
    assert bench.x(A2) == 5
    assert bench.x(A3) == 5


# --- The interrupt latch ----------------------------------------------------------------------------------------------

HANDLED: list[Item] = [
    la(T0, "handler"), csrw(0x305, T0), j("go"), Org(0x40), Label("handler"),
    csrr(S11, HWLATCH), csrr(T0, 0x341), addi(T0, T0, 4), csrw(0x341, T0), MRET, Label("go"),
]  # fmt: skip


def test_a_trap_is_the_kernel_until_its_mret() -> None:
    program: list[Item] = [HANDLED, csrr(S0, 0xCC3), csrr(S2, 0xCC0), ECALL, csrr(S1, 0xCC3), csrr(S3, 0xCC0), HALT]
    bench = Bench(*program).run()
    assert bench.x(S11) == 1
    # The refill after ECALL and the handler's five; ECALL's own cycle was the program's, as the refill after MRET is
    # a stall.
    assert bench.x(S1) - bench.x(S0) == 2 + 5
    assert bench.x(S3) - bench.x(S2) == 1 + 1 + 1
    assert bench.states()[160].count == 1
    assert bench.states()[160].cycles == 7


def test_a_call_has_the_state_of_its_number() -> None:
    for number, state in ((0, 160), (7, 167), (31, 191), (1000, 191)):
        assert Bench(HANDLED, li(A7, number), ECALL, HALT).run().states()[state].instructions == 5


def test_clearing_the_latch_ends_the_trap_for_the_counters() -> None:
    bench = Bench(
        la(T0, "on"), csrw(0x305, T0), ECALL, Org(0x40), Label("on"), NOP, csrwi(HWLATCH, 0), NOP, NOP, HALT
    ).run()
    assert bench.states()[160].cycles == 2 + 2
    assert counts(bench)["kpc"] == 4


def nested(control: int, *clears: Item) -> Bench:
    """An ECALL within an ECALL: the inner handler runs `clears`, then goes on behind the outer's ECALL with MRET."""
    program: list[Item] = [
        la(T0, "outer"), csrw(0x305, T0), write_csr(HWCTL, control), ECALL, HALT,
        Org(0x80), Label("outer"), la(T0, "inner"), csrw(0x305, T0), li(A7, 3), ECALL, csrr(S1, HWLATCH),
        csrr(S2, HWSTATE),
        *clears[1:], csrr(S3, HWLATCH), csrr(S0, HWSTATE), HALT,
        Org(0x100), Label("inner"), csrr(S10, HWSTATE), *clears[:1], csrr(S11, HWSTATE), csrr(T0, 0x341),
        addi(T0, T0, 4),
        csrw(0x341, T0), MRET,
    ]  # fmt: skip
    return Bench(*program).run()


def test_traps_nest_and_mret_ends_the_innermost() -> None:
    b = nested(0x7FF, NOP, NOP)
    assert [b.x(n) for n in (S10, S11, S1, S2, S3, S0)] == [163, 163, 1, 160, 1, 160]


def test_with_hl_only_the_handler_ends_them_one_by_one() -> None:
    b = nested(0x17FF, NOP, NOP)
    assert [b.x(n) for n in (S10, S11, S1, S2)] == [163, 163, 1, 163]
    b = nested(0x17FF, csrwi(HWLATCH, 0), csrwi(HWLATCH, 0))
    assert [b.x(n) for n in (S10, S11, S1, S2, S3, S0)] == [163, 160, 1, 160, 0, 0]


def test_without_hl_clearing_ends_them_all() -> None:
    b = nested(0x7FF, csrwi(HWLATCH, 0), NOP)
    assert [b.x(n) for n in (S10, S11, S1, S2)] == [163, 0, 0, 0]


@pytest.mark.parametrize("kind", [SWNE, KPSW, SWNE | KPSW])
def test_the_correction_is_taken_out_when_a_mark_is_cleared(kind: int) -> None:
    program: list[Item] = [csrwi(HWCORR, 3), csrwi(HWSW, kind), NOP, csrwi(HWSW, 0), NOP, NOP, NOP, HALT]
    bench = Bench(*program).run()
    # Effective: two before, three and WFI after the two that are marked; three of these are corrected.
    assert counts(bench) == {"epc": 2 + 4 - 3, "spc" if kind == SWNE else "kpc": 2, "rpc": 8 - 3, "opc": 3}
    assert bench.states()[210].cycles == 3
    assert bench.states()[0].cycles == 3
    assert violations(bench.ledger()) == []


def test_a_mark_for_polling_is_not_corrected_nor_is_one_that_stays() -> None:
    program: list[Item] = [
        csrwi(HWCORR, 3),
        csrwi(HWSW, IOSW),
        csrwi(HWSW, 0),
        csrwi(HWSW, KPSW),
        csrwi(HWSW, KPSW | SWNE),
        HALT,
    ]
    assert "opc" not in counts(Bench(*program).run())


def test_the_correction_is_taken_out_when_the_latch_is_cleared() -> None:
    program: list[Item] = [
        la(T0, "on"),
        csrw(0x305, T0),
        csrwi(HWCORR, 5),
        ECALL,
        Org(0x40),
        Label("on"),
        csrwi(HWLATCH, 2),
    ]
    assert counts(Bench(*program, [NOP] * 9, HALT).run())["opc"] == 5


# --- The poll latch ---------------------------------------------------------------------------------------------------

POLLING: list[Item] = [
    li2(S0, 0x1000_0000), Label("check"), lw(A2, S0, 4), beq(A2, ZERO, "check"), lw(A3, S0), csrr(S11, HWLATCH), HALT,
]  # fmt: skip


def test_a_first_check_that_is_ready_is_progress() -> None:
    bench = Bench([NOP] * 20, POLLING, uart=Uart(script=(Script(5, "a"),))).run()
    assert "iopc" not in counts(bench)
    assert bench.x(A3) == ord("a")


def test_after_a_check_that_is_not_ready_all_is_polling_until_one_that_is() -> None:
    bench = Bench(POLLING, uart=Uart(script=(Script(1000, "a"),))).run()
    # A check and its branch: 4, the value a cycle later than that (see test_timing), the branch, its refill.
    polled = bench.states()[120]
    assert counts(bench)["iopc"] == polled.cycles == polled.time
    # From behind the first cycle of the first check, which is the third instruction, to that of the last one.
    start, rounds = 3, -(-(1000 - 2) // ROUND)
    assert polled.cycles == rounds * ROUND
    assert start + polled.cycles > 1000
    assert bench.x(S11) == 0
    assert polled.count == 1


ROUND = 4 + 1 + 1 + 2
"""Cycles of a turn of the polling loop: the check, the wait for its value, the branch, the refill."""


BETWEEN: dict[str, list[Item]] = {
    "check": [lw(A2, S0, 4)],
    "take": [lw(A3, S0)],
    "clock": [csrr(A3, 0xC00), csrr(A3, 0xC80)],
    "work": [mul(A3, A2, A3), div(A3, A3, S1)],
    "memory": [sw(A2, S1, 1020), lw(A3, S1, 1020)],
    "nothing": [NOP],
}
"""What a thread does with a device, or between two checks of it: nothing of the last four asks it."""


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([*BETWEEN, "check", "take"]), min_size=1, max_size=40),
    st.lists(st.integers(1, 2000), max_size=6, unique=True).map(sorted),
)
def test_from_a_check_in_vain_to_one_that_is_ready_all_is_polling_whatever_is_done_between(
    steps: list[str], arrivals: list[int]
) -> None:
    program: list[Item] = [li2(S0, 0x1000_0000), li2(S1, DATA), addi(A2, ZERO, 0)]
    for number, step in enumerate(steps):
        program += BETWEEN[step]
        program += [csrr(A0, 0xCC0 + IOPC), csrr(A1, 0xC00)]  # one right after the other, each time
        program += [sw(value, S1, 12 * number + 4 * place) for place, value in enumerate((A0, A1, A2))]
    uart = Uart(script=tuple(Script(at, "a") for at in arrivals))
    bench = Bench(*program, HALT, uart=uart, progress=ProgressUnitConfig(gap=0)).run()
    polling, last_iopc, last_cycle = False, 0, None
    for number, step in enumerate(steps):
        iopc, cycle, ready = (bench.word(DATA + 12 * number + 4 * place) for place in range(3))
        was, polling = polling, not ready if step == "check" else polling
        polled = iopc - last_iopc
        if last_cycle is not None and was == polling:
            assert polled == (cycle - last_cycle if polling else 0), (number, step)
        elif last_cycle is not None:
            assert 0 < polled < cycle - last_cycle, (number, step)
        last_iopc, last_cycle = iopc, cycle


def test_without_poll_in_hwctl_the_poll_latch_charges_nothing() -> None:
    bench = Bench(write_csr(HWCTL, 0x3FF), POLLING, uart=Uart(script=(Script(1000, "a"),))).run()
    assert "iopc" not in counts(bench)


def test_the_other_status_registers_poll_too() -> None:
    fill: list[Item] = [
        li2(S0, 0x1000_0000),
        [sw(ZERO, S0, 8)] * 17,
        lw(A2, S0, 12),
        csrr(S11, HWLATCH),
        csrr(S10, HWSTATE),
        HALT,
    ]
    bench = Bench(fill).run()
    assert (bench.x(A2), bench.x(S11), bench.x(S10)) == (0, 2, 121)
    disk: list[Item] = [li2(S0, 0x1001_0000), li(A2, 1), sw(A2, S0, 12), lw(A2, S0, 16), csrr(S10, HWSTATE), HALT]
    bench = Bench(disk).run()
    assert (bench.x(A2), bench.x(S10)) == (0, 122)


WORD = st.integers(0, 0xFFFF_FFFF)


@settings(deadline=None)
@given(value=WORD, mask=st.integers(1, 0xFFFF_FFFF), bits=st.none() | WORD, same=st.booleans())
def test_a_register_is_ready_as_its_entry_says(value: int, mask: int, bits: int | None, same: bool) -> None:
    ready = ANY if bits is None else (value if same else bits) & mask
    register = StatusRegister(name="sector", address=0x1001_0000, mask=mask, ready=ready)
    bench = Bench(
        li2(S0, 0x1001_0000), li2(A1, value), sw(A1, S0), lw(A2, S0), csrr(S11, HWLATCH), csrr(S10, HWSTATE), HALT,
        polls=(register,),
    ).run()  # fmt: skip
    is_ready = bool(value & mask) if bits is None else value & mask == ready
    assert bench.x(A2) == value
    assert (bench.x(S11), bench.x(S10)) == ((0, 0) if is_ready else (2, 120))


def test_every_name_of_status_registers_is_a_state() -> None:
    """Up to seven names; registers that share one share its state."""
    polls = tuple(StatusRegister(name=f"line{n}", address=0x0C00_0004 + 4 * n) for n in range(7))
    polls += (StatusRegister(name="line3", address=0x0C00_0004 + 28),)
    for n, number in enumerate([120, 121, 122, 124, 125, 126, 127, 124]):
        bench = Bench(
            li2(S0, 0x0C00_0004 + 4 * n), lw(A2, S0), csrr(S11, HWLATCH), csrr(S10, HWSTATE), HALT, polls=polls
        ).run()
        assert (bench.x(S11), bench.x(S10)) == (2, number)
        (hart,) = bench.ledger().processors
        assert hart.states[f"poll.line{n if n < 7 else 3}"].count == 1
        assert violations(bench.ledger()) == []


def test_the_unready_value_of_a_register_is_known_too() -> None:
    """The highest bit of RXDATA is set while there is no byte."""
    entry = StatusRegister(name="byte", address=0x1000_0000, mask=0x8000_0000, ready=0)
    program: list[Item] = [li2(S0, 0x1000_0000), Label("again"), lw(A2, S0), blt(A2, ZERO, "again"), NOP, NOP, HALT]
    bench = Bench(*program, uart=Uart(script=(Script(1000, "a"),)), polls=(entry,)).run()
    assert bench.x(A2) == ord("a")
    # From behind the first cycle of the first load, which is the third instruction, to that of the last one.
    assert bench.states()[120].cycles == -(-(1000 - 2) // ROUND) * ROUND


def test_without_status_registers_nothing_polls() -> None:
    bench = Bench(POLLING, uart=Uart(script=(Script(1000, "a"),)), polls=()).run()
    assert "iopc" not in counts(bench)
    assert not any(state.startswith("poll") for state in bench.ledger().processors[0].states)


def test_a_status_check_in_a_handler_leaves_the_poll_latch_alone() -> None:
    program: list[Item] = [
        la(T0, "on"),
        csrw(0x305, T0),
        ECALL,
        Org(0x40),
        Label("on"),
        li2(S0, 0x1000_0000),
        lw(A2, S0, 4),
    ]
    bench = Bench(*program, NOP, csrr(S11, HWLATCH), HALT).run()
    assert (bench.x(A2), bench.x(S11)) == (0, 1)


def test_the_poll_latch_is_cleared_by_writing_0_to_it() -> None:
    check: list[Item] = [li2(S0, 0x1000_0000), lw(A2, S0, 4), NOP]
    assert Bench(*check, csrwi(HWLATCH, 3), csrr(S11, HWLATCH), HALT).run().x(S11) == 2
    assert Bench(*check, csrwi(HWLATCH, 1), csrr(S11, HWLATCH), HALT).run().x(S11) == 0


# --- Rights -----------------------------------------------------------------------------------------------------------


def in_user_mode(*program: Item, **values: Any) -> Bench:
    """Runs it in user mode; the first trap puts its cause and value into s10 and s11 and halts."""
    return Bench(
        la(T0, "trap"), csrw(0x305, T0), la(T0, "user"), csrw(0x341, T0), MRET,
        Org(0x40), Label("trap"), csrr(S10, 0x342), csrr(S11, 0x343), HALT, Label("user"), program, ECALL, **values,
    ).run()  # fmt: skip


@pytest.mark.parametrize("csr", [0xCC0, 0xCDC, 0xCE0, 0xCF4, HWSW, 0x801])
def test_user_mode_reads_the_counters_and_its_own_registers(csr: int) -> None:
    assert in_user_mode(csrr(A0, csr)).x(S10) == 8


@pytest.mark.parametrize("csr", [*range(HWCTL, HWSTATE + 1), 0x7C8, 0x7CB, 0x7D0, 0x7D1, 0xBC0, 0xBE0, 0x300])
def test_user_mode_has_no_right_to_the_machines_registers(csr: int) -> None:
    bench = in_user_mode(csrr(A0, csr))
    assert (bench.x(S10), bench.x(S11)) == (2, csrr(A0, csr))


@pytest.mark.parametrize("csr", [0xCC0, 0xCE0, 0xC00])
def test_nobody_writes_what_is_read_only(csr: int) -> None:
    assert in_user_mode(csrw(csr, ZERO)).x(S10) == 2
    bench = Bench(
        la(T0, "trap"), csrw(0x305, T0), csrw(csr, ZERO), HALT, Org(0x40), Label("trap"), csrr(S10, 0x342), HALT
    )
    assert bench.run().x(S10) == 2


def test_user_mode_marks_its_regions() -> None:
    bench = in_user_mode(csrwi(HWSW, KPSW), NOP, NOP, csrwi(HWSW, 0))
    assert bench.states()[64].cycles == 3


# --- Threads ----------------------------------------------------------------------------------------------------------

BLOCK_A, BLOCK_B = RAM + 0x8000, RAM + 0x8080
BLOCKS: list[Item] = [li2(S0, BLOCK_A), li2(S1, BLOCK_B)]


def with_blocks(*program: Item, until: int = 100_000, **values: Any) -> Bench:
    bench = Bench(BLOCKS, *program, HALT, start=False, **values)
    for number, at in ((5, BLOCK_A), (6, BLOCK_B)):
        bench.processor.write(at + 64, number.to_bytes(4, "little"))
        bench.processor.write(at + 80, b"thread %d\0" % number)
    bench.processor.start(0x0800_0000, None)
    return bench.run(until)


def test_a_write_of_hwblock_copies_the_counters_out_and_in() -> None:
    # A: 15 of the switch are its own, three NOPs, and the first cycle of the next switch.
    bench = with_blocks(
        csrw(HWBLOCK, S0), NOP, NOP, NOP, csrw(HWBLOCK, S1), NOP, csrr(A0, 0xCC0), csrw(HWBLOCK, S0), csrr(A1, 0xCC0)
    )
    assert bench.long(BLOCK_A) == bench.long(BLOCK_A + 40) == 15 + 3 + 1
    assert bench.x(A0) == 15 + 1
    assert bench.long(BLOCK_B) == 15 + 1 + 1 + 1
    assert bench.x(A1) == 19 + 15
    threads = bench.threads()
    assert threads[6][0].cycles == 18
    assert threads[5][0].cycles == 19 + 15 + 1 + 1


def test_the_mark_and_the_poll_latch_go_with_the_thread() -> None:
    check: list[Item] = [li2(S2, 0x1000_0000), lw(A2, S2, 4), NOP]
    bench = with_blocks(
        csrw(HWBLOCK, S0), check, li(T0, 0x302), csrw(HWSW, T0), csrw(HWBLOCK, S1), csrr(A0, HWSW), csrr(A1, HWLATCH),
        csrw(HWBLOCK, S0), csrr(A3, HWSW), csrr(A4, HWLATCH), csrr(A5, HWSTATE),
    )  # fmt: skip
    assert bench.word(BLOCK_A + 68) == 0x302
    assert bench.word(BLOCK_A + 72) & 0xFFFF == 0x0101
    assert bench.word(BLOCK_A + 76) == 1 << 31 | 67 << 8
    assert [bench.x(n) for n in (A0, A1, A3, A4, A5)] == [0, 0, 0x302, 2, 67]


def test_hwblock_0_clears_everything() -> None:
    bench = with_blocks(
        csrw(HWBLOCK, S0), csrwi(HWSW, 7), csrwi(HWBLOCK, 0), csrr(A0, HWSW), csrr(A1, 0xCC0), csrr(A2, HWBLOCK)
    )
    assert [bench.x(n) for n in (A0, A1, A2)] == [0, 15 + 1, 0]


def test_where_a_thread_was_while_it_did_not_run() -> None:
    """It waits from the end of the switch's first cycle until it is woken, then it is ready until it is loaded."""
    bench = with_blocks(
        csrw(HWBLOCK, S0), csrr(S2, 0xB00), csrwi(HWLEAVE, 2), csrw(HWBLOCK, S1), csrr(A2, HWLEAVE), csrr(A0,
        0xB00), [NOP] * 5,
        csrw(HWWAKE, S0), csrr(A1, 0xB00), NOP, csrw(HWBLOCK, S0), csrr(S3, 0xB00),
    )  # fmt: skip
    assert bench.x(A2) == 0
    a = bench.threads()[5]
    # mcycle read at S2; hwleave the next, the switch at S2 + 2, gone from S2 + 3; woken from A1 on.
    assert a[222].time == bench.x(A1) - (bench.x(S2) + 3)
    assert a[222].count == 1
    # Ready until after the first cycle of the switch, at A1 + 2.
    assert a[220].time == 3
    assert violations(bench.ledger()) == []


def test_a_thread_that_is_left_without_a_reason_is_ready() -> None:
    bench = with_blocks(csrw(HWBLOCK, S0), csrw(HWBLOCK, S1), csrw(HWBLOCK, S0))
    assert bench.threads()[5][220].time == 16
    # The last switch's other 15 cycles and WFI's; then the machine stands still.
    assert bench.threads()[6][220].time == 16


def test_a_new_thread_is_ready_from_its_wake_on() -> None:
    bench = with_blocks(csrw(HWWAKE, S1), [NOP] * 9, csrw(HWBLOCK, S1))
    assert bench.threads()[6][220].time == 10
    found = next(t for t in bench.ledger().threads if t.tid == 6)
    assert (found.name, found.birth) == ("thread 6", 5)


def test_a_thread_ends_and_another_may_have_its_block_and_id() -> None:
    bench = with_blocks(csrw(HWBLOCK, S0), csrwi(HWLEAVE, 31), csrw(HWBLOCK, S1), [NOP] * 3, csrw(HWBLOCK, S0))
    threads = [t for t in bench.ledger().threads if t.tid == 5]
    assert len(threads) == 2
    first, second = threads
    assert first.end == first.birth + first.span
    assert second.birth >= (first.end or 0)
    assert second.end is None
    assert violations(bench.ledger()) == []


def test_a_hart_that_runs_a_thread_which_another_runs_is_counted_and_nobodys() -> None:
    program: list[Item] = [csrw(HWBLOCK, S0), [NOP] * 50]
    bench = with_blocks(*program, threads=2, boot="all")
    assert bench.processor.losses["threads_unplaced"] == 1
    assert violations(bench.ledger()) == []
    assert bench.threads()[5][0].cycles <= max(bench.states(n)[0].cycles for n in range(2))


def test_a_wake_of_a_thread_that_runs_is_counted() -> None:
    assert with_blocks(csrw(HWBLOCK, S0), csrw(HWWAKE, S0)).processor.losses["wakes_of_running_threads"] == 1


@pytest.mark.parametrize("address", [4, 0x0800_0000, RAM + 0x8004, RAM + (256 << 10) - 120, 0xFFFF_FFF8])
@pytest.mark.parametrize("csr", [HWBLOCK, HWWAKE, HWMON])
def test_what_is_no_place_for_a_block_is_an_illegal_instruction(csr: int, address: int) -> None:
    program: list[Item] = [
        la(T0, "trap"),
        csrw(0x305, T0),
        li2(A0, address),
        csrw(csr, A0),
        HALT,
        Org(0x40),
        Label("trap"),
    ]
    bench = Bench(*program, csrr(S10, 0x342), csrr(S11, 0x343), HALT).run()
    assert (bench.x(S10), bench.x(S11)) == (2, csrw(csr, A0))


def test_threads_without_end_do_not_fill_the_host() -> None:
    """A thread that ends and begins with every few instructions: 65,536 are kept, the others are counted."""
    program: list[Item] = [Label("again"), csrw(HWBLOCK, S0), csrwi(HWLEAVE, 31), j("again")]
    bench = with_blocks(*program, until=400_000, progress=ProgressUnitConfig(switch=1), pipeline=Pipeline(refill=0))
    assert bench.processor.losses["threads_unplaced"] > 1000


# --- State monitor ----------------------------------------------------------------------------------------------------


def test_instruction_addresses_make_states() -> None:
    ranges = (
        Range("one", 0x0800_0008, 0x0800_0010),
        Range("two", 0x0800_000C, 0x0800_0014, "", "noneffective"),
        Range("three", 0x0800_0014, 0x0800_0018, "", "poll"),
    )
    bench = Bench([NOP] * 8, HALT, ranges=ranges).run()
    # Where two hold an address it is the first one's.
    assert {n: s.cycles for n, s in bench.states().items() if n < 4} == {0: 2 + 3, 1: 2, 2: 1, 3: 1}
    assert counts(bench) == {"epc": 7, "kpc": 1, "iopc": 1, "rpc": 9}
    assert {"user.one", "noneffective.two", "poll.three"} <= set(bench.ledger().processors[0].states)


@pytest.mark.parametrize(
    ("value", "state"),
    [
        (2, 64),
        (3, 64),
        (2 | 5 << 8, 69),
        (2 | 31 << 8, 95),
        (2 | 200 << 8, 95),
        (4, 96),
        (5 | 23 << 8, 119),
        (4 | 99 << 8, 119),
        (1, 123),
    ],
)
def test_tags_make_states(value: int, state: int) -> None:
    bench = Bench(li(T0, value), csrw(HWSW, T0), NOP, csrr(S10, HWSTATE), HALT).run()
    assert bench.x(S10) == state
    assert bench.states()[state].cycles == 3


def test_the_table_in_memory_is_the_ledger() -> None:
    table = RAM + 0x2000
    program: list[Item] = [
        li2(T0, table), csrw(HWMON, T0), HANDLED, li(A1, DATA), lw(A2, A1), csrwi(HWSW, 2), NOP, csrwi(HWSW,
        0), li(A7, 4), ECALL,
        csrwi(HWSW, 1), mul(A2, A2, A2), mv(A2, A2), csrwi(HWSW, 0), ECALL, csrr(A0, HWSTATE), csrwi(HWMON, 0), HALT,
    ]  # fmt: skip
    bench = Bench(*program).run()
    states = bench.states()
    for number in (64, 123, 164):
        row = [bench.long(table + 32 * number + 8 * i) for i in range(4)]
        found = states[number]
        assert row == [found.cycles, found.instructions, found.count, found.stall], number
    user = [bench.long(table + 8 * i) for i in range(4)]
    # It was switched on after three instructions, and off two before the end.
    assert user[0] == states[0].cycles - 3 - 1
    assert user[1] == states[0].instructions - 3 - 1
    assert user[3] == states[0].stall


def test_reading_hwstate_brings_the_table_up_to_date() -> None:
    table = RAM + 0x2000
    bench = Bench(
        li2(T0, table),
        csrw(HWMON, T0),
        [NOP] * 7,
        csrr(A0, HWSTATE),
        li2(T0, table),
        lw(A1, T0),
        NOP,
        csrwi(HWMON, 0),
        HALT,
    )
    assert bench.run().x(A1) == 7
    assert bench.x(A0) == 0
