"""Section 4 of docs/machine.md: a poll latch for each device, and when a thread has given up polling."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.model import violations
from headway_machine.config import ProgressUnitConfig, Script, StatusRegister, Uart

from .assembler import (
    A0,
    A2,
    A3,
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
    T1,
    T2,
    ZERO,
    Bench,
    Item,
    Label,
    Org,
    addi,
    bne,
    csrr,
    csrw,
    csrwi,
    j,
    la,
    li,
    li2,
    lw,
    sw,
    write_csr,
)

HWLATCH, HWBLOCK, HWSTATE, HWGAP, HWPOLL = 0x7C1, 0x7C3, 0x7C7, 0x7CD, 0x804
UART = 0x1000_0000
RX, TX = 1, 2
"""Bits of hwpoll: the UART's, as the default configuration has them."""
LOOK: list[Item] = [li2(S0, UART), lw(A2, S0, 4)]
IOPC = 0xCC4


def gap(cycles: int) -> ProgressUnitConfig:
    return ProgressUnitConfig(gap=cycles)


def polled(bench: Bench, hart: int = 0) -> int:
    """The counter, which the cells must agree with."""
    iopc = bench.counters(hart)["iopc"]
    assert iopc == sum(state.cycles for number, state in bench.states(hart).items() if 120 <= number < 128)
    assert violations(bench.ledger()) == []
    return iopc


@given(cycles=st.integers(1, 400), work=st.integers(0, 500))
def test_who_looks_once_in_vain_polls_for_the_gap_and_no_longer(cycles: int, work: int) -> None:
    bench = Bench(LOOK, [NOP] * work, csrr(S10, HWPOLL), HALT, progress=gap(cycles)).run()
    # The check holds the hart for four cycles, of which three come after it.
    assert polled(bench) == min(cycles, 3 + work + 2)
    assert bench.x(S10) == (RX if cycles > 3 + work else 0)
    user = bench.states()[0]
    assert (user.count, bench.states()[120].count) == (1 + (cycles < 3 + work + 2), 1)


