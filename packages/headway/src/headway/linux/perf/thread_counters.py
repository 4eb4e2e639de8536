"""Counters of single threads: what their user code does, for users who may not count on whole processors.

perf_event_open(2) lets every user count the user code of their own threads (perf_event_paranoid 2 or less). A counter
is opened when a thread is first seen, and read when figures are wanted. It keeps its last value when the thread ends.
What a thread ran before its counters were opened is not counted, and is reported: the kernel says for how much of the
thread's processor time it counted (time_enabled), and the rest is a loss.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from headway.dataclass import dataclass
from headway.model import KERNEL_THREAD, USER, Cell, Counted, kind_of

from .counters import CounterPlan
from .perf_event import CounterReading, Event, close_all, open_counter, read_counter

__all__ = ["ThreadCounters"]

Key = tuple[int, int]
Readings = list["CounterReading | None"]


@dataclass(slots=True)
class _Counters:
    """The counters of one thread: for each event the descriptors of its forms, one for each type of core."""

    fds: list[list[int]]

    def read(self, events: Iterable[Event]) -> Readings:
        return [_together(event, [read_counter(fd) for fd in fds]) for event, fds in zip(events, self.fds, strict=True)]

    def close(self) -> None:
        close_all(fd for fds in self.fds for fd in fds)
        self.fds = []


def _together(event: Event, readings: list[CounterReading | None]) -> CounterReading | None:
    """Return one reading of an event that has a counter on each type of core.

    A counter of one type of core runs only while the thread is there. If every type has one, together they should have
    run all the time. If not, the time elsewhere was not missed.
    """
    known = [reading for reading in readings if reading is not None]
    if not known or len(known) < len(readings):
        return None
    value, running = sum(r.value for r in known), sum(r.running for r in known)
    alone = event.cpus is not None and not event.alternatives
    return CounterReading(value, running if alone else max(r.enabled for r in known), running)


class ThreadCounters:
    """The counters of the measured threads. A thread is (tid, birth).

    ``budget``: the number of file descriptors that may be used. ``tick``: how old the run time of a running thread may
    be, in ns; time that was missed is reported only beyond that.
    """

    def __init__(self, plan: CounterPlan, budget: int, tick: int = 0) -> None:
        self.plan = plan
        self._tick = tick
        self._budget = budget
        self._each = sum(1 + len(event.alternatives) for event in plan.events)
        self._open: dict[Key, _Counters] = {}
        self._refused: set[Key] = set()
        self.uncounted = 0
        """The number of threads for which no counter could be opened."""
        self.missed = 0
        """Processor time of ended threads without counters, in ns."""
        self._ended = [Counted() for _ in plan.events]
        self._missed_now: dict[Key, int] = {}
        self._times_now: dict[Key, Readings] = {}

    @property
    def active(self) -> bool:
        """Whether there is anything to count."""
        return bool(self.plan.events)

    def follow(self, threads: Collection[Key]) -> None:
        """Open counters for threads without any, as long as there are descriptors."""
        if not self.active:
            return
        for key in threads:
            if key in self._open or key in self._refused:
                continue
            counters = self._opened(key[0])
            if counters is None:
                self._refused.add(key)
                self.uncounted += 1
            else:
                self._open[key] = counters

    def _opened(self, tid: int) -> _Counters | None:
        if (len(self._open) + 1) * self._each > self._budget:
            return None
        fds: list[list[int]] = []
        try:
            for event in self.plan.events:
                fds.append([])
                for form in (event, *event.alternatives):
                    fds[-1].append(open_counter(form, pid=tid))
        except OSError as error:
            close_all(fd for several in fds for fd in several)
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._budget = 0
            return None
        return _Counters(fds)

    def charge(self, key: Key, states: Mapping[str, Cell], *, ended: bool) -> dict[str, Cell]:
        """Return the states with the counts so far in the cell of user code, or of a thread of the kernel.

        For an ended thread, call it once.
        """
        counted = dict(states)
        if not self.active:
            return counted
        counters = self._open.get(key)
        readings: Readings = counters.read(self.plan.events) if counters else [None] * len(self.plan.events)
        figures = self.plan.figures([reading.scaled if reading is not None else None for reading in readings])
        place = KERNEL_THREAD if KERNEL_THREAD in counted else USER
        counted[place] = replace(counted.get(place, Cell(0, None)), **figures)
        if counters is None:
            self._refused.discard(key) if ended else None
            return counted
        # time_enabled of a thread's counter does not advance while the thread is on no processor, so it says for how
        # much of the thread's processor time there was a counter.
        ran = sum(cell.time for state, cell in states.items() if kind_of(state).in_rpi)
        # The compared run time may be a tick old, so a later reading may give less. What was missed once stays missed.
        missed = ran - max((r.enabled for r in readings if r is not None), default=0) - self._tick
        missed = max(missed, self._missed_now.get(key, 0))
        if ended:
            self.missed += missed
            self._ended = [a + b for a, b in zip(self._ended, _times(readings), strict=True)]
            self._missed_now.pop(key, None)
            self._times_now.pop(key, None)
            self._open.pop(key).close()
        else:
            self._missed_now[key] = missed
            self._times_now[key] = readings
        return counted

    def counted(self) -> dict[str, Counted]:
        """Return how much of the threads' time each event was counted, as of the last charges."""
        total = list(self._ended)
        for readings in self._times_now.values():
            total = [a + b for a, b in zip(total, _times(readings), strict=True)]
        return self.plan.counted([CounterReading(0, c.enabled, c.running) for c in total])

    def losses(self) -> dict[str, int]:
        """Return what was not counted, by name; empty if nothing is counted at all."""
        if not self.active:
            return {}
        return {"uncounted_threads": self.uncounted, "uncounted_ns": self.missed + sum(self._missed_now.values())}

    def close(self) -> None:
        """Close all counters. It may be called more than once."""
        for counters in self._open.values():
            counters.close()
        self._open.clear()


def _times(readings: Readings) -> list[Counted]:
    return [Counted(r.enabled, r.running) if r is not None else Counted() for r in readings]
