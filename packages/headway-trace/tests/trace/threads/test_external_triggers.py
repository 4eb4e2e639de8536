"""Events from outside that move the sequencer: lines of the PLIC, bytes that the UART receives, SMIs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import FEW
from tests.machine.elves import A0, A1, RAM, T2, WFI, beq, jump, li, lw, sw
from tests.machine.examples import config_of
from tests.machine.examples import program as example
from tests.machine.programs import loop, program
from tests.trace.threads.runs import run, untrue

from headway_machine import Machine
from headway_machine.config import (
    Action,
    ExternalInterrupt,
    Script,
    SequencerMove,
    Smi,
    TraceUnitConfig,
    Trigger,
    Uart,
)
from headway_machine.debugging import DebugSession
from headway_machine.fields import ConfigError
from headway_machine.image import MachineImage

UART = 0x1000_0000
AT_LEAST = 5
"""The function of BGE."""
SPIN = program(jump(0))


def unit(trigger: Trigger, **action: bool) -> TraceUnitConfig:
    """Enter state 1, with this action, when the trigger fires."""
    moves, actions = (SequencerMove(0, 1, 1),), (Action(1, **action),)
    return TraceUnitConfig(enabled=True, triggers=(trigger,), moves=moves, actions=actions)


def debugged(trigger: Trigger, elf: bytes = SPIN, **values: Any) -> DebugSession:
    return Machine(trace=unit(trigger, halt=True), **{"threads": 1, **values}).debug(elf)


@pytest.mark.parametrize(
    ("trigger", "values", "tick"),
    [
        (
            Trigger(watch="line", line=9, count=3),
            {"interrupts": (ExternalInterrupt(8, 50), ExternalInterrupt(9, 500, 300, 5))},
            1100,
        ),
        (Trigger(watch="uart", count=3), {"uart": Uart(every=100, script=(Script(700, "abcdef"),))}, 900),
        (
            Trigger(watch="uart", mask=0xDF, value=ord("X"), count=2),
            {"uart": Uart(every=100, script=(Script(700, "axyXx"),))},
            1000,
        ),
        (Trigger(watch="smi", count=2), {"smi": Smi(at=1000, every=5000, ticks=100)}, 6100),
    ],
)
def test_an_event_from_outside_stops_the_debugger(trigger: Trigger, values: dict[str, Any], tick: int) -> None:
    """A line's edges count whether or not a program has claimed it. No core has a turn during an SMI."""
    going = debugged(trigger, **values)
    stop = going.run(cycles=20_000)
    assert (stop.why, stop.hart) == ("trigger", 0)
    assert tick <= stop.cycle < tick + 5


def test_a_line_that_a_device_holds_up_is_an_event_when_it_comes_up() -> None:
    """The program lets the UART raise its line, of which the first byte is there, then takes that byte."""
    enable = program(li(A1, UART), li(A0, 1), *loop(20), sw(A0, A1, 16), lw(T2, A1, 0), jump(0))
    uart = Uart(every=8000, script=(Script(10, "ab"),))
    going = debugged(Trigger(watch="line", line=1), enable, uart=uart)
    first = going.run(cycles=6000)
    assert first.why == "trigger"
    assert going.pc() == RAM + 4 * 9, "behind the store that enables the line"
    again = debugged(Trigger(watch="line", line=1, count=2), enable, uart=uart).run(cycles=20_000)
    assert again.why == "trigger"
    assert 8010 <= again.cycle < 8015, "the second byte"


def test_the_event_is_of_the_first_hart_of_the_block_that_is_awake() -> None:
    """Harts 0 and 1 sleep: hart 0 by itself, hart 1 for its number."""
    elf = program(li(T2, 2), beq(A0, T2, 8, AT_LEAST), WFI, jump(0))
    interrupts = (ExternalInterrupt(9, 3000),)
    for harts, hart in ((0xFF, 2), (0b1000, 3), (0b101, 2)):
        trigger = Trigger(watch="line", line=9, harts=harts)
        going = debugged(trigger, elf, threads=4, boot="all", interrupts=interrupts)
        assert going.run(cycles=6000).hart == hart


@pytest.mark.parametrize("name", ["sleepers", "uart-interrupt", "mutex"])
@given(at=st.integers(1, 40_000), shape=st.sampled_from([(1, 1, "strict"), (1, 6, "strict"), (2, 3, "skip")]))
@settings(max_examples=2 if FEW else 8, deadline=None)
def test_markers_of_events_from_outside_leave_the_trace_true(name: str, at: int, shape: tuple[int, int, str]) -> None:
    config = config_of(name, shape).with_values(
        trace=unit(Trigger(watch="line", line=30), mark=True), interrupts=(ExternalInterrupt(30, at),)
    )
    ran = run(config, MachineImage.of(example(name)), 60_000)
    for core in range(config.cores):
        rows, decoder = ran.decode(core)
        assert (decoder.triggers, decoder.contradictions) == (1, 0)
        for hart, stretches in ran.stretches(core, rows).items():
            assert untrue(stretches, ran.log[hart]) == []


def test_looking_for_events_changes_no_cycle() -> None:
    config = config_of("uart-interrupt", (2, 3, "skip")).with_values(interrupts=(ExternalInterrupt(30, 500, 100, 90),))
    trace = TraceUnitConfig(
        enabled=True,
        triggers=(Trigger(watch="line", line=30), Trigger(watch="uart"), Trigger(watch="line", line=1)),
        moves=(SequencerMove(0, 1, 1), SequencerMove(1, 2, 2), SequencerMove(2, 0, 4)),
        actions=(Action(1, mark=True),),
    )
    elf = example("uart-interrupt")
    assert Machine(config, trace=trace).run(elf).digest == Machine(config).run(elf).digest


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"watch": "line"}, "line is missing"),
        ({"watch": "uart", "line": 3}, 'line means nothing with watch = "uart"'),
        ({"watch": "smi", "mask": 1}, "mask means nothing"),
        ({"watch": "line", "line": 3, "first": 4}, "first means nothing"),
    ],
)
def test_what_means_nothing_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Trigger(**values)
