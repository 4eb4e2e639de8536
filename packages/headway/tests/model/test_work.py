"""Work is followed by the EPI or the steps of ledgers; where these are not known, a reason is given."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headway.model import Cell, Ledger, Precision, Quality, Thread, Window
from headway.model.work import FollowedWork, Work

SECOND = 10**9


def ledger(number: int, epi: int, steps: int | None) -> Ledger:
    """An interval of a second, in which two threads share the work."""
    states = {"user": Cell(epi // 2, 1), "user.render": Cell(epi - epi // 2, steps)}
    start = number * SECOND
    two = [{"user": states["user"]}, {"user.render": states["user.render"]}]
    threads = [Thread(i, 1, "a", 0, start, None, start + SECOND, SECOND, one) for i, one in enumerate(two, 1)]
    return Ledger("bpf", Window(start, start + SECOND), tuple(threads))


@given(st.lists(st.tuples(st.integers(0, SECOND), st.integers(0, 1000)), min_size=1, max_size=10))
def test_what_ledgers_show_is_done(readings: list[tuple[int, int]]) -> None:
    epi, steps = FollowedWork(Work(100 * SECOND)), FollowedWork(Work(100_000, "render"))
    for number, (made, entered) in enumerate(readings):
        by_epi, by_steps = (work.take(ledger(number, made, entered)) for work in (epi, steps))
    assert by_epi.done == sum(made for made, _ in readings)
    assert by_steps.done == sum(entered for _, entered in readings)
    for found in (by_epi, by_steps):
        assert (found.reason is None) == (found.least is not None)
    assert FollowedWork(Work(1, "other")).take(ledger(0, 5, 5)).done == 0


def test_what_is_not_known_has_a_reason() -> None:
    unknown = replace(ledger(0, 5, None), precision=Precision(effective=Quality.UNAVAILABLE))
    for work, why in ((Work(5), "EPI is not known here"), (Work(5, "render"), "bpf does not count steps")):
        found = FollowedWork(work).take(unknown)
        assert (found.done, found.left, found.least, found.reason) == (0, None, None, why)
    found = FollowedWork(Work(5)).take(replace(ledger(0, 5, 5), unit="cycles"))
    assert found.reason == "EPI is in cycles here, not in time"
