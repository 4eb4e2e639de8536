"""What all measurements have in common that look at the kernel's clocks of threads again and again."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from headway.model import Ledger

from .control_groups import ControlGroups

__all__ = ["LookingMeasurement"]


class _Pace(Protocol):
    period: int
    share: float
    cost: int

    def rest(self, now: int) -> int: ...

    def scanned(self, at: int, cost: int) -> None: ...

    def spent(self, cost: int) -> None: ...


class LookingMeasurement(ABC):
    """Looks when its pace says so, and tells ledgers of what it found.

    ``clock``: ns of CLOCK_MONOTONIC. ``cgroups``: tells the control groups of threads; None: nobody wants to know.
    """

    def __init__(self, clock: Callable[[], int], pace: _Pace, cgroups: ControlGroups | None) -> None:
        self._clock, self._pace, self._cgroups = clock, pace, cgroups

    def service(self) -> float:
        """Look at every thread once, unless a reading did that just before. Return the seconds until the next look."""
        rest = self._pace.rest(self._clock())
        if rest < self._pace.period // 2:
            self._look()
            rest = self._pace.period
        return rest / 1e9

    def read(self) -> Ledger:
        """Return everything since the beginning, as of now."""
        return self._timed(self._total)

    def interval(self) -> Ledger:
        """Return what happened since the last interval, or since the beginning."""
        return self._timed(self._since_last)

    def _timed(self, make: Callable[[int], Ledger]) -> Ledger:
        now = self._look()
        before = time.thread_time_ns()
        ledger = self._grouped(make(now))
        self._pace.spent(time.thread_time_ns() - before)
        return ledger

    def _grouped(self, ledger: Ledger) -> Ledger:
        return ledger if self._cgroups is None else self._cgroups.told(ledger)

    @abstractmethod
    def _look(self) -> int:
        """Look at every thread once, and return the moment."""

    @abstractmethod
    def _total(self, now: int) -> Ledger:
        """Return everything since the beginning, as of the look at this moment."""

    @abstractmethod
    def _since_last(self, now: int) -> Ledger:
        """Return what happened since the last interval, or since the beginning, as of the look at this moment."""
