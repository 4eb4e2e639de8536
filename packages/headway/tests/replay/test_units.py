"""Units of work: which tasks are one, and when they begin and end in a replay."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.schedules import START, made_up
from tests.replay.test_replay import HALF, runs

from headway.model import ThreadSeen, Window
from headway.model.task_slices import TaskSlice
from headway.replay._schedule import Replay
from headway.replay.candidates import rank
from headway.replay.changes import Faster
from headway.replay.graph import WaitGraph, build
from headway.replay.path import find_end
from headway.replay.predict import LEAST, MOST, WORST_ERROR, Model
from headway.replay.rows import Rows
from headway.replay.units import Moments, Units, moments_of, predict_units, units_of, within
from headway.replay.wakeups import find_wakeups

from .schedules import Schedule, rows_of

pytestmark = pytest.mark.unit


def model_with(rows: Rows, units: Units) -> Model:
    return Model(build(rows, find_wakeups(rows), find_end(rows, command=False)), whole=True, units=units)


def some_units(rows: Rows, random: Random) -> Units:
    """Units that begin and end anywhere in the lives of threads."""
    begin: list[int] = []
    end: list[int] = []
    thread: list[int] = []
    title: list[int] = []
    for number in range(len(rows.threads)):
        own = slice(int(rows.first[number]), int(rows.first[number + 1]))
        if own.start == own.stop:
            continue
        first, last = int(rows.begin[own][0]), int(rows.end[own][-1])
        for _ in range(4):
            one, other = sorted((random.randint(first, last), random.randint(first, last)))
            begin.append(one)
            end.append(other)
            thread.append(number)
            title.append(len(title) % 2)
    columns = [np.array(column, np.int64) for column in (title, begin, thread, end, thread)]
    return Units(("odd", "even"), *columns)


def went_on_as_recorded(graph: WaitGraph, replay: Replay) -> bool:
    """Whether threads got their processors when they did: of several that want one, a replay may take another one."""
    known = (graph.dispatch >= 0) & (replay.left_at >= 0)
    return bool((np.abs(replay.left_at - graph.dispatch)[known] <= 1).all())


@given(runs, st.randoms(use_true_random=False))
def test_units_begin_and_end_in_a_replay_that_is_the_run_when_they_did(run: Schedule, random: Random) -> None:
    rows = run.loaded()
    units = some_units(rows, random)
    model = model_with(rows, units)
    for assumption in (LEAST, MOST):
        replay = model.unchanged[assumption]
        if not went_on_as_recorded(model.graph, replay):
            continue
        found = moments_of(model.graph, replay, units)
        first_ran = model.graph.dispatch[model.graph.first[:-1]]
        for moments, recorded in ((found.begin, units.begin - START), (found.end, units.end - START)):
            known = np.isfinite(moments)
            assert np.allclose(moments[known], recorded[known], atol=1)
            assert known[recorded >= first_ran[units.begins_in]].all()


@given(runs, st.randoms(use_true_random=False), st.sampled_from([Fraction(0), Fraction(1, 10), HALF]))
def test_figures_of_units_are_ranges_around_what_holds(run: Schedule, random: Random, keep: Fraction) -> None:
    rows = run.loaded()
    model = model_with(rows, some_units(rows, random))
    found = model.predict([Faster("*:*", keep)])
    for one in found.units:
        assert one.low is None or abs(one.error) <= WORST_ERROR
        if one.low is not None and one.high is not None:
            assert 0 <= one.low.mean <= one.high.mean
            assert 0 <= one.low.p99 <= one.high.p99
            assert 0 <= one.low.rate <= one.high.rate
    counts = [one.count for one in found.units]
    assert not counts or counts[0] >= max(counts[1:], default=0)


@given(st.integers(0, 1 << 32), st.integers(1, 6), st.randoms(use_true_random=False))
def test_units_of_what_is_twice_as_fast_take_half_of_the_time(seed: int, threads: int, random: Random) -> None:
    rows = made_up(Random(seed), threads=threads, cpus=threads).run().loaded()
    units = some_units(rows, random)
    model = model_with(rows, units)
    found = model.predict(
        [Faster("user", HALF), Faster("kernel.*", HALF), Faster("parse", HALF), Faster("*:wait.*", HALF)]
    )
    for one in found.units:
        if one.low is not None and one.high is not None:
            rounding = len(model.graph.kind)
            assert one.recorded.mean / 2 - rounding <= one.low.mean
            assert one.high.mean <= one.recorded.mean / 2 + rounding + abs(one.error) * one.recorded.mean


@given(runs, st.randoms(use_true_random=False))
def test_every_change_to_units_that_is_worth_it_is_predicted(run: Schedule, random: Random) -> None:
    rows = run.loaded()
    found = rank(model_with(rows, some_units(rows, random)))
    gains = [min(one.units[0].gain if one.units else one.gain) for _, one in found]
    assert gains == sorted(gains, reverse=True)


def test_units_that_a_replay_did_not_come_to_are_left_out() -> None:
    units = Units(("a",), *(np.array(column) for column in ([0, 0], [10, 20], [0, 0], [15, 30], [0, 0])))
    whole = Moments(np.array([10.0, 20.0]), np.array([15.0, 30.0]))
    cut = Moments(np.array([10.0, np.nan]), np.array([12.5, np.nan]))
    every, titled = predict_units(units, [whole], [cut], WORST_ERROR)
    assert (every.count, every.recorded.mean) == (1, 5)
    assert titled.gain == (0.5, 0.5)


# ---- which tasks are a unit ----

WINDOW = Window(START, START + 1000)
THREADS = [ThreadSeen(number, 10 + number, 10 if number < 2 else 99, "t", START, START, None) for number in range(3)]
ROWS = rows_of([(START, 1000, 0, 0, n, "user", -1, "", 0) for n in range(3)], THREADS, WINDOW)


def a_slice(place: int, begin: int, end: int, name: str, id: int = 0) -> TaskSlice:
    return TaskSlice(place, START + begin, START + end, name, id)


def test_slices_of_one_id_are_one_unit_in_all_threads_of_a_process() -> None:
    slices = [
        a_slice(0, 10, 20, "get", 7),
        a_slice(0, 30, 40, "get"),
        a_slice(0, 50, 60, "get"),
        a_slice(1, 70, 90, "get", 7),
        a_slice(2, 15, 25, "get", 7),
    ]
    units = units_of(slices, [], ROWS)
    found = sorted(zip(units.begin - START, units.begins_in, units.end - START, units.ends_in, strict=True))
    assert found == [(10, 0, 90, 1), (15, 2, 25, 2), (30, 0, 40, 0), (50, 0, 60, 0)]
    assert units.titles == ("get",)
    inside = within(units, ROWS)
    assert inside.tolist() == [False, False, False], "the middles of the only rows are in none"


def test_what_began_before_or_has_not_ended_is_no_unit() -> None:
    slices = [a_slice(0, 0, 20, "early"), a_slice(0, 30, 1000, "late"), a_slice(0, 10, 20, "open", 3)]
    assert len(units_of(slices, [a_slice(1, 900, 950, "open", 3)], ROWS)) == 0
