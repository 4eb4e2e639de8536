"""What an event costs follows from what the exercises take, and never is less than nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux._memory import EVENTS
from headway.linux.cost import Costs, Exercise, ExercisingProcess, costs

times = st.floats(0, 1e6)
exercises = st.builds(Exercise, times, times, times, times, times, times)
handlers = st.dictionaries(
    st.sampled_from(["enter_call", "wake", "switch_threads", "local_timer_begin", "local_timer_end"]), st.floats(1, 1e5)
)


@given(exercises, exercises, handlers)
def test_no_event_costs_less_than_nothing(without: Exercise, observed: Exercise, own: dict[str, float]) -> None:
    found = costs(without, observed, own)
    assert min(found.before()) >= 0
    assert min(found.after()) >= 0
    assert len(found.before()) == len(found.after()) == len(EVENTS)


@given(exercises, exercises)
def test_what_lies_before_and_after_the_clock_is_all_that_an_event_costs(a: Exercise, b: Exercise) -> None:
    found = costs(a, b, {})
    for kind, cost in found.of.items():
        if kind != "wake":  # no stretch begins with a wake-up: what is put before it is all
            at = EVENTS[kind]
            assert found.before()[at] + found.after()[at] == pytest.approx(cost)


def test_what_an_exercise_takes_more_is_what_its_events_cost() -> None:
    without = Exercise(call=80, read=120, poll=200, look=150, fault=900, handover=3000)
    found = costs(without, Exercise(call=280, read=420, poll=460, look=490, fault=1200, handover=5800), {}).of
    assert (found["enter"], found["leave"]) == (100, 100)
    assert found["look"] == 340 - 260
    assert found["ask"] == 300 - 200 - 80
    assert found["answer"] == 260 - 200 - 20
    assert (found["fault"], found["fault_end"]) == (150, 150)
    round_trip = 8 * 100 + 4 * (20 + 80) + 2 * (found["switch"] + 0.4 * found["wake"])
    assert round_trip == pytest.approx(2800)


@given(st.lists(exercises, min_size=1, max_size=5))
def test_the_mean_of_exercises_lies_between_them(many: list[Exercise]) -> None:
    mean = Exercise.mean(many)
    assert min(e.poll for e in many) <= mean.poll * 1.000001
    assert mean.poll <= max(e.poll for e in many) * 1.000001


def test_without_costs_nothing_is_taken_out() -> None:
    assert set(Costs({}).before()) == {0.0}
    assert set(Costs({}).after()) == {0.0}


def test_the_exercising_process_does_all_of_its_exercises_and_goes() -> None:
    with ExercisingProcess() as process:
        exercise = process.exercise()
        assert exercise.call > 0
        assert exercise.read > 0
        assert exercise.poll > 0
        assert exercise.look > 0
        assert exercise.fault > 0
        assert exercise.handover > 0
