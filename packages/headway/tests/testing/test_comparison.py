from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model import Quality
from headway.testing.baseline import BaselineEntry, entry_of
from headway.testing.comparison import compare
from headway.testing.progress import PhaseProgress
from headway.testing.record import Record

from .progresses import progress


def entry(*rounds: PhaseProgress) -> BaselineEntry:
    record = Record()
    record.phases["call"] = list(rounds)
    found = entry_of(record)
    assert found is not None
    return found


@given(st.integers(1, 10**12), st.integers(1, 10**12), st.floats(0, 10))
def test_slower_is_more_than_the_threshold_allows(now: int, before: int, threshold: float) -> None:
    verdict = compare(entry(progress(now)), entry(progress(before)), threshold, None)
    assert verdict.slower == (now > before * (1 + threshold))
    assert verdict.change is not None
    assert (verdict.change > 0) == (now > before)


def test_a_difference_within_the_spread_of_the_rounds_is_above_but_not_slower() -> None:
    before = entry(*(progress(epi) for epi in (1000, 1000, 1000)))
    verdict = compare(entry(*(progress(epi) for epi in (800, 1200, 1600))), before, 0.1, None)
    assert verdict.above
    assert not verdict.slower


def test_a_difference_of_what_an_empty_test_has_is_none() -> None:
    now, before = entry(progress(30_000)), entry(progress(15_000))
    assert compare(now, before, 0.1, None).slower
    assert not compare(now, before, 0.1, progress(20_000)).slower


def test_where_effective_progress_is_sampled_all_processor_time_is_compared() -> None:
    exact, sampled = entry(progress(1000)), entry(progress(1000, quality=Quality.SAMPLED))
    assert compare(exact, exact, 0.1, None).figure == "epi"
    assert compare(exact, sampled, 0.1, None).figure == "rpi"
    assert compare(sampled, exact, 0.1, None).figure == "rpi"


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (None, "not in the baseline"),
        (entry(progress(1000, unit="cycles")), "in ns, the baseline's in cycles"),
        (BaselineEntry("ns", {}, {}), "no figure that both runs have"),
    ],
)
def test_what_cannot_be_compared_says_why(before: BaselineEntry | None, why: str) -> None:
    verdict = compare(entry(progress(1000)), before, 0.1, None)
    assert verdict.why_not == why
    assert verdict.change is None
    assert not verdict.slower
