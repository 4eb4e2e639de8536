"""Lines of instructions, by the tables of Python's code objects."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from types import CodeType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.binary.python_lines import line_of, ranges

changes = st.lists(st.tuples(st.integers(1, 127), st.integers(-100, 100)), max_size=30)


def codes(of: CodeType) -> Iterator[CodeType]:
    """A code object, and those inside."""
    yield of
    for constant in of.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


@pytest.mark.parametrize("module", [json.decoder, st])
def test_the_lines_are_those_that_python_says(module: object) -> None:
    file = str(getattr(module, "__file__", ""))
    with open(file, encoding="utf-8") as source:
        whole = compile(source.read(), file, "exec")
    for code in codes(whole):
        said = {unit: line for start, end, line in code.co_lines() for unit in range(start // 2, end // 2)}
        mine = ranges(sys.version_info[1], code.co_linetable, code.co_firstlineno)
        assert {unit: line for start, end, line in mine for unit in range(start, end)} == said


@given(changes, st.integers(1, 1000))
def test_tables_of_3_10_are_lengths_and_changes(rows: list[tuple[int, int]], first: int) -> None:
    table = b"".join(bytes((2 * (units % 127), change & 255)) for units, change in rows)
    at, line = 0, first
    for units, change in rows:
        line += change
        if units % 127:
            assert line_of(10, table, first, at) == line_of(10, table, first, at + units % 127 - 1) == line
        at += units % 127
    assert line_of(10, table, first, at) is None


@given(changes, st.integers(1, 1000))
def test_tables_of_3_9_are_changes_of_address_and_line(rows: list[tuple[int, int]], first: int) -> None:
    table = b"".join(bytes((2 * (units % 127), change & 255)) for units, change in rows)
    at, line = 0, first
    for units, change in rows:
        if units % 127:
            assert line_of(9, table, first, at) == line
        at += units % 127
        line += change
    assert line_of(9, table, first, at) == line_of(9, table, first, at + 1000) == line


@given(st.binary(max_size=200), st.integers(0, 1 << 31), st.sampled_from(range(9, 15)))
def test_any_table_is_read(table: bytes, instruction: int, minor: int) -> None:
    line = line_of(minor, table, 1, instruction)
    assert line is None or isinstance(line, int)
