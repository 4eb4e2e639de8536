"""Two profiles beside each other: nothing of either is lost."""

from __future__ import annotations

from hypothesis import given

from headway.model import Profile, is_exact
from headway.views.differential import differing_places, folded_of_both
from headway.views.folded import folded

from ..profiles import profiles, small


@given(profiles(), profiles())
def test_each_stack_has_its_time_in_both(a: Profile, b: Profile) -> None:
    lines = [line.rsplit(" ", 2) for line in folded_of_both(a, b)]
    for column, profile in ((1, a), (2, b)):
        there = {line[0]: int(line[column]) for line in lines if int(line[column])}
        assert there == {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in folded(profile)
                         if int(line.rpartition(" ")[2])}  # fmt: skip


@given(profiles(), profiles())
def test_places_differ_by_what_the_waits_with_stacks_do(a: Profile, b: Profile) -> None:
    def waits(profile: Profile) -> int:
        return sum(weight for _, state, weight, _, stack in profile.rows() if is_exact(state) and stack)

    assert sum(one.difference for one in differing_places(a, b)) == waits(b) - waits(a)


def test_a_profile_differs_from_none_by_its_places() -> None:
    one = small()
    none = one.narrowed(state="nothing")
    found = [(it.name, it.state, it.place, it.a, it.b) for it in differing_places(one, none)]
    assert found == [("app", "wait.sleep", "main() at a.c:1", 700_000_000, 0)]
    assert differing_places(one, one) == []
