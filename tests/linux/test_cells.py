"""What a thread did between two readings: nothing negative, nothing lost, and all told once, whatever came late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway.linux.bpf._memory import Cells

STATES = ("user", "ready", "wait.futex", "kernel.read")
totals = st.dictionaries(st.sampled_from(STATES), st.tuples(st.integers(0, 10**6), st.integers(0, 100)), min_size=1)


def cells(of: dict[str, tuple[int, int]]) -> Cells:
    return Cells.of((state, *figures) for state, figures in of.items())


def figures(of: Cells) -> dict[str, tuple[int, int | None]]:
    return {state: (cell.time, cell.count) for state, cell in of.items() if cell.time or cell.count}


@given(totals, totals)
def test_what_came_since_is_the_difference_where_nothing_came_late(
    before: dict[str, tuple[int, int]], more: dict[str, tuple[int, int]]
) -> None:
    after = {s: tuple(map(sum, zip(before.get(s, (0, 0)), more.get(s, (0, 0)), strict=True))) for s in {*before, *more}}
    since = cells(after).less(cells(before))  # type: ignore[arg-type]
    assert not since.settled
    assert figures(since) == {state: new for state, new in more.items() if any(new)}


@given(totals, st.data())
def test_what_was_told_too_early_is_made_up_for_by_what_was_there_in_truth(
    told: dict[str, tuple[int, int]], data: st.DataObject
) -> None:
    """A reading told more of a state than there was; the time between the readings is at least as long."""
    late = data.draw(st.sampled_from(sorted(told)))
    early = data.draw(st.integers(0, told[late][0]))
    truth = {**told, late: (told[late][0] - early, told[late][1])}
    other = data.draw(st.sampled_from([state for state in STATES if state != late]))
    grown = early + data.draw(st.integers(0, 10**6))
    truth[other] = (truth.get(other, (0, 0))[0] + grown, truth.get(other, (0, 0))[1] + 1)
    since = cells(truth).less(cells(told))
    assert since.settled == (early > 0)
    assert all(cell.time >= 0 and (cell.count or 0) >= 0 for cell in since.values())
    assert since.total == grown - early
    both = cells(told).plus(since)
    assert both.total == sum(time for time, _ in truth.values())


@given(totals)
def test_a_reading_and_what_came_since_are_the_next_reading(before: dict[str, tuple[int, int]]) -> None:
    nothing = cells(before).less(cells(before))
    assert figures(nothing) == {}
    assert figures(cells(before).plus(nothing)) == figures(cells(before))
