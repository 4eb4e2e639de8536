from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model import (
    Accounts,
    Cell,
    Ledger,
    Level,
    Position,
    Step,
    Tally,
    Transition,
    level_of,
    violations,
)

NESTED = (
    "noneffective.parse",
    "noneffective.sort",
    "poll",
    "kernel.read",
    "kernel.futex",
    "kernel.fault",
    "softirq.net_rx",
    "irq.timer",
    "irq.disk",
    "memory",
    "stall",
    "stolen",
    "overhead",
)
OFF = ("ready", "wait.futex", "stopped")

transitions = st.builds(
    Transition,
    time=st.integers(0, 1000),
    processor=st.none() | st.integers(0, 2),
    thread=st.integers(1, 4),
    step=st.sampled_from(Step),
    state=st.sampled_from((*NESTED, *OFF, "user", "unknown")),
    gained=st.none() | st.builds(Cell, st.just(0), st.just(0), st.integers(0, 9)),
)


def accounts(*taken: Transition, start: int = 0, processors: tuple[int, ...] = ()) -> Accounts:
    found = Accounts(start, processors)
    for transition in taken:
        found.take(transition)
    return found


def times(ledger: Ledger, index: int = 0) -> dict[str, int]:
    return {state: cell.time for state, cell in ledger.threads[index].states.items() if cell.time}


def counts(ledger: Ledger) -> dict[str, int | None]:
    return {state: cell.count for state, cell in ledger.threads[0].states.items() if cell.count}


def story(*events: tuple[int, Step, str]) -> Ledger:
    """One thread on one processor, born at 0; the window closes at 100."""
    begin = Transition(0, 0, 1, Step.BEGIN, "user")
    return accounts(begin, *(Transition(t, 0, 1, step, state) for t, step, state in events)).ledger(100)


@given(st.lists(transitions, max_size=60))
def test_whatever_happens_every_unit_of_time_is_in_exactly_one_state(taken: list[Transition]) -> None:
    ledger = accounts(*taken, processors=(0,)).ledger(1000)
    assert violations(ledger) == []
    for thread in ledger.threads:
        assert thread.span == thread.until - thread.start
    assert all(processor.span == 1000 for processor in ledger.processors)


@given(st.lists(transitions, max_size=60), st.integers(1, 59))
def test_reading_in_between_changes_nothing(taken: list[Transition], at: int) -> None:
    read = accounts(*taken[:at])
    before = read.ledger(1000)
    assert read.ledger(1000) == before
    for transition in taken[at:]:
        read.take(transition)
    assert read.ledger(1000) == accounts(*taken).ledger(1000)


@given(st.lists(transitions, max_size=60))
def test_counts_are_entries(taken: list[Transition]) -> None:
    ledger = accounts(*taken).ledger(1000)
    entered = dict.fromkeys(NESTED, 0)
    for transition in taken:
        if transition.step is Step.ENTER and transition.state in entered:
            entered[transition.state] += 1
    became = sum(t.step in (Step.BECOME, Step.BEGIN) for t in taken)
    for state, times_entered in entered.items():
        counted = sum(t.states[state].count or 0 for t in ledger.threads if state in t.states)
        assert times_entered <= counted <= times_entered + became


@given(st.lists(transitions, max_size=60))
def test_threads_on_a_processor_are_what_the_processor_does(taken: list[Transition]) -> None:
    """Where all is seen in order, a state on the processor has the same time in the threads as in the processors."""
    seen = sorted((t for t in taken if t.processor is not None), key=lambda t: t.time)
    ledger = accounts(*seen).ledger(1000)
    for state in NESTED:
        by_threads = sum(t.states[state].time for t in ledger.threads if state in t.states)
        by_processors = sum(p.states[state].time for p in ledger.processors if state in p.states)
        assert by_threads == by_processors


@given(st.lists(st.sampled_from(NESTED), max_size=8))
def test_what_is_entered_in_order_of_depth_and_left_in_reverse_leaves_no_trace(states: list[str]) -> None:
    ordered = sorted(states, key=level_of)
    ordered = [s for i, s in enumerate(ordered) if not (i and level_of(s) == level_of(ordered[i - 1]) == Level.CALL)]
    position = Position(("user",), None)
    for state in ordered:
        position = position.enter(state)
        assert position.state == state
    for state in reversed(ordered):
        position = position.leave(state)
    assert position == Position(("user",), None)


