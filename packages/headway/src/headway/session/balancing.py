"""Holding parties at their shares of progress: the controller makes weights of what an interval measured.

Every value is in the undo journal before it is set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from math import inf

from headway.balance import Controller, Limits, Place, Seen
from headway.dataclass import dataclass
from headway.linux.placement.journal import Journal
from headway.linux.placement.weights import Undoable
from headway.model import Kind, Ledger, Quality, Thread, Window, processor_time

from .parties import Parties, Party

__all__ = ["RECENT", "Balance", "Turn", "TurnOfParty"]

RECENT = 10
"""Intervals whose progress is compared."""
_FORMER = (Place.NEW, Place.HELD, Place.LIMIT)


@dataclass(frozen=True, slots=True)
class TurnOfParty:
    """What a party did in an interval, and what is done about it. Times are ns."""

    party: Party
    share: float
    seen: Seen
    quality: Quality
    """Of its progress."""
    place: Place
    weight: float
    """Of the next interval, as a factor of what it was."""
    set: str
    """What is set now, in words."""


@dataclass(frozen=True, slots=True)
class Turn:
    """An interval of a balance."""

    window: Window
    parties: tuple[TurnOfParty, ...]
    ratio: float | None
    """The largest progress for its share in the last `RECENT` intervals, by the smallest, of the parties that can be
    balanced. None: fewer than two are."""
    unplaced: int = 0
    """Processor time of threads of which it is not known whose they are, ns."""


def ratio_of(progress: Mapping[Party, int], shares: Mapping[Party, float]) -> float | None:
    """Return the largest progress for its share by the smallest one. None: they are fewer than two."""
    rates = [made / shares[party] for party, made in progress.items()]
    if len(rates) < 2:
        return None
    return max(rates) / min(rates) if min(rates) > 0 else inf


class Balance:
    """Holds parties at shares of progress, from the first `turn` until `Journal.undo`.

    Args:
        parties: who is balanced
        shares: by party; 1 for those that are not there
        limits: of the weights
        journal: where everything is kept that is to be taken back
        name: of the plan in the journal
    """

    def __init__(
        self, parties: Parties, shares: Mapping[str, float], limits: Limits, journal: Journal, name: str
    ) -> None:
        self._parties, self._shares, self._journal, self._name = parties, shares, journal, name
        self._controller: Controller[Party] = Controller(limits)
        self._recent: deque[Mapping[Party, int]] = deque(maxlen=RECENT)

    def turn(self, ledger: Ledger) -> Turn:
        """Take what an interval measured, and set the weights of the next one. Raises HeadwayError if that fails."""
        divided, unplaced = self._parties.divided(ledger)
        read = {party: _read(ledger, threads) for party, threads in divided.items()}
        seen = {party: did for party, (did, _) in read.items()}
        shares = {party: self._share(party) for party in seen}
        weights = self._controller.next(seen, shares, ledger.window.duration)
        places = self._controller.places
        self._set({party: (weights[party], {thread.pid for thread in divided[party]}) for party in seen})
        levers = self._parties.levers()
        rows = tuple(
            TurnOfParty(party, shares[party], seen[party], quality, places[party], weights[party], levers[party].set())
            for party, (_, quality) in sorted(
                read.items(), key=lambda one: (one[0].name, one[0].pid or one[0].tid or 0)
            )
        )
        lost = sum(processor_time(thread.times()) for thread in unplaced)
        return Turn(ledger.window, rows, self._ratio(seen, shares, places), lost)

    def _share(self, party: Party) -> float:
        return next((share for name, share in self._shares.items() if party.is_called(name)), 1.0)

    def _set(self, wanted: Mapping[Party, tuple[float, Iterable[int]]]) -> None:
        levers = self._parties.levers()
        new = [levers[party].want(weight, pids) for party, (weight, pids) in wanted.items()]
        if any(new):
            records: dict[Undoable, None] = {}
            for lever in levers.values():
                records |= dict.fromkeys(lever.records())
            self._journal.keep(self._name, [*records])
        for party in wanted:
            levers[party].apply()

    def _ratio(
        self, seen: Mapping[Party, Seen], shares: Mapping[Party, float], places: Mapping[Party, Place]
    ) -> float | None:
        known = {p: did.progress for p, did in seen.items() if places[p] in _FORMER and did.progress is not None}
        self._recent.append(known)
        there = [party for party in known if all(party in before for before in self._recent)]
        return ratio_of({party: sum(before[party] for before in self._recent) for party in there}, shares)


def _read(ledger: Ledger, threads: list[Thread]) -> tuple[Seen, Quality]:
    """Return what the threads of a party did in an interval, and how far its progress can be trusted."""
    found = ledger.indices(*threads)
    times = [thread.times() for thread in threads]
    throttled = sum(t.states["ready.throttled"].time for t in threads if "ready.throttled" in t.states)
    ready = sum(one.get(Kind.READY, 0) for one in times) - throttled  # for which no weight helps
    return Seen(found.epi, sum(map(processor_time, times)), ready), found.quality["epi"]
