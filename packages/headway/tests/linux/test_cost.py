"""The observer's cost (T6): lawful whatever was measured, in a state of its own, and taken out of the threads' time."""

from __future__ import annotations

import math
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import Compile

from headway.linux.bpf.costs.calibration import (
    BEFORE,
    FUNCTIONS,
    Costs,
    are_plausible,
    believable,
    cost_of_passing,
    costs,
)
from headway.linux.bpf.costs.exercising import Exercise, ExercisingProcess
from headway.linux.bpf.shared.layout import EVENTS
from headway.linux.options import Selection
from headway.linux.sources.ebpf.observer_cost import ObserverCost
from headway.model import Kind
from headway.views.json import to_document
from headway.views.lines import text_of
from headway.views.table import table

from .measuring import measure, measure_intervals, only, time_in, until_asleep

TIMES = st.floats(0, 1e9)
SMALL = st.floats(0, 1e5)
EXERCISES = st.builds(Exercise, TIMES, TIMES, TIMES, TIMES, TIMES, TIMES)
PROGRAMS = (
    *("handle_sys_enter", "handle_sys_exit", "handle_sched_wakeup", "handle_sched_switch"),
    *("handle_irq_vector_entry", "handle_irq_vector_exit", "handle_irq_handler_entry", "handle_irq_handler_exit"),
)
HANDLERS = st.dictionaries(st.sampled_from(PROGRAMS), st.floats(0, 1e6, exclude_min=True))


# ---- what is made of the figures ----


@given(EXERCISES, EXERCISES, HANDLERS)
def test_no_cost_is_negative_whatever_was_measured(
    without: Exercise, observed: Exercise, handlers: dict[str, float]
) -> None:
    found = costs(without, observed, handlers)
    assert found.of.keys() | set(FUNCTIONS) | {"function_end", "function_exit", "task_probe"} == EVENTS.keys()
    for cost in (*found.of.values(), *found.before(), *found.after()):
        assert math.isfinite(cost)
        assert cost >= 0
    assert len(found.before()) == len(found.after()) == len(EVENTS)


@given(EXERCISES, HANDLERS)
def test_an_exercise_that_is_not_slowed_down_costs_nothing(exercise: Exercise, handlers: dict[str, float]) -> None:
    found = costs(exercise, exercise, handlers).of
    assert {
        found[kind] for kind in ("enter", "leave", "ask", "look", "answer", "switch", "wake", "fault", "fault_end")
    } == {0}


@given(EXERCISES, EXERCISES, HANDLERS)
def test_the_parts_before_and_after_the_clock_are_the_whole(
    without: Exercise, observed: Exercise, handlers: dict[str, float]
) -> None:
    found = costs(without, observed, handlers)
    before, after = found.before(), found.after()
    for kind, cost in found.of.items():
        at = EVENTS[kind]
        assert before[at] + after[at] == pytest.approx(cost)
        # What comes on top of another event comes after that one's clock was read.
        assert before[at] == pytest.approx(0 if kind in ("ask", "look", "answer") else BEFORE * cost)


@given(EXERCISES, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, HANDLERS)
def test_what_a_round_of_each_exercise_took_longer_is_what_is_charged(
    without: Exercise,
    call: float,
    ask: float,
    look: float,
    answer: float,
    fault: float,
    rest: float,
    handlers: dict[str, float],
) -> None:
    slower = Exercise(
        without.call + 2 * call,
        without.read + 2 * call + ask,
        without.poll + 2 * call + ask + answer,
        without.look + 2 * call + ask + answer + look,
        without.fault + 2 * fault,
        without.handover + 8 * call + 4 * ask + 2 * rest,
    )
    found = costs(without, slower, handlers).of
    error = 1e-5 * (1 + without.call + without.read + without.poll + without.look + without.fault + without.handover)
    assert found["enter"] + found["leave"] == pytest.approx(2 * call, rel=1e-6, abs=error)
    for kind, cost in (("ask", ask), ("look", look), ("answer", answer)):
        assert found[kind] == pytest.approx(cost, rel=1e-6, abs=error)
    assert found["fault"] + found["fault_end"] == pytest.approx(2 * fault, rel=1e-6, abs=error)
    both = found["switch"] + BEFORE * found["wake"]  # a wake-up is charged to the waker alone
    assert both == pytest.approx(rest, rel=1e-6, abs=error)


