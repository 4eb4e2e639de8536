import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import precisions, states

from headway.model import (
    EXACT,
    Cell,
    Kind,
    Precision,
    Quality,
    amounts_of,
    indices_of,
    interrupt_time,
    listed,
    processor_time,
    time_by_kind,
)

times = st.fixed_dictionaries(dict.fromkeys(Kind, st.integers(0, 10**15)))
INDICES = ("rpi", "epi", "mpi", "kpi", "iopi", "td", "te", "me", "ke", "ioe")


@given(times)
def test_rpi_is_the_sum_of_its_parts_exactly(t: dict[Kind, int]) -> None:
    i = indices_of(t)
    assert None not in (i.rpi, i.epi, i.mpi, i.kpi, i.iopi)
    assert i.rpi == (i.epi or 0) + (i.mpi or 0) + (i.kpi or 0) + (i.iopi or 0) + t[Kind.STALL]


@given(times)
def test_the_efficiencies_follow_from_the_indices(t: dict[Kind, int]) -> None:
    i = indices_of(t)
    assert i.rpi is not None
    assert i.epi is not None
    assert i.td == i.rpi - i.epi
    if i.rpi:
        assert i.te == pytest.approx(1 - i.td / i.rpi)
    for efficiency, part in ((i.me, i.mpi), (i.ke, i.kpi), (i.ioe, i.iopi)):
        assert part is not None
        assert efficiency == (pytest.approx(1 - part / i.td) if i.td else 1)
        assert efficiency is not None
        assert 0 <= efficiency <= 1


@given(times)
def test_time_that_the_thread_did_not_have_is_in_no_index(t: dict[Kind, int]) -> None:
    without = {kind: time if kind.in_rpi else 0 for kind, time in t.items()}
    assert indices_of(t) == indices_of(without)


def test_where_nothing_was_lost_the_efficiencies_are_one() -> None:
    for t in ({}, {Kind.EFFECTIVE: 5}):
        i = indices_of(t)
        assert (i.td, i.te, i.me, i.ke, i.ioe) == (0, 1, 1, 1, 1)


@given(times, precisions)
def test_what_is_unavailable_is_none_and_nothing_else_is(t: dict[Kind, int], precision: Precision) -> None:
    i = indices_of(t, precision)
    assert set(i.quality) == set(INDICES)
    for name in INDICES:
        assert (getattr(i, name) is None) == (i.quality[name] is Quality.UNAVAILABLE)


@given(times, precisions)
def test_where_epi_is_a_bound_td_and_what_rests_on_it_are_at_least_what_is_told(
    t: dict[Kind, int], precision: Precision
) -> None:
    hidden = Quality.UNAVAILABLE in (precision.stall, precision.kernel, precision.poll)
    i = indices_of(t, precision)
    if not (hidden or precision.effective is Quality.BOUND):
        return
    assert i.quality["epi"] is not Quality.EXACT
    counted = i.quality["te"] is Quality.BOUND and precision.total in (Quality.EXACT, Quality.ESTIMATED)
    assert i.quality["td"] is (Quality.PARTIAL if counted else Quality.UNAVAILABLE)
    for efficiency, index in (("me", "mpi"), ("ke", "kpi"), ("ioe", "iopi")):
        known = counted and i.quality[index] in (Quality.EXACT, Quality.ESTIMATED)
        assert i.quality[efficiency] is (Quality.PARTIAL if known else Quality.UNAVAILABLE)


@given(times, st.integers(0, 10**15))
def test_a_figure_that_is_at_least_so_much_is_not_more_than_the_truth(t: dict[Kind, int], memory: int) -> None:
    bound = Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE)
    memory = min(memory, t[Kind.EFFECTIVE])
    seen = indices_of({**t, Kind.MEMORY: 0}, bound)
    true = indices_of({**t, Kind.EFFECTIVE: t[Kind.EFFECTIVE] - memory, Kind.MEMORY: memory})
    for name in ("td", "ke", "ioe"):
        assert getattr(seen, name) is not None
        assert getattr(seen, name) <= getattr(true, name)


