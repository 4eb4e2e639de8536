from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.views.figures import share, with_unit

SCALES = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9, "h": 3600 * 10**9}


@given(st.integers(0, 10**18), st.sampled_from(["ns", "cycles"]), st.integers(5, 9), st.sampled_from(["", " "]))
def test_a_figure_is_never_wider_than_it_may_be(value: int, unit: str, width: int, gap: str) -> None:
    assert 0 < len(with_unit(value, unit, width + len(gap), gap)) <= width + len(gap)


@given(st.integers(1, 10**17))
def test_a_time_is_what_it_says_to_its_last_digit(value: int) -> None:
    text = with_unit(value, "ns", 7, " ")
    number, unit = text.split(" ")
    digits = len(number.partition(".")[2])
    assert abs(float(number) * SCALES[unit] - value) <= SCALES[unit] / 10**digits * 0.5001
    assert len(number.replace(".", "")) >= min(3, len(str(value)))


@pytest.mark.parametrize(
    ("value", "narrow", "wide"),
    [
        (0, "·", "·"),
        (931, "931ns", "931 ns"),
        (1_000, "1.0µs", "1.00 µs"),
        (999_600, "1.0ms", "1.00 ms"),
        (75_123_000, "75ms", "75.1 ms"),
        (9_412_345_678, "9.41s", "9.412 s"),
        (9_999_600_000, "10.0s", "10.00 s"),
        (9_999_900_000_000, "2.78h", "2.778 h"),
    ],
)
def test_times_have_a_unit_that_fits_the_width(value: int, narrow: str, wide: str) -> None:
    assert with_unit(value, "ns", 5) == narrow
    assert with_unit(value, "ns", 7, " ") == wide


@pytest.mark.parametrize(
    ("value", "narrow", "wide"),
    [(7, "7", "7"), (9_999, "9,999", "9,999"), (123_456, "123k", "123,456"), (1_234_567, "1.23M", "1.235M")],
)
def test_cycles_have_a_unit_that_fits_the_width(value: int, narrow: str, wide: str) -> None:
    assert with_unit(value, "cycles", 5) == narrow
    assert with_unit(value, "cycles", 7, " ") == wide


def test_a_share_is_printed_in_per_cent() -> None:
    assert [share(x) for x in (None, 0.0, 0.624, 1.0)] == ["–", "0 %", "62 %", "100 %"]
