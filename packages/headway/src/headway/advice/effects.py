"""What a change did: where the time of a process went before and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from headway.dataclass import dataclass
from headway.model.kinds import Kind
from headway.model.ledger import Ledger

from .remedy import able

__all__ = ["Effect", "effect"]

_TOLERANCE = 0.01
"""A difference of shares that says nothing."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The shares of the time in which a process could run, by kind, from 0 to 1."""

    pid: int
    name: str
    before: Mapping[Kind, float]
    after: Mapping[Kind, float]

    @property
    def helped(self) -> bool:
        """Whether it makes more progress than before."""
        return self.after.get(Kind.EFFECTIVE, 0.0) > self.before.get(Kind.EFFECTIVE, 0.0) + _TOLERANCE


def effect(pid: int, before: Ledger, after: Ledger) -> Effect | None:
    """Compare two measurements of a process. None: one of them does not have it, or it could never run."""
    first, second = _shares(pid, before), _shares(pid, after)
    if not (first and second):
        return None
    name = next(thread.name for thread in before.threads if thread.pid == pid)
    return Effect(pid, name, first, second)


def _shares(pid: int, ledger: Ledger) -> dict[Kind, float]:
    found: Counter[Kind] = Counter()
    could = 0
    for thread in ledger.threads:
        if thread.pid == pid:
            times = ledger.times(thread)
            could += able(times)
            found.update({kind: time for kind, time in times.items() if kind.in_rpi})
            found.update({kind: times[kind] for kind in (Kind.READY, Kind.STOLEN)})
    return {kind: time / could for kind, time in found.items()} if could else {}
