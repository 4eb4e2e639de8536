"""Numbers that were packed come back."""

from __future__ import annotations

import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headway.views.html.deflate import deflate
from headway.views.html.packing import length, low_and_high, varints, zigzag

from .reading import Reader

many = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 300), max_size=50)


@given(many)
def test_varints_are_read_as_they_were_written(values: list[int]) -> None:
    reader = Reader(varints(np.array(values, np.int64)))
    assert [reader.number() for _ in values] == values
    assert reader.done


@given(many)
def test_numbers_are_read_from_their_lowest_bytes_and_the_rest(values: list[int]) -> None:
    reader = Reader(low_and_high(np.array(values, np.int64)))
    assert reader.low_and_high(len(values)) == values
    assert reader.done


@given(st.lists(st.integers(-(2**62), 2**62 - 1)))
def test_numbers_of_either_sign_are_read_as_they_were_written(values: list[int]) -> None:
    reader = Reader(varints(zigzag(np.array(values, np.int64))))
    assert [reader.signed() for _ in values] == values


@given(st.binary())
def test_what_is_deflated_has_no_header(data: bytes) -> None:
    assert zlib.decompress(deflate(data), -15) == data


def test_a_varint_of_300_has_two_bytes() -> None:
    assert length(1, 300) == b"\x01\xac\x02"
