"""Two runs at equal progress: every unit of time is in one tenth, and a run differs in nothing from itself."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.model import Kind, kind_of
from headway.recording.queries.catalogue import find
from headway.recording.queries.comparison import PIECES, TENTHS, Course, compare, course_of

from ...effort import FEW
from .runs import Recorded, Row, Thread, lawful, ledger, write

SECOND = 10**9


def course(folder: Path, recorded: Recorded, parts: int | None = None, name: str | None = None) -> Course:
    path = write(recorded, folder / str(len(list(folder.iterdir()))), parts=parts)
    return course_of(find(str(path)).runs[0], name)


def by_name(recorded: Recorded) -> dict[tuple[str, str], int]:
    names = {thread.thread: thread.name for thread in recorded.threads}
    found: dict[tuple[str, str], int] = defaultdict(int)
    for (number, state), (time, _) in ledger(recorded.rows).items():
        found[names[number], state] += time
    return {key: time for key, time in found.items() if time}


@settings(max_examples=4 if FEW else 10, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_cut_into_pieces_it_is_still_the_ledger(seed: int, closed: bool) -> None:
    random = Random(seed)
    recorded = lawful(random)
    parts = None if closed else random.randrange(1, len(recorded.edges) - 1)
    known = recorded if parts is None else recorded.until(parts)
    with TemporaryDirectory() as scratch:
        found = course(Path(scratch), recorded, parts)
    totals: dict[tuple[str, str], int] = defaultdict(int)
    for key, amount in zip(found.key.tolist(), found.amount.tolist(), strict=True):
        totals[found.keys[key]] += amount
    assert {key: time for key, time in totals.items() if time} == by_name(known)


def brute_progress(recorded: Recorded, until: float) -> float:
    """Progress so far, each stretch taken to pass evenly."""
    total = 0.0
    for row in recorded.rows:
        if row.thread is not None and row.state == "user" and row.duration:
            share = min(max((until - row.time) / row.duration, 0), 1)
            total += (row.duration - row.taken) * share
    return total


@settings(max_examples=4 if FEW else 10, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.01, 0.99))
def test_progress_is_reached_when_the_rows_say_to_within_a_piece(seed: int, part: float) -> None:
    recorded = lawful(Random(seed))
    with TemporaryDirectory() as scratch:
        found = course(Path(scratch), recorded)
    total = int(found.progress().sum())
    assume(total > 0)
    wanted = int(total * part)
    reached = recorded.start + float(found.reaches(wanted)) * found.piece
    assert brute_progress(recorded, reached - found.piece) <= wanted + 2
    assert brute_progress(recorded, reached + found.piece) >= wanted - 2


@settings(max_examples=4 if FEW else 8, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_the_tenths_add_up_to_the_progress_that_both_made(first: int, second: int) -> None:
    with TemporaryDirectory() as scratch:
        a, b = (course(Path(scratch), lawful(Random(seed))) for seed in (first, second))
    assume(a.progress().sum() and b.progress().sum())
    found = compare(a, b)
    assert found.common == min(found.progress_a, found.progress_b)
    assert len(found.tenths) == TENTHS
    for side, whole in enumerate((a, b)):
        tenths = [pair[side] for pair in found.tenths]
        made = sum(tenth.kinds[Kind.EFFECTIVE] for tenth in tenths)
        assert found.common - len(whole.keys) <= made <= found.common
        for tenth in tenths:
            assert tenth.time >= 0
            assert abs(tenth.kinds[Kind.EFFECTIVE] - found.common / TENTHS) <= len(whole.keys) + 1
        had = [share.b if side else share.a for share in found.shares]
        assert sum(had) == sum(sum(tenth.kinds.values()) for tenth in tenths)
        assert sum(tenth.time for tenth in tenths) <= whole.length + whole.piece
    assert [abs(s.difference) for s in found.shares] == sorted((abs(s.difference) for s in found.shares), reverse=True)


def test_a_run_differs_in_nothing_from_itself(tmp_path: Path) -> None:
    a = course(tmp_path, lawful(Random(7)))
    found = compare(a, a)
    assert not any(share.difference for share in found.shares)
    assert found.time[0] == found.time[1]
    assert all(one == other for one, other in found.tenths)


def steady(work: int, wait: int, loops: int = 1000, start: int = 10**9) -> Recorded:
    """One thread that works and waits in turn."""
    rows = []
    time = start
    for _ in range(loops):
        rows += [Row(time, work, 0, 0, 0, "user"), Row(time + work, wait, 0, None, 0, "wait.futex")]
        time += work + wait
    return Recorded(start, time, rows, [Thread(0, 100, 100, "worker", start, start, None)])


def test_where_the_second_run_is_slower_is_found(tmp_path: Path) -> None:
    a = course(tmp_path, steady(1_000_000, 500_000))
    b = course(tmp_path, steady(1_000_000, 800_000, loops=1500))
    found = compare(a, b)
    assert found.common == found.progress_a == SECOND
    assert found.progress_b == 1_500_000_000
    time_a, time_b = found.time
    assert time_a == pytest.approx(1.5 * SECOND, rel=2e-3)
    assert time_b == pytest.approx(1.8 * SECOND, rel=2e-3)
    assert found.shares[0].state == "wait.futex"
    assert found.shares[0].difference == pytest.approx(0.3 * SECOND, rel=2e-2)
    for one, other in found.tenths:
        assert other.kinds[Kind.WAIT] - one.kinds[Kind.WAIT] == pytest.approx(0.03 * SECOND, rel=5e-2)


def test_one_name_has_its_own_progress(tmp_path: Path) -> None:
    recorded = lawful(Random(8), threads=6)
    for thread in recorded.threads:
        found = course(tmp_path, recorded, name=thread.name)
        assert {name for name, _ in found.keys} == {thread.name}
    with pytest.raises(HeadwayError, match="no such thread made progress"):
        compare(a := course(tmp_path, recorded, name="nobody"), a)


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    recorded = lawful(Random(9))
    with pytest.raises(HeadwayError, match="has no complete part"):
        course(tmp_path, recorded, parts=0)
    idle = steady(1_000_000, 500_000)
    idle.rows = [row._replace(state="kernel.read") for row in idle.rows]
    with pytest.raises(HeadwayError, match="made progress in"):
        compare(course(tmp_path, steady(10, 10)), course(tmp_path, idle))


def test_pieces_cover_the_run(tmp_path: Path) -> None:
    found = course(tmp_path, steady(7, 3, loops=10))
    assert found.piece * PIECES >= found.length
    assert all(kind_of(state) in (Kind.EFFECTIVE, Kind.WAIT) for _, state in found.keys)
