"""Noisy neighbours as metrics: the time that others had, by pairs of processes, in a bounded number of series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES
from tests.views.metrics.readings import ledger, thread

from headway.model import Behind, Cause, Thread
from headway.views.metrics.families import families
from headway.views.metrics.neighbours import Neighbours
from headway.views.metrics.openmetrics import write
from headway.views.metrics.totals import Totals, TotalsSnapshot

POD = "/kubepods/burstable/pod1b2d3f40-1111-2222-3333-444455556666/" + "c" * 64
NAMES = {1: "shop", 2: "backup", 3: "shop"}

causes = st.builds(
    Cause,
    st.sampled_from(["ready", "wait.futex"]),
    st.sampled_from(Behind),
    st.sampled_from(["backup", *HOSTILE_NAMES]),
    st.integers(0, 99),
    st.integers(0, 3),
    st.none() | st.integers(1, 9),
    st.none() | st.integers(1, 3),
    st.none() | st.sampled_from(["/", "/batch", POD, *HOSTILE_NAMES]),
)


def name_of(pid: int) -> str:
    return NAMES[pid]


def waiting(pid: int, several: Sequence[Cause]) -> Thread:
    return replace(thread(pid, pid=pid, ready=99), causes=tuple(several))


def held(name: str, time: int, tid: int | None = 5, pid: int | None = 2, cgroup: str | None = None) -> Cause:
    return Cause("ready", Behind.HOLDER, name, time, 1, tid, pid, cgroup)


@given(st.lists(st.dictionaries(st.integers(1, 3), st.lists(causes, max_size=5)), max_size=4), st.integers(1, 4))
def test_all_pairs_together_have_the_time_of_all_neighbours(intervals: list[dict[int, list[Cause]]], most: int) -> None:
    found, expected = Neighbours(most), 0
    before: dict[object, int] = {}
    for interval in intervals:
        found.add([waiting(pid, several) for pid, several in interval.items()], name_of)
        expected += sum(
            cause.time
            for pid, several in interval.items()
            for cause in several
            if cause.state == "ready" and cause.behind is Behind.HOLDER and cause.tid is not None and cause.pid != pid
        )
        now: dict[object, int] = dict(found.frozen())
        assert sum(now.values()) == expected
        assert len(now) <= most + 1
        assert all(now[key] >= time for key, time in before.items())
        assert all(value.isprintable() for labels, _ in found.frozen() for _, value in labels)
        before = now


def test_a_pair_is_who_was_ready_and_who_ran_with_its_pod() -> None:
    found = Neighbours()
    several = [
        held("worker", 5, cgroup=POD),
        held("other worker", 7, tid=6, cgroup=POD),
        held("stranger", 3, tid=7, pid=None),
        held("sibling", 9, tid=8, pid=1),
        held("irq.timer", 11, tid=None, pid=None),
    ]
    found.add([waiting(1, several), waiting(3, [held("worker", 2, cgroup="/")])], name_of)
    pod = ("neighbour_pod", "pod 1b2d3f40-1111-2222-3333-444455556666")
    assert dict(found.frozen()) == {
        (("process", "shop"), ("neighbour", "backup"), pod): 12,
        (("process", "shop"), ("neighbour", "stranger")): 3,
        (("process", "shop"), ("neighbour", "backup")): 2,
    }


def test_pairs_without_room_are_added_up() -> None:
    found = Neighbours(1)
    for number in range(4):
        found.add([waiting(1, [held(f"n{number}", 10, pid=None)])], name_of)
    assert dict(found.frozen()) == {
        (("process", "shop"), ("neighbour", "n0")): 10,
        (("process", "other"), ("neighbour", "other")): 30,
    }


def test_neighbours_are_served_and_cross_to_the_other_process() -> None:
    totals = Totals(process_name=lambda pid: NAMES.get(pid, ""))
    totals.add(ledger(0, 10, waiting(1, [held("worker", 5, cgroup="/system.slice/backup.service")])))
    snapshot = TotalsSnapshot.unpack(totals.snapshot().pack())
    assert snapshot == totals.snapshot()
    line = 'headway_ready_neighbour_seconds_total{process="a",neighbour="backup",neighbour_pod="backup.service"} 5e-09'
    assert line in write(families(snapshot))
    totals = Totals()
    totals.add(ledger(0, 10, thread(1, ready=5)))
    assert "neighbour" not in write(families(totals.snapshot()))
