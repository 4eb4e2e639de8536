"""What a page shows of a run: looking changes nothing, steps add up to the ledger, the window is that of a debugger."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import FEW

from headway_machine import Machine
from headway_machine.commands.machine import command
from headway_machine.image import NumberNames
from headway_machine.ledger import RawCell, RawThread
from headway_machine.observer import WINDOW, Observer
from headway_machine.pipeline import window_of
from headway_machine.series import KINDS, MOST_STEPS, POWER, Series, _differences
from headway_machine.states import name_states

from .examples import Shape, config_of, names, program

pytestmark = pytest.mark.unit

SHAPES: tuple[Shape, ...] = ((1, 1, "strict"), (1, 6, "strict"), (1, 6, "skip"), (2, 3, "skip"))
NAMES = name_states(NumberNames())
STATES = st.sampled_from([0, 65, 120, 151, 200, 202, 203, 204, 208, 220, 225])


@given(
    name=st.sampled_from(("sleepers", "stats", "mutex", "interrupt-storm")),
    shape=st.sampled_from(SHAPES),
    first=st.none() | st.integers(0, 60_000),
)
@settings(max_examples=4 if FEW else 25, deadline=None)
def test_a_run_that_is_observed_is_the_same_to_the_cycle(name: str, shape: Shape, first: int | None) -> None:
    config = config_of(name, shape)
    observer = Observer(first)
    result = Machine(config).run(program(name), observer=observer)
    assert result.digest == Machine(config).run(program(name)).digest
    window = observer.window
    assert window is not None
    if first is not None and shape[0] == 1:
        session = Machine(config).debug(program(name))
        assert window == window_of(session, core=0, first=first, cycles=WINDOW)
        assert observer.names == {one.address: session.name(one.address) for one in window.issued}


@pytest.mark.parametrize("name", names()[:4] if FEW else names())
@pytest.mark.parametrize("shape", SHAPES[::3], ids=str)
def test_the_steps_add_up_to_the_ledger(name: str, shape: Shape) -> None:
    observer = Observer()
    ledger = Machine(config_of(name, shape)).run(program(name), observer=observer).ledger
    steps = observer.steps
    assert steps is not None
    number = len(steps.processors[0])
    assert (number - 1) * steps.width < ledger.window.duration <= number * steps.width
    rows = [(ledger.times(one), *steps.threads[one.tid, one.birth]) for one in ledger.threads]
    rows += [(ledger.times(one), 0, found) for one, found in zip(ledger.processors, steps.processors, strict=True)]
    for times, first, found in rows:
        assert first + len(found) == number
        assert all(sum(step) <= 1.02 * steps.width + 40 for step in found if step)
        for place, kind in enumerate(KINDS):
            had, whole = sum(step[place] for step in found if step), times[kind]
            # States of one kind are rounded one by one, and the last correction may take back what came before.
            assert abs(had - whole) <= 40, kind
    for one, power, cycles in zip(ledger.processors, steps.power, steps.cycles, strict=True):
        for place, state in enumerate(POWER):
            if place:
                cell = one.states.get(state)
                assert sum(step[place] for step in power) == (cell.time if cell else 0)
        assert len(cycles) == number
        assert all(had >= 0 for had in cycles)


@pytest.mark.parametrize("first", [None, 0, 900])
@pytest.mark.parametrize("limit", [10, 1000, 2300, 5000])
def test_an_observed_run_ends_at_its_limit(limit: int, first: int | None) -> None:
    result = Machine().run(program("mutex"), max_cycles=limit, observer=Observer(first))
    assert (result.ended, result.cycles) == ("limit", limit)
    assert result.digest == Machine().run(program("mutex"), max_cycles=limit).digest


def cells(sums: dict[int, int]) -> list[RawCell]:
    return [(state, time, time, 0, 1, 0, 0, 0, (0,) * 7) for state, time in sums.items()]


@given(st.lists(st.lists(STATES, max_size=3), min_size=1, max_size=30), st.integers(1, MOST_STEPS))
@settings(max_examples=10 if FEW else 60, deadline=None)
def test_nothing_is_lost_when_steps_become_one(turns: list[list[int]], each: int) -> None:
    """Steps double their width whenever there are too many: the sums stay."""
    series = Series()
    series.begin(NAMES)
    sums: dict[int, int] = {}
    threads: list[RawThread] = []
    now = 0
    for turn in turns:
        for _ in range(each):
            now = series.next
            for state in turn:
                sums[state] = sums.get(state, 0) + 1
            threads = [(1, b"one", 0, -1, False, cells(sums))]
            series.take(threads, [(0, cells(sums))])
    steps = series.steps(now, threads, [(0, cells(sums))])
    assert len(steps.processors[0]) <= MOST_STEPS
    assert sum(map(sum, steps.processors[0])) == sum(sums.values())
    assert sum(map(sum, steps.power[0])) == sum(sums.values())
    assert steps.threads[1, 0] == (0, steps.processors[0])


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1), st.integers(0, 3))
def test_what_is_taken_back_leaves_the_sum_right_and_no_step_below_nothing(
    sums: list[tuple[int, int]], before: int
) -> None:
    found = _differences([*[None] * before, *sums])
    assert found[:before] == [()] * before
    assert all(amount >= 0 for step in found for amount in step)
    assert tuple(map(sum, zip(*found[before:], strict=True))) == sums[-1]


def test_the_window_of_a_page_needs_the_page() -> None:
    done = CliRunner().invoke(command, ["run", "crc32", "--window", "5"])
    assert done.exit_code == 2
    assert "--window is of the page of a run" in done.output
