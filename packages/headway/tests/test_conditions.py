"""Conditions of --when: they are read as written, hold by shares, and nonsense is answered with one sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.conditions import (
    GROUPS,
    Change,
    ChangeCondition,
    Comparison,
    Condition,
    Scope,
    belongs,
    parse_change,
    parse_condition,
)
from headway.errors import HeadwayError
from headway.linux.bpf.shared.states import NAMES
from headway.model import kind_of

STATES = frozenset(NAMES)
names = st.sampled_from([*GROUPS, *sorted(STATES - {"idle", "running"}), "irq", "softirq", "noneffective.busy"])
percents = st.integers(0, 10**8).map(lambda n: n / 10**6)
comparisons = st.builds(Comparison, names, st.sampled_from(["<", "<=", ">", ">="]), percents)
conditions = st.builds(
    Condition,
    st.sampled_from(Scope),
    st.lists(st.lists(comparisons, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple),
).filter(lambda condition: len(str(condition)) <= 500)
times = st.dictionaries(
    st.sampled_from(["user", "ready", "wait.futex", "wait.read", "kernel.read", "irq"]), st.integers(0, 10**12)
)

pytestmark = pytest.mark.unit


def read(text: str) -> Condition:
    return parse_condition(text, STATES)


@given(conditions)
def test_a_condition_is_read_as_it_is_written(condition: Condition) -> None:
    assert read(str(condition)) == condition


@given(st.text(max_size=80) | st.text("rwait.futex<>=% 0123456789andorprocess:", max_size=60))
def test_any_text_is_a_condition_or_one_sentence(text: str) -> None:
    try:
        assert read(str(read(text))) == read(text)
    except HeadwayError as error:
        said = str(error)
        assert said
        assert said.isprintable()
        assert "\n" not in said
        assert len(said) < 500


def test_a_text_that_is_too_long_is_refused_without_reading_it() -> None:
    with pytest.raises(HeadwayError, match="at most 500 characters"):
        read("ready > 1 or " * 1_000_000)


@given(times, names, percents)
def test_a_comparison_and_its_opposite_are_never_both_true(had: dict[str, int], name: str, percent: float) -> None:
    above, below = Comparison(name, ">", percent), Comparison(name, "<=", percent)
    assert above.holds(had) + below.holds(had) == (sum(had.values()) > 0)


@given(times, st.integers(1, 1000), names, percents)
def test_a_share_does_not_depend_on_the_length_of_the_period(
    had: dict[str, int], longer: int, name: str, percent: float
) -> None:
    once = Comparison(name, ">", percent)
    if percent.is_integer():  # a product of integers below 2^53 is exact
        assert once.holds({s: t * longer for s, t in had.items()}) == once.holds(had)


@given(times, comparisons, comparisons)
def test_and_needs_both_and_or_needs_one(had: dict[str, int], a: Comparison, b: Comparison) -> None:
    assert Condition(Scope.THREAD, ((a, b),)).holds(had) == (a.holds(had) and b.holds(had))
    assert Condition(Scope.THREAD, ((a,), (b,))).holds(had) == (a.holds(had) or b.holds(had))


@given(st.sampled_from(["user", "ready", "wait.futex", "kernel.read", "irq.timer", "stopped", "running", "stolen"]))
def test_a_group_has_the_states_of_its_kind(state: str) -> None:
    everything = {state: 1}
    for group, states in GROUPS.items():
        assert Comparison(group, ">", 99).holds(everything) == states(state)
    assert (
        sum(states(state) for group, states in GROUPS.items() if group in ("running", "ready", "wait", "stolen")) == 1
    )
    assert Comparison("running", ">", 99).holds(everything) == kind_of(state).in_rpi


@pytest.mark.parametrize(
    ("text", "scope", "holds", "fails"),
    [
        ("ready > 20 %", Scope.THREAD, {"ready": 3, "user": 7}, {"ready": 2, "user": 8}),
        ("ready>20", Scope.THREAD, {"ready": 3, "user": 7}, {"ready": 2, "user": 8}),
        ("process: wait.futex >= 50%", Scope.PROCESS, {"wait.futex": 1, "user": 1}, {"wait.read": 1, "user": 1}),
        ("cgroup: wait > 50 % and running < 10 %", Scope.CGROUP, {"wait.read": 1}, {"wait.read": 6, "user": 4}),
        ("irq > 1 % or softirq > 1 %", Scope.THREAD, {"softirq.rcu": 1}, {"user": 1}),
        ("kernel > 50 %", Scope.THREAD, {"irq.timer": 3, "kernel.read": 3, "user": 5}, {"kernel.read": 1, "user": 1}),
    ],
)
def test_examples(text: str, scope: Scope, holds: dict[str, int], fails: dict[str, int]) -> None:
    condition = read(text)
    assert condition.scope is scope
    assert condition.holds(holds)
    assert not condition.holds(fails)
    assert not condition.holds({})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the name of a state is missing"),
        ("ready", "<, <=, > or >= after ready is missing"),
        ("ready >", "a share in per cent after > is missing"),
        ("ready > 101 %", "101 % is no share"),
        ("ready % 20", "not by %"),
        ("ready == 20 %", "cannot be read"),
        ("raedy > 20 %", "'raedy' is no state; ready is one"),
        ("wait.futx > 20 %", "wait.futex is one"),
        ("poll > 1 %", "polling does not show"),
        ("mpi > 1 %", "waiting for memory does not show"),
        ("machine: ready > 1 %", "no scope"),
        ("ready > 20 % wait > 3 %", "one word too many"),
        ("ready > 20 % and", "missing at its end"),
        ("and > 3 %", "is where the name of a state is to be"),
        ("ready > -5 %", "is no share"),
        ("(ready > 5 %)", "cannot be read"),
    ],
)
def test_what_is_wrong_is_said(text: str, words: str) -> None:
    with pytest.raises(HeadwayError) as caught:
        read(text)
    assert words in str(caught.value)


# --- changes (--fail-if) ----------------------------------------------------------------------------------------------

FIGURES = frozenset({"wall", "instructions", "cache-misses"})
numbers = st.integers(-(10**8), 10**8).map(lambda n: n / 10**6)
changes = st.builds(
    Change,
    st.one_of(names, st.sampled_from(sorted(FIGURES))),
    st.sampled_from(["<", "<=", ">", ">="]),
    numbers,
    st.sampled_from(["%", "ns", "us", "ms", "s"]),
)
change_conditions = st.builds(
    ChangeCondition,
    st.lists(st.lists(changes, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple),
).filter(lambda condition: len(str(condition)) <= 500)


def change(text: str) -> ChangeCondition:
    return parse_change(text, STATES, FIGURES)


@given(change_conditions)
def test_a_condition_about_changes_is_read_as_it_is_written(condition: ChangeCondition) -> None:
    assert change(str(condition)) == condition


@given(st.text(max_size=80) | st.text("epiwall.<>=%+- 0123456789andormsu:", max_size=60))
def test_any_text_is_a_condition_about_changes_or_one_sentence(text: str) -> None:
    try:
        assert change(str(change(text))) == change(text)
    except HeadwayError as error:
        said = str(error)
        assert said.isprintable()
        assert "\n" not in said
        assert 0 < len(said) < 500


@given(changes, st.floats(-10, 10), st.floats(0, 10), st.floats(0, 1))
def test_what_holds_for_an_interval_holds_for_each_value_in_it(
    one: Change, low: float, length: float, where: float
) -> None:
    high = low + length
    within = min(max(low + where * length, low), high)
    if one.holds_for_all(low, high):
        assert one.holds_for_all(within, within)
    assert one.holds_for_all(low, high) == (one.holds_for_all(low, low) and one.holds_for_all(high, high))


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("epi > +2 %", 0.02),
        ("epi>2", 0.02),
        ("epi > -2.5%", -0.025),
        ("wall >= +5 ms", 5e6),
        ("ready > 1 s", 1e9),
        ("wait.futex < -3 us", -3e3),
        ("cache-misses > 10 %", 0.1),
    ],
)
def test_the_limit_of_a_change_is_a_share_or_a_time(text: str, limit: float) -> None:
    (only,) = change(text).changes
    assert only.limit == pytest.approx(limit)
    assert only.relative == (abs(limit) < 1)


def test_a_condition_about_changes_holds_if_one_alternative_is_proven() -> None:
    condition = change("epi > 1 and wall > 1 or ready > 1")
    assert condition.holds(lambda one: one.name in ("epi", "wall"))
    assert condition.holds(lambda one: one.name == "ready")
    assert not condition.holds(lambda one: one.name == "epi")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epi > +2 %%", "one word too many"),
        ("epj > +2 %", "'epj' is no figure; epi is one"),
        ("process: epi > 2", "'process' is no figure"),
        ("epi > two", "'two' is where a change"),
        ("epi + 2", "cannot be read"),
        ("epi > ", "is missing at its end"),
        ("", "is missing at its end"),
    ],
)
def test_a_wrong_condition_about_changes_is_answered_with_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(HeadwayError, match=words.replace("+", r"\+")) as caught:
        change(text)
    assert "write it like 'epi > +2 %'" in str(caught.value)


def test_a_share_has_no_sign() -> None:
    for text in ("ready > +5 %", "ready > -5 %"):
        with pytest.raises(HeadwayError, match="is no share"):
            read(text)


@given(names)
def test_a_state_belongs_to_its_own_name_and_to_the_first_words_of_it(name: str) -> None:
    if name not in GROUPS:
        assert belongs(name, name)
        assert belongs(name, f"{name}.more")
        assert not belongs(f"{name}.more", name)
