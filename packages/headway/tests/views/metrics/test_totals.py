"""Totals: nothing is lost, no counter goes backwards, and there are never more series than allowed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES
from tests.views.metrics.readings import SECOND, ledger, runs, snapshots, thread, totals_of

from headway.model import Cell, Counted, Kind, Ledger, Overhead, Processor, Window, kind_of
from headway.views.metrics.totals import MAX_STATES, SERIES_OF_A_HISTOGRAM, By, Series, Totals, TotalsSnapshot

bys = st.sampled_from(By)
mosts = st.sampled_from([1, 2, 5, 13, 10_000])
expiries = st.sampled_from([0, SECOND, 300 * SECOND])


def everything(snapshot: TotalsSnapshot) -> Iterable[Series]:
    return (*snapshot.series, snapshot.rest, snapshot.departed)


def time_by_kind(snapshot: TotalsSnapshot) -> Counter[Kind]:
    total: Counter[Kind] = Counter()
    for series in everything(snapshot):
        for name, time, _, _ in series.states:
            total[kind_of(name)] += time
    return +total


def values(snapshot: TotalsSnapshot) -> Mapping[object, int]:
    """Every counter, by what tells it apart."""
    found: dict[object, int] = {}
    for series in (*snapshot.series, snapshot.rest):
        for state, time, entries, events in series.states:
            found[series.labels, state, "time"] = time
            if entries is not None:
                found[series.labels, state, "entries"] = entries
            found |= {(series.labels, state, event): number for event, number in events}
        found |= {(series.labels, kind, "sampled"): time for kind, (time, _) in series.sampled.items()}
        found |= {(series.labels, kind, "samples"): number for kind, (_, number) in series.sampled.items()}
        found |= {(series.labels, kind, "by mode"): time for kind, time in series.by_mode.items()}
    found |= {("departed", state): time for state, time, _, _ in snapshot.departed.states}
    for cpu, states in snapshot.processors:
        found |= {(cpu, state): time for state, time, _, _ in states}
    found |= {("loss", name): number for name, number in snapshot.losses.items()}
    found |= {name: getattr(snapshot, name) for name in ("seen", "ended", "left")}
    return found


@given(runs(), bys, mosts, expiries)
def test_all_series_together_are_all_that_was_measured(run: list[Ledger], by: By, most: int, expire: int) -> None:
    totals, measured = Totals(by, most=most, expire=expire), Counter[Kind]()
    for one in run:
        totals.add(one)
        for thread_ in one.threads:
            for state, cell in thread_.states.items():
                measured[kind_of(state)] += cell.time
        assert time_by_kind(totals.snapshot()) == +measured


@given(runs(), bys, mosts, expiries)
def test_all_series_together_have_all_that_was_sampled_and_divided_by_mode(
    run: list[Ledger], by: By, most: int, expire: int
) -> None:
    totals, measured, samples = Totals(by, most=most, expire=expire), Counter[str](), 0
    by_mode = Counter[str]()
    for one in run:
        totals.add(one)
        for thread_ in one.threads:
            for state, part in thread_.sampled.items():
                measured[kind_of(state).value] += part.time
                by_mode[kind_of(state).value] += part.by_mode
                samples += part.samples
        found: Counter[str] = Counter()
        found_by_mode: Counter[str] = Counter()
        for series in everything(totals.snapshot()):
            for kind, (time, _) in series.sampled.items():
                found[kind] += time
            found_by_mode.update(series.by_mode)
        assert +found == +measured
        assert +found_by_mode == +by_mode
        assert sum(series.samples for series in everything(totals.snapshot())) == samples
        assert TotalsSnapshot.unpack(totals.snapshot().pack()) == totals.snapshot()


@given(runs(), bys, mosts, expiries)
def test_all_series_together_have_all_durations(run: list[Ledger], by: By, most: int, expire: int) -> None:
    totals, measured = Totals(by, most=most, expire=expire), Counter[int]()
    for one in run:
        totals.add(one)
        for thread_ in one.threads:
            for each in (thread_.durations or {}).values():
                measured.update(dict(each.coarser(1).buckets))
        found: Counter[int] = Counter()
        for series in everything(totals.snapshot()):
            for buckets, _ in series.durations.values():
                found.update(buckets)
        assert +found == +measured


@given(runs(), bys, mosts, expiries)
def test_totals_are_never_more_series_than_allowed(run: list[Ledger], by: By, most: int, expire: int) -> None:
    totals = Totals(by, most=most, expire=expire)
    for one in run:
        totals.add(one)
        snapshot = totals.snapshot()
        taken = sum(1 + len(one.states) + SERIES_OF_A_HISTOGRAM * len(one.durations) for one in snapshot.series)
        assert taken == snapshot.taken <= most
        labels = [series.labels for series in snapshot.series]
        assert len(set(labels)) == len(labels)
        for series in everything(snapshot):
            assert len({state for state, _, _, _ in series.states}) == len(series.states)
        living = sum(series.living for series in (*snapshot.series, snapshot.rest))
        assert living == snapshot.living == sum(thread_.end is None for thread_ in one.threads)


@given(runs(), bys, mosts, expiries, st.data())
def test_no_counter_goes_backwards_whatever_a_source_says(
    run: list[Ledger], by: By, most: int, expire: int, data: st.DataObject
) -> None:
    totals = Totals(by, most=most, expire=expire)
    before: dict[object, int] = {}
    for one in run:
        bent = []
        for thread_ in one.threads:
            amounts = st.integers(-SECOND, SECOND)
            states = {state: Cell(data.draw(amounts), data.draw(amounts)) for state in thread_.states}
            bent.append(thread(thread_.tid, thread_.name, at=thread_.until, end=thread_.end))
            object.__setattr__(bent[-1], "states", states)
        losses = {name: data.draw(st.integers(-5, 5)) for name in ("hidden", "exits")}
        totals.add(Ledger("proc", one.window, tuple(bent), losses=losses, overhead=Overhead(-3, -3)))
        now = values(totals.snapshot())
        for key in before.keys() & now.keys():
            assert now[key] >= before[key], key
        before = dict(now)


@given(st.lists(st.integers(-50, 50), max_size=20))
def test_what_is_taken_back_is_held_against_what_comes_next(steps: list[int]) -> None:
    totals, level, highest = Totals(), 0, 0
    for number, step in enumerate(steps):
        level += step
        highest = max(highest, level)
        totals.add(ledger(number, number + 1, thread(1, user=step)))
        times = [time for series in totals.snapshot().series for _, time, _, _ in series.states]
        assert sum(times) == highest


@given(snapshots)
def test_a_snapshot_is_the_same_on_the_other_side(snapshot: TotalsSnapshot) -> None:
    assert TotalsSnapshot.unpack(snapshot.pack()) == snapshot


def test_threads_are_added_up_by_names_by_process_or_not_at_all() -> None:
    one = ledger(
        0,
        10,
        thread(1, "server", user=1),
        thread(2, "worker", pid=1, user=2),
        thread(3, "worker", pid=1, user=4),
        thread(9, "server", user=8),
    )
    labels = {
        by: {tuple(value for _, value in s.labels): s.states[0][1] for s in totals_of([one], by).snapshot().series}
        for by in By
    }
    assert labels[By.NAME] == {("server", "server"): 9, ("server", "worker"): 6}
    assert labels[By.PROCESS] == {
        ("1", "server", "server"): 1,
        ("1", "server", "worker"): 6,
        ("9", "server", "server"): 8,
    }
    assert labels[By.THREAD] == {
        ("1", "server", "server", "1"): 1,
        ("1", "server", "worker", "2"): 2,
        ("1", "server", "worker", "3"): 4,
        ("9", "server", "server", "9"): 8,
    }


def test_a_process_keeps_its_name_when_its_first_thread_has_ended() -> None:
    asked: list[int] = []
    totals = Totals(process_name=lambda pid: asked.append(pid) or "of proc")  # type: ignore[func-returns-value]
    totals.add(ledger(0, 1, thread(1, "server", end=1, user=1), thread(2, "worker", pid=1, user=1)))
    totals.add(ledger(1, 2, thread(2, "worker", pid=1, user=1), thread(7, "alone", pid=6, user=1)))
    totals.add(ledger(2, 3, thread(2, "worker", pid=1, user=1), thread(7, "alone", pid=6, user=1)))
    found = {dict(series.labels)["thread"]: dict(series.labels)["process"] for series in totals.snapshot().series}
    assert found == {"server": "server", "worker": "server", "alone": "of proc"}
    assert asked == [6]


def test_what_has_ended_leaves_after_a_while_and_is_not_lost() -> None:
    totals = Totals(expire=10)
    totals.add(ledger(0, 5, thread(1, user=3), thread(2, at=5, end=5, user=2)))
    totals.add(ledger(5, 14, thread(1, user=1)))
    assert [dict(series.labels)["pid"] for series in totals.snapshot().series] == ["1", "2"]
    totals.add(ledger(14, 15, thread(1, user=1)))
    snapshot = totals.snapshot()
    assert [dict(series.labels)["pid"] for series in snapshot.series] == ["1"]
    assert [state[:2] for state in snapshot.departed.states] == [("user", 2)]
    assert (snapshot.left, snapshot.living, snapshot.seen, snapshot.ended) == (1, 1, 2, 1)


def test_what_has_ended_leaves_early_where_room_is_needed_but_not_what_is_still_needed() -> None:
    totals = Totals(most=4)
    totals.add(ledger(0, 1, thread(1, end=1, at=1, user=1), thread(2, end=1, at=1, user=1)))
    totals.add(ledger(1, 2, thread(3, at=1, user=1), thread(2, at=1, user=1)))  # 1 has to go, though 3 comes before 2
    snapshot = totals.snapshot()
    assert [dict(series.labels)["pid"] for series in snapshot.series] == ["2", "3"]
    assert not snapshot.rest.states
    assert [state[1] for series in snapshot.series for state in series.states] == [2, 1]


def test_what_there_is_no_room_for_is_added_up_and_living() -> None:
    totals = Totals(most=2)
    totals.add(ledger(0, 1, thread(1, user=1, ready=5), thread(2, user=2), thread(3, kernel_read=3)))
    snapshot = totals.snapshot()
    assert [(s.labels[0], [state[1] for state in s.states]) for s in snapshot.series] == [(("pid", "1"), [1])]
    assert {name: time for name, time, _, _ in snapshot.rest.states} == {"ready": 5, "user": 2, "kernel.read": 3}
    assert snapshot.rest.living == 2


def test_totals_have_a_limit_of_states_and_keep_kinds() -> None:
    states = {f"noneffective_{number}": 1 for number in range(MAX_STATES + 500)} | {"user": 7}
    totals = Totals(most=1)
    totals.add(ledger(0, 1, thread(1, user=1)))
    totals.add(ledger(1, 2, thread(2, "a", **states)))
    rest = totals.snapshot().rest
    assert len(rest.states) <= MAX_STATES + 2
    assert rest.times()[Kind.KERNEL] == MAX_STATES + 500
    assert rest.times()[Kind.EFFECTIVE] == 8


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_are_shown_by_their_number(name: str) -> None:
    one = ledger(0, 1, thread(1, name, user=1))
    object.__setattr__(one, "losses", {name: 1})
    snapshot = totals_of([one]).snapshot()
    for _, value in snapshot.series[0].labels:
        assert len(value) <= 64 * len("\\u0000")
        assert value.isprintable()
        value.encode()


def test_names_that_look_alike_once_they_are_harmless_are_one_series() -> None:
    one = ledger(0, 1, thread(1, "a", user=1), thread(2, "\x1b", pid=1, user=1), thread(3, "\\x1b", pid=1, user=1))
    assert sorted(dict(series.labels)["thread"] for series in totals_of([one]).snapshot().series) == ["\\x1b", "a"]


def test_time_is_divided_as_hardware_counted() -> None:
    cell = Cell(100, 1, cycles=1000, instructions=500, stall_cycles=400, memory_stall_cycles=300, events={"cs": 3})
    one = ledger(0, 1, thread(1, user=100))
    object.__setattr__(one.threads[0], "states", {"user": cell, "noneffective.x": Cell(5, 1)})
    counted = {"cycles": Counted(1, 1)}
    run = [Ledger("bpf", one.window, one.threads, counted=counted, events=("cs",), overhead=Overhead(None, 1))]
    snapshot = totals_of(run).snapshot()
    (series,) = snapshot.series
    times = series.times()
    assert (times[Kind.EFFECTIVE], times[Kind.MEMORY], times[Kind.STALL], times[Kind.KERNEL]) == (60, 30, 10, 5)
    events = {name: dict(events) for name, _, _, events in series.states}
    assert events.pop("user") == {
        "cs": 3,
        "cycles": 1000,
        "instructions": 500,
        "stall_cycles": 400,
        "memory_stall_cycles": 300,
    }
    assert events == {"noneffective.x": {}}
    assert snapshot.overhead is None
    assert snapshot.events == 1


def test_processors_and_occurrences_that_are_not_known() -> None:
    window, states = Window(0, 9), {"user": Cell(4, None), "idle": Cell(5, 2)}
    totals = totals_of([Ledger("bpf", window, (), (Processor(1, 9, states), Processor(0, 9, {"idle": Cell(9)})))])
    assert totals.snapshot().processors == (
        (0, (("idle", 9, 0, ()),)),
        (1, (("user", 4, None, ()), ("idle", 5, 2, ()))),
    )


def test_ledgers_in_cycles_are_refused() -> None:
    with pytest.raises(ValueError, match="cycles"):
        Totals().add(Ledger("machine", Window(0, 1), time_unit="cycles"))
