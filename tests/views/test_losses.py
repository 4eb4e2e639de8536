"""What was lost, in words."""

from __future__ import annotations

from headway.views.losses import named_losses


def test_nothing_lost_is_nothing_said() -> None:
    assert named_losses({"exits_lost": 0}) == ""


def test_counts_are_counts_and_times_have_a_unit() -> None:
    text = named_losses({"threads_unmeasured": 1200, "stolen_ns_unplaced": 2_500_000, "unseen_ns": 1_500})
    assert text == "threads unmeasured 1,200, stolen unplaced 2.50 ms, unseen 1.50 µs"