@given(times, st.integers(0, 10**15), st.integers(0, 10**15))
def test_the_bounds_without_counters_hold_whatever_waited_for_memory(
    t: dict[Kind, int], memory: int, stall: int
) -> None:
    """The table of the module."""
    seen = indices_of({**t, Kind.MEMORY: 0, Kind.STALL: 0})
    memory = min(memory, t[Kind.EFFECTIVE])
    stall = min(stall, t[Kind.EFFECTIVE] - memory)
    hidden = {Kind.EFFECTIVE: t[Kind.EFFECTIVE] - memory - stall, Kind.MEMORY: memory, Kind.STALL: stall}
    true = indices_of({**t, **hidden})
    was, now = ({name: getattr(i, name) for name in INDICES} for i in (seen, true))
    assert was["td"] <= now["td"] <= was["rpi"]
    assert 0 <= now["mpi"] <= was["epi"]
    assert now["te"] <= was["te"]
    if was["td"]:
        assert was["ke"] <= now["ke"] <= 1 - was["kpi"] / was["rpi"] + 1e-12
        assert was["ioe"] <= now["ioe"] <= 1 - was["iopi"] / was["rpi"] + 1e-12
        assert now["me"] >= was["td"] / was["rpi"] - 1e-12


def test_te_is_a_bound_like_epi() -> None:
    i = indices_of({Kind.EFFECTIVE: 3, Kind.KERNEL: 1}, Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE))
    assert (i.rpi, i.epi, i.mpi, i.kpi, i.te) == (4, 3, None, 1, 0.75)
    assert (i.quality["te"], i.quality["epi"]) == (Quality.BOUND, Quality.BOUND)


def test_what_one_source_cannot_see_makes_epi_a_bound_though_it_says_exact() -> None:
    i = indices_of({Kind.EFFECTIVE: 3}, Precision(poll=Quality.UNAVAILABLE))
    assert i.quality["epi"] is Quality.BOUND
    assert i.quality["ke"] is Quality.PARTIAL
    assert i.ioe is None


@given(
    st.dictionaries(st.sampled_from(["user", "kernel.read", "irq.timer", "softirq.rcu", "irqs"]), st.integers(0, 99))
)
def test_time_by_kind_and_in_interrupts_is_that_of_the_states(found: dict[str, int]) -> None:
    states = {state: Cell(time) for state, time in found.items()}
    by_kind = time_by_kind(states)
    assert set(by_kind) == set(Kind)
    assert sum(by_kind.values()) == sum(found.values())
    assert by_kind[Kind.EFFECTIVE] == found.get("user", 0)
    assert interrupt_time(states) == found.get("irq.timer", 0) + found.get("softirq.rcu", 0)
    assert {state: time for state, _, time in listed(states)} == found


def test_a_mapping_may_have_the_answers_ready() -> None:
    class Ready(dict[str, Cell]):
        time_by_kind = dict.fromkeys(Kind, 7)
        interrupt_time = 9
        listed = (("user", 1, 2),)

    assert time_by_kind(Ready()) is Ready.time_by_kind
    assert interrupt_time(Ready()) == 9
    assert tuple(listed(Ready())) == Ready.listed
    assert indices_of(time_by_kind(Ready()), EXACT).rpi == 35


counted = st.dictionaries(
    st.sampled_from(["user", "kernel.read", "irq.timer", "poll", "ready", "wait.futex"]),
    st.builds(Cell, st.integers(0, 10**12), st.just(1), *(st.integers(0, 10**12) for _ in range(5))),
)


