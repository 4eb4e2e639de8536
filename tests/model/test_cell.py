from hypothesis import given
from tests.ledgers import cells

from headway.model import Cell

FIGURES = ("count", "cycles", "instructions", "stall_cycles", "memory_stall_cycles")


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
