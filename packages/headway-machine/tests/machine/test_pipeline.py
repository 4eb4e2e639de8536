"""The pipeline view: each cycle of each hart has a state, one hart at most has the slot, and looking changes none."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.effort import FEW

from headway.errors import HeadwayError
from headway.views.pipeline import pipeline_lines
from headway_machine import Machine
from headway_machine.commands.machine import command
from headway_machine.pipeline import ROTATION, window_of

from .examples import Shape, config_of, program
from .programs import leave, loop
from .programs import program as made

pytestmark = pytest.mark.unit

ISSUES = {"executed", "not_executed", "trap"}
SHAPES: tuple[Shape, ...] = ((1, 1, "strict"), (1, 6, "strict"), (1, 6, "skip"), (2, 3, "skip"))


@given(
    name=st.sampled_from(("sleepers", "stats", "mutex")),
    shape=st.sampled_from(SHAPES),
    first=st.integers(0, 60_000),
    cycles=st.integers(1, 3_000),
)
@example("sleepers", (1, 1, "strict"), 701, 1)  # a division began before
@settings(max_examples=6 if FEW else 25, deadline=None)
def test_each_cycle_has_one_hart_in_the_slot_or_none(name: str, shape: Shape, first: int, cycles: int) -> None:
    config = config_of(name, shape)
    session = Machine(config).debug(program(name))
    core = shape[0] - 1
    window = window_of(session, core=core, first=first, cycles=cycles)
    assert (window.first, window.end) == (first, first + cycles)
    assert list(window.harts) == list(range(core * shape[1], (core + 1) * shape[1]))
    had = [one.cycle for one in window.issued]
    assert len(had) == len(set(had)), "two harts in one slot"
    for offset in range(cycles):
        issuing = [hart for hart, row in window.harts.items() if row[offset] in ISSUES]
        assert issuing == ([] if window.slots[offset] is None else [window.slots[offset]])
    assert all("" not in row for row in window.harts.values())
    if shape[2] == "skip":
        assert all(ROTATION not in row for row in window.harts.values())
    session.run()
    assert session.result().digest == Machine(config).run(program(name)).digest, "looking changes nothing"


def test_a_whole_run_has_all_its_instructions() -> None:
    elf = made(*loop(50), *leave(0))
    result = Machine(cores=1, threads=1).run(elf)
    session = Machine(cores=1, threads=1).debug(elf)
    window = window_of(session, core=0, first=0, cycles=result.cycles - 1)
    assert len(window.issued) in (result.instructions, result.instructions - 1), "the last one ends the run"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit_and_hold_every_cycle(width: int) -> None:
    session = Machine(cores=1, threads=2).debug(made(*loop(500), *leave(0)))
    window = window_of(session, core=0, first=100, cycles=333)
    lines = [
        "".join(text for text, _ in line) for line in pipeline_lines(window.first, window.harts, window.slots, width)
    ]
    rows = [line for line in lines if line.startswith("hart 0")]
    assert sum(len(row) - 8 for row in rows) == 333
    assert all(len(line) <= max(width, 70) for line in lines)


def test_the_command_shows_it_and_refuses_what_cannot_be() -> None:
    runner = CliRunner()
    first = Machine().debug(program("mutex")).run_until("main+0x2c").cycle
    shown = runner.invoke(command, ["pipeline", "mutex", "--from", str(first), "--cycles", "60", "-v"])
    assert shown.exit_code == 0
    assert re.search(r"the slot was used in \d+ of 60 cycles", shown.output)
    assert "main+0x2c" in shown.output
    for words, sentence in (
        (["--from", "10", "--core", "1"], "there is no core 1"),
        (["--from", "100000000"], "the program ends at cycle"),
    ):
        with pytest.raises(HeadwayError, match=sentence):
            runner.invoke(command, ["pipeline", "mutex", *words], catch_exceptions=False)
