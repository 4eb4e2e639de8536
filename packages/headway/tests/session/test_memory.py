"""How a recorder divides its memory: within what it may take, and the more of it, the more there is room for."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions
from headway.linux.procfs.memory import Room
from headway.session.memory import Recorded, default_memory, least_memory, plan_memory

pytestmark = pytest.mark.unit

MIB = 1 << 20
measures = st.builds(MeasureOptions, tasks=st.booleans(), publish=st.booleans())
recordings = st.builds(
    Recorded,
    cpus=st.integers(1, 1024),
    threads=st.integers(0, 100_000),
    measure=measures,
    counting=st.booleans(),
    forget=st.booleans(),
    limited=st.booleans(),
)
sizes = st.integers(MIB, 1 << 40)


@given(sizes, recordings)
def test_a_plan_takes_no_more_than_it_may_or_says_what_the_least_is(limit: int, recorded: Recorded) -> None:
    least = least_memory(recorded)
    if limit >= least:
        assert plan_memory(limit, recorded).need <= limit
        return
    with pytest.raises(
        HeadwayError, match=rf"needs {-(-least // MIB)} MiB of memory here, and may take {limit // MIB}:"
    ):
        plan_memory(limit, recorded)


@given(recordings)
def test_the_least_is_enough_and_a_byte_less_is_not(recorded: Recorded) -> None:
    least = least_memory(recorded)
    assert plan_memory(least, recorded).need <= least
    with pytest.raises(HeadwayError):
        plan_memory(least - 1, recorded)


@given(sizes, sizes, recordings)
def test_with_more_memory_nothing_is_smaller(one: int, other: int, recorded: Recorded) -> None:
    low = least_memory(recorded) + min(one, other)
    high = low + max(one, other)
    less, more = plan_memory(low, recorded), plan_memory(high, recorded)
    assert all(small <= large for small, large in zip(astuple(less)[1:], astuple(more)[1:], strict=True))


@given(sizes, recordings)
def test_all_threads_that_live_have_room(more: int, recorded: Recorded) -> None:
    assert plan_memory(least_memory(recorded) + more, recorded).max_threads > recorded.threads


@given(st.one_of(st.none(), st.builds(Room, sizes, st.sampled_from(["", "memory.max"]))), recordings)
def test_without_a_choice_some_room_is_left(room: Room | None, recorded: Recorded) -> None:
    size = default_memory(room, recorded)
    if room is None:
        return
    assert size <= room.size
    if not room.limited_by and size > least_memory(recorded):
        assert size <= room.size // 4
