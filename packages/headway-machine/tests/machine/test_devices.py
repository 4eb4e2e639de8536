"""Section 3 of docs/machine.md: the timer, the interrupt controller, the UART, the block device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway_machine.config import BlockDevice, ExternalInterrupt, Script, Timer, Tlb, Uart

from .assembler import (
    A0,
    A1,
    A2,
    A3,
    HALT,
    MRET,
    NOP,
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
    Item,
    Label,
    Org,
    addi,
    assemble,
    beq,
    bne,
    csrr,
    csrsi,
    csrw,
    jalr,
    la,
    li,
    li2,
    lw,
    sw,
    write_csr,
)

DATA = RAM + 0x1_0000
CLINT, PLIC, UART, BLOCK = 0x0200_0000, 0x0C00_0000, 0x1000_0000, 0x1001_0000
CONTEXT = PLIC + 0x20_0000


# --- CLINT ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("divider", [1, 7])
def test_mtime_counts_ticks(divider: int) -> None:
    program: list[Item] = [li2(A2, CLINT + 0xBFF8), lw(A0, A2), [NOP] * 30, lw(A1, A2), csrr(S10, 0xC01), HALT]
    bench = Bench(*program, timer=Timer(divider=divider)).run()
    assert bench.x(A0) == 2 // divider
    assert bench.x(A1) == (2 + 4 + 30) // divider
    assert bench.x(S10) == 40 // divider


def test_the_timers_registers_have_64_bits() -> None:
    program: list[Item] = [
        li2(A2, CLINT + 0xBFF8), li2(A3, CLINT + 0x4000), li(A0, -1), sw(A0, A2, 4), sw(A0, A2), lw(S0, A2,
        4), csrr(S1, 0xC81), li(A1, 5), sw(A1, A3, 4), lw(S11, A3), lw(A1, A3, 4), HALT,
    ]  # fmt: skip
    bench = Bench(*program).run()
    assert (bench.x(S0), bench.x(S1)) == (0, 0), "it was 2^64 - 1 and has gone round"
    assert (bench.x(S11), bench.x(A1)) == (0xFFFF_FFFF, 5)


def test_a_timer_interrupt_is_pending_from_its_tick_on() -> None:
    program: list[Item] = [
        li2(A2, CLINT + 0x4000), sw(ZERO, A2, 4), li(A0, 30), sw(A0, A2), [NOP] * 17, csrr(S0, 0x344), csrr(S1, 0x344),
        csrr(S10, 0x344), li(A0, -1), sw(A0, A2, 4), csrr(S11, 0x344), HALT,
    ]  # fmt: skip
    bench = Bench(*program).run()
    # 2 + 4 + 1 + 4 + 17 = 28: the readings are at 28, 29 and 30.
    assert [bench.x(n) for n in (S0, S1, S10, S11)] == [0, 0, 0x80, 0]


def test_msip_is_one_bit() -> None:
    bench = Bench(
        li2(A2, CLINT), li(A0, -1), sw(A0, A2), lw(S0, A2), csrr(S1, 0x344), sw(ZERO, A2), csrr(S10, 0x344), HALT
    ).run()
    assert [bench.x(n) for n in (S0, S1, S10)] == [1, 8, 0]


# --- PLIC -------------------------------------------------------------------------------------------------------------

LINES = (ExternalInterrupt(4, 10), ExternalInterrupt(9, 10), ExternalInterrupt(31, 10))


def plic(*program: Item, priorities: tuple[int, int, int] = (1, 2, 2), **values: Any) -> Bench:
    setup: list[Item] = [li2(A2, PLIC), li2(A3, CONTEXT), li(T0, -1), li2(T1, PLIC + 0x2000), sw(T0, T1)]
    for source, priority in zip((4, 9, 31), priorities, strict=True):
        setup += [li(T0, priority), sw(T0, A2, 4 * source)]
    return Bench(setup, program, HALT, **{"interrupts": LINES, **values}).run()


def test_claims_come_by_priority_and_then_by_number() -> None:
    bench = plic(lw(S0, A3, 4), lw(S1, A3, 4), lw(S10, A3, 4), lw(S11, A3, 4), csrr(A0, 0x344))
    assert [bench.x(n) for n in (S0, S1, S10, S11, A0)] == [9, 31, 4, 0, 0]


def test_what_does_not_pass_the_threshold_waits() -> None:
    bench = plic(
        li(T0, 1),
        sw(T0, A3),
        lw(S0, A3, 4),
        lw(S1, A3, 4),
        lw(S10, A3, 4),
        csrr(S11, 0x344),
        sw(ZERO, A3),
        csrr(A0, 0x344),
    )
    assert [bench.x(n) for n in (S0, S1, S10, S11, A0)] == [9, 31, 0, 0, 0x800]


def test_priority_0_and_sources_that_are_not_enabled_never_interrupt() -> None:
    bench = plic(csrr(S0, 0x344), priorities=(0, 0, 0))
    assert bench.x(S0) == 0
    bench = plic(
        li2(T1, PLIC + 0x2000),
        li(T0, 1 << 4),
        sw(T0, T1),
        lw(S0, A3, 4),
        lw(S1, A3, 4),
        li2(T1, PLIC + 0x1000),
        lw(S10, T1),
    )
    assert [bench.x(n) for n in (S0, S1)] == [4, 0]
    assert bench.x(S10) == 1 << 9 | 1 << 31


def test_a_source_that_is_claimed_comes_again_when_it_is_completed() -> None:
    again = (ExternalInterrupt(4, 10, 50, 2),)
    claim: list[Item] = [
        lw(S0, A3, 4),
        [NOP] * 100,
        csrr(S1, 0x344),
        lw(S10, A3, 4),
        sw(S0, A3, 4),
        csrr(S11, 0x344),
        lw(A0, A3, 4),
    ]
    bench = plic(*claim, interrupts=again)
    assert [bench.x(n) for n in (S0, S1, S10, S11, A0)] == [4, 0, 0, 0x800, 4]


def test_each_hart_has_its_own_enables_and_threshold() -> None:
    program: list[Item] = [
        li2(A2, PLIC), bne(A0, ZERO, "second"), li(T0, 3), sw(T0, A2, 16), HALT,
        Label("second"), li2(A2, PLIC + 0x2080), li(T0, 16), sw(T0, A2), write_csr(0x304, 0x800), WFI,
        li2(A3, CONTEXT + 0x1000), lw(S0, A3, 4), HALT,
    ]  # fmt: skip
    bench = Bench(*program, threads=2, boot="all", interrupts=(ExternalInterrupt(4, 200),)).run()
    assert bench.x(S0, 1) == 4
    assert bench.counters(0)["instret"] == 6


# --- UART -------------------------------------------------------------------------------------------------------------

READ: list[Item] = [li2(A2, UART), Label("more"), lw(A0, A2, 4), beq(A0, ZERO, "more"), lw(A0, A2)]


def test_bytes_come_as_the_script_says() -> None:
    values: dict[str, Any] = {"uart": Uart(every=100, script=(Script(50, "ab"), Script(120, "x")))}
    times: list[Item] = []
    for k in range(3):
        again = Label(f"more{k}")
        times += [again, lw(A0, A2, 4), beq(A0, ZERO, again.name), lw(A0, A2), li2(T0, DATA + 8 * k), csrr(T1, 0xC01),
                  sw(A0, T0), sw(T1, T0, 4)]  # fmt: skip
    bench = Bench(li2(A2, UART), times, HALT, tlb=Tlb(entries=0), **values).run()
    assert [chr(bench.word(DATA + 8 * k)) for k in range(3)] == ["a", "x", "b"]
    for k, at in enumerate((50, 120, 150)):
        # A turn of the loop takes 8, from the check to the reading of the time another 12 at most, a miss before that.
        assert at < bench.word(DATA + 8 * k + 4) <= at + 8 + 12 + (70 if k else 0)


def test_nothing_to_receive_reads_as_all_ones() -> None:
    assert Bench(li2(A2, UART), lw(A0, A2), lw(A1, A2, 4), HALT).run().x(A0) == 0xFFFF_FFFF


def test_bytes_that_nobody_reads_are_lost_and_counted(tmp_path: Path) -> None:
    source = tmp_path / "typed"
    source.write_bytes(bytes(range(256)) + b"lost!")
    bench = Bench([NOP] * 500, li2(A2, UART), lw(S0, A2), HALT, uart=Uart(input=str(source), start=3, every=1)).run()
    assert bench.processor.losses["uart_overruns"] == 5
    assert bench.x(S0) == 0


def test_a_byte_takes_its_time_and_16_have_room() -> None:
    fill: list[Item] = [li2(A2, UART), [[li(A0, 65 + k), sw(A0, A2, 8)] for k in range(20)], lw(S0, A2, 12), HALT]
    bench = Bench(fill)
    bench.run(150)
    assert bench.x(S0) == 0, "full"
    bench.run(1 + 2 + 4 + 200 * 16)
    assert bench.processor.transmitted() == bytes(range(65, 65 + 16)), "the first left 200 ticks after it was written"
    early = Bench(fill).run(202)
    assert early.processor.transmitted() == b""
    assert early.run(204).processor.transmitted() == b"A"
    assert early.run(403).processor.transmitted() == b""


@pytest.mark.parametrize(("enable", "source"), [(1, 1), (2, 2)])
def test_the_uart_interrupts_for_what_is_enabled(enable: int, source: int) -> None:
    program: list[Item] = [
        li2(A2, UART), li(T0, enable), sw(T0, A2, 16), li2(A3, PLIC), li(T0, 1), sw(T0, A3, 4), sw(T0, A3,
        8), li(T0, 14),
        li2(T1, PLIC + 0x2000), sw(T0, T1), csrr(S0, 0x344), li2(A3, CONTEXT), lw(S1, A3, 4), HALT,
    ]  # fmt: skip
    bench = Bench(*program, uart=Uart(script=(Script(5, "z"),))).run()
    assert (bench.x(S0), bench.x(S1)) == (0x800, source)


# --- Block device -----------------------------------------------------------------------------------------------------


def command(number: int, sector: int = 0, count: int = 1, address: int = DATA) -> list[Item]:
    found: list[Item] = [li2(A2, BLOCK)]
    for offset, value in ((0, sector), (4, address), (8, count), (12, number)):
        found += [li2(T0, value), sw(T0, A2, offset)]
    return found


WAIT: list[Item] = [lw(A0, A2, 16), beq(A0, ZERO, -4)]


@pytest.fixture
def image(tmp_path: Path) -> str:
    path = tmp_path / "disk"
    path.write_bytes(b"".join(bytes([k]) * 512 for k in range(8)))
    return str(path)


def test_a_sector_is_read_when_its_time_is_over(image: str) -> None:
    bench = Bench(command(1, sector=3, count=2), csrr(S10, 0xB00), NOP, HALT, block=BlockDevice(image=image))
    # The command is given in cycle 2 + 3 * 6 + 2, and the hart goes on 4 later.
    bench.run(22 + 2200 - 1)
    assert bench.x(S10) == 26
    assert bench.processor.read(DATA, 1024) == bytes(1024)
    bench.processor.run(22 + 2200 + 1)
    assert bench.processor.read(DATA, 1024) == b"\3" * 512 + b"\4" * 512


def test_a_write_stays_in_the_device(image: str) -> None:
    program: list[Item] = [
        li2(A3, DATA),
        li2(A1, 0x4443_4241),
        sw(A1, A3),
        command(2, sector=5),
        WAIT,
        csrr(S0, 0xB00),
        HALT,
    ]
    bench = Bench(*program, block=BlockDevice(image=image)).run()
    assert bench.x(A0) == 1
    held = bench.processor.block_image()
    assert held[5 * 512 :][:8] == b"ABCD\0\0\0\0"
    assert held[: 5 * 512] == Path(image).read_bytes()[: 5 * 512]
    assert bench.x(S0) > 2100


@pytest.mark.parametrize(
    "wrong",
    [
        command(3),
        command(0),
        command(1, sector=8),
        command(1, sector=7, count=2),
        command(1, sector=0xFFFF_FFFF, count=2),
        command(1, address=0x0800_0000),
        command(1, address=RAM + (256 << 10) - 511),
        command(2, count=0xFFFF_FFFF),
        command(1, address=0xFFFF_FFFF),
    ],
)
def test_commands_that_cannot_be_fail(wrong: list[Item], image: str) -> None:
    bench = Bench(wrong, WAIT, HALT, block=BlockDevice(image=image)).run()
    assert bench.x(A0) == 2
    assert bench.processor.block_image() == Path(image).read_bytes()


def test_a_command_to_the_last_sector_and_the_last_byte_succeeds(image: str) -> None:
    bench = Bench(
        command(1, sector=7, address=RAM + (256 << 10) - 512), WAIT, HALT, block=BlockDevice(image=image)
    ).run()
    assert bench.x(A0) == 1
    assert bench.processor.read(RAM + (256 << 10) - 512, 512) == b"\7" * 512


def test_code_that_the_device_brings_is_what_runs(tmp_path: Path) -> None:
    path = tmp_path / "code"
    path.write_bytes(assemble(li(S10, 22), jalr(ZERO, 1))[0])
    old, _ = assemble(li(S10, 11), jalr(ZERO, 1))
    call: list[Item] = [li2(A3, DATA), jalr(1, A3)]
    bench = Bench(call, addi(S0, S10, 0), command(1), WAIT, call, HALT, start=False, block=BlockDevice(image=str(path)))
    bench.processor.write(DATA, old)
    bench.processor.start(0x0800_0000, None)
    bench.run()
    assert (bench.x(S0), bench.x(S10)) == (11, 22)


def test_the_device_interrupts_when_it_is_done_until_it_is_acknowledged(image: str) -> None:
    program: list[Item] = [
        li2(A3, PLIC), li(T0, 1), sw(T0, A3, 12), li(T0, 8), li2(T1, PLIC + 0x2000), sw(T0, T1),
        write_csr(0x304, 0x800),
        command(1), li(T0, 1), sw(T0, A2, 20), WFI, csrr(S0, 0x344), li2(A3, CONTEXT), lw(S1, A3, 4), sw(ZERO, A2, 28),
        sw(S1, A3, 4), csrr(S10, 0x344), HALT,
    ]  # fmt: skip
    bench = Bench(*program, block=BlockDevice(image=image)).run()
    assert [bench.x(n) for n in (S0, S1, S10)] == [0x800, 3, 0]
    assert bench.states()[200].time > 2000


def test_a_busy_device_does_not_listen(image: str) -> None:
    bench = Bench(command(1, sector=3), command(1, sector=4), WAIT, HALT, block=BlockDevice(image=image)).run()
    assert bench.processor.read(DATA, 4) == b"\3" * 4


def test_sectors_of_zeros_where_there_is_no_image() -> None:
    assert Bench(li2(A2, BLOCK), lw(S0, A2, 24), lw(S1, A2, 16), HALT, block=BlockDevice(sectors=5)).run().x(S0) == 5


def test_an_interrupt_handler_runs_and_comes_back() -> None:
    """The whole way: a line, the controller, the hart, and on with what it did."""
    program: list[Item] = [
        la(T0, "trap"), csrw(0x305, T0), li2(A2, PLIC), li(T0, 1), sw(T0, A2, 16), li(T0, 16), li2(T1, PLIC + 0x2000),
        sw(T0, T1), write_csr(0x304, 0x800), csrsi(0x300, 8), [addi(S10, S10, 1)] * 300, csrw(0x304, ZERO), HALT,
        Org(0x800), Label("trap"), addi(S11, S11, 1), li2(A3, CONTEXT), lw(A0, A3, 4), sw(A0, A3, 4), MRET,
    ]  # fmt: skip
    bench = Bench(*program, interrupts=(ExternalInterrupt(4, 100, 60, 3),)).run()
    assert (bench.x(S10), bench.x(S11)) == (300, 3)
    assert bench.states()[155].count == 3
