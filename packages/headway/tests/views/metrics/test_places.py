"""Where processes belong: asked for seldom, right at once where it can change, and in no way able to lose time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES
from tests.views.metrics.readings import SECOND, ledger, runs, thread

from headway.model import Ledger, Thread
from headway.views.metrics.families import families
from headway.views.metrics.openmetrics import write
from headway.views.metrics.places import LONGEST, Labels, ProcessLabels
from headway.views.metrics.totals import SERIES_OF_A_HISTOGRAM, By, Series, Totals, TotalsSnapshot
from headway.views.printable import clean

openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser", reason="needs prometheus_client")

NAMES = ("k8s_pod_uid", "container_id", "systemd_unit_name", "cgroup")
placed = st.sampled_from([By.CONTAINER, By.PROCESS, By.THREAD])
places = st.none() | st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["a", "b", "0" * 64, *HOSTILE_NAMES])),
    max_size=3,
    unique_by=lambda pair: pair[0],
).map(tuple)


class Asked:
    """Answers from a table, and keeps count."""

    def __init__(self, table: dict[int, Labels | None]) -> None:
        self.table, self.count = table, Counter[int]()

    def __call__(self, pid: int) -> Labels | None:
        self.count[pid] += 1
        return self.table.get(pid)


def unit(name: str) -> Labels:
    return (("systemd_unit_name", name),)


def look(
    one: ProcessLabels, at: int, *threads: Thread, name_of: Callable[[int], str] = lambda pid: f"name of {pid}"
) -> list[Labels]:
    """The labels of these threads, which are there in the interval that ends at this moment."""
    one.look(threads, name_of, at)
    return [one.of(thread) for thread in threads]


def everything(snapshot: TotalsSnapshot) -> Iterable[Series]:
    return (*snapshot.series, snapshot.rest, snapshot.departed)


@given(runs(), placed, st.sampled_from([1, 5, 13, 10_000]), st.data())
def test_wherever_processes_are_no_time_is_lost_and_no_series_is_there_twice(
    run: list[Ledger], by: By, most: int, data: st.DataObject
) -> None:
    totals, measured = Totals(by, most=most, place_of=lambda pid: data.draw(places)), 0
    for one in run:
        totals.add(one)
        measured += sum(cell.time for each in one.threads for cell in each.states.values())
        snapshot = totals.snapshot()
        assert sum(time for series in everything(snapshot) for _, time, _, _ in series.states) == measured
        rooms = [1 + len(one.states) + SERIES_OF_A_HISTOGRAM * len(one.durations) for one in snapshot.series]
        assert sum(rooms) == snapshot.taken <= most
        labels = [frozenset(series.labels) for series in snapshot.series]
        assert len(set(labels)) == len(labels)
        assert TotalsSnapshot.unpack(snapshot.pack()) == snapshot


@given(runs(most=1), placed, st.lists(places, min_size=3, max_size=3))
def test_the_sum_by_a_label_is_what_the_processes_there_did(run: list[Ledger], by: By, where: list[Labels]) -> None:
    totals = Totals(by, place_of=lambda pid: where[pid - 1])
    totals.add(run[0])
    living = {each.pid for each in run[0].threads if each.end is None}
    wanted, found = Counter[str](), Counter[str]()
    for each in run[0].threads:
        place = (where[each.pid - 1] or ()) if each.pid in living else ()
        wanted[dict(place).get("k8s_pod_uid", "")] += sum(cell.time for cell in each.states.values())
    for series in totals.snapshot().series:
        found[dict(series.labels).get("k8s_pod_uid", "")] += sum(time for _, time, _, _ in series.states)
    shown = Counter[str]()
    for name, time in wanted.items():
        shown[clean(name, LONGEST)] += time
    assert +found == +shown


@given(places.filter(bool), st.booleans())
def test_hostile_paths_do_no_harm_in_the_text(where: Labels, plain: bool) -> None:
    totals = Totals(place_of=lambda pid: where)
    totals.add(ledger(0, 1, thread(1, user=10**9)))
    text = write(families(totals.snapshot()), plain=plain)
    text.encode()
    assert all(line.isprintable() for line in text.split("\n"))
    if not plain:
        samples = [
            sample
            for family in openmetrics.text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "headway_thread_state_seconds_total"
        ]
        (labels,) = [sample.labels for sample in samples]
        assert labels.keys() == {"pid", "process", "thread", "state", "kind", *(name for name, _ in where)}
        assert all(len(labels[name]) <= 10 * LONGEST for name, _ in where)


def test_by_name_nobody_is_asked_and_by_container_processes_are_added_up() -> None:
    one = ledger(
        0,
        10,
        thread(1, "nginx", user=1),
        thread(2, "nginx", user=2),
        thread(3, "nginx", user=4),
        thread(4, "sshd", user=8),
    )
    asked = Asked({1: unit("a"), 2: unit("a"), 3: unit("b"), 4: ()})
    by_name = Totals(By.NAME, place_of=asked)
    by_name.add(one)
    assert not asked.count
    assert {dict(s.labels)["process"]: s.states[0][1] for s in by_name.snapshot().series} == {"nginx": 7, "sshd": 8}
    by_container = Totals(By.CONTAINER, place_of=asked)
    by_container.add(one)
    assert {tuple(value for _, value in s.labels): s.states[0][1] for s in by_container.snapshot().series} == {
        ("nginx", "nginx", "a"): 3,
        ("nginx", "nginx", "b"): 4,
        ("sshd", "sshd"): 8,
    }


def test_a_process_is_asked_about_once_and_again_after_a_while_but_not_all_at_once() -> None:
    asked = Asked({pid: unit("a") for pid in range(1, 1001)})
    one = ProcessLabels(asked, again=60 * SECOND)
    threads = [thread(pid) for pid in range(1, 1001)]
    look(one, 0, *threads)
    assert set(asked.count.values()) == {1}
    most = 0
    for second in range(1, 181):
        before = asked.count.total()
        look(one, second * SECOND, *threads)
        most = max(most, asked.count.total() - before)
    assert 3 <= min(asked.count.values()) <= max(asked.count.values()) <= 4
    assert most < 50  # 17, if they were spread evenly


def test_what_is_asked_again_is_taken_over() -> None:
    asked = Asked({1: unit("a")})
    one = ProcessLabels(asked, again=0)
    assert look(one, 0, thread(1)) == [unit("a")]
    asked.table[1] = unit("b")
    assert look(one, 1, thread(1), thread(2, pid=1), thread(3, pid=1, end=1)) == [unit("b"), unit("b"), unit("a")]
    asked.table[1] = None  # it ends while it is asked about
    assert look(one, 2, thread(1)) == [unit("b")]
    assert one.missed == 0


def test_a_process_that_executes_another_program_is_asked_about_again() -> None:
    asked, names = Asked({1: unit("engine")}), {1: "runc:[2:INIT]"}
    one = ProcessLabels(asked)
    assert look(one, 0, thread(1), name_of=names.__getitem__) == [unit("engine")]
    asked.table[1], names[1] = unit("container"), "nginx"
    # What a thread did that this ended, it did before.
    found = look(one, 1, thread(1), thread(9, pid=1, end=1), name_of=names.__getitem__)
    assert found == [unit("container"), unit("engine")]


def test_an_id_that_another_process_has_got_is_asked_about_again() -> None:
    asked = Asked({1: unit("old")})
    one = ProcessLabels(asked)
    look(one, 0, thread(1, at=0))
    asked.table[1] = unit("new")
    assert look(one, 10, thread(1, at=0, end=5), thread(1, at=7)) == [unit("old"), unit("new")]
    asked.table[1] = None
    assert look(one, 20, thread(1, at=7, end=15), thread(1, at=18)) == [unit("new"), ()]
    assert one.missed == 1


def test_a_process_goes_on_without_its_first_thread() -> None:
    asked = Asked({1: unit("a")})
    one = ProcessLabels(asked)
    look(one, 0, thread(1), thread(2, pid=1))
    asked.table[1] = None  # its files may not be there any more
    assert look(one, 1, thread(1, end=1), thread(2, pid=1)) == [unit("a"), unit("a")]
    assert look(one, 2, thread(2, pid=1)) == [unit("a")]
    assert (one.missed, asked.count[1]) == (0, 2)


def test_who_came_and_went_between_two_readings_is_counted() -> None:
    asked = Asked({})
    totals = Totals(place_of=asked)
    totals.add(ledger(0, 10, thread(1, end=5), thread(2, pid=1, end=5), thread(3, end=6)))
    totals.add(ledger(10, 20, thread(4), thread(5, end=12)))
    assert totals.snapshot().unplaced == 4
    totals.add(ledger(20, 30, thread(4, end=25)))
    assert totals.snapshot().unplaced == 4
    assert asked.count == {4: 1}  # an id may be another's once its process has ended
    text = write(families(totals.snapshot()))
    assert "\nheadway_processes_unplaced_total 4\n" in text
