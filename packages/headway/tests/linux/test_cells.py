"""What a thread did between two readings: nothing negative, nothing lost, and all told once, whatever came late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway.linux.bpf.threads._cells import Cells
from headway.model import READY_PARTS

READY = ("ready", *READY_PARTS)
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


@given(st.lists(st.tuples(st.sampled_from(READY), st.sampled_from(READY)), min_size=1, max_size=6))
def test_a_time_ready_whose_largest_part_changes_is_counted_once(steps: list[tuple[str, str]]) -> None:
    """It goes on at each reading, and has ended at the next; meanwhile another part may have become the largest."""
    told, ended = cells({}), dict.fromkeys(READY, 0)
    for n, (largest_then, largest) in enumerate(steps):
        going_on = {**ended, largest_then: ended[largest_then] + 1}
        ended[largest] += 1
        for counts in (going_on, ended):
            now = cells({state: (10 * n, count) for state, count in counts.items()})
            new = now.less(told)
            assert all((cell.count or 0) >= 0 for cell in new.values())
            told = told.plus(new)
            assert sum(cell.count or 0 for cell in told.values()) == sum(counts.values())


@given(totals)
def test_a_reading_and_what_came_since_are_the_next_reading(before: dict[str, tuple[int, int]]) -> None:
    nothing = cells(before).less(cells(before))
    assert figures(nothing) == {}
    assert figures(cells(before).plus(nothing)) == figures(cells(before))
