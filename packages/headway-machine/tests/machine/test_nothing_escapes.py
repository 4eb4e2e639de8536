"""What a program does to the machine's own units stays in its memory, and what it does without end in the host's."""

from __future__ import annotations

import io

import pytest
from tests.effort import FEW
from tests.machine.elves import A0, A1, OBJECT, RAM, T0, T1, WFI, ZERO, addi, csrw, jump, li, sw
from tests.machine.programs import BLOCKS, DATA, TOHOST, UART, leave, program, run, semihost

from headway.errors import HeadwayError
from headway_machine import run as run_module
from headway_machine.config import Smi, Uart

TCM = 0x0800_0000
PBCTL, PBBASE, PBSIZE, PBHEAD, PBPERIOD, HWAUTH = 0x7C8, 0x7C9, 0x7CA, 0x7CB, 0x7CC, 0x801

CALL_T1 = 0x0003_00E7
"""jalr ra, 0(t1)"""


@pytest.mark.parametrize("head", [16, 0x100, 0x7FFF_FFF0, 0xFFFF_FFF0])
def test_a_profile_buffer_whose_head_is_beyond_its_end_is_full(head: int) -> None:
    registers = {PBBASE: RAM, PBSIZE: 16, PBHEAD: head, PBPERIOD: 1, PBCTL: 2, HWAUTH: 1}
    setting = [word for csr, value in registers.items() for word in (*li(T0, value), csrw(csr, T0))]
    result = run(program(*setting, addi(T0, T0, 1), *leave(0)))
    assert result.exit_status == 0
    assert result.ledger.losses["profile_records"] > 0


def test_code_that_the_copying_unit_has_written_over_is_not_run_any_more() -> None:
    ends_with_a1 = (*li(T0, TOHOST), addi(A1, A1, 0), sw(A1, T0), jump(0))
    block = RAM + 0x800
    function = block + 56  # where the thread's OPC goes, which is 0: no instruction
    code = (
        *(jump(4 * (len(ends_with_a1) + 1)), *ends_with_a1, *li(T0, RAM + 4), csrw(0x305, T0)),
        *(*li(T0, block), csrw(0x7C3, T0), *li(A1, 1)),
        *(*li(T1, function), *li(T0, 0x0025_8593), sw(T0, T1), *li(T0, 0x0000_8067), sw(T0, T1, 4)),  # a1 += 2; ret
        *(CALL_T1, csrw(0x7C3, ZERO), *li(T1, function), CALL_T1, *leave(99)),
    )
    assert run(program(*code)).exit_status == 1  # a1 = 3, once


@pytest.mark.end_to_end
@pytest.mark.exhaustive  # as many threads as there can be
def test_a_program_that_makes_threads_without_end_does_not_fill_the_hosts_memory() -> None:
    again = (csrw(0x7C3, A0), csrw(0x7C4, A1), csrw(0x7C3, ZERO), jump(-12))
    result = run(program(*li(A0, BLOCKS), *li(A1, 31), *again), threads=1, max_cycles=2_600_000)
    assert len(result.ledger.threads) == 65_536
    assert result.ledger.losses["threads_unplaced"] > 0


def test_what_the_uart_sends_without_end_is_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "MAX_KEPT", 1000)
    fill = program(*li(T0, UART), sw(T0, T0, 8), jump(-4))
    with pytest.raises(HeadwayError, match="give run\\(\\) an output stream"):
        run(fill, uart=Uart(tick=1))
    stream = io.BytesIO()
    result = run(fill, uart=Uart(tick=1), output=stream, max_cycles=100_000)
    assert len(stream.getvalue()) > 1000 >= len(result.output)


def test_interrupts_that_took_a_hart_before_it_began_are_not_its_threads() -> None:
    # Hart 1 is started in the midst of one of many.
    starts = (*li(T0, 0x0200_0004), *li(T1, 1))
    for wait in range(0, 60, 7):
        spin = [addi(ZERO, ZERO, 0)] * wait
        code = (*li(A0, 300), addi(A0, A0, -1), 0xFE05_1EE3, *spin, *starts, sw(T1, T0), jump(0))
        result = run(program(*code), cores=2, threads=1, smi=Smi(29, 53, 23), max_cycles=8000)
        threads, harts = result.ledger.threads, result.ledger.processors
        for states in (*(thread.states for thread in threads), *(hart.states for hart in harts)):
            assert all(cell.time >= 0 for cell in states.values())
            stolen = states["stolen.smi"]
            assert stolen.time <= 23 * ((stolen.count or 0) + 1)


def test_a_hart_that_sleeps_through_interrupts_and_is_woken_in_one_keeps_its_times() -> None:
    for at in range(500, 560, 7 if FEW else 1):
        timer = (*li(T0, 0x0200_4000), *li(T1, at), sw(T1, T0), sw(ZERO, T0, 4))
        code = (*timer, *li(T1, 0x80), csrw(0x304, T1), WFI, *leave(0))
        result = run(program(*code), threads=1, smi=Smi(29, 53, 23))
        (thread,) = result.ledger.threads
        assert all(cell.time >= 0 for cell in thread.states.values())
        assert thread.states["idle.c1"].time > 150
        assert thread.states["stolen.smi"].time == 23 * (thread.states["stolen.smi"].count or 0)


@pytest.mark.parametrize("symbol", ["tohost", "fromhost"])
def test_what_a_program_and_its_host_meet_at_is_in_ram(symbol: str) -> None:
    with pytest.raises(HeadwayError, match=f"its symbol {symbol} at 0x8000000, outside RAM"):
        run(program(jump(0), symbols={symbol: (TCM, 8, OBJECT)}))


def test_what_is_read_into_tightly_coupled_memory_is_what_runs_there() -> None:
    # nop; ret is run there first, then li a0, 7; ret is read over it.
    there = (*li(T1, TCM), *li(T0, 0x0000_0013), sw(T0, T1), *li(T0, 0x0000_8067), sw(T0, T1, 4))
    block = DATA + 0x300
    open_input = (*li(T1, block), *li(T0, block + 12), sw(T0, T1), sw(ZERO, T1, 4), *li(T0, 3), sw(T0, T1, 8),
                  *li(T0, 0x0074_743A), sw(T0, T1, 12), *semihost(1, block))  # fmt: skip
    read = (*li(T1, block), *li(T0, 1), sw(T0, T1), *li(T0, TCM), sw(T0, T1, 4), *li(T0, 4), sw(T0, T1, 8),
            *semihost(6, block))  # fmt: skip
    calls = (*li(T1, TCM), CALL_T1)
    out = (*li(T0, TOHOST), sw(A0, T0), jump(0))
    code = (*there, *calls, *open_input, *read, *calls, *out)
    result = run(program(*code), input=io.BytesIO(b"\x13\x05\xf0\x00"))  # li a0, 15: exit status 7
    assert result.exit_status == 7
