"""Places for connections: whatever happens, the longest wait comes first, and no place is counted twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway.serving.places import Places

NOTES = st.lists(st.tuples(st.sampled_from(["wait_for", "serve", "leave"]), st.integers(0, 5)), max_size=40)


@given(NOTES)
def test_the_longest_wait_comes_first(notes: list[tuple[str, int]]) -> None:
    places: Places[int] = Places(4)
    since: dict[int, int | None] = {}
    for moment, (what, holder) in enumerate(notes):
        getattr(places, what)(holder)
        if what == "leave":
            since.pop(holder, None)
        else:
            since[holder] = moment if what == "wait_for" else None
        awaited = {one: begun for one, begun in since.items() if begun is not None}
        assert places.longest() == min(awaited, key=awaited.__getitem__, default=None)
        assert set(places) == set(since)
        assert len(places) == len(since)
        assert places.full is (len(since) >= 4)
        assert all((one in places) is (one in since) for one in range(6))
