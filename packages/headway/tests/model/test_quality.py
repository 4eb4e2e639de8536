from hypothesis import given
from tests.ledgers import precisions, qualities

from headway.model import EXACT, Precision, Quality


@given(qualities, qualities, qualities)
def test_the_worse_of_two_qualities(a: Quality, b: Quality, c: Quality) -> None:
    assert a | b == b | a
    assert (a | b) | c == a | (b | c)
    assert a | a == a == a | Quality.EXACT
    assert a | Quality.UNAVAILABLE is Quality.UNAVAILABLE
    assert a | b in (a, b)


@given(precisions, precisions, precisions)
def test_the_worse_of_two_precisions(a: Precision, b: Precision, c: Precision) -> None:
    assert a | b == b | a
    assert (a | b) | c == a | (b | c)
    assert a | a == a == a | EXACT
    assert (a | b).kernel is a.kernel | b.kernel
