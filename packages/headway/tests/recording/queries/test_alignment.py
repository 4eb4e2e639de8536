"""Clocks of several machines on one axis, and how well that is known."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.recording.clock import Anchor
from headway.recording.queries.alignment import SLEW, lines
from headway.recording.queries.tables import open_tables

from .runs import SECOND, lawful, write

DAY = 1_795_262_400 * SECOND


def drifting(gaps: list[tuple[int, int]]) -> list[Anchor]:
    """Anchors that are so far apart, and how much the clock of the day gained meanwhile."""
    monotonic, realtime = 10**12, DAY
    found = [Anchor(monotonic, realtime, 100)]
    for passed, gained in gaps:
        monotonic += passed
        realtime += passed + gained
        found.append(Anchor(monotonic, realtime, 100))
    return found


gaps = st.lists(st.tuples(st.integers(SECOND, 100 * SECOND), st.integers(-400_000, 400_000)), max_size=20)


@given(gaps)
def test_every_anchor_is_met_within_the_uncertainty_that_is_stated(gaps: list[tuple[int, int]]) -> None:
    anchors = drifting(gaps)
    found = lines(anchors)
    assert len(found) <= max(len(anchors) - 1, 1)
    for one, two in pairwise(found):
        assert one.end == two.start
    for anchor in anchors:
        (line,) = (line for line in found if line.start <= anchor.monotonic < line.end)
        assert abs(line.realtime(anchor.monotonic) - anchor.realtime) <= line.uncertain(anchor.monotonic)


@given(gaps, st.integers(-(10**12), 10**13))
def test_realtime_and_back_is_the_same_moment(gaps: list[tuple[int, int]], time: int) -> None:
    for line in lines(drifting(gaps)):
        assert abs(line.monotonic(line.realtime(time)) - time) <= 1


def test_a_clock_that_runs_evenly_is_one_line() -> None:
    (line,) = lines(drifting([(10 * SECOND, 1000)] * 50))
    assert line.drift == pytest.approx(1e-7)
    assert line.uncertainty == 100
    assert line.uncertain(line.known_until + SECOND) == 100 + SLEW * SECOND


def test_a_clock_that_was_set_is_uncertain_by_as_much() -> None:
    found = lines(drifting([(SECOND, 0), (SECOND, 3600 * SECOND), (SECOND, 0)]))
    assert [line.uncertainty for line in found] == [100, 3600 * SECOND + 100, 100]
    assert found[1].drift == 0


def test_no_anchor_gives_no_line_and_one_anchor_gives_one() -> None:
    assert lines([]) == ()
    (line,) = lines([Anchor(5, 1000, 7)])
    assert line.realtime(10) == 1005
    assert line.uncertain(5) == 7


def test_rows_of_two_machines_are_aligned(tmp_path: Path) -> None:
    anchors = {}
    for host, seed in (("one", 1), ("two", 2)):
        recorded = lawful(Random(seed))
        recorded.host = host
        ends = recorded.start, recorded.end
        found = [
            {"monotonic": t, "realtime": DAY + t - ends[0] + n * 999, "uncertainty": 50} for n, t in enumerate(ends)
        ]
        recorded.anchors = found
        anchors[host] = lines([Anchor(**anchor) for anchor in found])
        write(recorded, tmp_path / f"host={host}" / "run=1")
    with open_tables(str(tmp_path / "host=*/run=*/")) as tables:
        rows: list[Any] = list(tables.ask_user("SELECT host, run, time, realtime, uncertainty FROM aligned").rows)
        count = list(tables.ask_user("SELECT count(*) FROM transitions").rows)
    assert len(rows) == count[0][0]
    for host, run, time, realtime, uncertainty in rows:
        (line,) = anchors[host]
        assert run == "1"
        assert realtime == line.realtime(time)
        assert uncertainty == line.uncertain(time)
