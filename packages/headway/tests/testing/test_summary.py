from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import names

from headway.testing.comparison import Verdict
from headway.testing.summary import SLOWER, UNSURE, SummaryRow, table
from headway.views.printable import clean, width_of

from .progresses import progress, progresses

verdicts = st.none() | st.builds(
    Verdict,
    st.sampled_from(["", "epi", "rpi"]),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.floats(0, 10),
    st.integers(0, 10**9),
    st.just("not in the baseline"),
)
rounds = st.lists(progresses, min_size=1, max_size=3)
parts = st.builds(SummaryRow, names, rounds, verdicts)
rows = st.builds(SummaryRow, names, rounds, verdicts, st.lists(parts, max_size=2))


@given(st.lists(rows, max_size=5), st.integers(80, 200))
def test_whatever_the_names_and_figures_the_table_fits(found: list[SummaryRow], width: int) -> None:
    for text, _ in table(found, width):
        assert width_of(text) <= width
        assert clean(text) == text


def test_the_most_slowed_down_comes_first_whichever_part_of_it_that_is() -> None:
    def row(name: str, now: int, *parts: SummaryRow) -> SummaryRow:
        return SummaryRow(name, [progress(now)], Verdict("epi", now, 1000, 0.1, 0), parts)

    found = table([row("same", 1000), row("slower", 1500), row("faster", 500), row("part", 990, row("[x]", 2000))], 80)
    assert [text.split()[0] for text, _ in found] == ["test", "part", "[x]", "slower", "same", "faster"]
    assert [style for _, style in found[1:4]] == ["", SLOWER, SLOWER]


def test_without_a_baseline_the_most_progress_comes_first() -> None:
    found = table([SummaryRow("a", [progress(1)]), SummaryRow("b", [progress(3)]), SummaryRow("c", [progress(2)])], 80)
    assert [text.split()[0] for text, _ in found[1:]] == ["b", "c", "a"]


def test_what_has_no_room_is_counted() -> None:
    many = [SummaryRow(f"t{n}", [progress(n)]) for n in range(30)]
    assert table(many, 80)[-1][0] == "… and 10 more: -v shows all"
    assert len(table(many, 80, most=None)) == 31


def test_a_name_that_is_too_long_keeps_its_end() -> None:
    (_, (text, _)) = table([SummaryRow("tests/" + "x" * 100 + "::test_the_end", [progress()])], 80)
    assert text.startswith("…")
    assert "::test_the_end " in text


@pytest.mark.parametrize(
    ("verdict", "cell", "style"),
    [
        (Verdict("epi", 1100, 1000, 0.2, 0), "+10 %", ""),
        (Verdict("epi", 1300, 1000, 0.2, 0), "+30 %", SLOWER),
        (Verdict("epi", 1300, 1000, 0.2, 500), "+30 %?", UNSURE),
        (Verdict("rpi", 100_000, 1000, 0.2, 500), "×100", SLOWER),
        (Verdict(why_not="not in the baseline"), "new", ""),
    ],
)
def test_a_change_is_shown_with_its_doubt(verdict: Verdict, cell: str, style: str) -> None:
    rows = [SummaryRow("a", [progress()], verdict), SummaryRow("other", [progress()], Verdict("epi", 1, 1, 0.1, 0))]
    text, found = next(line for line in table(rows, 80) if line[0].startswith("a "))
    assert cell in text
    assert found == style
