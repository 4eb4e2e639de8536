"""How often a state occurred does not depend on interrupts, nor on the threads that a kernel runs meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import FEW
from tests.machine.examples import MAX_CYCLES, Shape, config_of, program

from headway.model import violations
from headway_machine.config import Pipeline, Range
from headway_machine.machine import Machine
from headway_machine.run import Result

from .assembler import (
    HALT,
    MRET,
    NOP,
    RA,
    RAM,
    S0,
    S1,
    S2,
    S3,
    S4,
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
    csrci,
    csrr,
    csrw,
    csrwi,
    jal,
    jalr,
    la,
    li2,
    lw,
    mv,
    sw,
)

HWCTL, HWLATCH, HWBLOCK, HWLEAVE, HWSW = 0x7C0, 0x7C1, 0x7C3, 0x7C4, 0x800
EXCEPTION = 128
"""From this number on, states are those of traps, of the kernel and of halted harts."""
COMPARE, TIME = 0x0200_4000, 0x0200_BFF8
CODE = 0x0800_0000
F, G = 0x180, 0x1C0


def handler(every: int, *, by_software: bool) -> list[Item]:
    """The timer again, and the end of the trap: by MRET, or before it by clearing the latch."""
    again: list[Item] = [li2(S3, TIME), lw(S4, S3), addi(S4, S4, every), li2(S3, COMPARE), sw(S4, S3)]
    return [Org(0x100), Label("handler"), again, csrci(HWLATCH, 1) if by_software else NOP, MRET]


def calls(outer: int, inner: int, inside: int) -> tuple[list[Item], list[Item]]:
    """Code that calls `f` so many times, which each time calls `g` so many times; and these two."""
    called: list[Item] = [
        Org(F), Label("f"), mv(S2, RA), li2(S1, inner),
        Label("again"), jal(RA, "g"), addi(S1, S1, -1), bne(S1, ZERO, "again"), jalr(ZERO, S2),
        Org(G), Label("g"), [NOP] * inside, jalr(ZERO, RA),
    ]  # fmt: skip
    return [li2(S0, outer), Label("main"), jal(RA, "f"), addi(S0, S0, -1), bne(S0, ZERO, "main"), HALT], called


RANGES = (Range("f", CODE + F, CODE + G), Range("g", CODE + G, CODE + G + 0x40))


def occurrences(states: dict[int, Any]) -> dict[int, int]:
    """How often the states occurred in which the program itself was; every state that is there."""
    return {number: state.count for number, state in states.items() if number < EXCEPTION}


@settings(deadline=None)
@given(
    every=st.integers(40, 400),
    outer=st.integers(1, 12),
    inner=st.integers(1, 12),
    inside=st.integers(0, 12),
    refill=st.integers(0, 4),
    by_software=st.booleans(),
    shape=st.sampled_from([(1, "strict"), (2, "strict"), (3, "skip")]),
)
def test_calls_are_counted_the_same_with_and_without_a_timer(
    every: int, outer: int, inner: int, inside: int, refill: int, by_software: bool, shape: tuple[int, str]
) -> None:
    threads, issue = shape
    control = 0x17FF if by_software else 0x7FF
    caller, called = calls(outer, inner, inside)
    found = []
    for enabled in (0, 8):
        bench = Bench(
            la(T0, "handler"), csrw(0x305, T0), li2(T0, control), csrw(HWCTL, T0),
            li2(S3, TIME), lw(S4, S3), addi(S4, S4, every), li2(S3, COMPARE), sw(ZERO, S3, 4), sw(S4, S3),
            li2(T0, 0x80), csrw(0x304, T0), csrwi(0x300, enabled), caller,
            handler(every, by_software=by_software), called,
            ranges=RANGES, threads=threads, issue=issue, pipeline=Pipeline(refill=refill),
        ).run(300_000)  # fmt: skip
        assert violations(bench.ledger()) == []
        found.append(occurrences(bench.states()))
    assert found[0] == found[1] == {0: 1 + outer, 1: outer * (1 + inner), 2: outer * inner}


def test_a_kernel_in_machine_mode_counts_nothing_of_its_own_code() -> None:
    """With MK its whole way out is the kernel's, also behind the write that clears the latch."""
    caller, called = calls(5, 5, 3)
    bench = Bench(
        la(T0, "handler"), csrw(0x305, T0), li2(T0, 0x1FFF), csrw(HWCTL, T0),
        li2(S3, TIME), lw(S4, S3), addi(S4, S4, 90), li2(S3, COMPARE), sw(ZERO, S3, 4), sw(S4, S3),
        li2(T0, 0x80), csrw(0x304, T0), csrw(0x300, T0), la(T0, "go"), csrw(0x341, T0), MRET, Label("go"), caller,
        Org(0x100), Label("handler"), csrci(HWLATCH, 1), li2(S3, TIME), lw(S4, S3), addi(S4, S4, 90), li2(S3, COMPARE),
        sw(S4, S3), MRET, called,
        ranges=RANGES,
    ).run()  # fmt: skip
    assert bench.states()[151].count > 3
    # By its first MRET the hart returns to the user code that it was in until it wrote hwctl.
    assert occurrences(bench.states()) == {0: 1 + 5, 1: 5 * 6, 2: 5 * 5}


