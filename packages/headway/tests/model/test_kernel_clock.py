"""Processor time by the kernel's clock: windows that follow each other add up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway.model import KernelClock, Quality

known = st.builds(KernelClock, st.integers(0, 10**12), st.sampled_from([Quality.EXACT, Quality.BOUND]))
clocks = known | st.just(KernelClock(None, Quality.UNAVAILABLE))


@given(clocks, clocks, clocks)
def test_windows_add_up_in_any_order_and_what_is_unknown_stays(a: KernelClock, b: KernelClock, c: KernelClock) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert ((a + b).time is None) == (None in (a.time, b.time))
    assert ((a + b).time is None) == ((a + b).quality is Quality.UNAVAILABLE)


@given(known, known)
def test_the_difference_of_two_readings_is_what_came_between(earlier: KernelClock, added: KernelClock) -> None:
    assert (earlier + added) - earlier == KernelClock(added.time, Quality.EXACT)
