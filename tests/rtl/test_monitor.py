"""The state monitor in hardware: against a few lines of Python, and against the reference machine's own table."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="the extra rtl is not installed")

from amaranth.sim import Simulator
from tests.machine.examples import config_of, program

from headway.machine._processor import MachineProcessor
from headway.machine.image import MachineImage
from headway.rtl.monitor import StateMonitor

Cycle = tuple[int, bool, bool]
"""The state, whether it is entered anew, whether an instruction is retired."""
Sums = dict[int, tuple[int, int, int]]
"""Occurrences, cycles and instructions by state."""

SETTLED, ENTRY = 1, 8
RESET, OVERHEAD = 204, 210
CYCLES = 25_000
ENTRIES = struct.Struct("<qQIHH")


def count(cycles: Iterable[Cycle], states: int, step: int = 1) -> Sums:
    """What the unit has counted after these cycles, as a program reads it."""
    unit = StateMonitor(states, step=step)
    found: Sums = {}

    async def bench(context: object) -> None:
        context.set(unit.cycle, 1)  # type: ignore[attr-defined]
        for state, anew, retired in cycles:
            context.set(unit.state, state)  # type: ignore[attr-defined]
            context.set(unit.anew, anew)  # type: ignore[attr-defined]
            context.set(unit.retired, retired)  # type: ignore[attr-defined]
            await context.tick()  # type: ignore[attr-defined]
        context.set(unit.cycle, 0)  # type: ignore[attr-defined]
        for state in range(states):
            context.set(unit.read_state, state)  # type: ignore[attr-defined]
            await context.delay(1e-9)  # type: ignore[attr-defined]
            sums = tuple(context.get(getattr(unit, name)) for name in ("occurrences", "cycles", "instructions"))  # type: ignore[attr-defined]
            if any(sums):
                found[state] = sums

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), max_size=60),
    st.sampled_from([2, 5, 16]),
    st.sampled_from([1, 6]),
)
def test_every_cycle_occurrence_and_instruction_is_in_the_row_of_its_state(
    cycles: list[Cycle], states: int, step: int
) -> None:
    rows = [Counter[int](), Counter[int](), Counter[int]()]
    for state, anew, retired in cycles:
        row = min(state, states - 1)
        for sums, more in zip(rows, (anew, step, retired), strict=True):
            sums[row] += more
    expected = {state: (rows[0][state], rows[1][state], rows[2][state]) for state in set().union(*rows)}
    assert count(cycles, states, step) == {state: sums for state, sums in expected.items() if any(sums)}


@pytest.mark.parametrize("name", ["interrupt-storm", "mutex"])
def test_the_monitor_gathers_what_the_machine_gathers(name: str) -> None:
    """The machine tells the states of each cycle; the sums are those of its own cells."""
    config = config_of(name, (1, 1, "strict")).with_values(ranges=())
    image = MachineImage.of(program(name))
    processor = MachineProcessor(config)
    for segment in image.segments:
        processor.write(segment.address, segment.data)
    processor.tell_signals()
    processor.start(image.entry, image.tohost)
    processor.run(CYCLES)
    cycles: list[Cycle] = []
    entered: set[int] = set()
    before = 0
    for cycle, value, more, _, kind in ENTRIES.iter_unpack(processor.signals()):
        if kind == ENTRY:
            entered.add(cycle)
        if kind == SETTLED:
            while len(cycles) < cycle:
                retires = before < value
                before += retires
                cycles.append((more, len(cycles) in entered, retires))
    ((_, cells),) = processor.processors()
    found = count(cycles, 256)
    expected = {state: (n, spent, instructions) for state, _, spent, instructions, n, *_ in cells if n or spent}
    # The hart's reset and its birth, in state 0, are no entries. The machine moves corrections to a row of their own.
    del expected[RESET]
    born, spent, retired = expected[0]
    _, corrected, _ = expected.pop(OVERHEAD, (0, 0, 0))
    expected[0] = (born - 1, spent + corrected, retired)
    # The cycles that the machine has not told yet belong to the state that runs.
    occurred, spent, retired = expected[cycles[-1][0]]
    expected[cycles[-1][0]] = (occurred, spent - (CYCLES - len(cycles)), found[cycles[-1][0]][2])
    assert found == {state: sums for state, sums in expected.items() if any(sums)}
    assert len(found) > 1
    assert CYCLES - len(cycles) < 200