@given(EXERCISES, SMALL, SMALL)
def test_what_passes_costs_what_a_process_that_was_not_measured_took_longer(
    without: Exercise, call: float, switch: float
) -> None:
    passing = replace(without, call=without.call + 2 * call, handover=without.handover + 8 * call + 2 * switch)
    found = cost_of_passing(without, passing)
    error = 1e-5 * (1 + without.call + without.handover)
    assert found == pytest.approx((call, switch), rel=1e-6, abs=error)
    assert min(cost_of_passing(passing, without)) >= 0


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=2, max_size=6))
def test_what_passed_in_intervals_is_what_passed_in_all(steps: list[tuple[int, int]]) -> None:
    passed = [0, 0]
    costs = Costs({}, passing=(20.0, 50.0))
    cost = ObserverCost(lambda: (passed[0], passed[1]), lambda: costs)
    parts = []
    for calls, switches in steps:
        passed = [passed[0] + calls, passed[1] + switches]
        parts.append(cost.since(recent=True))
    own, others = cost.since(recent=False)
    assert others == sum(part[1] or 0 for part in parts) == 20 * passed[0] + 50 * passed[1]
    assert own >= sum(part[0] for part in parts) >= 0
    costs = Costs({})
    assert cost.since(recent=False)[1] is None
    assert ObserverCost(None, lambda: costs).since(recent=False)[1] is None
    assert ObserverCost(None, lambda: costs, everything=True).since(recent=False)[1] == 0


@given(st.lists(EXERCISES, min_size=1, max_size=5))
def test_the_mean_of_exercises_lies_between_them(many: list[Exercise]) -> None:
    mean = Exercise.mean(many)
    assert min(e.poll for e in many) <= mean.poll * 1.000001
    assert mean.poll <= max(e.poll for e in many) * 1.000001


@given(st.lists(st.tuples(TIMES, TIMES), min_size=3, max_size=3))
def test_what_a_marked_call_costs_is_divided_and_nothing_of_it_is_lost(calls: list[tuple[float, float]]) -> None:
    found = Costs({}, dict(zip(FUNCTIONS, calls, strict=True)))
    before, after = found.before(), found.after()
    end = EVENTS["function_end"]
    at = EVENTS[FUNCTIONS[0]]
    inside, outside = calls[0]
    assert before[at] + after[at] + before[end] + after[end] == pytest.approx(inside + outside)
    assert before[at] + after[end] == pytest.approx(outside), "in its caller's time"


@given(st.lists(st.tuples(TIMES, TIMES), min_size=3, max_size=3), st.tuples(TIMES, TIMES))
def test_a_call_whose_own_return_is_probed_has_what_was_found_for_it(
    calls: list[tuple[float, float]], own: tuple[float, float]
) -> None:
    found = Costs({}, dict(zip(FUNCTIONS, calls, strict=True)), own_return=own)
    before, after = found.before(), found.after()
    exit_, at = EVENTS["function_exit"], EVENTS[FUNCTIONS[0]]
    inside, outside = calls[0]
    assert min(before[exit_], after[exit_]) >= 0
    assert after[at] + before[exit_] == pytest.approx(max(own[0], inside / 2)), "in the function's time"
    assert before[at] + after[exit_] == pytest.approx(max(own[1], outside / 2)), "in its caller's time"
    assert found.of_call(FUNCTIONS[0], own_return=True) == pytest.approx(sum(own))
    assert found.of_call(FUNCTIONS[1], own_return=False) == sum(calls[1])


@given(HANDLERS)
def test_an_interrupt_during_which_something_else_had_the_processor_is_not_believed(handlers: dict[str, float]) -> None:
    found = believable(handlers)
    assert found.items() <= handlers.items()
    call = handlers.get("handle_sys_enter")
    for name in handlers.keys() - found.keys():
        assert call is not None
        assert name in {f"handle_{line}_{edge}" for line in ("irq_vector", "irq_handler") for edge in ("entry", "exit")}
        assert handlers[name] > call
    assert believable({"handle_sys_enter": 100.0, "handle_irq_vector_exit": 11_807.0}) == {"handle_sys_enter": 100.0}


