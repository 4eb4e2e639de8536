"""A run that is stuck says so: which hart makes no progress, for how long, and in what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.machine.elves import FUNCTION, MRET, T0, T1, ZERO, csrw, jump, li, sw
from tests.machine.examples import program
from tests.machine.programs import program as assembled
from tests.machine.test_command import headway

from headway_machine.image import NumberNames
from headway_machine.ledger import RawCell
from headway_machine.machine import Machine
from headway_machine.states import name_states
from headway_machine.watchdog import PATIENCE, Still, Watchdog, describe_still

CSRW_MTVEC, CSRW_MIE, CSRSI_MIE = csrw(0x305, T0), csrw(0x304, T0), 0x3004_6073
STUCK = assembled(
    # The handler returns without a word to the timer, which has expired for good: nothing else is ever executed.
    *(jump(8), MRET, *li(T0, 0x8000_0004), CSRW_MTVEC, *li(T1, 0x0200_4000), sw(ZERO, T1, 4), sw(ZERO, T1)),
    *(*li(T0, 0x80), CSRW_MIE, CSRSI_MIE, jump(0)),
    symbols={"main": (0x8000_0000, 4, FUNCTION), "handler": (0x8000_0004, 4, FUNCTION)},
)
USER, TIMER, IDLE, RESET = 0, 151, 200, 204
NAMES = name_states(NumberNames())


def cell(state: int, time: int, stall: int = 0) -> RawCell:
    return (state, time, time, time, 1, stall, 0, 0, (0,) * 7)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20))
def test_a_hart_is_still_from_the_look_at_which_its_progress_grew_last(steps: list[tuple[int, int, int]]) -> None:
    dog = Watchdog(NAMES, {"f": (0x100, 0x200)})
    user = stall = timer = now = since = 0
    for at, (progress, stalled, interrupted) in enumerate(steps):
        user, stall, timer = user + progress + stalled, stall + stalled, timer + interrupted + 1
        now = user + timer
        dog.look(now, [(7, [cell(USER, user, stall), cell(TIMER, timer)])])
        if progress or at == 0:
            since = now
    found = dog.still([(7, [cell(USER, user, stall), cell(TIMER, timer)])], {7: 0x180}, 1)
    assert [(one.hart, one.ticks, one.function) for one in found] == ([(7, now - since, "f")] if now > since else [])
    assert all(0 < one.share <= 1 for one in found)


def test_what_only_waits_is_named_if_nothing_else_is_still() -> None:
    def still(*states: int) -> list[str]:
        dog = Watchdog(NAMES, {})
        dog.look(0, [(hart, [cell(state, 0)]) for hart, state in enumerate(states)])
        processors = [(hart, [cell(state, 100)]) for hart, state in enumerate(states)]
        dog.look(100, processors)
        return [one.state for one in dog.still(processors, dict.fromkeys(range(len(states)), 0), 50)]

    assert still(TIMER, IDLE, RESET) == ["irq.timer"]
    assert still(IDLE, RESET) == ["idle.c1"]
    assert still(RESET) == []


def test_what_only_waits_is_not_named_while_another_hart_makes_progress() -> None:
    dog = Watchdog(NAMES, {})
    for now in (0, 50, 100):
        processors = [(0, [cell(IDLE, now)]), (1, [cell(USER, now)])]
        dog.look(now, processors)
    assert dog.still(processors, {0: 0, 1: 0}, 50) == ()


def test_a_kernel_without_progress_is_noticed_once() -> None:
    said: list[Sequence[Still]] = []
    result = Machine().run(STUCK, max_cycles=2 * PATIENCE, stuck=said.append)
    assert result.ended == "limit"
    ((one,),) = said
    assert (one.hart, one.state, one.function) == (0, "irq.timer", "handler")
    assert PATIENCE <= one.ticks < PATIENCE * 1.3
    assert [each.hart for each in result.still] == [one.hart]


def test_a_run_that_makes_progress_or_ends_says_nothing() -> None:
    said: list[Sequence[Still]] = []
    result = Machine().run(assembled(jump(0)), max_cycles=2 * PATIENCE, stuck=said.append)
    assert (result.ended, result.still, said) == ("limit", (), [])
    assert Machine().run(program("six-threads"), stuck=said.append).still == ()
    assert said == []


def test_the_command_says_it(tmp_path: Path) -> None:
    path = tmp_path / "stuck.elf"
    path.write_bytes(STUCK)
    done = headway("run", str(path), "--max-cycles", str(PATIENCE * 3 // 2))
    assert done.returncode == 125
    said = done.stderr.decode()
    assert "no hart makes progress: hart 0 for 2" in said
    assert "had not ended after 30000000 cycles (hart 0 for" in said
    assert "of them in irq.timer" in said


def test_only_the_first_harts_are_named() -> None:
    harts = [Still(hart, 1000, "irq.timer", 0.5, 0x8000_0000, "trap" if hart else None) for hart in range(5)]
    assert describe_still(harts) == (
        "hart 0 for 1,000 cycles, 50% of them in irq.timer, now at 0x80000000; "
        "hart 1 for 1,000 cycles, 50% of them in irq.timer, now at trap (0x80000000); "
        "hart 2 for 1,000 cycles, 50% of them in irq.timer, now at trap (0x80000000); and 2 more"
    )