@given(counted)
def test_in_cycles_the_parts_are_all_cycles_on_a_processor(found: dict[str, Cell]) -> None:
    had = amounts_of(found, cycles=True)
    on_processor = [cell.cycles or 0 for state, cell in found.items() if state not in ("ready", "wait.futex")]
    assert processor_time(had.by_kind) == sum(on_processor)
    assert had.by_kind[Kind.READY] == had.by_kind[Kind.WAIT] == 0


@given(states())
def test_in_time_dividing_moves_user_time_and_nothing_else(found: dict[str, Cell]) -> None:
    had, before = amounts_of(found, cycles=False), time_by_kind(found)
    divided = (Kind.EFFECTIVE, Kind.MEMORY, Kind.STALL)
    assert {k: t for k, t in had.by_kind.items() if k not in divided} == {
        k: t for k, t in before.items() if k not in divided
    }
    assert sum(had.by_kind[k] for k in divided) == sum(before[k] for k in divided)


@given(states(), st.booleans())
def test_no_part_is_negative_whatever_the_counters_say(found: dict[str, Cell], cycles: bool) -> None:
    had = amounts_of(found, cycles=cycles)
    assert all(amount >= 0 for amount in had.by_kind.values())
    assert had.external is None or 0 <= had.external <= had.by_kind[Kind.MEMORY]


@given(states(), states(), st.booleans())
def test_amounts_of_two_threads_add_up(a: dict[str, Cell], b: dict[str, Cell], cycles: bool) -> None:
    one, two = amounts_of(a, cycles=cycles), amounts_of(b, cycles=cycles)
    assert processor_time((one + two).by_kind) == processor_time(one.by_kind) + processor_time(two.by_kind)
    assert one + two == two + one


def test_user_cycles_are_effective_memory_or_stalled() -> None:
    user = Cell(1000, 1, 800, 2000, 300, 200, 150)
    had = amounts_of({"user": user, "kernel.read": Cell(50, 1, 40)}, cycles=True)
    i = indices_of(had.by_kind, EXACT, external=had.external)
    assert (i.rpi, i.epi, i.mpi, i.kpi, had.by_kind[Kind.STALL]) == (840, 500, 200, 40, 100)
    assert (i.mpi_internal, i.mpi_external) == (50, 150)
    assert i.te == pytest.approx(500 / 840)
    in_time = amounts_of({"user": user, "kernel.read": Cell(50, 1, 40)}, cycles=False)
    assert (in_time.by_kind[Kind.EFFECTIVE], in_time.by_kind[Kind.MEMORY]) == (625, 250)
    assert (in_time.by_kind[Kind.STALL], in_time.by_kind[Kind.KERNEL], in_time.external) == (125, 50, 187)


def test_where_stalls_are_counted_but_not_what_for_epi_is_exact_and_mpi_unavailable() -> None:
    had = amounts_of({"user": Cell(1000, 1, 800, 2000, 300)}, cycles=True)
    assert not had.memory_seen
    assert had.stall_seen
    i = indices_of(had.by_kind, had.worth(EXACT), external=had.external)
    assert (i.epi, i.mpi, i.td, i.me) == (500, None, 300, None)
    assert i.quality["epi"] is Quality.EXACT


def test_where_memory_is_counted_but_no_other_stall_epi_is_a_bound() -> None:
    had = amounts_of({"user": Cell(1000, 1, 800, 2000, None, 200)}, cycles=True)
    i = indices_of(had.by_kind, had.worth(EXACT), external=had.external)
    assert (i.epi, i.mpi, i.td, i.mpi_external) == (600, 200, 200, None)
    assert i.quality["td"] is Quality.PARTIAL
    assert i.quality["epi"] is Quality.BOUND


def test_a_thread_whose_counters_could_not_be_opened_has_no_mpi() -> None:
    had = amounts_of({"user": Cell(1000, 1)}, cycles=False)
    i = indices_of(had.by_kind, had.worth(EXACT))
    assert (i.epi, i.mpi) == (1000, None)
    assert i.quality["epi"] is Quality.BOUND
