"""What the page is told: shares that make sense, and names that do no harm."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from tests.ledgers import HOSTILE_NAMES
from tests.views.metrics.readings import SECOND, ledger, runs, thread, totals_of

from headway.model import Kind, Ledger
from headway.views.metrics.live import MAX_ROWS, live, stylesheet
from headway.views.metrics.totals import MAX_SERIES, By, Totals
from headway.views.palette import PALETTE


def shown(run: list[Ledger], by: By = By.PROCESS, *, most: int = MAX_SERIES) -> dict[str, Any]:
    """The last interval of several."""
    before = totals_of(run[:-1], by, most=most).snapshot() if len(run) > 1 else None
    document: dict[str, Any] = json.loads(live(totals_of(run, by, most=most).snapshot(), before))
    return document


@given(runs())
def test_shares_are_shares(run: list[Ledger]) -> None:
    document = shown(run)
    for row in document["rows"]:
        assert sum(row["kinds"].values()) == pytest.approx(1) or not row["kinds"]
        assert all(0 < share <= 1 for share in row["kinds"].values())
        assert row["te"] is None or 0 <= row["te"] <= 1
        assert sum(share for _, _, share in row["states"]) <= 1.0001
    assert len(document["rows"]) <= MAX_ROWS


def test_a_row_shows_what_happened_between_the_readings() -> None:
    first = ledger(0, SECOND, thread(1, "a", user=SECOND), thread(2, "b", wait_futex=SECOND))
    second = ledger(
        SECOND, 2 * SECOND, thread(1, "a", user=SECOND // 4, wait_futex=3 * SECOND // 4), thread(2, "b", user=SECOND)
    )
    document = shown([first, second])
    assert document["span"] == SECOND
    assert [(row["labels"]["thread"], row["rpi"]) for row in document["rows"]] == [("b", 1.0), ("a", 0.25)]
    assert document["rows"][1]["kinds"] == {"effective": 0.25, "wait": 0.75}
    assert document["rows"][1]["states"] == [["wait.futex", "wait", 0.75], ["user", "effective", 0.25]]
    assert document["others"] is None


def test_what_is_in_no_row_is_added_up() -> None:
    many = [thread(tid, user=SECOND // 1000) for tid in range(1, MAX_ROWS + 51)]
    document = shown([ledger(0, SECOND, *many)])
    assert len(document["rows"]) == MAX_ROWS
    assert document["others"]["threads"] == 50
    assert document["others"]["rpi"] == pytest.approx(0.05)
    document = shown([ledger(0, SECOND, *many)], most=100)
    assert document["others"]["threads"] == MAX_ROWS + 50 - len(document["rows"])


def test_of_a_source_without_a_figure_there_is_none() -> None:
    totals = Totals()
    totals.add(Ledger("proc", ledger(0, 1).window))
    document = json.loads(live(totals.snapshot(), None))
    assert document["overhead"] is None
    assert document["processors"] == []


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_are_harmless_text(name: str) -> None:
    document = shown([ledger(0, 1, thread(1, name, user=1), thread(2, "x", **{name: 1}))])
    words = [word for row in document["rows"] for word in (*row["labels"].values(), *(s[0] for s in row["states"]))]
    assert all(word.isprintable() for word in words)


def test_every_kind_has_its_colours_and_the_page_is_told_of_them() -> None:
    styles = stylesheet()
    for kind in Kind:
        assert f".{kind.value} {{" in styles
        assert PALETTE[kind].on_light in styles
        assert PALETTE[kind].on_dark in styles
    document = shown([ledger(0, 1)])
    assert {kind for kind, _, _ in document["legend"]} == {kind.value for kind in Kind}
