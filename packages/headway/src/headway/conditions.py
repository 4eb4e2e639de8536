"""Conditions: comparisons of figures with numbers, as ``--when`` and ``--fail-if`` take them.

The language::

    condition   = [ scope ":" ] alternative { "or" alternative }
    alternative = comparison { "and" comparison }
    comparison  = name ( ">" | ">=" | "<" | "<=" ) number [ unit ]
    scope       = "thread" | "process" | "cgroup"

A name is a state (``wait.futex``), the first words of states (``irq``), or a group of states (`GROUPS`).

Of ``--when`` (`parse_condition`) the number is a share in per cent of the time that the scope had: a thread, or all
threads of a process or of a cgroup. Of ``--fail-if`` (`parse_change`) it is a change, with a sign or without: in per
cent, or in a unit of time (ns, us, ms, s). There is no scope, and figures that are not a state's time have a name too
(``wall``, ``instructions``).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Generic, TypeVar

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.model import Kind, kind_of

__all__ = [
    "GROUPS",
    "Change",
    "ChangeCondition",
    "Comparison",
    "Condition",
    "Scope",
    "belongs",
    "parse_change",
    "parse_condition",
]

_LONGEST = 500
"""The largest number of characters of a condition."""


class Scope(Enum):
    """Whose time a condition is about."""

    THREAD = "thread"
    PROCESS = "process"
    CGROUP = "cgroup"


def _of_kind(kind: Kind) -> Callable[[str], bool]:
    return lambda state: kind_of(state) is kind


def _on_processor(state: str) -> bool:
    return kind_of(state).in_rpi


GROUPS: Mapping[str, Callable[[str], bool]] = {
    "running": _on_processor,
    "rpi": _on_processor,
    "effective": _of_kind(Kind.EFFECTIVE),
    "epi": _of_kind(Kind.EFFECTIVE),
    "kernel": _of_kind(Kind.KERNEL),
    "kpi": _of_kind(Kind.KERNEL),
    "wait": _of_kind(Kind.WAIT),
    "ready": _of_kind(Kind.READY),
    "stolen": _of_kind(Kind.STOLEN),
    "overhead": _of_kind(Kind.OVERHEAD),
    "unknown": _of_kind(Kind.UNKNOWN),
}
"""Groups of states that have a name of their own, and whether a state belongs to them. ``running`` is all processor
time here, divided or not. ``kernel`` is what KPI adds up: interrupts too."""

_UNSEEN: Mapping[str, str] = {
    "poll": "polling does not show at the level switches",
    "iopi": "polling does not show at the level switches",
    "memory": "waiting for memory does not show at the level switches",
    "mpi": "waiting for memory does not show at the level switches",
    "stall": "stalls do not show at the level switches",
    "idle": "a thread is never idle: processors are",
}
"""Names that a report has and a condition cannot have, with the reason."""

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}
_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)|(?P<number>[+-]?\d{1,6}(?:\.\d{1,6})?)|(?P<sign><=|>=|<|>|%|:))",
    re.ASCII,
)
_TIMES: Mapping[str, int] = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
"""The units of time, in ns."""


@lru_cache(maxsize=4096)
def belongs(name: str, state: str) -> bool:
    """Return whether a state is among those that a name stands for."""
    group = GROUPS.get(name)
    return group(state) if group is not None else state == name or state.startswith(f"{name}.")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The share of a state, or of several, compared with a number."""

    name: str
    sign: str
    percent: float

    def holds(self, times: Mapping[str, int]) -> bool:
        """Return whether it is true of these times, by state; of no time nothing is true."""
        whole = sum(times.values())
        if whole <= 0:
            return False
        part = sum(time for state, time in times.items() if belongs(self.name, state))
        return _COMPARE[self.sign](100 * part, self.percent * whole)

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {_digits(self.percent)} %"


