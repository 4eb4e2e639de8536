"""Times divided by the cycles of both modes: user code and the kernel add up, and no interval is claimed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headway.model import (
    EXACT,
    RUNNING,
    Cell,
    Estimate,
    Indices,
    Ledger,
    ModeCycles,
    Quality,
    Thread,
    Window,
    divide,
    divide_by_mode,
    merge,
    violations,
    wilson,
)

from ..ledgers import ledgers

times = st.integers(0, 10**15)
figures = st.integers(0, 10**18)
states = st.sampled_from(["user", "kernel.read", "kernel.futex", "kernel.fault", "irq"])
samples = st.dictionaries(states, st.integers(0, 10**6))
cycles = st.builds(ModeCycles, figures, figures, times).filter(lambda had: had.credible)


def thread(parts: dict[str, Estimate], *, exact: dict[str, int] | None = None, tid: int = 1) -> Thread:
    cells = {state: Cell(time, 1) for state, time in (exact or {}).items()}
    for state, part in parts.items():
        cells[state] = cells.get(state, Cell()) + Cell(part.whole, None)
    span = sum(cell.time for cell in cells.values())
    sampled = {state: part for state, part in parts.items() if state != RUNNING}
    return Thread(tid, 1, "a", 0, 0, None, span, span, cells, sampled=sampled)


def ledger_of(*threads: Thread) -> Ledger:
    return Ledger("bpf", Window(0, 10**15), threads)


def indices(*threads: Thread) -> Indices:
    return ledger_of(*threads).indices(*threads)


# ---- the division ----


@given(times, cycles, samples)
def test_the_parts_add_up_to_the_time(time: int, had: ModeCycles, found: dict[str, int]) -> None:
    parts = divide_by_mode(time, had, found)
    assert sum(part.by_mode for part in parts.values()) == time
    assert all(part.by_mode >= 0 and part.time == part.samples == 0 for part in parts.values())
    assert RUNNING not in parts


@given(times, cycles, samples)
def test_user_code_has_its_share_of_the_cycles_to_the_nearest_unit(
    time: int, had: ModeCycles, found: dict[str, int]
) -> None:
    """The oracle: fractions. The observer's time is the kernel's, and not part of what is divided."""
    user = divide_by_mode(time, had, found).get("user", Estimate()).by_mode
    share = Fraction(had.user, had.user + had.kernel) * (time + had.overhead)
    assert user == time if share > time else abs(user - share) <= Fraction(1, 2)


@given(times, cycles, samples)
def test_samples_divide_what_the_kernel_has_and_nothing_else(time: int, had: ModeCycles, found: dict[str, int]) -> None:
    parts = divide_by_mode(time, had, found)
    kernel = time - parts.get("user", Estimate()).by_mode
    inside = {state: number for state, number in found.items() if state != "user" and number}
    if not inside:
        assert parts.get("kernel", Estimate()) == Estimate(by_mode=kernel)
    else:
        expected = divide(kernel, inside)
        assert {s: (p.by_mode, p.mode_samples) for s, p in parts.items() if s != "user"} == {
            s: (p.time, p.samples) for s, p in expected.items()
        }
    more = divide_by_mode(time, had, {**found, "user": found.get("user", 0) + 1000})
    assert more == parts


@given(times, cycles, samples, st.dictionaries(st.sampled_from(["user.draw", "user.parse"]), st.integers(0, 10**6)))
def test_samples_divide_user_code_among_its_regions_and_leave_the_kernel_as_it_is(
    time: int, had: ModeCycles, found: dict[str, int], regions: dict[str, int]
) -> None:
    without, parts = divide_by_mode(time, had, found), divide_by_mode(time, had, found | regions)
    own = {state: part for state, part in parts.items() if state.partition(".")[0] == "user"}
    assert {s: p for s, p in parts.items() if s not in own} == {s: p for s, p in without.items() if s != "user"}
    assert sum(part.by_mode for part in own.values()) == without.get("user", Estimate()).by_mode
    if any(regions.values()):
        expected = divide(without.get("user", Estimate()).by_mode, {"user": found.get("user", 0)} | regions)
        assert {s: (p.by_mode, p.mode_samples) for s, p in own.items()} == {
            s: (p.time, p.samples) for s, p in expected.items()
        }


@given(times, cycles, st.integers(0, 10**18))
def test_more_cycles_in_user_mode_are_never_less_time_of_user_code(time: int, had: ModeCycles, more: int) -> None:
    user = divide_by_mode(time, had, {}).get("user", Estimate()).by_mode
    grown = divide_by_mode(time, replace(had, user=had.user + more), {}).get("user", Estimate()).by_mode
    assert grown >= user
    kernel = divide_by_mode(time, replace(had, kernel=had.kernel + more), {}).get("user", Estimate()).by_mode
    assert kernel <= user


@given(times, cycles, st.integers(1, 10**6))
def test_only_the_ratio_of_the_cycles_counts(time: int, had: ModeCycles, factor: int) -> None:
    scaled = replace(had, user=had.user * factor, kernel=had.kernel * factor)
    assert divide_by_mode(time, scaled, {}) == divide_by_mode(time, had, {})


@given(times, figures, figures, samples)
def test_cycles_in_one_mode_only_are_that_mode_alone(
    time: int, much: int, overhead: int, found: dict[str, int]
) -> None:
    assume(time and much)
    parts = divide_by_mode(time, ModeCycles(much, 0, overhead), found)
    assert parts["user"] == Estimate(by_mode=time)
    assert all(part.by_mode == 0 for state, part in parts.items() if state != "user")
    assert "user" not in divide_by_mode(time, ModeCycles(0, much, overhead), found)


@pytest.mark.parametrize(
    "had", [ModeCycles(0, 0), ModeCycles(-1, 5), ModeCycles(5, -1), ModeCycles(5, 5, -1), ModeCycles(0, 0, 7)]
)
def test_counters_that_stood_still_or_ran_backwards_are_refused(had: ModeCycles) -> None:
    assert not had.credible
    with pytest.raises(ValueError, match="cannot be divided"):
        divide_by_mode(100, had, {"user": 1})


def test_a_negative_time_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be divided"):
        divide_by_mode(-1, ModeCycles(1, 1), {})


def test_the_observer_is_taken_out_of_the_kernel() -> None:
    """900 ns of user code, 100 of the kernel's own, 200 of handlers, at one cycle a ns."""
    parts = divide_by_mode(1000, ModeCycles(900, 300, 200), {"kernel.read": 3, "irq": 1, "user": 50})
    assert parts == {
        "user": Estimate(by_mode=900),
        "kernel.read": Estimate(by_mode=75, mode_samples=3),
        "irq": Estimate(by_mode=25, mode_samples=1),
    }


