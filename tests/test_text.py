"""Text from outside: what is a number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.text import is_number

pytestmark = pytest.mark.unit


@given(st.integers(0, 10**18 - 1))
def test_a_number_of_up_to_18_digits_is_one_and_fits_63_bits(number: int) -> None:
    assert is_number(str(number))
    assert number < 1 << 63


@given(st.text(max_size=25) | st.from_regex(r"[0-9+\-_ ]{1,25}", fullmatch=True), st.integers(1, 20))
def test_a_number_has_ascii_digits_alone_and_not_too_many(text: str, digits: int) -> None:
    assert is_number(text, digits) == (0 < len(text) <= digits and set(text) <= set("0123456789"))
