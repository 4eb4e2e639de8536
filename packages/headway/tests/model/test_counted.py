from hypothesis import given
from hypothesis import strategies as st

from headway.model import Counted

counts = st.builds(lambda running, lost: Counted(running + lost, running), st.integers(0, 10**15), st.integers(0, 99))


@given(counts)
def test_the_share_is_from_0_to_1_and_1_if_nothing_was_missed(c: Counted) -> None:
    assert 0 <= c.share <= 1
    assert c.whole == (c.enabled == c.running)
    assert c.share == 1 or not c.whole


@given(counts, counts)
def test_what_was_added_can_be_taken_away(a: Counted, b: Counted) -> None:
    assert a + b == b + a
    assert (a + b) - b == a


def test_where_there_was_no_time_nothing_was_missed() -> None:
    assert Counted().share == 1
    assert Counted(10, 0).share == 0
