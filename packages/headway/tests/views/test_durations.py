"""Durations in reports: what fits a line, what a document has, and that nothing else is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import histograms

from headway.model import Cell, Durations, Ledger, Longest, Quality, Thread, Window, bucket_of
from headway.values import WrongValueError
from headway.views.durations import durations_document, in_words, kept_in, read_durations
from headway.views.json import to_document, write
from headway.views.table import table

START = 1_000_000


def lasted(*lengths: int, parts: int = 1) -> Durations:
    buckets: dict[int, int] = {}
    for length in lengths:
        buckets[bucket_of(length, parts)] = buckets.get(bucket_of(length, parts), 0) + 1
    return Durations(tuple(sorted(buckets.items())), parts, longest=Longest(max(lengths), START + 2_000_000))


def ledger(durations: Durations | None, count: int = 0) -> Ledger:
    cells = {"ready": Cell(10_000, durations.count if durations is not None else count)}
    kept = None if durations is None else {"ready": durations}
    thread = Thread(7, 7, "x", START, START, None, START + 10_000, 10_000, cells, durations=kept)
    return Ledger("bpf", Window(START, START + 10_000), (thread,))


def words(durations: Durations, width: int = 66) -> str:
    return in_words(durations, ledger(durations), width)


def test_a_line_has_percentiles_as_limits_and_the_longest_with_its_moment() -> None:
    found = lasted(*[900] * 50, *[3000] * 45, *[70_000] * 5)
    assert words(found) == "p50 ≤1.02µs p90 ≤4.10µs p99 ≤70.0µs max 70.0µs at 2.00ms"
    assert words(found, 50) == "p50 ≤1.02µs p90 ≤4.10µs p99 ≤70.0µs max 70.0µs"
    assert words(found, 30) == "p50 ≤1.02µs p90 ≤4.10µs"
    assert words(lasted(5)) == ""


def test_what_goes_on_and_what_is_not_known_is_said() -> None:
    opened = lasted(5, 6) + Durations((), 1, 0, 1, Longest(9_000_000, None))
    assert words(opened).endswith("max 9.00ms so far")
    bound = Durations(((3, 4),), 1, 12, 0, Longest(8, None, Quality.BOUND))
    assert words(bound).endswith("max ≤8ns (12 not known)")


@given(histograms)
def test_a_document_gives_the_same_durations_again(durations: Durations) -> None:
    document = durations_document(durations)
    again = read_durations(json.loads(json.dumps(document)))
    assert again is not None
    assert durations_document(again) == document
    assert again.count == durations.count


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda x: st.lists(x, max_size=3)))
def test_nothing_else_is_believed(anything: Any) -> None:
    for name in ("parts", "buckets", "max", "max_quality", "unplaced", "under_way"):
        document = durations_document(lasted(5, 100))
        assert document is not None
        if anything != document[name]:
            document[name] = anything
            try:
                found = read_durations(document)
            except WrongValueError:
                continue
            assert isinstance(found, Durations)


def test_a_bucket_has_the_limit_of_a_bucket_once() -> None:
    document = durations_document(lasted(5, 100))
    assert document is not None
    for buckets in ([[7, 1]], [[8, 1], [8, 1]], [[8]], [8]):
        with pytest.raises(WrongValueError):
            read_durations({**document, "buckets": buckets})


def test_a_document_has_durations_only_where_they_were_asked_for() -> None:
    kept, nothing = ledger(lasted(5, 6)), ledger(None, 3)
    assert kept_in(kept)
    assert not kept_in(nothing)
    (state,) = to_document(kept)["threads"][0]["states"]
    assert state["durations"]["buckets"] == [[8, 2]]
    assert "durations" not in to_document(nothing)["threads"][0]["states"][0]
    asked = Ledger("proc", nothing.window, nothing.threads, reasons={"durations": "/proc does not tell"})
    assert to_document(asked)["threads"][0]["states"][0]["durations"] is None
    for one in (kept, nothing, asked):
        assert json.loads("".join(write(one))) == to_document(one)


def test_a_table_shows_them_with_v_and_on_request() -> None:
    found = ledger(lasted(*[900] * 9, 3000))
    for options in ({"verbose": True}, {"durations": True}):
        lines = ["".join(text for text, _ in line) for line in table(found, width=80, **options)]  # type: ignore[arg-type]
        assert any("p50 ≤1.02µs p90 ≤1.02µs p99 ≤3µs" in line or "p99 ≤3.00µs" in line for line in lines)
        assert any("true value is above half of it" in line for line in lines)
        assert all(len(line) <= 80 for line in lines)
    plain = ["".join(text for text, _ in line) for line in table(found, width=80)]
    assert not any("p50" in line for line in plain)
