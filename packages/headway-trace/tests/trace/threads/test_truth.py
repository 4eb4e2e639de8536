"""What is decoded is what the machine did, for every thread and cycle; where it is not known, that is said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import hypothesis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import FEW
from tests.machine.assembler import RAM
from tests.machine.elves import addi, assemble, beq, csrw, jump, li
from tests.machine.examples import SHAPES, Shape, config_of, names
from tests.machine.examples import program as example
from tests.machine.programs import program
from tests.machine.streams import bench
from tests.trace.threads.runs import EXECUTED, NOT_TAKEN, Run, run, run_started, strayed, untrue

from headway_machine.config import Config, TraceUnitConfig
from headway_machine.image import MachineImage

pytestmark = pytest.mark.end_to_end

CYCLES = 120_000
SOME = 40_000 if FEW else CYCLES
"""How long each example is followed."""
HWTRACE = 0x802


@cache
def traced(name: str, shape: Shape, cycles: int = CYCLES, **trace: Any) -> Run:
    config = replace(config_of(name, shape), trace=TraceUnitConfig(enabled=True, **trace))
    return run(config, MachineImage.of(example(name)), cycles)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", names())
def test_every_cycle_of_every_thread_is_decoded_as_it_was(name: str, shape: Shape) -> None:
    ran = traced(name, shape, SOME)
    for core in range(ran.config.cores):
        rows, decoder = ran.decode(core)
        assert decoder.contradictions == 0
        for hart, stretches in ran.stretches(core, rows).items():
            assert stretches == ran.log[hart]


def test_without_cycles_the_instructions_are_the_same() -> None:
    counted, uncounted = traced("mix", (1, 6, "strict")), traced("mix", (1, 6, "strict"), cycle_accurate=False)
    assert len(uncounted.streams[0]) < len(counted.streams[0])
    for ran in (counted, uncounted):
        rows, _ = ran.decode(0)
        for thread in range(6):
            executed = [(row[3], row[5]) for row in rows if row[0] == thread and row[5] in (16, 17)]
            assert executed == [(address, what) for _, _, address, what in ran.log[thread] if what in (16, 17)]
    assert all(row[1] is None for row in uncounted.decode(0)[0] if row[5] < 32)


@pytest.mark.parametrize("name", names())
def test_without_cycles_every_instruction_is_decoded(name: str) -> None:
    for shape in SHAPES[:3]:
        check_uncounted(traced(name, shape, SOME // 2, cycle_accurate=False))


def check_uncounted(ran: Run) -> None:
    for core in range(ran.config.cores):
        rows, decoder = ran.decode(core)
        assert decoder.contradictions == 0
        for thread in range(ran.config.threads):
            executed = [(row[3], row[5]) for row in rows if row[0] == thread and row[5] in (16, 17)]
            log = ran.log[core * ran.config.threads + thread]
            assert executed == [(address, what) for _, _, address, what in log if what in (16, 17)]


@given(seed=st.integers(0, 1 << 32), all_targets=st.booleans(), sync=st.integers(64, 2048))
@settings(deadline=None)
def test_without_cycles_random_programs_with_traps_are_decoded(seed: int, all_targets: bool, sync: int) -> None:
    found = bench(
        Random(seed),
        trace=TraceUnitConfig(enabled=True, cycle_accurate=False, all_targets=all_targets, sync=sync),
    )
    check_uncounted(run_started(found.processor, found.config, [(RAM, found.processor.read(RAM, 0x1_0000))], 15_000))


@pytest.mark.parametrize("code", [(jump(0),), (0x0000_0013, jump(-4))], ids=["self", "two"])
def test_without_cycles_a_loop_without_a_branch_is_counted(code: tuple[int, ...]) -> None:
    config = Config(trace=TraceUnitConfig(enabled=True, cycle_accurate=False))
    check_uncounted(run(config, MachineImage.of(program(*code)), 30_000))


def test_without_cycles_a_branch_takes_about_a_bit() -> None:
    ran = traced("crc32", (1, 1, "strict"), cycle_accurate=False)
    retired = sum(what in (16, 17) for _, _, _, what in ran.log[0])
    assert 8 * len(ran.streams[0]) / retired < 0.25


def test_sending_every_target_changes_nothing_but_the_size() -> None:
    few, all_ = traced("sort", (1, 1, "strict")), traced("sort", (1, 1, "strict"), all_targets=True)
    assert len(all_.streams[0]) > len(few.streams[0])
    assert all_.decode(0)[0] == few.decode(0)[0]


@pytest.mark.parametrize("cycle_accurate", [True, False])
@given(name=st.sampled_from(["mix", "sort", "interrupt-storm"]), shape=st.sampled_from(SHAPES))
@settings(max_examples=2 if FEW else 8, deadline=None)
def test_the_targets_of_direct_branches_change_nothing_but_the_size(
    cycle_accurate: bool, name: str, shape: Shape
) -> None:
    values = {"cycle_accurate": cycle_accurate}
    few = traced(name, shape, 20_000, **values)
    all_ = traced(name, shape, 20_000, direct_branches=True, **values)
    assert len(all_.streams[0]) > len(few.streams[0])
    for core in range(few.config.cores):
        rows, decoder = all_.decode(core)
        assert (rows, decoder.contradictions) == (few.decode(core)[0], 0)


def test_a_direct_branch_that_goes_elsewhere_than_in_the_program_is_a_contradiction() -> None:
    """The decoder has a program whose loop is one instruction shorter."""
    body = (addi(0, 0, 0), addi(0, 0, 0), addi(0, 0, 0))
    config = Config.of(threads=1, trace=TraceUnitConfig(enabled=True, direct_branches=True))
    ran = run(config, MachineImage.of(program(*body, jump(-12))), 500)
    ran.program = list(_segments(MachineImage.of(program(*body, jump(-8)))))
    _, decoder = ran.decode(0)
    assert decoder.contradictions


def test_direct_branches_tell_the_place_after_code_that_is_not_known() -> None:
    """The decoder has no code where the loop jumps to, and learns of the way back from there."""
    known, rounds = (addi(0, 0, 0), jump(4 * 3), addi(0, 0, 0), addi(0, 0, 0)), {}
    for direct in (False, True):
        config = Config.of(threads=1, trace=TraceUnitConfig(enabled=True, direct_branches=direct))
        ran = run(config, MachineImage.of(program(*known, addi(0, 0, 0), jump(-4 * 5))), 2000)
        ran.program = [(RAM, assemble(*known))]
        rows, decoder = ran.decode(0)
        assert decoder.contradictions == 0
        for hart, stretches in ran.stretches(0, rows).items():
            assert untrue(stretches, ran.log[hart]) == []
        rounds[direct] = sum(row[3] == RAM and row[5] == EXECUTED for row in rows)
    assert rounds[False] < 5
    assert rounds[True] > 100


def _segments(image: MachineImage) -> Iterator[tuple[int, bytes]]:
    return ((segment.address, segment.data) for segment in image.segments)


@given(cuts=st.lists(st.integers(0, 1 << 20), max_size=20))
@settings(deadline=None)
def test_how_the_bytes_are_divided_does_not_matter(cuts: list[int]) -> None:
    ran = traced("sleepers", (1, 6, "skip"), SOME)
    assert ran.decode(0, cuts=cuts)[0] == ran.decode(0)[0]


@hypothesis.example(name="mix", shape=(1, 6, "skip"), sync=64, fifo=128, port=8)  # an indirect jump's target is lost
@given(
    name=st.sampled_from(["mix", "mutex", "interrupt-storm", "six-threads"]),
    shape=st.sampled_from([(1, 1, "strict"), (1, 6, "strict"), (1, 6, "skip")]),
    sync=st.integers(64, 4096),
    fifo=st.integers(128, 1024),
    port=st.integers(1, 16),
)
@settings(max_examples=25, deadline=None)
def test_what_an_overflow_leaves_is_true(name: str, shape: Shape, sync: int, fifo: int, port: int) -> None:
    config = replace(config_of(name, shape), trace=TraceUnitConfig(enabled=True, sync=sync, fifo=fifo, port=port))
    ran = run(config, MachineImage.of(example(name)), 30_000)
    rows, decoder = ran.decode(0)
    assert decoder.contradictions == 0
    for hart, stretches in ran.stretches(0, rows).items():
        assert untrue(stretches, ran.log[hart]) == []
    lost = any(row[5] == 34 for row in rows)
    assert not lost or ran.losses
    if not ran.losses:
        assert all(stretches == ran.log[hart] for hart, stretches in ran.stretches(0, rows).items())


def test_a_port_that_is_too_narrow_loses_packets_and_says_so() -> None:
    ran = traced("mix", (1, 6, "skip"), port=2)
    rows, _ = ran.decode(0)
    gaps = [row for row in rows if row[5] == 34]
    assert ran.losses
    assert gaps
    assert all(row[2] for row in gaps)


Damage = tuple[str, int, int]


def damaged(data: bytes, kind: str, where: int, much: int) -> bytes:
    at = where % len(data)
    if kind == "flip":
        return data[:at] + bytes([data[at] ^ 1 << much % 8]) + data[at + 1 :]
    if kind == "drop":
        return data[:at] + data[at + 1 + much :]
    if kind == "zero":
        return data[:at] + bytes(len(data[at : at + 1 + much])) + data[at + 1 + much :]
    if kind == "repeat":
        return data[: at + much] + data[at:]
    return data[:at]


@given(
    kind=st.sampled_from(["flip", "drop", "zero", "repeat", "cut"]),
    where=st.integers(0, 1 << 20),
    much=st.integers(0, 3000),
    shape=st.sampled_from([(1, 6, "strict"), (1, 1, "strict"), (1, 6, "skip")]),
    counted=st.booleans(),
)
@hypothesis.example(
    kind="drop", where=84, much=2784, shape=(1, 6, "strict"), counted=False
)  # all but the first head and the last
@settings(deadline=None)
def test_damage_costs_a_gap_and_nothing_else_is_wrong(
    kind: str, where: int, much: int, shape: Shape, counted: bool
) -> None:
    ran = traced("six-threads", shape, 60_000, sync=256, cycle_accurate=counted)
    data = damaged(ran.streams[0], kind, where, much)
    rows, _ = ran.decode(0, data)
    whole, _ = ran.decode(0)
    for hart, stretches in ran.stretches(0, rows).items():
        assert untrue(stretches, ran.log[hart]) == []
        assert strayed(rows, hart, ran.log[hart]) == []
    # A stream that was cut where a segment ends is whole, as far as it goes.
    if kind != "cut" and data != ran.streams[0] and len(rows) != len(whole):
        assert any(row[5] in (32, 35, 39) for row in rows)


@given(data=st.binary(max_size=4000), head=st.booleans())
@settings(max_examples=4 if FEW else 30, deadline=None)
def test_any_bytes_can_be_decoded(data: bytes, head: bool) -> None:
    ran = traced("mix", (1, 6, "strict"))
    stream = ran.streams[0][:3000] + data + ran.streams[0][5000:9000] if head else data
    rows, _ = ran.decode(0, stream)
    for hart, stretches in ran.stretches(0, rows).items():
        assert untrue(stretches, ran.log[hart]) == []
        assert strayed(rows, hart, ran.log[hart]) == []


def switching(plan: list[bool]) -> bytes:
    """A program that asks to be traced and not to be, around loops that are taken a different number of times."""
    code: list[Any] = []
    for number, on in enumerate(plan):
        code += [li(5, int(on)), csrw(HWTRACE, 5), li(6, 3 + number), addi(6, 6, -1), beq(6, 0, 8), jump(-8)]
    return program(*code, jump(0))


@given(plan=st.lists(st.booleans(), min_size=1, max_size=12), start=st.booleans(), strict=st.booleans())
@settings(deadline=None)
def test_a_program_switches_its_own_tracing(plan: list[bool], start: bool, strict: bool) -> None:
    shape: Mapping[str, Any] = {"threads": 3, "issue": "strict" if strict else "skip", "boot": "all"}
    config = Config.of(trace=TraceUnitConfig(enabled=True, start=start), **shape)
    ran = run(config, MachineImage.of(switching(plan)), 20_000)
    rows, decoder = ran.decode(0)
    assert decoder.contradictions == 0
    for hart, stretches in ran.stretches(0, rows).items():
        assert untrue(stretches, ran.log[hart]) == []
        traced_all = start and all(plan)
        assert (stretches == ran.log[hart]) == traced_all or not stretches
        if plan[-1]:
            assert stretches[-1] == ran.log[hart][-1]


def test_a_trace_buffer_keeps_the_end() -> None:
    ran = traced("mix", (1, 6, "strict"), buffer=512, sync=256)
    assert len(ran.streams[0]) == 2048
    rows, _ = ran.decode(0)
    for hart, stretches in ran.stretches(0, rows).items():
        assert untrue(stretches, ran.log[hart]) == []
        # Also of a thread that slept all the while.
        (begin, cycles, *found), (began, lasted, *true) = stretches[-1], ran.log[hart][-1]
        assert (begin + cycles, found) == (began + lasted, true)
    assert sum(row[5] in (EXECUTED, NOT_TAKEN) for row in rows) > 2000


def test_being_traced_changes_nothing() -> None:
    from headway_machine.machine import Machine

    plain, trace = Config(), Config(trace=TraceUnitConfig(enabled=True, port=1))
    digests = {Machine(config).run(example("sort")).digest for config in (plain, Config())}
    traced_run = Machine(trace).run(example("sort"))
    untraced = Machine(plain).run(example("sort"))
    assert len(digests) == 1
    assert (traced_run.cycles, traced_run.harts, traced_run.ledger.processors) == (
        untraced.cycles,
        untraced.harts,
        untraced.ledger.processors,
    )
