"""Groups of threads: their figures add up, whatever the order, and are as good as the worst of their parts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.model import Cell, Counted, Group, GroupBy, Kind, Ledger, Quality, Thread, Window, add_times, grouped

from ..ledgers import ledgers

several = st.sampled_from([GroupBy.NAME, GroupBy.PROCESS, GroupBy.CGROUP, GroupBy.POD])
few = settings(max_examples=30)
"""An example is a whole ledger."""
_SUMS = ("rpi", "epi", "mpi", "kpi", "iopi", "td")


def groups(ledger: Ledger, by: GroupBy) -> list[Group]:
    return [Group(tuple(ledger.threads[at] for at in places), by) for places in grouped(ledger.threads, by)]


def facts(ledger: Ledger, by: GroupBy) -> set[object]:
    return {
        (
            frozenset(thread.key for thread in group.threads),
            group.pid,
            tuple(sorted(group.times().items())),
            ledger.indices(*group.threads).rpi,
        )
        for group in groups(ledger, by)
    }


@few
@given(ledgers(), st.sampled_from(GroupBy))
def test_every_thread_is_in_one_group_with_those_like_it(ledger: Ledger, by: GroupBy) -> None:
    found = groups(ledger, by)
    assert sorted(thread.key for group in found for thread in group.threads) == [t.key for t in ledger.threads]
    for group in found:
        if by is GroupBy.THREAD:
            assert len(group.threads) == 1
        elif by is GroupBy.NAME:
            assert {thread.name for thread in group.threads} == {group.name}
        elif by is GroupBy.PROCESS:
            assert {thread.pid for thread in group.threads} == {group.pid}
        else:
            assert {Group((thread,), by).name for thread in group.threads} == {group.name}
    kinds = [group.pid if by is GroupBy.PROCESS else group.name for group in found]
    assert by is GroupBy.THREAD or len(kinds) == len(set(kinds))


@few
@given(ledgers(time_unit=None), several)
def test_a_group_has_the_sum_of_its_threads(ledger: Ledger, by: GroupBy) -> None:
    for group in groups(ledger, by):
        times = add_times([thread.times() for thread in group.threads])
        assert sum(cell.time for cell in group.states.values()) == sum(thread.span for thread in group.threads)
        assert {state: cell.time for state, cell in group.states.items()} == group.times()
        for kind in Kind:
            assert times[kind] == sum(thread.times()[kind] for thread in group.threads)
            assert all(ledger.share(times[kind]) >= ledger.share(t.times()[kind]) for t in group.threads)
        indices, single = ledger.indices(*group.threads), [ledger.indices(thread) for thread in group.threads]
        for name in _SUMS:
            parts = [getattr(one, name) for one in single]
            if getattr(indices, name) is not None and None not in parts:
                assert getattr(indices, name) == sum(parts)
                assert getattr(indices, name) >= max(parts)
        if indices.te is not None and indices.rpi and indices.epi is not None:
            assert abs(indices.te - indices.epi / indices.rpi) < 1e-9


@few
@given(ledgers(), several)
def test_shares_of_groups_add_up_to_those_of_threads(ledger: Ledger, by: GroupBy) -> None:
    whole = sum(sum(group.times().values()) for group in groups(ledger, by))
    assert whole == sum(thread.span for thread in ledger.threads)
    assert 0 <= ledger.share(whole) <= len(ledger.threads)


@few
@given(ledgers(), several, st.randoms())
def test_the_order_of_the_threads_makes_no_difference(ledger: Ledger, by: GroupBy, random: object) -> None:
    mixed = list(ledger.threads)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert facts(replace(ledger, threads=tuple(mixed)), by) == facts(ledger, by)


@few
@given(ledgers(), several)
def test_a_figure_has_the_weakest_quality_of_its_parts(ledger: Ledger, by: GroupBy) -> None:
    for group in groups(ledger, by):
        found = ledger.indices(*group.threads)
        divided = replace(ledger, threads=group.threads).divided  # by samples: `tests.model.test_sampled`
        for name in ("rpi", "epi", "mpi", "te") if divided else ("rpi", "epi", "mpi", "kpi", "iopi", "te"):
            expected = Quality.EXACT
            for thread in group.threads:
                expected |= ledger.indices(thread).quality[name]
            assert found.quality[name] is expected


def test_a_group_with_a_thread_whose_stalls_were_not_counted_has_a_bound() -> None:
    cells = {"user": Cell(50, 1, 500, 500, 100, 100, 0)}
    known = Thread(1, 1, "a", 0, 0, None, 100, 50, cells)
    unknown = replace(known, tid=2, states={"user": Cell(50, 1)})
    ledger = Ledger("bpf", Window(0, 100), (known, unknown), counted={"cycles": Counted(9, 9)})
    assert ledger.indices(known).quality["epi"] is Quality.EXACT
    together = ledger.indices(known, unknown)
    assert together.quality["epi"] is Quality.BOUND
    assert (together.rpi, together.epi, together.mpi) == (100, 90, None)


def test_a_share_is_of_the_window_not_of_the_time_that_a_thread_was_there() -> None:
    ledger = Ledger("bpf", Window(0, 1000))
    assert ledger.share(5) == 0.005
    assert ledger.share(2500) == 2.5
    assert Ledger("bpf", Window(7, 7)).share(0) == 0


def test_a_process_has_the_name_of_its_first_thread() -> None:
    main = Thread(5, 5, "java", 0, 0, None, 1, 1, {"user": Cell(1, 1)})
    other = replace(main, tid=4, name="GC")
    assert Group((other, main), GroupBy.PROCESS).name == "java"
    assert Group((other,), GroupBy.PROCESS).name == "GC"
    assert Group((other, main), GroupBy.NAME).name == "GC"