def test_the_innermost_state_is_charged_and_coming_back_is_not_entering() -> None:
    ledger = story(
        (10, Step.ENTER, "kernel.read"),
        (20, Step.ENTER, "kernel.fault"),
        (25, Step.ENTER, "irq.timer"),
        (28, Step.ENTER, "irq.disk"),
        (29, Step.LEAVE, "irq.disk"),
        (31, Step.LEAVE, "irq.timer"),
        (31, Step.ENTER, "softirq.timer"),
        (35, Step.LEAVE, "softirq.timer"),
        (40, Step.LEAVE, "kernel.fault"),
        (60, Step.LEAVE, "kernel.read"),
    )
    assert times(ledger) == {
        "user": 50,
        "kernel.read": 30,
        "kernel.fault": 10,
        "irq.timer": 5,
        "irq.disk": 1,
        "softirq.timer": 4,
    }
    assert set(counts(ledger).values()) == {1}
    assert ledger.losses == {"missed": 0, "reordered": 0}


def test_a_thread_that_was_switched_out_inside_a_call_finds_itself_in_it_again() -> None:
    ledger = story(
        (10, Step.ENTER, "noneffective.parse"),
        (20, Step.ENTER, "kernel.futex"),
        (30, Step.BECOME, "wait.futex"),
        (50, Step.BECOME, "ready"),
        (60, Step.DISPATCH, ""),
        (70, Step.LEAVE, "kernel.futex"),
        (80, Step.LEAVE, "noneffective.parse"),
    )
    assert times(ledger) == {
        "user": 30,
        "noneffective.parse": 20,
        "kernel.futex": 20,
        "wait.futex": 20,
        "ready": 10,
    }
    assert counts(ledger) == {"user": 1, "noneffective.parse": 1, "kernel.futex": 1, "wait.futex": 1, "ready": 1}
    (processor,) = ledger.processors
    assert processor.states["idle"] == Cell(30, 1)


def test_a_poll_goes_on_around_the_checks_and_outlives_a_region_cleared_in_it() -> None:
    ledger = story(
        (10, Step.ENTER, "noneffective.wait"),
        (20, Step.ENTER, "poll"),
        (30, Step.ENTER, "kernel.read"),
        (35, Step.LEAVE, "kernel.read"),
        (40, Step.LEAVE, "noneffective.wait"),
        (50, Step.LEAVE, "poll"),
    )
    assert times(ledger) == {"user": 60, "noneffective.wait": 10, "poll": 25, "kernel.read": 5}


def test_waiting_for_memory_in_the_kernel_is_the_kernels_time() -> None:
    ledger = story(
        (10, Step.ENTER, "memory"),
        (20, Step.ENTER, "kernel.read"),
        (30, Step.ENTER, "stall"),
        (40, Step.LEAVE, "stall"),
        (50, Step.LEAVE, "kernel.read"),
        (60, Step.LEAVE, "memory"),
    )
    assert times(ledger) == {"user": 50, "memory": 20, "kernel.read": 30}


def test_what_is_still_open_when_the_frame_around_it_ends_is_dropped_and_counted() -> None:
    ledger = story(
        (10, Step.ENTER, "kernel.read"),
        (20, Step.ENTER, "irq.timer"),
        (30, Step.LEAVE, "kernel.read"),
    )
    assert times(ledger) == {"user": 80, "kernel.read": 10, "irq.timer": 10}
    assert ledger.losses["missed"] == 1


def test_a_system_call_is_not_made_inside_an_interrupt_or_another_call() -> None:
    ledger = story(
        (10, Step.ENTER, "kernel.read"),
        (20, Step.ENTER, "irq.timer"),
        (30, Step.ENTER, "kernel.write"),
        (40, Step.LEAVE, "kernel.write"),
    )
    assert times(ledger) == {"user": 70, "kernel.read": 10, "irq.timer": 10, "kernel.write": 10}
    assert ledger.losses["missed"] == 2


