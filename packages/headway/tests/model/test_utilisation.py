from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples import rows, samples

from headway.model import ALL, Cell, Sample, Utilisation, across, joined


@given(rows())
def test_busy_idle_and_stolen_are_the_whole_span(row: Utilisation) -> None:
    if row.dropped is not None:
        assert (row.busy, row.halted, row.stolen, row.utilisation, row.effective_hz) == (None,) * 5
        return
    assert row.span is not None
    assert row.busy is not None
    assert row.halted is not None
    assert row.stolen is not None
    assert row.busy + row.halted + row.stolen == row.span
    assert row.utilisation is None or 0 <= row.utilisation <= 1


@given(rows())
def test_utilisation_by_counters_is_effective_by_actual_frequency(row: Utilisation) -> None:
    if row.unhalted is not None:
        assert row.ticks is not None
        assert row.span is not None
        assert row.actual_hz is not None
        assert row.unhalted * row.actual_hz * row.span == pytest.approx(row.ticks * 1e9)


def test_busy_ticks_by_the_interval_are_the_effective_frequency() -> None:
    row = Utilisation(0, 300_000_000, {"user": Cell(100_000_000), "idle": Cell(200_000_000)}, 340_000_000, 3.4e9)
    assert row.effective_hz == pytest.approx(340e6 / 0.3)
    assert row.utilisation == pytest.approx(1 / 3)
    assert row.unhalted == pytest.approx(1 / 3)


@given(st.lists(rows(), min_size=1, max_size=5))
def test_several_as_one_have_what_each_of_them_had(parts: list[Utilisation]) -> None:
    good = [row for row in parts if row.dropped is None]
    if not good:
        return
    whole = joined(0, parts)
    assert whole.dropped is None
    assert whole.span == sum(row.span or 0 for row in good)
    assert whole.busy == sum(row.busy or 0 for row in good)
    assert sum(cell.time for cell in whole.states.values()) == whole.span
    ticks = [row.ticks for row in good]
    assert whole.ticks == (None if None in ticks else sum(count for count in ticks if count is not None))
    assert joined(0, [whole]) == whole


@given(samples(cpus=4))
def test_all_processors_as_one_have_what_each_of_them_had(sample: Sample) -> None:
    good = [row for row in sample.processors if row.dropped is None]
    whole = across(sample)
    assert (whole is None) == (len(good) < 2)
    if whole is not None:
        assert whole.cpu == ALL
        assert whole.busy == sum(row.busy or 0 for row in good)
        shares = [row.utilisation for row in good if row.utilisation is not None]
        if shares and whole.utilisation is not None:
            assert min(shares) - 1e-9 <= whole.utilisation <= max(shares) + 1e-9


@given(st.floats(1e7, 1e10), st.floats(1e7, 1e10))
def test_the_actual_frequency_of_both_lies_between_the_two(first: float, second: float) -> None:
    def at(hz: float) -> Utilisation:
        return Utilisation(0, 1000, {"user": Cell(1000)}, ticks=10_000, actual_hz=hz)

    hz = joined(0, [at(first), at(second)]).actual_hz
    assert hz is not None
    assert min(first, second) * 0.999 <= hz <= max(first, second) * 1.001
