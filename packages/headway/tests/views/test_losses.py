"""What was lost, in words."""

from __future__ import annotations

import pytest

from headway.model import Ledger, Overhead, Thread, Window
from headway.views.losses import are_small, named_losses


def test_nothing_lost_is_nothing_said() -> None:
    assert named_losses({"exits_lost": 0}) == ""


def test_counts_are_counts_and_times_have_a_unit() -> None:
    text = named_losses({"threads_unmeasured": 1200, "stolen_ns_unplaced": 2_500_000, "unseen_ns": 1_500})
    assert text == "threads unmeasured 1,200, stolen unplaced 2.50 ms, unseen 1.50 µs"


@pytest.mark.parametrize(
    ("losses", "small"),
    [
        ({}, True),
        ({"handlers_skipped": 9, "unseen_ns": 999_999}, True),
        ({"handlers_skipped": 10}, False),
        ({"unseen_ns": 1_000_000}, False),
        ({"threads_unmeasured": 1}, False),
        ({"what_nobody_knows": 1}, False),
    ],
)
def test_less_than_a_thousandth_is_small(losses: dict[str, int], small: bool) -> None:
    thread = Thread(1, 1, "a", 0, 0, None, 10**9, 10**9, {})
    ledger = Ledger("bpf", Window(0, 10**9), (thread,), losses=losses, overhead=Overhead(0, 10_000))
    assert are_small(ledger) is small