def test_before_its_first_transition_a_thread_is_unknown_and_so_is_what_lies_around_an_interrupt() -> None:
    ledger = accounts(
        Transition(10, 0, 1, Step.ENTER, "irq.timer"),
        Transition(20, 0, 1, Step.LEAVE, "irq.timer"),
        Transition(30, 0, 1, Step.LEAVE, "kernel.read"),
        processors=(0, 1),
    ).ledger(100)
    assert times(ledger) == {"unknown": 20, "irq.timer": 10, "user": 70}
    assert ledger.losses["missed"] == 0
    assert ledger.processors[0].states["unknown"].time == 20
    assert ledger.processors[1].states == {"unknown": Cell(100)}


def test_a_thread_whose_processor_runs_another_is_unknown_until_it_is_seen() -> None:
    ledger = accounts(
        Transition(0, 0, 1, Step.BEGIN, "user"),
        Transition(10, 0, 2, Step.DISPATCH),
        Transition(30, 1, 1, Step.ENTER, "kernel.read"),
    ).ledger(100)
    assert times(ledger) == {"user": 10, "unknown": 20, "kernel.read": 70}
    assert ledger.losses["missed"] == 1


def test_a_dispatch_that_was_missed_is_seen_from_what_the_thread_does() -> None:
    ledger = story((10, Step.BECOME, "wait.pipe"), (30, Step.ENTER, "kernel.write"))
    assert times(ledger) == {"user": 10, "wait.pipe": 20, "kernel.write": 70}
    assert ledger.losses["missed"] == 1


def test_a_thread_is_its_id_and_its_birth() -> None:
    ledger = accounts(
        Transition(0, 0, 1, Step.BEGIN, "user"),
        Transition(10, 0, 1, Step.END),
        Transition(40, 0, 1, Step.BEGIN, "ready"),
    ).ledger(100, names={1: (1, "sh")})
    assert [(t.birth, t.start, t.end, t.span, t.name) for t in ledger.threads] == [
        (0, 0, 10, 10, "sh"),
        (40, 40, None, 60, "sh"),
    ]


def test_what_is_heard_of_a_thread_after_its_end_is_another_thread() -> None:
    ledger = accounts(
        Transition(0, 0, 1, Step.BEGIN, "user"),
        Transition(10, 0, 1, Step.END),
        Transition(40, 0, 1, Step.ENTER, "kernel.read"),
    ).ledger(100)
    assert [(t.birth, t.span) for t in ledger.threads] == [(0, 10), (40, 60)]
    assert ledger.losses["missed"] == 1


def test_time_does_not_run_backwards() -> None:
    tally = Tally(0, "user")
    tally.move(10, "poll")
    tally.move(5, "user")
    assert tally.cells(20) == {"user": Cell(20)}
    assert tally.reordered == 1


def test_a_window_holds_all_that_was_taken() -> None:
    taken = accounts(Transition(50, 0, 1, Step.ENTER, "poll"))
    with pytest.raises(ValueError, match="50"):
        taken.ledger(49)


def test_what_the_hardware_counted_belongs_to_the_state_that_ends() -> None:
    def gained(cycles: int) -> Cell:
        return Cell(cycles=cycles, instructions=2 * cycles)

    ledger = accounts(
        Transition(0, 0, 1, Step.BEGIN, "user"),
        Transition(10, 0, 1, Step.ENTER, "kernel.read", gained(7)),
        Transition(20, 0, 1, Step.BECOME, "wait.disk", gained(5)),
        Transition(30, 0, 2, Step.DISPATCH, gained=gained(1)),
        Transition(40, 0, 2, Step.BECOME, "ready", gained(9)),
        Transition(40, 0, 1, Step.DISPATCH, gained=gained(0)),
        Transition(50, 0, 1, Step.LEAVE, "kernel.read", gained(4)),
        Transition(50, 0, 1, Step.BECOME, "stopped", gained(0)),
    ).ledger(100)
    one, two = ledger.threads
    assert one.states["user"] == Cell(10, 1, 7, 14)
    assert one.states["kernel.read"] == Cell(20, 1, 9, 18)
    assert one.states["wait.disk"] == Cell(20, 1)
    assert two.states["unknown"] == Cell(40, 0, None)
    assert ledger.processors[0].states["kernel.read"] == Cell(20, 1, 9, 18)
