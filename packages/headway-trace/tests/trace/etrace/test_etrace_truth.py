"""What is decoded of E-Trace is what the machine retired; where that is not known, it is said."""

from __future__ import annotations

from functools import cache
from typing import Any

import hypothesis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import FEW
from tests.machine.elves import csrw, jump, li
from tests.machine.examples import SHAPES, Shape, names
from tests.machine.programs import program
from tests.trace.etrace.runs import EXECUTED, NOT_TAKEN, UNKNOWN, EtraceRun, run_example, run_image, run_random
from tests.trace.threads.test_truth import damaged

from headway_machine.config import Config, TraceUnitConfig
from headway_machine.image import MachineImage

pytestmark = pytest.mark.end_to_end

HWTRACE = 0x802
OPTIONS = ("implicit_return", "sequential_jump", "branch_prediction", "jump_target_cache", "full_address")
modes = st.fixed_dictionaries({**{name: st.booleans() for name in OPTIONS}, "cycle_accurate": st.booleans()})
BASELINE = dict.fromkeys(OPTIONS, False)


SOME = 20_000 if FEW else 60_000
"""How many cycles of each example are followed."""


@cache
def traced(name: str, shape: Shape, cycles: int = 60_000, **trace: Any) -> EtraceRun:
    return run_example(name, shape, cycles, **trace)


def check(ran: EtraceRun) -> None:
    for core in range(ran.config.cores):
        rows, decoder = ran.decode(core)
        assert decoder.contradictions == 0
        assert [row for row in rows if row[5] >= UNKNOWN] == []
        assert ran.retired(core, rows) == ran.truth(core)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", names())
def test_what_every_hart_retired_is_decoded(name: str, shape: Shape) -> None:
    check(traced(name, shape, SOME))


@pytest.mark.parametrize("name", names())
def test_an_encoder_without_optional_modes_tells_the_same(name: str) -> None:
    check(traced(name, (1, 1, "strict"), SOME, **BASELINE))


@given(seed=st.integers(0, 1 << 32), mode=modes, sync=st.integers(64, 2048))
@settings(deadline=None)
def test_random_programs_with_traps_and_interrupts_are_decoded(seed: int, mode: dict[str, bool], sync: int) -> None:
    check(run_random(seed, 15_000, sync=sync, **mode))


@given(name=st.sampled_from(["mix", "interrupt-storm", "malloc-heavy", "sleepers"]), mode=modes)
@settings(deadline=None)
def test_every_mode_tells_the_same(name: str, mode: dict[str, bool]) -> None:
    check(run_example(name, (1, 3, "skip"), 20_000, sync=256, **mode))


@given(cuts=st.lists(st.integers(0, 1 << 20), max_size=20))
@settings(deadline=None)
def test_how_the_bytes_are_divided_does_not_matter(cuts: list[int]) -> None:
    ran = traced("sleepers", (1, 6, "skip"))
    assert sorted(ran.decode(0, cuts=cuts)[0], key=lambda row: row[0]) == sorted(
        ran.decode(0)[0], key=lambda row: row[0]
    )


def test_times_are_the_ticks_of_the_machine_and_never_go_back() -> None:
    rows, _ = traced("six-threads", (1, 6, "strict")).decode(0)
    for source in range(6):
        times = [row[1] for row in rows if row[0] == source and row[1] is not None]
        assert times == sorted(times)
        assert len(times) > 2
    untimed, _ = traced("six-threads", (1, 6, "strict"), cycle_accurate=False).decode(0)
    assert all(row[1] is None for row in untimed)


def test_traps_are_shown_where_they_happened() -> None:
    ran = traced("interrupt-storm", (1, 1, "strict"))
    rows, _ = ran.decode(0, traps=True)
    assert sum(row[5] == 18 for row in rows) > 50


@pytest.mark.parametrize(
    "code", [(jump(0),), (0x0000_0013, jump(-4)), (jump(8), 0, jump(-8))], ids=["self", "two", "three"]
)
def test_a_loop_without_a_branch_is_counted(code: tuple[int, ...]) -> None:
    # Nothing in a branch map tells how often it went round.
    check(
        run_image(Config(trace=TraceUnitConfig(enabled=True, format="etrace")), MachineImage.of(program(*code)), 3000)
    )


@given(plan=st.lists(st.booleans(), min_size=1, max_size=12), start=st.booleans(), strict=st.booleans())
@settings(deadline=None)
def test_a_program_switches_its_own_tracing(plan: list[bool], start: bool, strict: bool) -> None:
    code: list[Any] = []
    for on in plan:
        code += [li(5, int(on)), csrw(HWTRACE, 5), 0x0000_0013, 0x0000_0013]
    config = Config.of(
        trace=TraceUnitConfig(enabled=True, format="etrace", start=start),
        threads=3,
        issue="strict" if strict else "skip",
        boot="all",
    )
    ran = run_image(config, MachineImage.of(program(*code, jump(0))), 2000)
    rows, decoder = ran.decode(0)
    assert decoder.contradictions == 0
    for hart, retired in ran.retired(0, rows).items():
        assert parted(rows, hart, ran.log[hart])
        if start and all(plan):
            assert retired == ran.log[hart]
        if plan[-1]:
            assert retired[-1] == ran.log[hart][-1]
    offs = sum(row[5] == 33 for row in rows)
    assert offs == 3 * sum(
        before and not now and any(plan[place + 1 :])
        for place, (before, now) in enumerate(zip([start, *plan[:-1]], plan, strict=True))
    )


