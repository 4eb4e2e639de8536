import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import cells

from headway.model import Cell

FIGURES = ("count", "cycles", "instructions", "stall_cycles", "memory_stall_cycles", "external_stall_cycles")


@given(cells, cells, cells)
def test_addition_is_associative(a: Cell, b: Cell, c: Cell) -> None:
    assert (a + b) + c == a + (b + c)


@given(cells, cells)
def test_addition_is_commutative(a: Cell, b: Cell) -> None:
    assert a + b == b + a


@given(cells, cells)
def test_a_sum_of_which_one_part_is_not_known_is_not_known(a: Cell, b: Cell) -> None:
    for figure in FIGURES:
        parts = getattr(a, figure), getattr(b, figure)
        assert getattr(a + b, figure) == (None if None in parts else sum(parts))


@given(cells, cells)
def test_subtracting_what_was_added_leaves_what_was_there(a: Cell, b: Cell) -> None:
    rest = (a + b) - b
    assert rest.time == a.time
    for figure in FIGURES:
        known = getattr(b, figure) is not None
        assert getattr(rest, figure) == (getattr(a, figure) if known else None)


@given(cells, cells)
def test_an_event_that_one_part_does_not_know_is_not_known_of_the_sum(a: Cell, b: Cell) -> None:
    there = {**(a.events or {}), **(b.events or {})}
    together = (a + b).events
    assert (together is None) == (a.events is None and b.events is None)
    for name in there:
        x, y = (a.events or {}).get(name), (b.events or {}).get(name)
        assert together is not None
        assert together[name] == (None if x is None or y is None else x + y)


@given(cells, cells)
def test_what_an_event_gained_is_what_was_there_less_what_was_before(a: Cell, b: Cell) -> None:
    rest = ((a + b) - b).events or {}
    for name, known in (b.events or {}).items():
        assert rest[name] == ((a.events or {}).get(name) if known is not None else None)


@given(cells)
def test_a_cell_is_empty_if_nothing_known_was_gathered_in_it(a: Cell) -> None:
    figures = [value for field in fields(a) if isinstance(value := getattr(a, field.name), int)]
    assert a.empty == (not any(figures) and not any((a.events or {}).values()))
    assert Cell().empty


@given(cells, st.integers(0, 99))
def test_cells_are_values(a: Cell, n: int) -> None:
    assert copy.deepcopy(a) == pickle.loads(pickle.dumps(a)) == replace(a) == a
    assert replace(a, count=n).count == n
    assert hash(replace(a)) == hash(a)
    with pytest.raises(FrozenInstanceError):
        a.time = 1  # type: ignore[misc]