BLOCKS = RAM + 0x8000


def test_threads_that_preempt_each_other_have_their_own_states_and_no_others() -> None:
    """Two threads, one that stays in `f` and one in `g`: none has a cell of the other's code, or of code before it."""
    switch: list[Item] = [
        Org(0x100), Label("handler"), li2(S3, TIME), lw(S4, S3), addi(S4, S4, 100), li2(S3, COMPARE), sw(S4, S3),
        csrr(T1, 0x341), csrw(0x341, T2), mv(T2, T1), csrr(T1, HWBLOCK), csrw(HWBLOCK, S0), mv(S0, T1),
        csrci(HWLATCH, 1), MRET,
    ]  # fmt: skip
    bench = Bench(
        la(T0, "handler"), csrw(0x305, T0), li2(T0, 0x17FF), csrw(HWCTL, T0), li2(S0, BLOCKS), addi(S1, S0, 128),
        la(T2, "f"), li2(T0, 0x80), csrw(0x304, T0), li2(S3, COMPARE), sw(ZERO, S3, 4), sw(ZERO, S3),
        csrwi(0x300, 8), NOP, NOP, HALT, switch,
        Org(F), Label("f"), la(T2, "g"), mv(S0, S1), Label("stay"), NOP, bne(S1, ZERO, "stay"),
        Org(G), Label("g"), NOP, bne(S1, ZERO, "g"),
        ranges=RANGES, start=False,
    )  # fmt: skip
    for number, at in ((5, BLOCKS), (6, BLOCKS + 128)):
        bench.processor.write(at + 64, number.to_bytes(4, "little"))
    bench.processor.start(CODE, None)
    threads = bench.run(20_000).threads()
    assert {number: state.count for number, state in threads[5].items() if number < EXCEPTION} == {1: 1}
    assert {number: state.count for number, state in threads[6].items() if number < EXCEPTION} == {2: 1}
    assert bench.word(BLOCKS + 76) == 1 << 31 | 1 << 8 | 1
    assert violations(bench.ledger()) == []


def of_jobs(done: Result) -> dict[str, dict[str, int | None]]:
    """The occurrences of each thread of the program's own states."""
    return {
        thread.name: {name: cell.count for name, cell in thread.states.items() if name.split(".")[0] == "user"}
        for thread in done.ledger.threads
        if thread.name not in ("main", "idle") and not thread.name.startswith("hart ")
    }


FUNCTIONS = ("matmul_rows", "chase_walk", "crc32_sum", "integer_run", "sort_run", "wait", "trap", "choose")
SHAPES: tuple[Shape, ...] = ((1, 1, "strict"), (1, 6, "strict"), (2, 3, "skip"))


@pytest.mark.parametrize("shape", SHAPES[:1] if FEW else SHAPES, ids=str)
def test_the_functions_of_a_job_occur_as_often_alone_as_beside_others(shape: Shape) -> None:
    ranges = tuple(Range(name, symbol=name) for name in FUNCTIONS)
    together = of_jobs(Machine(config_of("mix", shape), ranges=ranges).run(program("mix"), max_cycles=MAX_CYCLES))
    assert sum("user.crc32_sum" in cells for cells in together.values()) == 1
    assert (together["sort"]["user.sort_run"] or 0) > 1000
    for at, name in enumerate(("matmul", "chase", "integer", "sort", "crc32")):
        elf = program("mix", {"mix_choice": 1 << at})
        alone = of_jobs(Machine(config_of("mix", shape), ranges=ranges).run(elf, max_cycles=MAX_CYCLES))
        (job,) = alone
        assert job in together, name
        assert alone[job] == together[job]
        assert all(alone[job].values())
