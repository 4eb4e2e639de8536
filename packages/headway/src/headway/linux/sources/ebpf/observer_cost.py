"""What observing costs beside the measured threads: headway itself, and threads that pass the same events."""

from __future__ import annotations

import time
from collections.abc import Callable

from headway.linux.bpf.costs.calibration import Costs

__all__ = ["ObserverCost"]


class ObserverCost:
    """Counts from now on.

    ``passed``: `BpfMaps.passed`; None: events of other threads are not told from those of the measured ones, or there
    are no other threads (``everything``). ``costs``: tells what events cost now.
    """

    def __init__(
        self, passed: Callable[[], tuple[int, int]] | None, costs: Callable[[], Costs], *, everything: bool = False
    ) -> None:
        self._passed, self._costs, self._everything = passed, costs, everything
        self._start = self._last = self._now()

    def _now(self) -> tuple[int, int, int]:
        return time.process_time_ns(), *(self._passed() if self._passed else (0, 0))

    def since(self, *, recent: bool) -> tuple[int, int | None]:
        """Return headway's own processor time since the beginning, and what other threads lost, ns; None: not known.

        ``recent``: since the last time that it was asked so.
        """
        now, before = self._now(), self._last if recent else self._start
        if recent:
            self._last = now
        own, calls, switches = (new - old for new, old in zip(now, before, strict=True))
        if self._passed is None:
            return own, 0 if self._everything else None
        passing = self._costs().passing
        return own, None if passing is None else round(calls * passing[0] + switches * passing[1])
