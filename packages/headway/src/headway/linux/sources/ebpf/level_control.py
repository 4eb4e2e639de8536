"""The level of detail while a measurement runs: it follows from a budget, by what the events cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from headway.linux.bpf.costs.calibration import Costs
from headway.linux.bpf.programs.attaching import Attachments
from headway.linux.bpf.reading.memory import BpfMaps
from headway.linux.bpf.shared.layout import EVENTS
from headway.linux.levels import Level

from .budget import BudgetPolicy, Period, percent

__all__ = ["LEVELS", "PERIOD_NS", "LevelControl", "describe", "exact_policy"]

PERIOD_NS = 250_000_000
"""How long the level stays, at least, unless it is far too dear."""
LOOK_NS = 50_000_000
"""From one look at the costs to the next, where a cheaper level can be had."""
LEVELS = (Level.SWITCHES, Level.INTERRUPTS)
"""A ledger of several levels would not say in which of its parts interrupts were seen, so `Level.CALLS` is left out."""

_CHEAPEST = ("switch", "wake", "sample")
"""The kinds of events of `Level.SWITCHES`."""


def exact_policy(budget: float, change_ns: float) -> BudgetPolicy:
    """Return a policy that chooses among the levels at which programs run at what happens, and begins with the highest.

    ``change_ns``: the processor time of attaching and detaching all programs once.
    """
    return BudgetPolicy(budget, change_ns, Level.INTERRUPTS, LEVELS)


def describe(policy: BudgetPolicy, times: Mapping[Level, int]) -> str:
    """Return in words what was asked for, what it cost in fact, and how long each level was in use, ns."""
    whole = sum(times.values()) or 1
    used = ", ".join(f"{level.value} {100 * times[level] / whole:.3g} %" for level in Level if times.get(level))
    cost = "no period has ended" if policy.share is None else f"cost {percent(policy.share)}"
    over = policy.over_budget
    above = f"; over the budget: even {policy.level.value} costs {percent(over)}" if over is not None else ""
    return f"{100 * policy.budget:.3g} % of processor time; {cost}; time at each level: {used}{above}"


class LevelControl:
    """Keeps a measurement within its budget. It begins at the policy's level, and `service` changes the level.

    ``costs``: tells what events cost now.
    """

    pause = PERIOD_NS / 1e9
    """Seconds from one look to the next: a look costs a part of the budget."""

    def __init__(
        self, policy: BudgetPolicy, memory: BpfMaps, attachments: Attachments, costs: Callable[[], Costs]
    ) -> None:
        self._memory, self._attachments, self.costs_now = memory, attachments, costs
        self._policy = policy
        self.times = dict.fromkeys(LEVELS, 0)
        """How long each level was in use until the last look, ns."""
        self._begins = True  # the first period has the work of starting too, which does not go on
        self.level = policy.level
        self.leaves = False
        """Whether the policy wants none of these levels any more: the measurement is to end."""
        self._start()

    def service(self) -> float:
        """Change the level if it is time to and the budget wants it. Return the seconds until the next look.

        Raises HeadwayError where programs cannot be attached again.
        """
        now = time.monotonic_ns()
        period = self._period(now) if self._is_due(now) else None
        if period is not None and (period.elapsed >= PERIOD_NS or self._policy.has_spent_a_second(period)):
            wanted = self._policy.feed(period)
            self.times[self.level] += now - self._since
            self._begins = False
            self.leaves = wanted not in LEVELS
            if wanted is not self.level and not self.leaves:
                self._change(wanted)
            self._start()
        return max(0.0, (self._next_look - time.monotonic_ns()) / 1e9)

    def _is_due(self, now: int) -> bool:
        """Return whether it is time for a look at the costs; set the moment of the next one."""
        if now < self._next_look:
            return False
        self._plan(now)
        return True

    def _plan(self, now: int) -> None:
        end = self._since + PERIOD_NS
        self._next_look = min(end, now + LOOK_NS) if self._policy.can_step_down else end

    def describe(self) -> str:
        """Return in words what was asked for, what it cost in fact, and how long each level was in use."""
        return describe(self._policy, self.times_until_now())

    def times_until_now(self) -> dict[Level, int]:
        """Return how long each level was in use, ns."""
        return {**self.times, self.level: self.times[self.level] + time.monotonic_ns() - self._since}

    def _start(self) -> None:
        self._since = time.monotonic_ns()
        self._plan(self._since)
        self._own = time.process_time_ns()
        self._occurred, self._busy = self._memory.activity()

    def _period(self, now: int) -> Period:
        occurred, busy = self._memory.activity()
        new = {kind: occurred[n] - self._occurred[n] for kind, n in EVENTS.items()}
        return Period(
            elapsed=now - self._since,
            measured=max(0, busy - self._busy),
            costs=self._costs(new),
            own=0 if self._begins else time.process_time_ns() - self._own,
        )

    def _costs(self, events: Mapping[str, int]) -> dict[Level, float]:
        """Return what the events of each attached layer cost, ns."""
        price = self.costs_now().of
        costs = {Level.SWITCHES: sum(events[kind] * price.get(kind, 0.0) for kind in _CHEAPEST)}
        if self.level is not Level.SWITCHES:
            costs[Level.CALLS] = 0.0
            rest = events.keys() - set(_CHEAPEST)
            costs[Level.INTERRUPTS] = sum(events[kind] * price.get(kind, 0.0) for kind in rest)
        return costs

    def _change(self, level: Level) -> None:
        """Change the level at a moment. What is attached or detached before or after it changes no figure.

        Time is not divided while programs are attached and detached one by one: those of the higher level that are
        attached are without effect.
        """
        if level is Level.SWITCHES:
            self._memory.set_undivided(True)
            self._attachments.set_level(level)
        else:
            self._attachments.set_level(level)
            self._memory.set_undivided(False)
        self.level = level