def _digits(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class Condition:
    """What must be true of the time of a thread, a process or a cgroup."""

    scope: Scope
    alternatives: tuple[tuple[Comparison, ...], ...]
    """It is true if all comparisons of one alternative are true."""

    def holds(self, times: Mapping[str, int]) -> bool:
        """Return whether it is true of these times, by state."""
        return any(all(one.holds(times) for one in every) for every in self.alternatives)

    def __str__(self) -> str:
        """Return it as `parse_condition` reads it."""
        words = " or ".join(" and ".join(str(one) for one in every) for every in self.alternatives)
        return words if self.scope is Scope.THREAD else f"{self.scope.value}: {words}"


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a figure, compared with a number."""

    name: str
    sign: str
    number: float
    unit: str = "%"
    """``%``, or a unit of time."""

    @property
    def relative(self) -> bool:
        """Whether the number is in per cent."""
        return self.unit == "%"

    @property
    def limit(self) -> float:
        """The number: as a share of one if it is relative, else in ns."""
        return self.number / 100 if self.relative else self.number * _TIMES[self.unit]

    def holds_for_all(self, low: float, high: float) -> bool:
        """Return whether it is true of all changes from ``low`` to ``high``, in the unit of `limit`."""
        return _COMPARE[self.sign](low if self.sign in (">", ">=") else high, self.limit)

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {'+' if self.number > 0 else ''}{_digits(self.number)} {self.unit}"


@dataclass(frozen=True, slots=True)
class ChangeCondition:
    """What must be true of the changes of figures."""

    alternatives: tuple[tuple[Change, ...], ...]
    """It is true if all changes of one alternative are as they say."""

    @property
    def changes(self) -> Iterator[Change]:
        """All changes that it is about."""
        return (one for every in self.alternatives for one in every)

    def holds(self, proven: Callable[[Change], bool]) -> bool:
        """Return whether it is true, if ``proven`` says of which changes it is certain."""
        return any(all(proven(one) for one in every) for every in self.alternatives)

    def __str__(self) -> str:
        """Return it as `parse_change` reads it."""
        return " or ".join(" and ".join(str(one) for one in every) for every in self.alternatives)


def parse_condition(text: str, states: Collection[str]) -> Condition:
    """Return the condition that a text means. Raises HeadwayError, whose text is one sentence.

    ``states``: the names of all states that a thread can be in, to refuse a name that is none.
    """
    return _ShareParser(text, states).condition()


def parse_change(text: str, states: Collection[str], figures: Collection[str] = ()) -> ChangeCondition:
    """Return the condition about changes that a text means. Raises HeadwayError, whose text is one sentence.

    ``states``: as for `parse_condition`; ``figures``: the names of other figures.
    """
    return _ChangeParser(text, states, figures).condition()


_Compared = TypeVar("_Compared", Comparison, Change)


class _Parser(ABC, Generic[_Compared]):
    """What both languages share: names compared with numbers, and alternatives of them."""

    example: str

    def __init__(self, text: str, states: Collection[str]) -> None:
        if len(text) > _LONGEST:
            raise HeadwayError(f"a condition has at most {_LONGEST} characters, and this one has {len(text):,}")
        self._text, self._states = text, states
        self._at = 0
        self._tokens: list[tuple[str, str]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._wrong(f"{text[at:].strip()[:20]!a} cannot be read")
            self._tokens.append((str(found.lastgroup), str(found[found.lastgroup or 0])))
            at = found.end()

    @abstractmethod
    def _compared(self, name: str, sign: str) -> _Compared:
        """Read what follows the sign."""

    @abstractmethod
    def _check(self, name: str) -> None:
        """Refuse a name that stands for nothing."""

    def _alternatives(self) -> tuple[tuple[_Compared, ...], ...]:
        alternatives = [self._alternative()]
        while self._take("or"):
            alternatives.append(self._alternative())
        if self._at < len(self._tokens):
            raise self._wrong(f"{self._tokens[self._at][1][:40]!a} is one word too many")
        return tuple(alternatives)

    def _alternative(self) -> tuple[_Compared, ...]:
        comparisons = [self._comparison()]
        while self._take("and"):
            comparisons.append(self._comparison())
        return tuple(comparisons)

    def _comparison(self) -> _Compared:
        name = self._expect("name", "the name of a state")
        self._check(name)
        sign = self._expect("sign", f"<, <=, > or >= after {name}")
        if sign not in _COMPARE:
            raise self._wrong(f"{name} is to be compared by <, <=, > or >=, not by {sign}")
        return self._compared(name, sign)

    def _expect(self, kind: str, what: str) -> str:
        if self._at == len(self._tokens):
            raise self._wrong(f"{what} is missing at its end")
        found, word = self._tokens[self._at]
        if found != kind or (kind == "name" and word in ("and", "or")):
            raise self._wrong(f"{word[:40]!a} is where {what} is to be")
        self._at += 1
        return word

    def _take(self, word: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][1] == word:
            self._at += 1
            return True
        return False

    def _is_state(self, name: str) -> bool:
        """Return whether states have this name. Tags of marked regions are not known beforehand."""
        if name in GROUPS or name.startswith(("noneffective.", "poll.", "user.")) or name == "noneffective":
            return True
        return any(state == name or state.startswith(f"{name}.") for state in self._states)

    def _unknown(self, name: str, known: Collection[str], what: str) -> HeadwayError:
        from difflib import get_close_matches

        close = get_close_matches(name[:40], known, n=1)
        return self._wrong(f"{name[:40]!a} is no {what}" + (f"; {close[0]} is one" if close else ""))

    def _wrong(self, what: str) -> HeadwayError:
        shown = self._text if len(self._text) <= 60 else f"{self._text[:60]}…"
        return HeadwayError(f"{shown!a} is no condition: {what}; {self.example}")


class _ShareParser(_Parser[Comparison]):
    """Reads conditions of --when."""

    example = "write it like 'ready > 20 %' or 'process: wait.futex > 50 % and running < 10 %'"

    def condition(self) -> Condition:
        scope = Scope.THREAD
        if len(self._tokens) > 1 and self._tokens[1] == ("sign", ":"):
            scope = self._scope(self._tokens[0][1])
            self._at = 2
        return Condition(scope, self._alternatives())

    def _scope(self, word: str) -> Scope:
        try:
            return Scope(word)
        except ValueError:
            raise self._wrong(f"{word[:40]!a} is no scope, which is thread, process or cgroup") from None

    def _compared(self, name: str, sign: str) -> Comparison:
        number = self._expect("number", f"a share in per cent after {sign}")
        if number[0] in "+-" or float(number) > 100:
            raise self._wrong(f"{number} % is no share: it is from 0 to 100 %")
        self._take("%")
        return Comparison(name, sign, float(number))

    def _check(self, name: str) -> None:
        if name in _UNSEEN:
            raise self._wrong(f"{name} cannot be in it, because {_UNSEEN[name]}")
        if not self._is_state(name):
            raise self._unknown(name, [*GROUPS, *self._states], "state")


class _ChangeParser(_Parser[Change]):
    """Reads conditions of --fail-if."""

    example = "write it like 'epi > +2 %' or 'wall > +5 % and ready < +1 ms'"

    def __init__(self, text: str, states: Collection[str], figures: Collection[str]) -> None:
        self._figures = figures
        super().__init__(text, states)

    def condition(self) -> ChangeCondition:
        return ChangeCondition(self._alternatives())

    def _compared(self, name: str, sign: str) -> Change:
        number = self._expect("number", f"a change, as in +2 %, after {sign}")
        unit = "%"
        if not self._take("%"):
            unit = next((word for word in _TIMES if self._take(word)), "%")
        return Change(name, sign, float(number), unit)

    def _check(self, name: str) -> None:
        if name not in self._figures and not self._is_state(name):
            raise self._unknown(name, [*self._figures, *GROUPS, *self._states], "figure")