@given(EXERCISES, EXERCISES)
def test_exercises_at_the_same_speed_are_alike(one: Exercise, two: Exercise) -> None:
    assert one.is_like(one)
    assert one.is_like(two) == two.is_like(one)
    if one.call > 2 * two.call:
        assert not one.is_like(two)


def test_a_cost_that_does_not_fit_the_time_of_its_program_is_not_plausible() -> None:
    for cost, plausible in ((1.0, False), (60.0, True), (200.0, True), (900.0, False)):
        assert are_plausible(Costs({"enter": cost}), {"handle_sys_enter": 80.0}) == plausible
        assert are_plausible(Costs({"enter": cost}), {}), "the kernel does not tell"


def test_the_exercising_process_does_what_it_says_and_goes() -> None:
    with ExercisingProcess() as exerciser:
        found = exerciser.exercise()
        assert min(found.call, found.read, found.poll, found.look, found.fault, found.handover) > 0
        assert exerciser.call_functions(0) > 0
        assert min(exerciser.marks()) >= 0
        assert sum(exerciser.marks()) > 0
        pid = exerciser.pid
    assert not Path(f"/proc/{pid}").exists()


# ---- in ledgers ----


@pytest.mark.root
def test_the_observers_time_is_a_state_of_threads_and_processors_and_their_sum_is_printed(compile_c: Compile) -> None:
    ledger, _ = measure(compile_c("loop"))
    thread = only(ledger)
    mine = thread.times()[Kind.OVERHEAD]
    there = sum(p.states["overhead"].time for p in ledger.processors if "overhead" in p.states)
    assert 0 < mine <= there == ledger.overhead.time
    assert (ledger.overhead.events or 0) >= 800_000
    assert ledger.indices(thread).rpi == sum(time for kind, time in thread.times().items() if kind.in_rpi)
    assert mine not in (ledger.indices(thread).rpi, 0)


@pytest.mark.root
def test_that_rpi_is_exact_only_together_with_overhead_is_said_once_in_the_table_and_in_json() -> None:
    ledger, parts = measure_intervals(0.02, "sleep", "0.1")
    for one in (ledger, *parts):
        reason = one.reasons["overhead"]
        assert "RPI plus overhead is exact, RPI alone is not" in reason
        assert to_document(one)["reasons"]["overhead"] == reason
        lines = [text_of(line) for line in table(one, width=1000, verbose=True)]
        assert [line for line in lines if reason in line] == [f"overhead: {reason}"]


@pytest.mark.root
def test_what_observing_costs_headway_itself_and_others_is_told() -> None:
    whole, parts = measure_intervals(0.05, "sleep", "0.2")
    assert (whole.overhead.own or 0) > 0
    assert all(part.overhead.own is not None and part.overhead.others is None for part in (whole, *parts))
    assert "in all threads; headway itself" in " ".join(text_of(line) for line in table(whole, width=1000))
    alone, _ = measure("true")
    assert alone.overhead.own is not None
    if alone.overhead.others is not None:  # calibration may have been disturbed
        assert to_document(alone)["overhead"]["others"] == alone.overhead.others
        assert "in these threads; headway itself" in " ".join(text_of(line) for line in table(alone, width=1000))


@pytest.mark.root
def test_overhead_in_intervals_adds_up_to_the_whole(compile_c: Compile) -> None:
    whole, parts = measure_intervals(0.02, compile_c("loop"))
    assert whole.overhead.time == sum(part.overhead.time or 0 for part in parts)
    assert whole.overhead.events == sum(part.overhead.events or 0 for part in parts)
    assert only(whole).times()[Kind.OVERHEAD] == sum(time_in(only(part), "overhead") for part in parts if part.threads)


@pytest.mark.root
def test_a_process_that_runs_nothing_is_charged_no_overhead() -> None:
    with subprocess.Popen(["sleep", "60"]) as target:
        until_asleep(target.pid)
        try:
            ledger, _ = measure(selection=Selection(pids=(target.pid,)), seconds=0.1)
        finally:
            target.kill()
    assert time_in(only(ledger), "overhead") == 0