def parted(rows: list[Any], hart: int, log: list[tuple[int, int]]) -> bool:
    """Whether what was executed from gap to gap is in the log, in its order."""
    at = 0
    run: list[tuple[int, int]] = []
    for row in [*(row for row in rows if row[0] == hart), (hart, None, 0, 0, 0, UNKNOWN, None)]:
        if row[5] in (EXECUTED, NOT_TAKEN):
            run.append((row[3], row[5]))
        elif run:
            while at + len(run) <= len(log) and log[at : at + len(run)] != run:
                at += 1
            if at + len(run) > len(log):
                return False
            at += len(run)
            run = []
    return True


@given(
    name=st.sampled_from(["mix", "interrupt-storm", "six-threads"]),
    sync=st.integers(64, 2048),
    fifo=st.integers(128, 512),
    port=st.integers(1, 4),
)
@settings(max_examples=25, deadline=None)
def test_what_an_overflow_leaves_is_true(name: str, sync: int, fifo: int, port: int) -> None:
    ran = run_example(name, (1, 6, "strict"), 20_000, sync=sync, fifo=fifo, port=port)
    rows, decoder = ran.decode(0)
    assert decoder.contradictions == 0
    for hart in range(6):
        assert parted(rows, hart, ran.log[hart])
    if ran.retired(0, rows) != ran.truth(0):
        assert any(row[5] in (33, 34) for row in rows)


@given(
    kind=st.sampled_from(["drop", "zero", "repeat", "cut"]),
    where=st.integers(0, 1 << 20),
    much=st.integers(0, 3000),
    shape=st.sampled_from([(1, 6, "strict"), (1, 1, "strict")]),
)
@settings(deadline=None)
def test_damage_does_not_lead_out_of_the_program(kind: str, where: int, much: int, shape: Shape) -> None:
    # E-Trace has no checks: packets that are missing before a trap are not noticed.
    ran = traced("six-threads", shape, sync=256)
    rows, _ = ran.decode(0, damaged(ran.streams[0], kind, where, much))
    executed = {address for log in ran.log.values() for address, _ in log}
    found = sum(row[3] in executed for row in rows if row[5] < UNKNOWN)
    assert found >= sum(row[5] < UNKNOWN for row in rows) / 2


@hypothesis.example(data=b"\x1f" * 3000, head=False)
@given(data=st.binary(max_size=4000), head=st.booleans())
@settings(max_examples=50, deadline=None)
def test_any_bytes_can_be_decoded(data: bytes, head: bool) -> None:
    ran = traced("mix", (1, 6, "strict"))
    stream = ran.streams[0][:2000] + data + ran.streams[0][2500:] if head else data
    rows, _ = ran.decode(0, stream)
    assert all(row[4] in (0, 2, 4) for row in rows)


def test_after_damage_decoding_goes_on() -> None:
    ran = traced("six-threads", (1, 6, "strict"), sync=256)
    whole = sum(map(len, ran.log.values()))
    at = len(ran.streams[0]) // 2
    rows, _ = ran.decode(0, ran.streams[0][:at] + bytes([0x1F] * 5) + ran.streams[0][at + 5 :])
    kept = sum(row[5] in (EXECUTED, NOT_TAKEN) for row in rows)
    assert whole / 2 < kept < whole
    assert {row[0] for row in rows if row[5] in (35, 36)}
    assert all(parted(rows, hart, ran.log[hart]) for hart in range(6))


def test_a_trace_buffer_keeps_the_end() -> None:
    ran = run_example("mix", (1, 6, "strict"), 120_000, buffer=1024, sync=64)
    assert len(ran.streams[0]) == 4096
    rows, _ = ran.decode(0)
    retired = ran.retired(0, rows)
    assert sum(map(len, retired.values())) > 500
    assert all(parted(rows, hart, ran.log[hart]) for hart in range(6))
    assert all(found[-1] == ran.log[hart][-1] for hart, found in retired.items() if found)
    assert any(row[5] == 32 for row in rows)


def test_being_traced_changes_nothing() -> None:
    from tests.machine.examples import program as example

    from headway_machine.machine import Machine

    results = [
        Machine(Config(trace=TraceUnitConfig(enabled=on, format="etrace", port=1))).run(example("sort"))
        for on in (False, True)
    ]
    assert results[0].cycles == results[1].cycles
    assert results[0].harts == results[1].harts
