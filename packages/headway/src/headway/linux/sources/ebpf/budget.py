"""Which level of detail a budget pays for: the policy alone. Others attach the programs and count the events.

The policy is fed what every control period cost, and says at which level the next one shall run. It looks at two sums:

- *The last second.* What the attached layers and the tool itself cost in it must not exceed the budget. If it does, the
  policy steps down at once. So a short burst is allowed, and an excess that lasts is left within a second. Within a
  period the policy can be asked whether the budget of a whole second is spent: then the period is to end early.
- *The bank.* It takes in the budget and pays for everything, changes of the level too. A change costs more than a small
  budget yields in a second, so the bank saves for it. A layer that is not attached cannot be seen: the policy tries it
  for one period when the bank can pay for that, and a trial that was dearer than expected leaves a debt that is paid
  off before the next one. The cost of all trials thus stays within the budget.

All times are ns. docs/budget.md explains the rules.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from statistics import median_low

from headway.dataclass import dataclass

from ...levels import Level

__all__ = ["FLOOR", "KEEP", "LONGEST_WAIT", "SECOND", "SHORTEST_WAIT", "BudgetPolicy", "Period", "percent"]

SECOND = 1_000_000_000
FLOOR = 0.5
"""The part of one processor from which a budget is taken at least. Else nothing could be seen of what hardly runs: 1 %
of nearly no processor time is nothing. With 1 % the tool may take 0.5 % of one processor in any case."""
KEEP = 0.8
"""The part of the budget that a level may cost when it is tried. It is left above 1, so it does not flap."""
SHORTEST_WAIT = 2 * SECOND
"""After the first trial in vain. Each further one doubles the wait."""
LONGEST_WAIT = 60 * SECOND
_OWN_SPAN = 10 * SECOND
"""Over this time the tool's own work is averaged: it comes in bursts, and no level prevents them."""
_HALF_LIFE = 60 * SECOND
"""After this time, half of what a layer cost is still expected of it."""
_OTHER_LOAD = 2.0
"""A load has changed when its rates have, by this factor."""
_NOTICED = 0.05
"""The part of the budget below which a rate counts as nothing."""


