"""Labels that tell where a process belongs: its pod, its container, its systemd unit.

Reading a control group takes at least one system call, so it is read once for each process. It is read again when

- the process has a new name: it has executed a program, and container engines move a process before that;
- the process's id belongs to another process;
- a minute has passed, because a process can be moved at any time.

A thread that has ended keeps the labels that its process had before. The control group of a process that has ended
cannot be read; such a process has no labels and is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from headway.model import Thread

from ..printable import clean

__all__ = ["AGAIN_NS", "LONGEST", "Labels", "ProcessLabels"]

Labels = tuple[tuple[str, str], ...]

AGAIN_NS = 60_000_000_000
"""How long the labels of a process are used without reading its control group again, in ns."""
LONGEST = 128
"""The largest number of characters of a label's value. A pod's UID has 36, a container's id 64, a unit's name up to
255.
"""
_PRIME = 2_654_435_761


class _Place(NamedTuple):
    birth: int | None
    """The birth of the process's first thread; None: that thread is not measured."""
    name: str
    labels: Labels
    since: int
    """When the labels were read, in ns of the ledger's clock."""


class ProcessLabels:
    """The labels of the living processes."""

    def __init__(self, ask: Callable[[int], Labels | None], *, again: int = AGAIN_NS) -> None:
        """``ask`` reads the labels of a process by its id; None: they cannot be read. ``again``: see `AGAIN_NS`."""
        self._ask, self._again = ask, again
        self._now: dict[int, _Place] = {}
        self._before: dict[int, _Place] = {}
        self.missed = 0
        """The number of processes whose labels could not be read."""

    def look(self, threads: Iterable[Thread], name_of: Callable[[int], str], at: int) -> None:
        """Take in the threads of the next interval, which ends at ``at``. ``name_of`` returns the name of a process."""
        births: dict[int, int | None] = {}
        ended: set[int] = set()
        for thread in threads:
            pid = thread.pid
            if thread.end is not None:
                ended.add(pid)
            elif thread.tid == pid:
                births[pid] = thread.birth
            else:
                births.setdefault(pid, None)
        self._before, before = self._now, self._now
        self._now = now = {}
        for pid, birth in births.items():
            was, name = before.get(pid), name_of(pid)
            if was is not None and was.name == name and was.birth == birth and at - was.since < self._again:
                now[pid] = was
                continue
            labels = self._ask(pid)
            known = was is not None and birth in (was.birth, None)
            if labels is None:
                self.missed += not known
                labels = was.labels if was is not None and known else ()
            # The first period has a different length for each process, so that processes that started together are not
            # read together again.
            since = at if known else at - pid * _PRIME % max(self._again, 1)
            now[pid] = _Place(birth, name, _clean(labels), since)
        self.missed += len(ended - births.keys() - before.keys())

    def of(self, thread: Thread) -> Labels:
        """Return the labels of a thread of that interval."""
        pid = thread.pid
        place = self._before.get(pid) if thread.end is not None else None
        if place is None:
            place = self._now.get(pid)
        return () if place is None else place.labels


def _clean(labels: Labels) -> Labels:
    return tuple([(name, clean(value, LONGEST)) for name, value in labels])
