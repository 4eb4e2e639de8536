from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.processors._meeting import Stamps
from headway.processors.disturbance import REASONS, explain, judge


def stamps(cpu: int, at: int = 1_000_000, **other: Any) -> Stamps:
    """A reader's that nothing came between, at this moment."""
    fields: dict[str, Any] = {
        "met": True,
        "cpu_before": cpu,
        "cpu_after": cpu,
        "repin_error": 0,
        "loose": False,
        "woken": at - 2_000,
        "arrived": at - 1_000,
        "saw_go": at - 100,
        "gave_way": 0,
        "before": at,
        "after": at + 50,
        "saw_done": at + 4_000,
        "gap": 200,
        "chains": (0, 0),
        "away": 0,
        "preempted": 0,
        "waited": 0,
        "words": (),
        "missing": 0,
    }
    return Stamps(**(fields | other))


@given(st.lists(st.integers(0, 800), min_size=1, max_size=9))
def test_nothing_is_wrong_with_a_meeting_that_nothing_came_between(offsets: list[int]) -> None:
    assert judge({cpu: stamps(cpu, 10**9 + at) for cpu, at in enumerate(offsets)}) == {}


DISTURBED: dict[str, list[dict[str, Any]]] = {
    "moved": [{"cpu_before": 5}, {"cpu_after": 5}, {"loose": True}],
    "preempted": [{"preempted": 1}, {"waited": 1}],
    "interrupted": [{"gap": 5_001}, {"after": 1_013_000, "saw_done": 1_020_000}],
    "offline": [{"repin_error": errno.EINVAL, "cpu_before": 5}],
    "cpuset": [{"repin_error": errno.EPERM, "cpu_before": 5}],
    "counter": [{"missing": 1}],
    "clock": [{"after": 999_000}, {"saw_done": 0}, {"arrived": 999_950}],
}


@pytest.mark.parametrize(("reason", "change"), [(r, c) for r, changes in DISTURBED.items() for c in changes])
@pytest.mark.parametrize("others", [0, 3])
def test_whatever_came_between_is_seen_and_named(reason: str, change: dict[str, Any], others: int) -> None:
    found = judge({0: stamps(0, **change), **{cpu: stamps(cpu) for cpu in range(1, others + 1)}})
    assert found.get(0) == reason
    assert reason in REASONS


def test_a_reader_that_did_not_come_is_to_blame_and_those_that_waited_are_not() -> None:
    waited = stamps(0, met=False, saw_go=0, before=0, after=0, saw_done=0)
    assert judge({0: waited, 1: None}) == {1: "absent"}


@given(st.integers(10_001, 10**9))
def test_who_read_too_late_after_the_others_is_dropped(late: int) -> None:
    found = judge({0: stamps(0), 1: stamps(1, 1_000_000 + late, arrived=999_000)})
    assert found == {1: "skew"}


@given(st.integers(1, 10**6))
def test_clocks_by_which_one_goes_before_the_last_has_come_do_not_agree(ahead: int) -> None:
    found = judge({0: stamps(0), 1: stamps(1, arrived=999_900 + ahead, saw_go=999_900 + ahead, before=10**6 + ahead)})
    assert found.get(0) == "clock" or 1 in found


@pytest.mark.parametrize(
    ("gap", "away", "smi", "virtual", "expected"),
    [
        (50_000, 49_000, None, True, "steal"),
        (50_000, 49_000, None, False, "interrupted"),
        (50_000, 0, None, True, "interrupted"),
        (50_000, 49_000, 1, True, "smi"),
        (50_000, 0, 0, False, "interrupted"),
    ],
)
def test_what_interrupted_is_told_by_counts(gap: int, away: int, smi: int | None, virtual: bool, expected: str) -> None:
    assert explain("interrupted", stamps(0, gap=gap, away=away), smi=smi, virtual=virtual) == expected


@given(st.sampled_from(sorted(set(REASONS) - {"interrupted", "skew"})))
def test_a_reason_that_is_known_stays(reason: str) -> None:
    assert explain(reason, stamps(0, gap=10**6, away=10**6), smi=3, virtual=True) == reason