@pytest.mark.parametrize(("threads", "issue"), [(2, "strict"), (6, "strict"), (3, "skip")])
@given(cycles=st.integers(1, 300))
@settings(max_examples=20)
def test_the_gap_is_in_cycles_of_the_hart(threads: int, issue: str, cycles: int) -> None:
    """In strict turn these come in rotations."""
    bench = Bench(LOOK, [NOP] * 500, HALT, progress=gap(cycles), threads=threads, issue=issue).run()
    step = threads if issue == "strict" else 1
    assert polled(bench) == -(-cycles // step) * step


def test_it_ends_within_a_wait_for_memory_and_within_an_instruction() -> None:
    far: list[Item] = [*LOOK, li2(S1, RAM + 0x1_0000), lw(A3, S1), NOP, HALT]
    assert polled(Bench(far, progress=gap(40)).run()) == 40
    long: list[Item] = [*LOOK, 0x02A5_4533, NOP, HALT]  # div a0, a0, a0: 34 cycles
    assert polled(Bench(long, progress=gap(20)).run()) == 20


def test_each_check_in_vain_begins_the_gap_again() -> None:
    loop: list[Item] = [LOOK[0], li(S1, 50), Label("again"), lw(A2, S0, 4), addi(S1, S1, -1), [NOP] * 8]
    bench = Bench(loop, bne(S1, ZERO, "again"), [NOP] * 100, HALT, progress=gap(24)).run()
    assert bench.states()[120].count == 1
    # 49 times around: a check of four, the others, the branch and its refill; then the gap.
    assert polled(bench) == 49 * (4 + 1 + 8 + 1 + 2) + 24


def test_without_a_gap_only_a_ready_check_ends_it() -> None:
    bench = Bench(LOOK, [NOP] * 3000, csrr(S10, HWPOLL), HALT, progress=gap(0)).run()
    assert (bench.x(S10), polled(bench)) == (RX, 3 + 3000 + 2)


def test_a_program_sets_the_gap_and_it_counts_from_there() -> None:
    bench = Bench(LOOK, [NOP] * 10, csrwi(HWGAP, 7), [NOP] * 50, csrr(S10, HWGAP), HALT).run()
    assert (bench.x(S10), polled(bench)) == (7, 3 + 10 + 1 + 7)
    assert Bench(csrr(S10, HWGAP), HALT).run().x(S10) == 2000


def test_a_ready_device_does_not_end_the_polling_of_another() -> None:
    again: list[Item] = [Label("again"), lw(A2, S0, 4), lw(A3, S0, 12), [NOP] * 5, lw(S2, S0, 12), j("again")]
    bench = Bench(LOOK[0], again, uart=Uart(script=(Script(5000, "a"),))).run(4000)
    assert bench.x(A3) == 1
    assert bench.states()[120].count == 1
    assert 121 not in bench.states()
    assert bench.states()[120].cycles > 3900


def in_user_mode(*program: Item, **values: Any) -> Bench:
    """A system call comes back, with what hwpoll was in the handler in s11; another trap halts."""
    return Bench(
        la(T0, "trap"), csrw(0x305, T0), la(T0, "user"), csrw(0x341, T0), MRET,
        Org(0x40), Label("trap"), csrr(S11, HWPOLL), csrr(T1, 0x342), addi(T1, T1, -8), bne(T1, ZERO, "bad"),
        csrr(T0, 0x341), addi(T0, T0, 4), csrw(0x341, T0), MRET, Label("bad"), li(S10, 99), HALT,
        Label("user"), program, Label("for ever"), [NOP] * 100, j("for ever"), **values,
    ).run(3000)  # fmt: skip


def test_user_mode_ends_its_polling() -> None:
    bench = in_user_mode(LOOK, lw(A3, S0, 12), csrr(S10, HWPOLL), csrwi(HWPOLL, 0), csrr(S3, HWPOLL))
    assert (bench.x(S10), bench.x(S3)) == (RX, 0)
    # The rest of the check, that of the transmitter, and two instructions.
    assert polled(bench) == 3 + 4 + 2


def test_it_ends_the_polling_of_one_device_and_goes_on_with_another() -> None:
    full: list[Item] = [li2(S0, UART), [sw(ZERO, S0, 8)] * 17, lw(A2, S0, 12), lw(A2, S0, 4)]
    bench = Bench(full, csrr(S1, HWPOLL), csrr(S2, HWSTATE), csrwi(HWPOLL, TX), csrr(S3, HWPOLL), csrr(S10, HWSTATE),
                  csrwi(HWPOLL, RX), csrr(S11, HWPOLL), HALT).run()  # fmt: skip
    assert [bench.x(n) for n in (S1, S2, S3, S10, S11)] == [RX | TX, 120, TX, 121, 0]


def test_a_system_call_ends_it() -> None:
    """The thread asks a kernel for something, perhaps to wait by interrupt."""
    bench = in_user_mode(LOOK, ECALL, csrr(S10, HWPOLL))
    assert (bench.x(S11), bench.x(S10)) == (0, 0)
    assert polled(bench) == 3 + 1


def test_time_in_a_handler_and_asleep_is_not_the_threads_own() -> None:
    """A timer interrupt whose handler takes three times the gap, and a halt that takes longer than that."""
    bench = Bench(
        la(T0, "handler"), csrw(0x305, T0), li2(S1, 0x0200_4000), sw(ZERO, S1, 4), li2(T0, 400), sw(T0, S1),
        li2(T0, 0x80), csrw(0x304, T0), li2(S0, UART), lw(A2, S0, 4), csrwi(0x300, 8), [NOP] * 30, 0x1050_0073,
        csrr(S10, HWPOLL), [NOP] * 100, csrr(S11, HWPOLL), csrwi(0x304, 0), HALT,
        Org(0x400), Label("handler"), [NOP] * 210, csrr(T0, 0xC01), addi(T0, T0, 700), sw(T0, S1), MRET,
        progress=gap(70),
    ).run(5000)  # fmt: skip
    assert min(bench.states()[number].cycles or bench.states()[number].time for number in (151, 200)) > 200
    assert (bench.x(S10), bench.x(S11)) == (RX, 0)
    assert polled(bench) == 70


def test_what_is_left_of_the_gap_goes_with_the_thread() -> None:
    block = RAM + 0x8000
    bench = Bench(
        li2(S1, block), addi(S2, S1, 128), csrw(HWBLOCK, S1), LOOK, [NOP] * 10, csrw(HWBLOCK, S2), [NOP] * 200,
        csrr(S10, HWPOLL), csrw(HWBLOCK, S1), csrr(S11, HWPOLL), [NOP] * 200, csrw(HWBLOCK, S2), HALT,
        progress=gap(50), start=False,
    )  # fmt: skip
    bench.processor.write(block + 64, (5).to_bytes(4, "little"))
    bench.processor.write(block + 192, (6).to_bytes(4, "little"))
    bench.processor.start(0x0800_0000, None)
    bench.run()
    assert (bench.x(S10), bench.x(S11)) == (0, RX)
    assert bench.threads()[5][120].cycles == 50
    assert bench.threads()[5][120].count == 1
    assert bench.word(block + 72) == 0


REGISTERS = tuple(StatusRegister(name=name, address=0x1001_0000 + 4 * n) for n, name in enumerate("abc"))
"""What a program writes to the block device's registers: it says itself what is ready."""


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40))
def test_a_device_that_a_round_of_checks_leaves_out_is_given_up(checks: list[tuple[int, bool]]) -> None:
    program: list[Item] = [li2(S0, 0x1001_0000), li2(S1, RAM + 0x8000)]
    latches: set[int] = set()
    asked: set[int] = set()
    expected = []
    for number, (device, ready) in enumerate(checks):
        program += [li(A0, int(ready)), sw(A0, S0, 4 * device), lw(A2, S0, 4 * device)]
        program += [csrr(A3, HWPOLL), sw(A3, S1, 8 * number), csrr(A3, HWSTATE), sw(A3, S1, 8 * number + 4)]
        if not ready and device in asked:
            latches, asked = set(asked), set()
        latches = latches - {device} if ready else latches | {device}
        asked = asked - {device} if ready else asked | {device}
        expected.append((sum(1 << n for n in latches), 120 + min(latches) if latches else 0))
    bench = Bench(*program, HALT, polls=REGISTERS, progress=gap(0)).run()
    assert [tuple(bench.word(RAM + 0x8000 + 8 * n + 4 * k) for k in (0, 1)) for n in range(len(checks))] == expected
    assert violations(bench.ledger()) == []


def test_a_latch_that_the_block_has_and_no_status_register_counts_as_clear() -> None:
    block = RAM + 0x8000
    for word, kept in ((0xFFFF_FFFF, 7), (1 << 3, 0), (1 << 6, 0), (RX | 5 << 16, RX)):
        bench = Bench(
            li2(S1, block), *write_csr(HWGAP, 0), li2(T2, word), sw(T2, S1, 72), csrw(HWBLOCK, S1), csrr(S10, HWPOLL),
            csrr(S11, HWLATCH), HALT,
        ).run()  # fmt: skip
        assert (bench.x(S10), bench.x(S11)) == (kept, 2 if kept else 0)
