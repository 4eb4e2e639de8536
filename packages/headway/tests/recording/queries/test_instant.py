"""The state at an instant is what the rows say, and what they do not say is not guessed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.recording.clock import Anchor
from headway.recording.queries.catalogue import RecordedRun, find
from headway.recording.queries.instant import Doing, at
from headway.recording.queries.times import instant_of

from ...effort import FEW
from .runs import Recorded, Row, lawful, write

SECOND = 10**9


def wake_of(recorded: Recorded, wait: Row | None) -> tuple[int, str | None, int | None, str | None] | None:
    names = {thread.thread: thread for thread in recorded.threads}
    if wait is None or (wait.waker is None and wait.waker_tid is None and wait.waker_state is None):
        return None
    who = names.get(wait.waker) if wait.waker is not None else None
    if who is None and wait.waker is not None:
        return None  # one that began later, or that is not known yet
    return wait.end, who.name if who else None, who.tid if who else wait.waker_tid, wait.waker_state


def brute(recorded: Recorded, time: int, end: int) -> dict[int, tuple[object, ...]]:
    """tid -> state, since, until, cpu and wake-up."""
    found: dict[int, tuple[object, ...]] = {}
    for thread in recorded.threads:
        if not thread.start <= time or (thread.end is not None and thread.end <= time):
            continue
        mine = [row for row in recorded.rows if row.thread == thread.thread and row.duration]
        row = next((row for row in mine if row.time <= time < row.end), None)
        if row is None:
            found[thread.tid] = ("unknown", None, None, None, None)
            continue
        past = [r for r in mine if r.state.startswith("wait") and r.end <= time]
        wait = row if row.state.startswith("wait") else max(past, key=lambda r: r.end, default=None)
        ended = row.end < end
        found[thread.tid] = (row.state, row.time, row.end if ended else None, row.cpu, wake_of(recorded, wait))
    return found


def told(doing: Doing, end: int) -> tuple[object, ...]:
    wake = doing.wake and (doing.wake.time, doing.wake.thread, doing.wake.tid, doing.wake.state)
    until = doing.until if doing.until is not None and doing.until < end else None
    return doing.state, doing.since, until, doing.cpu, wake


@settings(max_examples=4 if FEW else 8, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_at_is_what_the_rows_say(seed: int, closed: bool) -> None:
    random = Random(seed)
    recorded = lawful(random)
    parts = None if closed else random.randrange(1, len(recorded.edges) - 1)
    known = recorded if parts is None else recorded.until(parts)
    with TemporaryDirectory() as scratch:
        (run,) = find(str(write(recorded, Path(scratch) / "run.hw", parts=parts))).runs
        moments = [known.start, known.end - 1, random.randrange(known.start, known.end)]
        moments += [row.time for row in random.sample(known.rows, min(1, len(known.rows))) if row.time < known.end]
        for time in moments:
            found = at(run, f"{time - run.start}ns")
            assert found.time == time
            assert {d.tid: told(d, known.end) for d in found.threads} == brute(known, time, known.end)


def test_what_is_outside_of_a_recording_is_said(tmp_path: Path) -> None:
    recorded = lawful(Random(5))
    (run,) = find(str(write(recorded, tmp_path / "run.hw"))).runs
    length = recorded.end - recorded.start
    with pytest.raises(HeadwayError, match=rf"ends before that: it covers 0 to {length / 1e9:.9g} s$"):
        at(run, f"{length}ns")
    recorded.cuts = [recorded.start + length // 2]
    (open_,) = find(str(write(recorded, tmp_path / "open.hw", parts=1))).runs
    with pytest.raises(HeadwayError, match="is not closed and its complete parts end before that"):
        at(open_, f"{length // 2 + 1}ns")
    (empty,) = find(str(write(recorded, tmp_path / "empty.hw", parts=0))).runs
    with pytest.raises(HeadwayError, match="nothing yet"):
        at(empty, "0")


def run_of(anchors: tuple[Anchor, ...] = (), unit: str = "ns") -> RecordedRun:
    return RecordedRun("h", "r", "/r.hw", True, 5 * SECOND, 5 * SECOND, 100 * SECOND, unit, anchors, {})


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("3.2s", 3_200_000_000),
        ("3.2", 3_200_000_000),
        ("0", 0),
        ("150ms", 150_000_000),
        ("7 us", 7_000),
        ("7µs", 7_000),
        ("12345ns", 12_345),
        ("1.5m", 90 * SECOND),
        ("0.000000001s", 1),
        ("0.0000000019s", 1),
    ],
)
def test_times_since_the_start(text: str, time: int) -> None:
    assert instant_of(text, run_of()) == 5 * SECOND + time


def test_times_of_day_go_through_the_anchors() -> None:
    day = 1_795_262_400 * SECOND  # 2026-11-21T12:00:00Z
    run = run_of((Anchor(10 * SECOND, day, 50),))
    assert instant_of("2026-11-21T12:00:03.2Z", run) == 13_200_000_000
    assert instant_of("2026-11-21 13:00:03.2+01:00", run) == 13_200_000_000
    assert instant_of("2026-11-21T12:00:00.000000001Z", run) == 10 * SECOND + 1
    with pytest.raises(HeadwayError, match="does not say what time of day"):
        instant_of("2026-11-21T12:00:03.2", run_of())
    with pytest.raises(HeadwayError, match="is not a time of day"):
        instant_of("2026-13-41T12:00:03.2", run)


@pytest.mark.parametrize("text", ["", "soon", "-1s", "1e3s", "3,2s", "1d", "٣s", "9" * 40])
def test_what_is_no_instant_is_said(text: str) -> None:
    with pytest.raises(HeadwayError, match="is not an instant"):
        instant_of(text, run_of())


def test_a_run_of_the_machine_has_cycles() -> None:
    run = run_of(unit="cycles")
    assert instant_of("120345", run) == 5 * SECOND + 120345
    with pytest.raises(HeadwayError, match="give the cycle"):
        instant_of("3.2s", run)


def test_the_uncertainty_of_the_time_of_day_is_told(tmp_path: Path) -> None:
    recorded = lawful(Random(6))
    recorded.anchors = [{"monotonic": recorded.start, "realtime": 10**18, "uncertainty": 70}]
    (run,) = find(str(write(recorded, tmp_path / "run.hw"))).runs
    found = at(run, "0.01")
    assert (found.realtime, found.uncertainty) == (10**18 + 10**7, 70 + 5_000)
    assert at(replace(run, anchors=()), "0.01").realtime is None
