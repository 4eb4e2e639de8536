"""A core's clock against the machine's: what is told of it between its changes says nothing new, and moves nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine.elves import addi, beq, csrw, jump, li
from tests.machine.programs import program
from tests.trace.threads.runs import run

from headway_machine._processor import MachineProcessor
from headway_machine.config import Config, Smi, TraceUnitConfig
from headway_machine.image import MachineImage
from headway_trace.threads.clock import Clock, ClockChange

WINDOW = 1024
CLOCK, DUTY = 0x7D1, 0x7D2


@st.composite
def clocks(draw: st.DrawFn) -> list[ClockChange]:
    """How a clock ran: at each change it was at a cycle that it had come to."""
    found = [ClockChange(0, 0, 16, WINDOW)]
    for _ in range(draw(st.integers(0, 6))):
        drawn = st.tuples(st.integers(1, 16), st.integers(1, 8).map(lambda eighths: eighths * WINDOW // 8))
        speed, running = draw(drawn.filter(lambda one: one != found[-1][2:]))
        tick = found[-1].tick + draw(st.integers(1, 20_000))
        found.append(ClockChange(found[-1].cycle_of(tick, WINDOW), tick, speed, running))
    return found


def made(changes: list[ClockChange]) -> list[tuple[int, int, int, int, bool]]:
    """As a trace unit tells it: what it began with in a head, the others where they were made."""
    return [(*change, number > 0) for number, change in enumerate(changes)]


@given(clocks(), st.lists(st.integers(0, 200_000), max_size=20))
def test_what_is_told_between_changes_moves_nothing(changes: list[ClockChange], ticks: list[int]) -> None:
    clock = Clock(made(changes), 1 << 30, WINDOW)
    told = made(changes)
    for tick in ticks:
        cycle = clock.cycle(tick)
        running = next(change for change in reversed(clock.changes) if change.cycle <= cycle)
        told.append((cycle, clock.tick(cycle), running.speed, running.running, False))
    again = Clock(sorted(told, key=lambda one: (one[0], not one[4])), 1 << 30, WINDOW)
    for cycle in range(0, 200_000, 997):
        assert again.tick(cycle) == clock.tick(cycle)


@given(clocks())
def test_a_cycle_is_at_the_tick_from_which_it_is_found(changes: list[ClockChange]) -> None:
    clock = Clock(made(changes), 1 << 30, WINDOW)
    last = max(change.cycle for change in changes) + 2000
    for before, cycle in pairwise(range(0, last, 61)):
        assert clock.cycle(clock.tick(cycle)) == cycle
        assert clock.tick(before) < clock.tick(cycle)


def test_clocks_of_cores_are_laid_over_each_other() -> None:
    clock = Clock([(0, 0, 16, 1024, False), (100, 100, 8, 1024, True), (200, 300, 16, 512, True)], 1000, 1024)
    for cycle in range(600):
        assert clock.cycle(clock.tick(cycle)) == cycle
    assert clock.exact
    assert not Clock([(5, 5, 8, 1024, False)], 1000, 1024).exact
    assert [clock.tick(cycle) for cycle in (99, 100, 101, 200, 711, 712)] == [99, 100, 102, 300, 811, 1324]


@pytest.mark.parametrize(("speed", "stopped"), [(16, 0), (5, 0), (16, 6), (7, 3)])
def test_a_program_changes_its_clock_and_each_cycle_keeps_its_tick(speed: int, stopped: int) -> None:
    """The heads of a stream say which tick a cycle is at, wherever in a window that may be."""
    body = (li(8, speed), csrw(CLOCK, 8), li(8, stopped), csrw(DUTY, 8), jump(0))
    config = Config.of(threads=1, trace=TraceUnitConfig(enabled=True, sync=64, all_targets=True))
    ran = run(config, MachineImage.of(program(*body)), 400_000)
    _, decoder = ran.decode(0)
    told = decoder.changes_of_clock()
    clock = Clock(told, 0, config.power.window)
    # To write what a clock at full speed is changes nothing; any other begins anew.
    assert len(clock.changes) == 1 + (speed != 16) + (speed != 16 or stopped != 0)
    for cycle, tick, *_ in told:
        assert abs(clock.cycle(tick) - cycle) <= 1


@pytest.mark.parametrize("sync", [64, 1 << 16])
def test_a_clock_that_is_set_to_what_it_was_begins_its_windows_anew(sync: int) -> None:
    loop = (li(6, 40), addi(6, 6, -1), beq(6, 0, 8), jump(-8))
    body = (li(8, 6), csrw(DUTY, 8), *loop, csrw(DUTY, 8), *loop, csrw(DUTY, 8), jump(0))
    config = Config.of(threads=1, trace=TraceUnitConfig(enabled=True, sync=sync, all_targets=True))
    ran = run(config, MachineImage.of(program(*body)), 40_000)
    _, decoder = ran.decode(0)
    told = decoder.changes_of_clock()
    clock = Clock(told, 0, config.power.window)
    assert [change[:4] for change in told if change[4]] == clock.changes[1:]
    assert len(clock.changes) == 4
    assert clock.exact
    for cycle, tick, *_ in told:
        assert abs(clock.cycle(tick) - cycle) <= 1


def test_where_the_windows_of_a_clock_begin_is_not_known_from_a_head() -> None:
    told = [(0, 0, 16, 1024, False), (100, 100, 16, 512, True), (700, 1212, 16, 512, False)]
    assert Clock(told, 1000, 1024).exact
    assert not Clock([told[0], (700, 2000, 16, 512, False)], 1000, 1024).exact


@pytest.mark.parametrize("smi", [Smi(), Smi(at=3000, ticks=300), Smi(at=500, every=1700, ticks=90)])
@pytest.mark.parametrize("eighths", [0, 3, 7])
def test_a_clock_is_stopped_where_the_core_has_no_cycle(smi: Smi, eighths: int) -> None:
    """At full speed, throttled from some tick on, and by system-management interrupts."""
    elf = program(*(addi(6, 6, 1) for _ in range(40)), li(5, eighths), csrw(DUTY, 5), addi(6, 6, 1), jump(-4))
    config = Config.of(threads=1, smi=smi, trace=TraceUnitConfig(enabled=True))
    image = MachineImage.of(elf)
    _, decoder = run(config, image, 9000).decode(0)
    clock = Clock(decoder.changes_of_clock(), 1 << 30, config.power.window)
    processor = MachineProcessor(config)
    for segment in image.segments:
        processor.write(segment.address, segment.data)
    processor.start(image.entry, image.tohost)
    cycles = []
    for tick in range(6000):
        processor.run(tick)
        cycles.append(processor.core_cycle(0))
    for tick, (cycle, following) in enumerate(pairwise(cycles)):
        assert (clock.cycle(tick), clock.stopped(tick)) == (cycle, cycle == following), tick
