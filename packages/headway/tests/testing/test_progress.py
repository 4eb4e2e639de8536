from __future__ import annotations

import json

from hypothesis import given
from tests.ledgers import ledgers

from headway.model import Kind, Ledger, Quality
from headway.testing.progress import Lap, PhaseProgress, lap_of, together

from .progresses import laps, progresses


@given(laps, laps, laps)
def test_laps_add_up_in_any_grouping_and_order(a: Lap, b: Lap, c: Lap) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a


@given(laps)
def test_a_lap_is_the_same_on_both_ends_of_the_pipe(lap: Lap) -> None:
    assert Lap.of_document(json.loads(json.dumps(lap.to_document()))) == lap


@given(progresses)
def test_progress_is_the_same_where_the_report_arrives(progress: PhaseProgress) -> None:
    assert PhaseProgress.of_document(json.loads(json.dumps(progress.to_document()))) == progress


@given(progresses)
def test_a_figure_is_missing_just_where_its_quality_says_so(progress: PhaseProgress) -> None:
    for index in ("rpi", "epi", "mpi", "kpi", "iopi", "te"):
        assert (getattr(progress, index) is None) == (progress.quality[index] is Quality.UNAVAILABLE)


@given(ledgers())
def test_what_belongs_to_a_test_and_what_does_not_is_all_there_is(ledger: Ledger) -> None:
    first = {thread.key for thread in ledger.threads[:1]}
    ours = lap_of(ledger, lambda thread: thread.key in first)
    theirs = lap_of(ledger, lambda thread: thread.key not in first)
    whole = lap_of(ledger, lambda thread: True)
    assert whole.others == 0
    for kind in Kind:
        assert ours.time[kind] + theirs.time[kind] == whole.time[kind]
    own = sum(time for thread in ledger.threads[:1] for kind, time in thread.times().items() if kind.in_rpi)
    assert theirs.others == own


@given(laps, laps)
def test_the_indices_are_those_of_all_laps_together(a: Lap, b: Lap) -> None:
    apart = together(([a], 3), ([b], 4))
    assert apart == together(([a, b], 7))
    assert apart.unit == ("cycles" if a.cycles is not None and b.cycles is not None else "ns")
    if apart.rpi is not None:
        amounts = [lap.cycles if apart.unit == "cycles" else lap.time for lap in (a, b)]
        assert apart.rpi == sum(had[kind] for had in amounts if had is not None for kind in Kind if kind.in_rpi)
