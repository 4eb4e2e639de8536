"""Rows of named columns: what is a time reads as one, and a table is no wider than there is room."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from headway.views.printable import width_of
from headway.views.rows import write_rows


def written(columns: list[str], rows: list[list[int | float | str | None]], **options: object) -> list[str]:
    stream = io.StringIO()
    write_rows(stream, columns, rows, "table", **options)  # type: ignore[arg-type]
    return stream.getvalue().splitlines()


def test_times_cycles_and_shares_are_shown_with_their_unit() -> None:
    rows: list[list[int | float | str | None]] = [["a", 1_500_000, 12_345, 0.25], ["b", -2_000, None, None]]
    units = {"time": "ns", "cycles": "cycles", "busy": "1"}
    lines = written(["name", "time", "cycles", "busy"], rows, units=units)
    assert [line.split(maxsplit=3) for line in lines[1:]] == [
        ["a", "1.500ms", "12,345", "25 %"],
        ["b", "-2.00µs", "-", "-"],
    ]
    assert len({len(line) for line in lines}) == 1


texts = st.lists(st.lists(st.text(max_size=60), min_size=3, max_size=3), max_size=20)


@given(texts, st.integers(40, 120))
def test_text_is_cut_until_a_table_fits(rows: list[list[int | float | str | None]], width: int) -> None:
    lines = written(["one", "two", "three"], rows, width=width)
    assert len(lines) == len(rows) + 1
    assert max(map(width_of, lines)) <= width


def test_where_room_is_short_columns_without_a_figure_are_left_out() -> None:
    rows: list[list[int | float | str | None]] = [["thread", 5_000_000, 0, 7]]
    columns = ["name", "lost", "stolen", "count"]
    units = {"lost": "ns", "stolen": "ns"}
    assert written(columns, rows, width=80, units=units)[0].split() == columns
    assert written(columns, rows, width=25, units=units)[0].split() == ["name", "lost", "count"]
