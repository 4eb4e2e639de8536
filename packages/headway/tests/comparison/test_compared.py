"""Figures of runs, and how two commands differ in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from tests.ledgers import ledgers

from headway.comparison.compared import ComparedRuns, compare
from headway.comparison.figures import INDICES, NAMES, CommandRun, run_of
from headway.comparison.turns import Order
from headway.comparison.verdicts import confidence_for, verdicts
from headway.conditions import ChangeCondition, parse_change
from headway.linux.bpf.shared.states import NAMES as STATES
from headway.model import EXACT, Kind, Ledger, Quality, add_states, indices_of, kind_of, time_by_kind
from headway.model.indices import Precision

ONE = 10**6


def run(wall: int = 100 * ONE, precision: Precision = EXACT, **states: int) -> CommandRun:
    """A run with these states, in ns; two underscores are a dot."""
    times = {name.replace("__", "."): time for name, time in states.items()}
    kinds = dict.fromkeys(Kind, 0)
    for state, time in times.items():
        kinds[kind_of(state)] += time
    return CommandRun(wall, "ns", indices_of(kinds, precision), times)


def condition(text: str) -> ChangeCondition:
    return parse_change(text, STATES, NAMES)


def compared(a: Sequence[CommandRun], b: Sequence[CommandRun], confidence: float = 0.95) -> ComparedRuns:
    return compare(a, b, Order.RANDOM, confidence)


@given(ledgers())
def test_a_run_has_all_the_time_of_its_threads(ledger: Ledger) -> None:
    found = run_of(ledger, 1, 0, 5)
    assert sum(found.times.values()) == sum(thread.span for thread in ledger.threads)
    kinds = time_by_kind(add_states(*(thread.states for thread in ledger.threads)))
    assert found.value("ready") == kinds[Kind.READY]
    assert found.value("wait") == kinds[Kind.WAIT]
    assert found.value("kernel") == kinds[Kind.KERNEL]
    if ledger.threads:
        for name in INDICES:
            assert found.value(name) == getattr(ledger.indices(*ledger.threads), name)
    for name in (*NAMES, *found.times, "irq", "wait.futex"):
        assert (found.value(name) is None) == (found.quality_of(name) is Quality.UNAVAILABLE)


@given(ledgers())
def test_threads_of_an_earlier_command_are_left_out(ledger: Ledger) -> None:
    later = max((thread.birth for thread in ledger.threads), default=0) + 1
    found = run_of(replace(ledger, source="bpf"), 1, later, 5)
    assert found.times == {}
    assert found.wall == 5


def test_two_of_the_same_do_not_differ() -> None:
    runs = [run(user=50 * ONE + number, ready=ONE) for number in range(10)]
    found = compared(runs, runs)
    assert all(figure.differs(0.95) == 0 for figure in found.figures)
    assert found.looked_at == 4  # wall, RPI, EPI and ready; wait, kernel and so on are 0


def test_a_change_is_found_where_it_is_and_nowhere_else() -> None:
    a = [run(100 * ONE, user=50 * ONE + number, kernel__read=10 * ONE - number % 3) for number in range(12)]
    b = [run(100 * ONE, user=52 * ONE + number, kernel__read=10 * ONE - number % 3) for number in range(12)]
    found = compared(a, b, 0.99)
    words = {figure.name: figure.differs(0.99) for figure in found.figures}
    assert words["epi"] == words["rpi"] == 1
    assert words["kpi"] == words["wall"] == 0
    assert "user" not in words, "it is EPI"
    (epi,) = [figure for figure in found.figures if figure.name == "epi"]
    assert epi.relative is not None
    assert epi.relative.low is not None
    assert epi.relative.high is not None
    assert epi.relative.low <= 0.04 <= epi.relative.high + 1e-6
    assert epi.relative.estimate == pytest.approx(0.04, abs=1e-4)
    assert epi.absolute is not None
    assert epi.absolute.estimate == 2 * ONE


def test_what_is_zero_in_a_run_has_no_ratio_but_a_difference() -> None:
    a = [run(user=ONE, ready=0) for _ in range(10)]
    b = [run(user=ONE, ready=ONE + number) for number in range(10)]
    (ready,) = [figure for figure in compared(a, b).figures if figure.name == "ready"]
    assert ready.relative is None
    assert ready.absolute is not None
    assert ready.absolute.low == pytest.approx(ONE, abs=9)
    assert ready.differs(0.95) == 1


def test_a_bound_stays_a_bound_and_what_is_not_known_has_a_reason() -> None:
    precision = Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE)
    runs = [run(user=ONE + number, precision=precision) for number in range(8)]
    found = {figure.name: figure for figure in compared(runs, runs).figures}
    assert found["epi"].quality is Quality.BOUND
    assert found["mpi"].quality is Quality.UNAVAILABLE
    assert found["mpi"].medians is None
    assert found["mpi"].reason


def test_cycles_and_time_are_not_compared() -> None:
    a = [run(user=ONE) for _ in range(8)]
    b = [replace(run(user=ONE), unit="cycles") for _ in range(8)]
    found = {figure.name: figure for figure in compared(a, b).figures}
    assert found["rpi"].reason == "counted in cycles in some runs only"
    assert found["wall"].probability is not None


def test_small_states_are_counted_and_not_looked_at() -> None:
    runs = [run(user=ONE, kernel__read=100, kernel__write=ONE) for _ in range(8)]
    found = compared(runs, runs)
    assert found.left_out == 1
    assert "kernel.read" not in {figure.name for figure in found.figures}


def test_rounds_without_their_block_are_left_out() -> None:
    runs = [run(user=ONE + number) for number in range(7)]
    found = compare(runs, runs, Order.ABBA, 0.9)
    assert len(found.a) == len(found.b) == 6


def test_a_steady_drift_cancels_out_of_abba() -> None:
    """The machine becomes slower by as much with each run: in ABBA A runs first and last, B in between."""
    speeds = [[100, 101, 102, 103], [104, 105, 106, 107]]
    a = [run(user=ONE * each) for four in speeds for each in (four[0], four[3])]
    b = [run(user=ONE * each) for four in speeds for each in (four[1], four[2])]
    (epi,) = [figure for figure in compare(a, b, Order.ABBA, 0.5).figures if figure.name == "epi"]
    assert epi.absolute is not None
    assert epi.absolute.low == epi.absolute.high == 0


def test_a_condition_is_proven_by_the_whole_interval_only() -> None:
    a = [run(user=100 * ONE + number % 4 * ONE) for number in range(20)]
    b = [run(user=105 * ONE + number % 3 * ONE) for number in range(20)]
    found = compared(a, b, 0.99)
    said = verdicts([condition(f"epi > +{percent} %") for percent in range(10)], found)
    proven = [verdict.proven for verdict in said]
    assert proven == sorted(proven, reverse=True)
    assert proven[0]
    assert not proven[5]
    for verdict in said:
        (change,) = verdict.condition.changes
        interval = verdict.interval(change)
        assert interval is not None
        assert interval.low is not None
        assert verdict.proven == (interval.low > change.limit)


def test_more_conditions_need_more_certainty() -> None:
    assert confidence_for([condition("epi > 1")], 0.99) == pytest.approx(0.99)
    assert confidence_for([condition("epi > 1 or wall > 1"), condition("ready > 1")], 0.99) == pytest.approx(
        1 - 0.01 / 3
    )


@pytest.mark.parametrize(
    ("text", "proven", "why"),
    [
        ("poll > +1 %", False, ""),
        ("poll < +1 %", True, ""),
        ("ready > +1 %", False, "it is 0 in a run, so it has no change in per cent"),
        ("ready > +1 us", True, ""),
        ("mpi > +1 %", False, "not known of every run"),
        ("instructions > +1 %", False, "not known of every run"),
    ],
)
def test_what_has_no_interval_proves_nothing_and_says_why(text: str, proven: bool, why: str) -> None:
    precision = Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE)
    a = [run(user=ONE, ready=0, precision=precision) for _ in range(10)]
    b = [run(user=ONE, ready=ONE, precision=precision) for _ in range(10)]
    (said,) = verdicts([condition(text)], compared(a, b))
    (change,) = said.condition.changes
    assert said.proven == proven
    assert said.why_not(change) == why


def test_too_few_rounds_prove_nothing() -> None:
    a, b = [run(user=ONE)] * 3, [run(user=2 * ONE)] * 3
    (said,) = verdicts([condition("epi > +1 %")], compared(a, b))
    (change,) = said.condition.changes
    assert not said.proven
    assert said.why_not(change) == "too few rounds"
