"""What a profile is, and what it says of each state."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model import (
    PARTS,
    Frame,
    Kind,
    Profile,
    Quality,
    is_exact,
    kind_of,
    part_of,
    sampling_error,
    summaries,
)

from ..profiles import STATES, profiles, small


def weights(profile: Profile) -> Counter[str]:
    total: Counter[str] = Counter()
    for _, state, weight, _, _ in profile.rows():
        total[state] += weight
    return total


@given(profiles())
def test_the_indices_divide_a_profile_without_rest(profile: Profile) -> None:
    parts = [part for part, kinds in PARTS.items() if len(kinds) == 1]
    divided = [weights(profile.narrowed(part=part)) for part in parts]
    total: Counter[str] = Counter()
    for one in divided:
        total.update(one)
    assert total == weights(profile)


@given(profiles(), st.sampled_from(STATES))
def test_a_state_is_that_state_alone_and_a_word_is_all_below_it(profile: Profile, state: str) -> None:
    assert set(weights(profile.narrowed(state=state))) <= {state}
    word = state.partition(".")[0]
    below = weights(profile.narrowed(state=word))
    assert below == {name: n for name, n in weights(profile).items() if name.partition(".")[0] == word}
    assert below == weights(profile.narrowed(state=f"{word}*"))


@given(profiles())
def test_a_state_has_the_time_of_its_rows_and_functions_no_more(profile: Profile) -> None:
    total = weights(profile)
    found = summaries(profile)
    assert {one.state: one.rows_time for one in found} == dict(total)
    for one in found:
        assert sum(stack.time for stack in one.stacks) == one.rows_time
        assert sum(stack.count for stack in one.stacks) == one.rows
        assert sum(spot.own for spot in one.functions) <= one.rows_time
        for spot in one.functions:
            assert 0 <= spot.own <= spot.total <= one.rows_time


def test_a_function_that_calls_itself_counts_once() -> None:
    user = next(one for one in summaries(small()) if one.state == "user")
    spots = {spot.function: (spot.own, spot.total) for spot in user.functions}
    assert spots == {
        "main": (0, 1_000_000_000),
        "work": (300_000_000, 1_000_000_000),
        "inner": (700_000_000, 700_000_000),
    }


def test_a_states_time_is_the_ledgers_and_shares_are_the_samples() -> None:
    user = next(one for one in summaries(small()) if one.state == "user")
    assert (user.time, user.rows_time, user.rows, user.quality) == (999_000_000, 10**9, 1000, Quality.SAMPLED)
    assert user.share(700_000_000) == 0.7
    error = user.error(700_000_000)
    assert error is not None
    assert 0.02 < error < 0.03  # 1.96 sqrt(0.7 * 0.3 / 1000)


def test_off_the_processor_it_is_exact_and_the_programs_own_frames_are_what_counts() -> None:
    wait = next(one for one in summaries(small()) if one.state == "wait.sleep")
    assert (wait.time, wait.rows, wait.quality, wait.error(1)) == (10**9, 42, Quality.EXACT, 0.0)
    assert [frame.name for frame in wait.stacks[0].frames] == ["nanosleep", "main"]
    assert wait.stacks[1].frames == ()
    assert {spot.function: spot.own for spot in wait.functions} == {"nanosleep": 700_000_000, "main": 0}


@given(st.floats(0, 1), st.integers(1, 10**6))
def test_the_error_shrinks_with_samples_and_never_is_nothing(share: float, n: int) -> None:
    error, fewer = sampling_error(share, 4 * n), sampling_error(share, n)
    assert error is not None
    assert fewer is not None
    assert 0 < error < fewer <= 0.5


def test_no_samples_say_nothing() -> None:
    assert sampling_error(0.0, 0) is None


def test_what_is_off_the_processor_or_stolen_is_exact() -> None:
    assert [state for state in STATES if is_exact(state)] == ["wait.futex", "ready", "stolen"]
    assert all(part_of(state, "lost") == (kind_of(state) not in (Kind.EFFECTIVE, Kind.OVERHEAD)) for state in STATES)


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        (Frame("f", None, None, "/a/b.so", 1, "user"), "f"),
        (Frame(None, None, None, "/a/b.so", 0x1F, "user"), "b.so+0x1f"),
        (Frame(None, None, None, None, 0x1F, "user"), "[unknown]+0x1f"),
        (Frame(None, None, None, "[kernel]", None, "kernel"), "[kernel]"),
    ],
)
def test_a_frame_without_a_function_is_named_by_its_place(frame: Frame, name: str) -> None:
    assert frame.name == name
