"""The budget while the kernel's clocks are read: what looking costs, and what programs at each switch would."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from headway.linux.levels import Level

from ..clocks.measurement import ClockMeasurement
from ..ebpf.budget import FLOOR, BudgetPolicy, Period
from ..ebpf.level_control import PERIOD_NS

__all__ = ["ClockControl"]

LOOKING = 0.3
"""The part of the budget that looking may take: the rest is for readings, and for what makes use of them."""
SAMPLES_A_SECOND = 199
"""On each processor that is busy, at `Level.SWITCHES`."""


class ClockControl:
    """Feeds a policy with what a measurement at `Level.CLOCKS` costs. ``prices``: of events, ns by kind."""

    def __init__(
        self, policy: BudgetPolicy, clocks: ClockMeasurement, prices: Callable[[], Mapping[str, float]]
    ) -> None:
        self._policy, self._clocks, self._prices = policy, clocks, prices
        self.time = 0
        """How long the level was in use until the last look, ns."""
        self.leaves = False
        """Whether the policy wants another level."""
        self._start()

    def service(self) -> float:
        """Tell the policy what there was since the last time, if it is time to. Return the seconds until the next."""
        elapsed = self._clocks.looked - self._since
        if elapsed < PERIOD_NS:
            return max(0.0, (PERIOD_NS - elapsed) / 1e9)
        accounts = self._clocks.accounts
        busy, switches = accounts.run - self._run, accounts.switches - self._switches
        own = time.process_time_ns() - self._own
        price = self._prices()
        each = price.get("switch", 0.0) + price.get("wake", 0.0)
        samples = SAMPLES_A_SECOND * busy / 1e9 * price.get("sample", 0.0)
        period = Period(elapsed, busy, {Level.CLOCKS: 0.0}, own, {Level.SWITCHES: switches * each + samples})
        self.leaves = self._policy.feed(period) is not Level.CLOCKS
        self.time += elapsed
        self._clocks.set_share(LOOKING * self._policy.budget * max(busy / elapsed, FLOOR))
        self._start()
        return PERIOD_NS / 1e9

    def time_until_now(self) -> int:
        """Return how long the level was in use, ns."""
        return self.time + max(time.monotonic_ns() - self._since, 0)

    def _start(self) -> None:
        self._since = self._clocks.looked
        self._own = time.process_time_ns()
        self._run, self._switches = self._clocks.accounts.run, self._clocks.accounts.switches
