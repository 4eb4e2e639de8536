"""Measuring programs that run already, until they have got something done: on a busy machine that may take a while."""

from __future__ import annotations

import time
from functools import reduce

from headway.linux.options import MeasureOptions, Selection
from headway.model import Ledger, merge
from headway.session.measure import observe

from .measuring import NO_OPTIONS, check


def until_it_has_worked(pid: int, seconds: float = 0.03) -> None:
    """Until a process has had so much more processor time, by its own clock (clock_getcpuclockid(3))."""
    clock = ~pid << 3 | 2
    end = time.clock_gettime(clock) + seconds
    while time.clock_gettime(clock) < end:
        time.sleep(0.002)


def measure_attached(pid: int, options: MeasureOptions = NO_OPTIONS, *, interval: float | None = None) -> Ledger:
    """A ledger of a process that runs already; ``interval``: put together from intervals, s. All keep the laws."""
    parts: list[Ledger] = []
    last = observe(
        Selection(pids=(pid,)),
        options=options,
        prefer="bpf",
        interval=interval,
        each=parts.append,
        seconds=2.5 * (interval or 0.01),
        started=lambda source, why: until_it_has_worked(pid),
    ).ledger
    for part in (*parts, last):
        check(part)
    return reduce(merge, (*parts, last))
