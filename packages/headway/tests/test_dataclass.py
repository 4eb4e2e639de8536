"""Classes of `headway.dataclass` behave as those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import product
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import dataclass as ours

pytestmark = pytest.mark.unit

OPTIONS: Sequence[Mapping[str, bool]] = [
    dict(zip(("frozen", "slots", "eq"), given, strict=True)) for given in product((True, False), repeat=3)
]
VALUES = st.one_of(st.integers(), st.floats(), st.text(), st.none(), st.tuples(st.integers()))


def classes(dataclass: Callable[..., Any], options: Mapping[str, bool]) -> list[Any]:
    """Make a class of each kind by a decorator."""

    @dataclass(**options)
    class Empty:
        """Nothing."""

    @dataclass(**options)
    class One:
        """One field."""

        a: object

    @dataclass(**options)
    class Many:
        """Fields of every kind."""

        shared: ClassVar[int] = 5
        a: object
        b: object = 7
        c: list[object] = field(default_factory=list)
        d: object = field(default=None, compare=False)
        e: object = field(default=None, repr=False)
        f: object = field(default=3, init=False)
        g: dict[str, int] = field(default_factory=dict, init=False, compare=False)
        h: object = field(default=9, kw_only=True)

        @property
        def doubled(self) -> object:
            return (self.a, self.a)

    @dataclass(**options)
    class Own:
        """Functions of its own."""

        a: object
        b: object = 1

        def __post_init__(self) -> None:
            if self.a == "wrong":
                raise ValueError("wrong")

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return type(other) is type(self)

    @dataclass(**options)
    class Hashed:
        """A hash of its own."""

        a: object

        def __hash__(self) -> int:
            return 5

    @dataclass(**options)
    class Heir(Many):
        """More fields."""

        i: object = 0

    return [Empty, One, Many, Own, Hashed, Heir]


NUMBER = range(6)


@dataclasses.dataclass(frozen=True, slots=True)
class Theirs:
    """At the top of the module, as pickle needs it."""

    a: object
    b: object = 2


@ours.dataclass(frozen=True, slots=True)
class Ours:
    """At the top of the module, as pickle needs it."""

    a: object
    b: object = 2


def outcome(function: Callable[[], Any]) -> tuple[object, ...]:
    """Return what a call gives, or how it fails."""
    try:
        return "gives", repr(function())
    except Exception as error:
        return "raises", type(error), str(error) if not isinstance(error, TypeError) else ""


MADE = [(classes(dataclasses.dataclass, options), classes(ours.dataclass, options)) for options in OPTIONS]


def alike(options: Mapping[str, bool], number: int, ask: Callable[[Any], Any]) -> None:
    theirs, same = MADE[OPTIONS.index(options)]
    assert outcome(lambda: ask(same[number])) == outcome(lambda: ask(theirs[number]))


@given(st.sampled_from(OPTIONS), st.sampled_from(NUMBER), st.lists(VALUES, max_size=4), st.booleans())
def test_objects_are_made_shown_and_taken_apart_alike(
    options: Mapping[str, bool], number: int, values: list[object], named: bool
) -> None:
    more = {"h": 4} if named else {}
    alike(options, number, lambda cls: cls(*values, **more))
    alike(options, number, lambda cls: dataclasses.asdict(cls(*values, **more)))
    alike(options, number, lambda cls: dataclasses.replace(cls(*values, **more), a=1))
    alike(options, number, lambda cls: copy.deepcopy(cls(*values, **more)))
    alike(options, number, lambda cls: copy.copy(cls(*values, **more)))


@given(st.sampled_from(OPTIONS), st.sampled_from(NUMBER), st.lists(VALUES, max_size=3), st.lists(VALUES, max_size=3))
def test_objects_are_compared_alike(
    options: Mapping[str, bool], number: int, one: list[object], other: list[object]
) -> None:
    alike(options, number, lambda cls: cls(*one) == cls(*other))
    alike(options, number, lambda cls: cls(*one) == cls(*one))
    alike(options, number, lambda cls: cls(*one) == 5)
    if options["eq"] and options["frozen"]:
        alike(options, number, lambda cls: hash(cls(*one)))
    alike(options, number, lambda cls: isinstance(hash(cls(*one)), int))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("number", NUMBER)
def test_fields_are_guarded_alike(options: Mapping[str, bool], number: int) -> None:
    def assign(cls: Any, name: str) -> object:
        found = cls(1) if number else cls()
        setattr(found, name, 8)
        return getattr(found, name)

    def remove(cls: Any, name: str) -> object:
        found = cls(1) if number else cls()
        delattr(found, name)
        return found

    names = {"a", "f", "other"}
    if options["frozen"] and options["slots"]:
        # Of another name Python 3.11 asks a class that is no longer there (TypeError).
        names &= {known.name for known in dataclasses.fields(MADE[OPTIONS.index(options)][0][number])}
    for name in sorted(names):
        alike(options, number, partial(assign, name=name))
        alike(options, number, partial(remove, name=name))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("number", NUMBER)
def test_classes_look_alike(options: Mapping[str, bool], number: int) -> None:
    alike(options, number, inspect.signature)
    alike(options, number, lambda cls: cls.__match_args__)
    alike(options, number, lambda cls: [(f.name, f.type, f.init, f.compare) for f in dataclasses.fields(cls)])
    alike(options, number, lambda cls: cls.__hash__ is None)
    alike(options, number, lambda cls: getattr(cls, "__slots__", "none"))
    alike(options, number, lambda cls: cls.__init__.__qualname__)


@given(VALUES, VALUES)
def test_objects_survive_pickle(a: object, b: object) -> None:
    found = pickle.loads(pickle.dumps(Ours(a, b)))
    assert type(found) is Ours
    assert repr(found) == repr(Ours(a, b)) == repr(Theirs(a, b)).replace("Theirs", "Ours")


def test_an_object_that_contains_itself_is_shown() -> None:
    one = Ours([])
    one.a.append(one)  # type: ignore[attr-defined]
    assert repr(one) == "Ours(a=[...], b=2)"


def test_a_field_without_a_default_cannot_follow_one_with() -> None:
    with pytest.raises(SyntaxError):

        @ours.dataclass
        class Wrong:
            """Fields in the wrong order."""

            a: int = 1
            b: int  # type: ignore[misc]
