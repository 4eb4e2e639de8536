"""A recording cut into intervals: nothing is lost between them, and each keeps the law."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.model import Behind, Ledger, violations
from headway.recording.intervals import RecordedIntervals
from headway.recording.reader import Recording
from headway.recording.writer import RecordingWriter

from ..recordings import WAITS, Run, document
from .test_ledger import QUICK, seeds, write


def totals(ledgers: list[Ledger]) -> dict[tuple[tuple[int, int], str], tuple[int, int]]:
    """Thread and state -> time and occurrences, of all of them."""
    found: defaultdict[tuple[tuple[int, int], str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for ledger in ledgers:
        for thread in ledger.threads:
            for state, cell in thread.states.items():
                time, count = found[thread.key, state]
                found[thread.key, state] = time + cell.time, count + (cell.count or 0)
    return dict(found)


def spans(ledgers: list[Ledger]) -> dict[tuple[int, int], int]:
    found: defaultdict[tuple[int, int], int] = defaultdict(int)
    for ledger in ledgers:
        for thread in ledger.threads:
            found[thread.key] += thread.span
    return {key: span for key, span in found.items() if span}


@settings(deadline=None, phases=QUICK, max_examples=15)
@given(seeds, st.integers(1, 8), st.integers(1, 60), st.integers(1, 90))
@example(86, 1, 1, 1)  # a window of 0 ns
def test_the_intervals_add_up_to_the_recording(seed: int, batches: int, rows: int, parts: int) -> None:
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "run.hw"
        whole = write(path, Run(Random(seed)), batches, rows=rows)
        if not whole.window.duration:
            with pytest.raises(HeadwayError, match="no complete part to show"):
                RecordedIntervals(str(path), 1)
            return
        with RecordedIntervals(str(path), max(whole.window.duration // parts, 1)) as intervals:
            ledgers = intervals.ledgers(intervals.number - 1, intervals.number)
    assert len(ledgers) == intervals.number
    assert ledgers[0].window.start == whole.window.start == intervals.began
    assert ledgers[-1].window.end == whole.window.end
    for ledger in ledgers:
        assert violations(ledger) == []
        assert ledger.precision == whole.precision
    assert spans(ledgers) == spans([whole])
    found, expected = totals(ledgers), totals([whole])
    for (key, state), (time, count) in expected.items():
        assert found.get((key, state), (0, 0))[1] == count
        # What the observer took is divided as the rows are; where it was taken from may lie in another interval.
        moved = sum(expected.get((key, s), (0, 0))[0] for s in ("overhead", "stolen", "noneffective.parse"))
        assert abs(found.get((key, state), (0, 0))[0] - time) <= moved
        assert state not in WAITS or moved or found[key, state][0] == time
    on_cpu = {cpu.cpu: cpu.span for cpu in whole.processors}
    for cpu, span in on_cpu.items():
        assert sum(p.span for ledger in ledgers for p in ledger.processors if p.cpu == cpu) == span


@settings(deadline=None, phases=QUICK, max_examples=10)
@given(seeds, st.integers(1, 8))
def test_one_that_was_not_closed_is_shown_until_its_last_part(seed: int, batches: int) -> None:
    run = Run(Random(seed))
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "run.hw"
        writer = RecordingWriter(path, document(run.start), rows=7, seconds=0.0)
        for batch in run.batches(batches, 10):
            writer.add(batch)
        writer.abandon()
        with Recording(path) as recording:
            whole = recording.ledger()
        if whole.window.duration:
            with RecordedIntervals(str(path), max(whole.window.duration // 9, 1)) as intervals:
                assert spans(intervals.ledgers(intervals.number - 1, intervals.number)) == spans([whole])


def test_half_as_long_and_twice_as_long_begin_where_they_were(tmp_path: Path) -> None:
    path = tmp_path / "run.hw"
    whole = write(path, Run(Random(5), longest=10**8), 6)
    with RecordedIntervals(str(path)) as intervals:
        length, last = intervals.length, intervals.number - 1
        begin = intervals.ledgers(last, 1)[0].window.start
        halved = intervals.rescaled(True, last)
        assert halved == 2 * last
        assert intervals.length == length // 2
        assert intervals.ledgers(halved, 1)[0].window.start == begin
        while intervals.rescaled(False, 0) is not None:
            pass
        assert intervals.length < 2 * whole.window.duration
        assert intervals.rescaled(False, 0) is None


def test_a_wait_says_in_every_interval_who_ended_it(tmp_path: Path) -> None:
    path = tmp_path / "run.hw"
    write(path, Run(Random(3)), 8)
    with RecordedIntervals(str(path)) as intervals:
        ledgers = intervals.ledgers(intervals.number - 1, intervals.number)
    causes = [cause for ledger in ledgers for thread in ledger.threads for cause in thread.causes]
    assert {cause.behind for cause in causes} == {Behind.WAKER}
    assert {"irq.timer"} < {cause.name for cause in causes}
    assert 4711 in {cause.tid for cause in causes}


def test_what_is_not_one_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="nothing"):
        RecordedIntervals(str(tmp_path / "nothing.hw"))
    for name in ("a.hw", "b.hw"):
        write(tmp_path / name, Run(Random(1)), 2)
    with pytest.raises(HeadwayError, match="2 recordings: give one"):
        RecordedIntervals(str(tmp_path))


def test_one_without_any_time_is_refused(tmp_path: Path) -> None:
    RecordingWriter(tmp_path / "run.hw", document(1000))
    with pytest.raises(HeadwayError, match="no complete part to show"):
        RecordedIntervals(str(tmp_path / "run.hw"))
