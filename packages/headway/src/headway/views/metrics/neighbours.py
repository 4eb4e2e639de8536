"""Who had the processor while threads of other processes were ready: totals in a bounded number of series.

A series is a process that was ready and a process that ran instead, both by name, with the pod, container or unit of
the one that ran. Pairs that come when there is no more room are added up in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headway.model import READY, Behind, Thread, origin_of

from ..printable import clean
from .places import LONGEST, Labels

__all__ = ["MOST_PAIRS", "Neighbours"]

MOST_PAIRS = 500
"""The largest number of pairs."""
_OTHERS: Labels = (("process", "other"), ("neighbour", "other"))


class Neighbours:
    """Adds up the causes of ledgers of consecutive intervals, in ns."""

    def __init__(self, most: int = MOST_PAIRS) -> None:
        self._most = most
        self._times: dict[Labels, int] = {}

    def add(self, threads: Iterable[Thread], name_of: Callable[[int], str]) -> None:
        """Add the threads of an interval. ``name_of`` returns the name of a process."""
        for thread in threads:
            for cause in thread.causes:
                if cause.state != READY or cause.behind is not Behind.HOLDER or cause.tid is None:
                    continue
                if cause.pid == thread.pid:
                    continue
                name = clean(cause.name, LONGEST) if cause.pid is None else name_of(cause.pid) or cause.name
                labels = [("process", name_of(thread.pid)), ("neighbour", clean(name, LONGEST))]
                if cause.cgroup is not None and cause.cgroup.strip("/"):
                    labels.append(("neighbour_pod", clean(origin_of(cause.cgroup).pod, LONGEST)))
                key = tuple(labels)
                if key not in self._times and len(self._times) >= self._most:
                    key = _OTHERS
                self._times[key] = self._times.get(key, 0) + cause.time

    def frozen(self) -> tuple[tuple[Labels, int], ...]:
        """Return the time of each pair, in ns."""
        return tuple(self._times.items())
