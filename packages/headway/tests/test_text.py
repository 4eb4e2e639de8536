"""Text from outside: what is a number, and what does no harm where it is written."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.text import csv_text, is_number, json_text

pytestmark = pytest.mark.unit


@given(st.integers(0, 10**18 - 1))
def test_a_number_of_up_to_18_digits_is_one_and_fits_63_bits(number: int) -> None:
    assert is_number(str(number))
    assert number < 1 << 63


@given(st.text(max_size=25) | st.from_regex(r"[0-9+\-_ ]{1,25}", fullmatch=True), st.integers(1, 20))
def test_a_number_has_ascii_digits_alone_and_not_too_many(text: str, digits: int) -> None:
    assert is_number(text, digits) == (0 < len(text) <= digits and set(text) <= set("0123456789"))


ACTING = "".join(chr(code) for code in (*range(32), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x061C, 0x2028, 0xFEFF))
hostile = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from(ACTING + "=+-@'\"")))


@given(st.recursive(st.one_of(hostile, st.integers(), st.none()), lambda of: st.dictionaries(hostile, of)))
def test_json_reads_the_same_and_has_no_character_that_acts_on_a_terminal(value: object) -> None:
    for how in ({}, {"indent": 1}):
        text = json_text(value, **how)
        assert json.loads(text) == value
        assert not {*text} & {*ACTING} - {"\n"}


@given(hostile)
def test_a_cell_of_csv_acts_on_no_terminal_and_is_no_formula(text: str) -> None:
    found = csv_text(text)
    assert not {*found} & {*ACTING}
    assert not re.match(r"[=+\-@\t\r]", found) or re.fullmatch(r"[+-][0-9.]+(?:[eE][+-]?[0-9]+)?", found)


@pytest.mark.parametrize("number", ["1", "-1", "+2.5", "-1e9", "-.5", "1e+3"])
def test_numbers_stay_numbers_in_csv(number: str) -> None:
    assert csv_text(number) == number


@pytest.mark.parametrize("formula", ["=cmd()", "+1+cmd()", "-1-cmd()", "@SUM(A1)", "-", "-1\n"])
def test_what_a_spreadsheet_would_compute_is_text(formula: str) -> None:
    assert csv_text(formula) == "'" + formula.replace("\n", "\\x0a")