# ---- the indices ----


@given(times, cycles, samples)
def test_the_indices_have_neither_an_interval_nor_are_they_exact(
    time: int, had: ModeCycles, found: dict[str, int]
) -> None:
    assume(time)
    one = thread(divide_by_mode(time, had, found))
    assert violations(replace(ledger_of(one), window=Window(0, time))) == []
    made = indices(one)
    assert made.rpi == time
    assert (made.epi or 0) + (made.kpi or 0) == time
    assert made.quality["rpi"] is Quality.EXACT
    assert made.quality["epi"] is made.quality["kpi"] is made.quality["te"] is Quality.BY_MODE
    assert made.interval == dict.fromkeys(("rpi", "epi", "mpi", "kpi", "iopi"))
    assert made.exact_share["epi"] == made.exact_share["kpi"] == 0
    assert made.iopi is made.td is made.exact_share["iopi"] is None


def test_what_was_counted_exactly_stays_exact() -> None:
    parts = divide_by_mode(400, ModeCycles(3, 1), {"kernel.read": 2})
    made = indices(thread(parts, exact={"user": 500, "poll": 100}))
    assert (made.epi, made.kpi, made.iopi) == (800, 100, 100)
    assert made.exact_share["epi"] == 500 / 800
    assert (made.quality["iopi"], made.exact_share["iopi"]) == (Quality.PARTIAL, 0.6)
    assert made.interval["iopi"] is None


def test_with_samples_too_the_interval_is_theirs_alone() -> None:
    by_mode = thread(divide_by_mode(1000, ModeCycles(1, 1), {"kernel.read": 1000}))
    by_samples = thread(divide(1000, {"user": 60, "kernel.read": 40}), tid=2)
    made = indices(by_mode, by_samples)
    assert (made.epi, made.kpi) == (1100, 900)
    assert made.quality["epi"] is made.quality["kpi"] is Quality.SAMPLED
    low, high = wilson(60, 100)
    assert made.interval["epi"] == (500 + int(low * 1000), 500 + int(high * 1000) + 1)
    assert made.interval["iopi"] is None


def test_undivided_time_of_other_threads_hides_the_kernel() -> None:
    made = indices(thread(divide_by_mode(1000, ModeCycles(1, 1), {})), thread({RUNNING: Estimate(100)}, tid=2))
    assert (made.rpi, made.epi, made.kpi) == (1100, 600, None)
    assert made.quality["epi"] is Quality.BY_MODE


# ---- ledgers ----


@given(ledgers(), ledgers(), ledgers())
def test_merging_is_associative_and_keeps_what_was_divided(a: Ledger, b: Ledger, c: Ledger) -> None:
    def parts(ledger: Ledger) -> dict[tuple[tuple[int, int], str], Estimate]:
        return {(t.key, state): part for t in ledger.threads for state, part in t.sampled.items()}

    assert parts(merge(merge(a, b), c)) == parts(merge(a, merge(b, c)))
    for field in ("time", "by_mode", "samples", "mode_samples"):
        sums = [sum(getattr(part, field) for part in parts(one).values()) for one in (a, b, merge(a, b))]
        assert sums[0] + sums[1] == sums[2]


@pytest.mark.parametrize("part", [Estimate(6, 1, 5), Estimate(0, 0, 11), Estimate(0, 0, -1), Estimate(0, 0, 1, -1)])
def test_more_than_a_state_has_breaks_the_law(part: Estimate) -> None:
    one = replace(thread({}, exact={"user": 10}), sampled={"user": part})
    assert len(violations(ledger_of(one))) == 1


def test_by_mode_is_worse_than_a_bound_and_better_than_samples() -> None:
    assert Quality.BOUND | Quality.BY_MODE is Quality.BY_MODE
    assert Quality.BY_MODE | Quality.SAMPLED is Quality.SAMPLED
    assert EXACT.kernel | Quality.BY_MODE is Quality.BY_MODE
