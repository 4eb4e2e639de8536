"""Indices of time that was divided by samples: which share is exact, within which limits the rest is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model import (
    EXACT,
    Amounts,
    Cell,
    Counted,
    Estimate,
    Group,
    GroupBy,
    Indices,
    Kind,
    Ledger,
    Overhead,
    Precision,
    Quality,
    Thread,
    Window,
    divide,
    merge,
    undivided_time,
    wilson,
)

from ..ledgers import ledgers

NAMES = ("rpi", "epi", "mpi", "kpi", "iopi")
ALL_EXACT = dict.fromkeys(NAMES, 1.0)
NO_INTERVAL = dict.fromkeys(NAMES)


def thread(tid: int = 1, *, exact: dict[str, int] | None = None, time: int = 0, **samples: int) -> Thread:
    """A thread whose states have exact times, and ``time`` that was divided by samples (kernel_read: kernel.read)."""
    named = {state.replace("_", "."): number for state, number in samples.items()}
    parts = divide(time, named)
    cells = {state: Cell(had, 1) for state, had in (exact or {}).items()}
    for state, part in parts.items():
        cells[state] = cells.get(state, Cell()) + Cell(part.time, 0)
    span = sum(cell.time for cell in cells.values())
    sampled = {state: part for state, part in parts.items() if state != "running"}
    return Thread(tid, 1, "a", 0, 0, None, span, span, cells, sampled=sampled)


def indices(*threads: Thread, precision: Precision = EXACT) -> Indices:
    return Ledger("bpf", Window(0, 10**15), threads, precision=precision).indices(*threads)


@given(ledgers(time_unit=None), st.sampled_from(GroupBy))
def test_shares_and_intervals_are_those_of_the_figures(ledger: Ledger, by: GroupBy) -> None:
    for one in ledger.threads:
        found = ledger.indices(one)
        assert tuple(found.exact_share) == tuple(found.interval) == NAMES
        for name in NAMES:
            value, share, limits = getattr(found, name), found.exact_share[name], found.interval[name]
            assert share is None or 0 <= share <= 1
            assert value is not None or share is None
            assert limits is None or 0 <= limits[0] <= limits[1]
            if value is not None and limits is not None:
                assert limits[0] <= value <= limits[1]
        assert (found.interval["rpi"] is None) == (ledger.precision.total is not Quality.ESTIMATED)
        assert found.exact_share["rpi"] in (None, 1)


@given(ledgers(time_unit=None))
def test_all_kinds_are_as_if_nothing_was_sampled(ledger: Ledger) -> None:
    for one in ledger.threads:
        had, plain = ledger.amounts(one), ledger.amounts(replace(one, sampled={}))
        assert had.by_kind == plain.by_kind
        assert had.by_samples <= sum(had.by_kind[kind] for kind in Kind if kind.in_rpi)
        for kind, estimate in had.sampled.items():
            assert 0 <= estimate.time <= had.by_kind[kind]
            assert estimate.samples <= had.samples


@given(ledgers(), ledgers())
def test_what_was_sampled_adds_up(a: Ledger, b: Ledger) -> None:
    both = merge(a, b)
    for ledger in (a, b):
        assert ledger.divided <= both.divided
    total = sum(part.time for t in both.threads for part in t.sampled.values())
    assert total == sum(part.time for ledger in (a, b) for t in ledger.threads for part in t.sampled.values())
    if both.threads and not both.counted:
        assert both.amounts(*both.threads).samples == sum(
            part.samples for ledger in (a, b) for t in ledger.threads for part in t.sampled.values()
        )
        assert Group(both.threads, GroupBy.NAME).sampled.keys() == {s for t in both.threads for s in t.sampled}


def test_where_nothing_was_sampled_all_is_exact() -> None:
    found = indices(thread(exact={"user": 3, "kernel.read": 1, "poll": 1}))
    assert found.exact_share == ALL_EXACT
    assert found.interval == NO_INTERVAL
    assert Ledger("bpf", Window(0, 9), (thread(exact={"user": 9}),)).worth() == EXACT


def test_a_source_that_samples_without_numbers_has_no_share() -> None:
    ticks = Precision(effective=Quality.SAMPLED, kernel=Quality.SAMPLED, poll=Quality.UNAVAILABLE)
    found = indices(thread(exact={"user": 3}), precision=ticks)
    assert found.exact_share == {"rpi": 1.0, "epi": None, "mpi": 1.0, "kpi": None, "iopi": None}


def test_all_time_divided_by_samples() -> None:
    found = indices(thread(time=1000, user=62, kernel_read=30, softirq_net=8))
    assert (found.rpi, found.epi, found.kpi, found.iopi, found.td) == (1000, 620, 380, None, None)
    assert found.quality["rpi"] is Quality.EXACT
    assert found.quality["epi"] is found.quality["kpi"] is found.quality["te"] is Quality.SAMPLED
    assert found.quality["iopi"] is Quality.UNAVAILABLE
    low, high = wilson(62, 100)
    assert found.interval["epi"] == (int(low * 1000), int(high * 1000) + 1)
    assert found.interval["kpi"] == (1000 - int(high * 1000) - 1, 1000 - int(low * 1000))
    assert found.exact_share == {"rpi": 1.0, "epi": 0.0, "mpi": 0.0, "kpi": 0.0, "iopi": None}


def test_the_exact_part_is_in_the_interval_as_it_is() -> None:
    found = indices(thread(exact={"user": 500, "kernel.read": 100, "poll": 50}, time=100, user=3, kernel_read=1))
    assert (found.epi, found.kpi) == (575, 125)
    low, high = wilson(1, 4)
    assert found.interval["kpi"] == (100 + int(low * 100), 100 + int(high * 100) + 1)
    assert found.exact_share["epi"] == pytest.approx(500 / 575)
    assert found.exact_share["kpi"] == pytest.approx(100 / 125)


def test_polling_is_known_of_the_exact_part_only() -> None:
    found = indices(thread(exact={"user": 500, "poll": 100}, time=400, user=4))
    assert (found.iopi, found.quality["iopi"], found.exact_share["iopi"]) == (100, Quality.PARTIAL, 0.6)
    assert found.interval["iopi"] == (100, 500)
    assert (found.td, found.ioe) == (None, None)
    none = indices(thread(exact={"user": 500, "wait.futex": 7}, time=500, user=4))
    assert (none.iopi, none.exact_share["iopi"]) == (0, 0.5)


def test_polling_that_the_source_never_tells_stays_unavailable() -> None:
    blind = Precision(poll=Quality.UNAVAILABLE)
    found = indices(thread(exact={"user": 500}, time=500, user=4), precision=blind)
    assert (found.iopi, found.interval["iopi"], found.exact_share["iopi"]) == (None, None, None)


def test_time_that_no_sample_fell_into_may_be_anything() -> None:
    found = indices(thread(exact={"ready": 5}, time=100))
    assert (found.rpi, found.epi, found.kpi, found.iopi) == (100, 100, None, None)
    assert found.quality["epi"] is Quality.BOUND
    assert found.interval == NO_INTERVAL
    assert found.exact_share == {"rpi": 1.0, "epi": 0.0, "mpi": 0.0, "kpi": None, "iopi": None}


def test_undivided_time_beyond_the_sampling_error_hides_the_kernel_and_its_limits_tell() -> None:
    sampled, undivided = thread(1, time=1000, user=50, kernel_read=50), thread(2, time=900)
    found = indices(sampled, undivided)
    assert (found.rpi, found.epi, found.kpi) == (1900, 1400, None)
    low, high = wilson(50, 100)
    assert found.interval["kpi"] == (int(low * 1000), int(high * 1000) + 1 + 900)
    assert found.interval["epi"] == (int(low * 1000), int(high * 1000) + 1 + 900)


def test_undivided_time_within_the_sampling_error_does_not_hide_the_kernel() -> None:
    found = indices(thread(1, time=1000, user=50, kernel_read=50), thread(2, time=20))
    assert (found.rpi, found.epi, found.kpi, found.quality["kpi"]) == (1020, 520, 500, Quality.SAMPLED)
    assert found.quality["epi"] is Quality.SAMPLED
    low, high = wilson(50, 100)
    assert found.interval["kpi"] == (int(low * 1000), int(high * 1000) + 1 + 20)


def test_all_samples_of_a_group_tell_more_than_those_of_a_thread() -> None:
    many = [thread(tid, time=1000, user=10, kernel_read=10) for tid in range(1, 101)]
    one, together = indices(many[0]), indices(*many)

    def width(found: Indices) -> float:
        low, high = found.interval["kpi"] or (0, 0)
        return (high - low) / (found.rpi or 1)

    assert width(together) < width(one) / 5


def test_time_divided_in_pieces_that_are_not_alike_is_within_its_interval() -> None:
    found = indices(thread(1, time=10**6, user=1000), thread(2, time=1, kernel_read=1000))
    low, high = found.interval["kpi"] or (0, 0)
    assert low <= (found.kpi or 0) == 1 <= high


def test_in_cycles_a_part_is_that_of_the_cell_and_counters_divide_it_further() -> None:
    cells = {"user": Cell(1000, 1, 4000, 0, 2000, 1000, 0), "kernel.read": Cell(500, 1, 1000)}
    sampled = {"user": Estimate(500, 30), "kernel.read": Estimate(500, 10)}
    one = Thread(1, 1, "a", 0, 0, None, 1500, 1500, cells, sampled=sampled)
    ledger = Ledger("bpf", Window(0, 1500), (one,), counted={"cycles": Counted(1, 1)}, unit="cycles")
    had = ledger.amounts(one)
    assert {kind: part.time for kind, part in had.sampled.items()} == {
        Kind.EFFECTIVE: 1000,
        Kind.MEMORY: 500,
        Kind.STALL: 500,
        Kind.KERNEL: 1000,
    }
    assert (had.by_samples, had.samples) == (3000, 40)
    found = ledger.indices(one)
    assert (found.rpi, found.epi, found.mpi, found.kpi) == (5000, 2000, 1000, 1000)
    assert found.quality["mpi"] is Quality.SAMPLED
    low, high = wilson(30, 40)
    limits = found.interval["mpi"] or (0, 0)
    assert limits == (500 + int(low * 750), 500 + int(high * 750) + 1)
    assert found.exact_share["mpi"] == 0.5


def test_a_mapping_may_have_the_undivided_time_ready() -> None:
    class Fast(dict[str, Cell]):
        time_by_kind = dict.fromkeys(Kind, 7)

    class Ready(Fast):
        undivided_time = 9

    assert undivided_time(Ready()) == 9
    assert undivided_time(Fast(running=Cell(5))) == 0
    assert undivided_time({"running": Cell(5)}) == 5
    assert undivided_time({}) == 0


def test_amounts_without_samples_are_worth_what_their_source_is() -> None:
    assert Amounts(dict.fromkeys(Kind, 5)).worth(EXACT) is EXACT


def test_where_samples_tell_spinning_from_user_code_only_these_two_are_sampled() -> None:
    one = thread(exact={"kernel.read": 200, "poll.recvfrom.socket": 50}, time=1000, user=30, poll_spin=70)
    found = indices(one)
    assert (found.epi, found.iopi, found.kpi, found.rpi) == (300, 750, 200, 1250)
    assert found.quality["epi"] is found.quality["iopi"] is Quality.SAMPLED
    assert found.quality["kpi"] is found.quality["rpi"] is Quality.EXACT
    assert found.exact_share["kpi"] == 1.0
    assert found.exact_share["iopi"] == 50 / 750
    low, high = wilson(70, 100)
    assert found.interval["kpi"] is None
    limits = found.interval["iopi"]
    assert limits is not None
    assert limits[0] <= 50 + low * 1000 < 750 < 50 + high * 1000 <= limits[1]


def test_threads_in_which_no_spinning_was_found_add_no_doubt() -> None:
    spins, works = thread(1, time=1000, user=30, poll_spin=70), thread(2, exact={"user": 500, "kernel.read": 100})
    found = indices(spins, works)
    assert (found.epi, found.iopi, found.kpi) == (800, 700, 100)
    assert found.quality["kpi"] is Quality.EXACT
    assert indices(works).quality["epi"] is Quality.EXACT


def test_a_range_of_cycles_is_in_cycles() -> None:
    """What observing cost is known in ns, and RPI is in cycles where these are counted."""
    states = {"user": Cell(900, 1, 2700, 100, 0, 0), "overhead": Cell(100, 0)}
    one = Thread(1, 1, "a", 0, 0, None, 1000, 1000, states)
    estimated = Precision(Quality.ESTIMATED, kernel=Quality.ESTIMATED, poll=Quality.ESTIMATED)
    ledger = Ledger(
        "bpf", Window(0, 1000), (one,), (), precision=estimated, overhead=Overhead(100, 9, (0.5, 2.0)), unit="cycles",
        counted={"cycles": Counted(1, 1)},
    )  # fmt: skip
    found = ledger.indices(one)
    assert found.rpi == 2700
    assert found.interval["rpi"] == (2400, 2850)