@dataclass(frozen=True, slots=True)
class Period:
    """What was seen since the last one."""

    elapsed: int
    measured: int
    """The processor time of what is measured, on all processors."""
    costs: Mapping[Level, float]
    """The events of each attached layer, times their prices. A layer that is missing was not attached."""
    own: float = 0.0
    """The tool's own processor time, without what attaching and detaching took."""
    foreseen: Mapping[Level, float] = field(default_factory=dict)
    """What layers would have cost that were not attached, where the kernel counts their events anyway."""

    def __post_init__(self) -> None:
        costs = (*self.costs.values(), *self.foreseen.values())
        if self.elapsed < 0 or self.measured < 0 or self.own < 0 or any(cost < 0 for cost in costs):
            raise ValueError("no time and no cost of a period can be negative")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A period in whole ns, so that sums stay exact."""

    elapsed: int
    base: int
    """The processor time that the budget is a share of."""
    own: int
    costs: tuple[int, ...]
    """By the rank of a level: what its layers cost, as far as they were seen."""
    layers: tuple[int, ...]
    """By rank: what its own layer cost."""
    seen: tuple[bool, ...]
    """By rank: whether its own layer was seen."""
    foreseen: tuple[int | None, ...]
    """By rank: what its own layer would have cost; None: nobody knows."""

    @classmethod
    def of(cls, period: Period) -> _Entry:
        layers = tuple(round(period.costs.get(level, 0)) for level in Level)
        return cls(
            period.elapsed,
            max(period.measured, int(FLOOR * period.elapsed)),
            round(period.own),
            tuple(accumulate(layers)),
            layers,
            tuple(level in period.costs for level in Level),
            tuple(round(period.foreseen[level]) if level in period.foreseen else None for level in Level),
        )


class _Window:
    """The latest periods that together last at most a time, and at least one: with their sums."""

    def __init__(self, span: int) -> None:
        self._span = span
        self.entries: deque[_Entry] = deque()
        self.elapsed = self.base = self.own = 0
        self.costs, self.layers, self.seen = [0] * len(Level), [0] * len(Level), [0] * len(Level)

    def add(self, entry: _Entry) -> None:
        """Take in the latest period, and drop those that are too old by then."""
        self.entries.append(entry)
        self._sum(entry, 1)
        while self.elapsed > self._span and len(self.entries) > 1:
            self._sum(self.entries.popleft(), -1)

    def _sum(self, entry: _Entry, sign: int) -> None:
        self.elapsed += sign * entry.elapsed
        self.base += sign * entry.base
        self.own += sign * entry.own
        for rank, cost in enumerate(entry.costs):
            self.costs[rank] += sign * cost
            self.layers[rank] += sign * entry.layers[rank]
            self.seen[rank] += sign * entry.seen[rank]


@dataclass(slots=True)
class _Tried:
    """What is known of a level that was attached before."""

    share: float
    """What its own layer cost in the last period in which it was seen, of the base."""
    seen: int
    """When that was."""
    failures: int = 0
    """How often in a row it was left because it was too dear."""
    left: int = 0
    """When it was left the last time."""
    load: dict[Level | None, float] = field(default_factory=dict)
    """The load a second after that: processor time (None) and the cost of the layers below, per ns, once known."""

    @property
    def again(self) -> int:
        """The moment before which it is not tried again."""
        if not self.failures:
            return self.left + SHORTEST_WAIT if self.left else 0
        return self.left + min(LONGEST_WAIT, SHORTEST_WAIT << min(self.failures - 1, 10))


class BudgetPolicy:
    """Keeps the cost of measuring within a share of the processor time of what is measured.

    A period begins when its level is attached. A trial that saw only a part of its period would seem too cheap.

    Args:
        budget: That share, 0.01 for 1 %.
        change_price: The processor time that a change of the level takes in all: attaching or detaching programs.
        start: The level of the first period.
        levels: The levels to choose from, cheapest first.
        clocks_price: The same of a change between `Level.CLOCKS` and the level above; None: it is ``change_price``.
    """

    level: Level
    """The level of the period that runs now."""
    why: str
    """In plain words, why it is that one."""
    over_budget: float | None
    """The share that the last second cost, where even the cheapest level cost more than the budget; else None."""
    changes: int
    """How often the level was changed."""

    def __init__(
        self,
        budget: float,
        change_price: float,
        start: Level = Level.SWITCHES,
        levels: Sequence[Level] = tuple(Level),
        clocks_price: float | None = None,
    ) -> None:
        if not 0 < budget <= 1:
            raise ValueError(f"a budget is a share above 0 and at most 1, not {budget}")
        if change_price < 0:
            raise ValueError(f"a change of the level cannot cost {change_price} ns")
        self.budget = budget
        self.change_price = change_price
        self.clocks_price = change_price if clocks_price is None else clocks_price
        self.level = start
        self._levels = tuple(levels)
        self.why = f"{start.value}: the level to start with"
        self.over_budget = None
        self.changes = 0
        self._now = 0
        self._since = 0  # when the level was entered
        self._trying = False
        self._bank = 0.0
        self._cost = 0.0
        self._base = 0
        self._new_load = False  # since a level was left
        self._tried: dict[Level, _Tried] = {}
        self._second, self._longer, self._minute = _Window(SECOND), _Window(_OWN_SPAN), _Window(LONGEST_WAIT)
        self._own = 0.0  # the tool's own processor time per ns, as of now

    @property
    def share(self) -> float | None:
        """What everything cost so far, changes too, of what the budget is a share of; None: nothing was fed."""
        return self._cost / self._base if self._base else None

    @property
    def bank(self) -> float:
        """What is saved; below zero: owed."""
        return self._bank

    def feed(self, period: Period) -> Level:
        """Take in what was seen in a period, and return the level for the next one."""
        if not period.elapsed:
            return self.level
        entry = _Entry.of(period)
        self._now += entry.elapsed
        self._base += entry.base
        for window in (self._second, self._longer, self._minute):
            window.add(entry)
        self._own = self._own_rate()
        self._learn(entry)
        self._account(entry)
        self._look_for_new_load()
        self._decide(entry)
        return self.level

    @property
    def can_step_down(self) -> bool:
        """Whether there is a cheaper level."""
        return self._next_to(self.level, -1) is not None

    def has_spent_a_second(self, period: Period) -> bool:
        """Return whether a period and what came before it have cost more than a whole second may cost.

        Then the second is over the budget, whatever the rest of it will be.
        """
        if not period.elapsed:
            return False
        now = _Entry.of(period)
        elapsed, base, cost = now.elapsed, now.base, now.costs[self.level.rank] + now.own
        for entry in reversed(self._second.entries):
            if elapsed + entry.elapsed > SECOND:
                break
            elapsed += entry.elapsed
            base += entry.base
            cost += entry.costs[self.level.rank] + entry.own
        return cost > self.budget * base * max(1.0, SECOND / elapsed)

    def _next_to(self, level: Level, step: int) -> Level | None:
        """Return the next cheaper level (step -1) or the next one that sees more (1); None: there is none."""
        place = self._levels.index(level) + step
        return self._levels[place] if 0 <= place < len(self._levels) else None

    # ---- what was seen ----

    def _own_rate(self) -> float:
        """Return the tool's own processor time per ns: averaged, or more if most of the last second had more.

        A single burst is spread. Work that has grown, because there is more to collect, is noticed within the second.
        """
        mean = self._longer.own / max(SECOND, self._longer.elapsed)
        return max(mean, median_low(one.own / one.elapsed for one in self._second.entries))

    def _share(self, level: Level, periods: _Window | _Entry) -> float:
        """Return what the level would have cost of the base, as far as its layers were seen."""
        return (periods.costs[level.rank] + self._own * periods.elapsed) / periods.base

    def _account(self, entry: _Entry) -> None:
        """Fill the bank and pay the period from it."""
        cost = entry.costs[-1] + entry.own
        self._cost += cost
        balance = self._bank + self.budget * entry.base - cost
        if self._next_to(self.level, -1) is None:
            # Nothing could have been saved: what the cheapest level costs beyond the budget is not owed.
            balance = max(balance, min(self._bank, 0.0))
        if self._new_load:
            # What another load has cost shall not keep this one from being seen for more than a minute.
            minute = self.budget * self._minute.base * max(1.0, LONGEST_WAIT / self._minute.elapsed)
            balance = max(balance, -minute)
        self._bank = min(balance, max(self._per_second(), self._needed(entry)))

    def _per_second(self) -> float:
        return self.budget * self._second.base * SECOND / self._second.elapsed

    def _learn(self, entry: _Entry) -> None:
        for rank, level in enumerate(Level):
            foreseen = entry.foreseen[rank]
            if foreseen is not None:
                tried = self._tried.setdefault(level, _Tried(0.0, 0))
                tried.share, tried.seen = foreseen / entry.base, self._now
            elif entry.seen[rank]:
                tried = self._tried.setdefault(level, _Tried(0.0, 0))
                tried.share, tried.seen = entry.layers[rank] / entry.base, self._now

    def _load(self) -> dict[Level | None, float]:
        """Return processor time and the costs of the attached layers, per ns. Those next to nothing are alike."""
        second = self._second
        least = _NOTICED * self.budget * second.base
        load: dict[Level | None, float] = {None: second.base / second.elapsed}
        for rank, layer in enumerate(Level):
            if rank <= self.level.rank and second.seen[rank] == len(second.entries):
                load[layer] = max(least, second.layers[rank]) / second.elapsed
        return load

    def _look_for_new_load(self) -> None:
        """Forget that the next level was tried in vain if the load is not the one that it was tried with."""
        above = self._next_to(self.level, 1)
        tried = self._tried.get(above) if above else None
        if tried is None or not tried.left or self._trying or self._now - self._since < SECOND:
            return
        load = self._load()
        if not tried.load:
            tried.load = load
        elif any(
            max(load[what], before) > _OTHER_LOAD * min(load[what], before)
            for what, before in tried.load.items()
            if what in load
        ):
            tried.failures, tried.load = 0, load
            self._new_load = True

    # ---- what is done ----

    def _needed(self, entry: _Entry) -> float:
        """Return what must be in the bank before the next level is tried: going there and back, and a period there.

        Of a layer that was never seen, the period is taken to cost what a second may.
        """
        above = self._next_to(self.level, 1)
        changes = 2 * self._price_from(self.level, above)
        tried = self._tried.get(above) if above else None
        if tried is None:
            return changes + self._per_second()
        expected = tried.share * math.exp2((tried.seen - self._now) / _HALF_LIFE)
        return changes + expected * entry.base

    def _price_from(self, level: Level, other: Level | None) -> float:
        return self.clocks_price if Level.CLOCKS in (level, other) else self.change_price

    def _foreseen(self, above: Level) -> float | None:
        """Return what the next level would have cost in the last second, of the base; None: nobody knows."""
        layers = [entry.foreseen[above.rank] for entry in self._second.entries]
        if not layers or None in layers:
            return None
        return self._share(self.level, self._second) + sum(filter(None, layers)) / self._second.base

    def _decide(self, entry: _Entry) -> None:
        tried, self._trying = self._trying, False
        share = self._share(self.level, self._second)
        self.over_budget = None
        if tried and entry.seen[self.level.rank]:
            self._conclude(entry, share)
        elif share <= self.budget:
            if tried:  # not attached in time: wait for it
                self._trying = True
            else:
                self._look_up(entry, share)
        elif self._next_to(self.level, -1):
            self._leave((self._second, entry), f"{self.level.value} cost {percent(share)} in the last second")
        else:
            self.over_budget = share
            self.why = (
                f"{self.level.value}: costs {percent(share)}, above the budget of {percent(self.budget)}, "
                "and there is no cheaper level"
            )

    def _conclude(self, entry: _Entry, second: float) -> None:
        """Stay at a level that was tried, or leave it; ``second``: the share of the last second."""
        share = self._share(self.level, entry)
        if share <= KEEP * self.budget and second <= self.budget:
            self.why = f"{self.level.value}: cost {percent(share)} of the budget of {percent(self.budget)} when tried"
        else:
            self._leave((self._second,), f"{self.level.value} cost {percent(share)} when tried")

    def _look_up(self, entry: _Entry, share: float) -> None:
        """Try the next level if there is reason to, and say why not otherwise."""
        above = self._next_to(self.level, 1)
        here = f"{self.level.value}: costs {percent(share)} of at most {percent(self.budget)}"
        if above is None:
            self.why = f"{here}, and there is nothing more to see"
            return
        tried = self._tried.get(above)
        again = tried.again if tried else 0
        needed = self._needed(entry)
        foreseen = self._foreseen(above)
        if foreseen is not None and foreseen > KEEP * self.budget:
            self.why = f"{here}; {above.value} would cost {percent(foreseen)}"
        elif share > KEEP * self.budget:
            self.why = f"{here}, which leaves no room for {above.value}"
        elif self._now < again:
            self.why = (
                f"{here}; {above.value} was too dear, and is tried again in {_seconds(again - self._now)} at least"
            )
        elif self._bank < needed:
            self.why = f"{here}; {_part(self._bank, needed)} of what it takes to try {above.value} is saved"
        else:
            self.why = f"{above.value}: tried for one period, as {percent(share)} of {percent(self.budget)} is used"
            self._change(above)
            self._trying, self._new_load = True, False

    def _leave(self, spans: tuple[_Window | _Entry, ...], cost: str) -> None:
        """Go down to the dearest level that is within the budget in all of these spans."""
        left = self.level
        to = self._next_to(left, -1)
        assert to is not None, "the cheapest level is not left"
        while (below := self._next_to(to, -1)) and any(self._share(to, span) > self.budget for span in spans):
            to = below
        stayed = self._now - self._since
        self._change(to)
        for level in (one for one in self._levels if to < one <= left):
            tried = self._tried.setdefault(level, _Tried(0.0, self._now))
            tried.failures = tried.failures + 1 if stayed < LONGEST_WAIT else 1
            tried.left, tried.load = self._now, {}
        again = self._tried[left].again - self._now
        self.why = (
            f"{to.value}: {cost}, and the budget is {percent(self.budget)}; "
            f"{left.value} is tried again in {_seconds(again)} at least"
        )

    def _change(self, to: Level) -> None:
        price = self._price_from(self.level, to)
        self._bank -= price
        self._cost += price
        self.changes += 1
        self.level, self._since = to, self._now


def percent(share: float) -> str:
    """Return a share in per cent: two digits of a small one, whole per cent of a larger one."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def _seconds(time: float) -> str:
    return f"{time / SECOND:.2g} s"


def _part(bank: float, needed: float) -> str:
    return "nothing" if bank <= 0 else percent(bank / needed)
