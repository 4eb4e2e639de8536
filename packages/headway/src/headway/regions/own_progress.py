"""What a thread has made of its time so far, as it reads that itself (`headway.progress`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Progress", "StateTime", "States"]


class Progress(NamedTuple):
    """Times of one thread since its measurement began, ns: ``rpi + ready + wait + other == at - since``.

    ``rpi`` is ``epi + kpi + iopi`` where these are known.
    """

    rpi: int
    """All processor time that the thread had."""
    epi: int | None
    """In its own code. Waiting for memory is in it. None: the observer does not tell it from the rest of ``rpi``."""
    kpi: int | None
    """In the kernel, in interrupts, and in regions that are marked as no progress. None: likewise."""
    iopi: int | None
    """Polling in vain, and in regions that are marked as polling. None: likewise."""
    ready: int
    """Able to run, but without a processor."""
    wait: int
    """Waiting for something, or stopped."""
    other: int
    """Stolen by the hypervisor, taken by the observer, or not seen."""
    since: int
    """When the measurement of the thread began, ns of CLOCK_MONOTONIC (`time.monotonic_ns`)."""
    at: int
    """The moment of these figures."""


class StateTime(NamedTuple):
    """What a thread had of one state."""

    time: int
    """ns. Negative in a difference: the observer has learnt meanwhile that earlier time was of another state."""
    count: int  # type: ignore[assignment]
    """Occurrences that have ended. Those of regions are counted at the thread's next event."""


class States(NamedTuple):
    """What a thread has made of its time, state by state: the times add up to ``progress.at - progress.since``.

    ``after - before`` is what it did between two moments.
    """

    progress: Progress
    """The same by kind. Of a difference: since the first moment."""
    state: str
    """What the thread is in."""
    times: Mapping[str, StateTime]
    """By the names of states. What the observer took is ``overhead``. A difference has those that changed."""

    def __sub__(self, before: States) -> States:
        """Return what it did since ``before``. Raises ValueError if that is of another thread or measurement."""
        was, is_now = before.progress, self.progress
        if was.since != is_now.since or was.at > is_now.at:
            raise ValueError("these are not two moments of one thread in one measurement, the later one first")
        nothing = StateTime(0, 0)
        times = {}
        for state in {**self.times, **before.times}:
            now, then = self.times.get(state, nothing), before.times.get(state, nothing)
            if now != then:
                times[state] = StateTime(now.time - then.time, now.count - then.count)
        return States(_less(is_now, was), self.state, times)


def _less(after: Progress, before: Progress) -> Progress:
    """Return what came between two moments; since the first one."""
    grown = [None if a is None or b is None else a - b for a, b in zip(after[:7], before[:7], strict=True)]
    return Progress._make([*grown, before.at, after.at])
