"""Tasks as metrics: all of their time, in a bounded number of series, and no counter goes backwards."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES
from tests.views.metrics.readings import ledger, thread

from headway.model import Cell, Task, Thread, TraceContext, kind_of
from headway.views.metrics.families import families
from headway.views.metrics.openmetrics import write
from headway.views.metrics.tasks import TaskTotals
from headway.views.metrics.totals import Totals, TotalsSnapshot

tasks = st.builds(
    Task,
    st.sampled_from(["", "checkout", *HOSTILE_NAMES]),
    st.integers(0, 2**64 - 1),
    st.integers(0, 9),
    st.dictionaries(st.sampled_from(["user", "kernel.read", "wait.futex"]), st.builds(Cell, st.integers(1, 99))),
    st.booleans(),
    context=st.none()
    | st.builds(TraceContext, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 9)),
)


def working(tid: int, several: list[Task]) -> Thread:
    """A thread that did this for its tasks, and 7 ns of user code between them."""
    states = Counter({"user": 7})
    for task in several:
        states.update({state: cell.time for state, cell in task.states.items()})
    return replace(thread(tid, user=1), states={s: Cell(t) for s, t in states.items()}, tasks=tuple(several))


@given(st.lists(st.lists(st.lists(tasks, max_size=4), max_size=3), max_size=4), st.integers(1, 6))
def test_all_series_together_have_the_time_of_all_threads_with_tasks(
    intervals: list[list[list[Task]]], most: int
) -> None:
    totals, expected, changes = TaskTotals(most), Counter[str](), 0
    before: dict[object, int] = {}
    for interval in intervals:
        threads = [working(tid, several) for tid, several in enumerate(interval)]
        totals.add(threads, lambda pid: "shop")
        for one in threads:
            if one.tasks:
                expected.update({kind.value: time for kind, time in one.times().items() if time})
                changes += sum(task.changes for task in one.tasks)
        found = totals.frozen()
        assert len(found) <= most + 1
        times = Counter[str]()
        for series in found:
            times.update(series.times)
        assert times == expected
        assert sum(series.changes for series in found) == changes
        now: dict[object, int] = {(one.labels, kind): time for one in found for kind, time in one.times.items()}
        assert all(now[key] >= value for key, value in before.items())
        assert all(value.isprintable() for one in found for _, value in one.labels)
        before = now


def test_a_task_is_told_by_its_name_or_its_id() -> None:
    totals = TaskTotals()
    several = [Task("checkout", 0, 2, {"user": Cell(3)}), Task("", 5, 1, {"wait.futex": Cell(4)})]
    totals.add([working(1, several), thread(2, user=9)], lambda pid: "shop")
    assert {series.labels: series.times for series in totals.frozen()} == {
        (("process", "shop"), ("task_name", "checkout")): {kind_of("user").value: 3},
        (("process", "shop"), ("task_id", "5")): {kind_of("wait.futex").value: 4},
        (("process", "shop"),): {kind_of("user").value: 7},
    }


def test_tasks_are_served_where_there_are_some_and_cross_to_the_other_process() -> None:
    totals = Totals()
    totals.add(ledger(0, 10, thread(1, user=1)))
    assert not any("headway_task" in family.name for family in families(totals.snapshot()))
    totals.add(ledger(10, 20, working(1, [Task("checkout", 0, 2, {"user": Cell(3)})])))
    snapshot = TotalsSnapshot.unpack(totals.snapshot().pack())
    assert snapshot == totals.snapshot()
    text = write(families(snapshot))
    assert 'headway_task_seconds_total{process="a",task_name="checkout",kind="effective"} 3e-09' in text
    assert 'headway_task_changes_total{process="a",task_name="checkout"} 2' in text


TRACE = 0x4BF92F3577B34DA6A3CE929D0E0E4736


def test_spans_are_linked_by_exemplars_and_share_a_series_where_they_have_no_name() -> None:
    several = [
        Task("checkout", 0, 2, {"user": Cell(3)}, context=TraceContext(TRACE, 7, 5)),
        Task("", 8, 1, {"user": Cell(4)}, context=TraceContext(TRACE, 8, 6)),
        Task("", 9, 1, {"user": Cell(5)}, context=TraceContext(TRACE, 9, 4)),
    ]
    totals = Totals()
    totals.add(ledger(0, 20, working(1, several)))
    snapshot = TotalsSnapshot.unpack(totals.snapshot().pack())
    epoch = snapshot.epoch
    text = write(families(snapshot))
    assert 'headway_task_seconds_total{process="a",spans="true",kind="effective"} 9e-09\n' in text
    assert 'headway_task_changes_total{process="a",spans="true"} 2 # {' in text
    seconds, ns = divmod(epoch + 5, 10**9)
    exemplar = f'{{trace_id="{TRACE:032x}",span_id="{7:016x}"}} 1 {seconds}.{ns:09d}'
    assert f'headway_task_changes_total{{process="a",task_name="checkout"}} 2 # {exemplar}\n' in text
    assert " # {" not in write(families(snapshot), plain=True), "the earlier format has none"
    parsed: Any = pytest.importorskip("prometheus_client.openmetrics.parser").text_string_to_metric_families
    (changes,) = (family for family in parsed(text) if family.name == "headway_task_changes")
    found = {sample.labels.get("task_name"): sample.exemplar for sample in changes.samples}
    assert found["checkout"].labels == {"trace_id": f"{TRACE:032x}", "span_id": f"{7:016x}"}
    assert found[None].labels["span_id"] == f"{8:016x}", "the last one"
