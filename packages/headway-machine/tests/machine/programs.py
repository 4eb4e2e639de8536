"""Small programs for the machine, assembled by hand, and one way to run them that holds every run to the laws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.machine.elves import (
    A0,
    A1,
    A7,
    ECALL,
    FUNCTION,
    NO_TYPE,
    OBJECT,
    RAM,
    SEMIHOST,
    T0,
    T1,
    T2,
    ZERO,
    Elf,
    addi,
    assemble,
    beq,
    bne,
    csrw,
    jump,
    li,
    lw,
    sw,
)

from headway.model import violations
from headway_machine import Machine
from headway_machine.run import Result

DATA = RAM + 0x1000
TOHOST, FROMHOST = DATA, DATA + 8
BLOCKS = DATA + 0x40
UART = 0x1000_0000
WAIT_MUTEX, ENDS = 2, 31

Code = Sequence[int | Sequence[int]]


def run(elf: bytes, *, max_cycles: int | None = 1_000_000, **values: Any) -> Result:
    """Run a program on a machine of these values; its ledger keeps the laws."""
    keywords = {name: values.pop(name) for name in ("input", "output", "errors", "arguments", "progress", "config")
                if name in values}  # fmt: skip
    result = Machine(keywords.pop("config", None), **values).run(elf, max_cycles=max_cycles, **keywords)
    check(result)
    return result


def check(result: Result) -> None:
    """Conservation, and that the ledger and the rest of the result say the same."""
    ledger = result.ledger
    assert violations(ledger) == []
    assert ledger.window.duration == result.cycles
    assert all(processor.span == result.cycles for processor in ledger.processors)
    for rows in (ledger.threads, ledger.processors):
        for row in rows:
            for cell in row.states.values():
                lost = sum(count or 0 for count in (cell.events or {}).values())
                assert lost == cell.stall_cycles
                assert (cell.external_stall_cycles or 0) <= (cell.memory_stall_cycles or 0) <= (cell.stall_cycles or 0)
                # A correction takes cycles out of a state that may have had little but stalls.
                assert 0 <= (cell.stall_cycles or 0) <= (cell.cycles or 0) or "overhead" in row.states
    retired = sum(cell.instructions or 0 for p in ledger.processors for cell in p.states.values())
    assert retired == result.instructions


def program(*code: int | Sequence[int], symbols: dict[str, tuple[int, int, int]] | None = None) -> bytes:
    """An ELF file with this code at the entry, ``main`` for its name, and a page of data with tohost and two blocks."""
    words = assemble(*code)
    data = bytearray(0x200)
    for number, name in enumerate((b"first", b"second\x1b[31m")):
        at = 0x40 + 0x80 * number
        data[at + 64] = number + 1
        data[at + 80 : at + 80 + len(name)] = name
    named = {
        "main": (RAM, len(words), FUNCTION),
        "tohost": (TOHOST, 8, OBJECT),
        "fromhost": (FROMHOST, 8, OBJECT),
        "headway_call_7_nap": (7, 0, NO_TYPE),
    }
    return Elf(code=words, segments=[(DATA, bytes(data), 0x1000)], symbols=named | (symbols or {})).build()


def leave(status: int) -> Code:
    """Ends the run by HTIF."""
    return (*li(T0, TOHOST), *li(T1, status << 1 | 1), sw(T1, T0), jump(0))


def loop(times: int) -> Code:
    return (*li(T0, times), addi(T0, T0, -1), bne(T0, ZERO, -4))


def send(text: bytes) -> Code:
    """Sends by the UART, polling until there is room."""
    code: list[int | Sequence[int]] = [li(T0, UART)]
    for byte in text:
        code += [lw(T1, T0, 12), beq(T1, ZERO, -4), li(T2, byte), sw(T2, T0, 8)]
    return tuple(code)


def receive(count: int) -> Code:
    """Takes bytes from the UART, polling, and sends them back."""
    one = (lw(T1, T0, 4), beq(T1, ZERO, -4), lw(T2, T0, 0), sw(T2, T0, 8))
    return (*li(T0, UART), *(one * count))


def switch(block: int, reason: int = 0) -> Code:
    """What a kernel does at a switch: why the old one leaves, which one comes."""
    return (*li(T0, reason), csrw(0x7C4, T0), *li(T0, BLOCKS + 0x80 * block), csrw(0x7C3, T0))


def wake(block: int) -> Code:
    return (*li(T0, BLOCKS + 0x80 * block), csrw(0x7C5, T0))


def semihost(operation: int, parameter: int) -> Code:
    return (*li(A0, operation), *li(A1, parameter), *SEMIHOST)


def trap_handler_first(*code: int | Sequence[int]) -> Code:
    """Code with a trap handler before it that goes on behind the trapping instruction (of 4 bytes)."""
    csrr_t2_mepc, csrw_mepc, mret = 0x3410_23F3, csrw(0x341, T2), 0x3020_0073
    handler = (csrr_t2_mepc, addi(T2, T2, 4), csrw_mepc, mret)
    return (jump(4 * (len(handler) + 1)), *handler, *li(T0, RAM + 4), csrw(0x305, T0), *code)


def call(number: int) -> Code:
    return (*li(A7, number), ECALL)
