"""Cycles by mode: those that a processor counts in user mode and in kernel mode, apart.

Where system calls are not seen, they tell a thread's own code from the kernel. Not every machine counts them: it may
have no performance monitoring unit or too few counters, and some hypervisors let a guest count in user mode only. So
they are tried, with a loop of system calls, before anything is measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from headway.errors import HeadwayError
from headway.linux.procfs import processors

from .counters import MAX_EVENTS, CounterPlan, default_set
from .events import EventError, EventFinder
from .perf_event import CounterReading, Event, close_all, open_counter, open_per_cpu, read_counter, why_not

__all__ = ["CALLS", "count_calls", "with_modes"]

CALLS = 2000
"""System calls of the loop. Each takes many cycles in both modes."""

_NAMES = "cycles:u", "cycles:k"


def with_modes(
    plan: CounterPlan,
    *,
    alone: bool,
    root: Path = Path("/"),
    events: EventFinder | None = None,
    count: Callable[[Sequence[Event]], list[CounterReading | None]] | None = None,
) -> CounterPlan | str:
    """Return a plan that counts cycles by mode, or one clause that says why that is not possible here.

    ``alone``: nothing else is of use, so nothing else is counted. Otherwise they are counted beside the events of
    ``plan``, and the two of them in place of its cycles. ``count`` runs the loop of system calls and returns what the
    counters of this thread counted meanwhile (`count_calls`). Nothing is left open.
    """
    events = events or EventFinder(root / "sys")
    found = default_set(root, events)
    if isinstance(found, str):
        return found
    try:
        user, kernel = (events.find(name) for name in _NAMES)
    except EventError as error:
        return str(error)
    wanted = _alone(user, kernel) if alone else _beside(plan, user, kernel)
    if len(wanted.events) > MAX_EVENTS:
        return f"there is no room for them beside the {len(plan.events)} events that are counted"
    try:
        readings = (count or count_calls)(wanted.events)
    except OSError as error:
        return why_not(replace(user, name=" and ".join(_NAMES)), error.errno or 0)
    except HeadwayError as error:
        return str(error)
    return _doubt(wanted, readings) or wanted


def _alone(user: Event, kernel: Event) -> CounterPlan:
    reasons = {"memory_stall_cycles": "only cycles are counted where system calls are not seen"}
    return CounterPlan((user, kernel), reasons=reasons, modes=(0, 1))


def _beside(plan: CounterPlan, user: Event, kernel: Event) -> CounterPlan:
    """Return the plan with both. Together they are all cycles, so an event that counts those is not needed."""
    places = plan.fields.get("cycles", ())
    needed = {*plan.named.values(), *(place for name, of in plan.fields.items() if name != "cycles" for place in of)}
    kept = [place for place in range(len(plan.events)) if place in needed or place not in places]
    moved = {place: number for number, place in enumerate(kept)}
    modes = len(kept), len(kept) + 1
    fields = {
        name: modes if name == "cycles" else tuple(moved[place] for place in of) for name, of in plan.fields.items()
    }
    return replace(
        plan,
        events=(*(plan.events[place] for place in kept), user, kernel),
        fields=fields,
        named={name: moved[place] for name, place in plan.named.items()},
        modes=modes,
    )


def _doubt(plan: CounterPlan, readings: Sequence[CounterReading | None]) -> str:
    """Return why the counters are not to be believed; empty: they are."""
    shared = [
        event.name
        for event, reading in zip(plan.events, readings, strict=True)
        if reading is None or reading.running < reading.enabled
    ]
    if shared:
        return (
            f"there are too few counters for {len(plan.events)} events at once, or another program uses them: "
            f"{' and '.join(shared)} had one for a part of the time only"
        )
    assert plan.modes is not None
    for place, mode in zip(plan.modes, ("user", "kernel"), strict=True):
        reading = readings[place]
        if reading is None or not CALLS <= reading.value < 1 << 63:
            counted = "nothing" if reading is None else f"{reading.value:,} cycles"
            return (
                f"{plan.events[place].name} counted {counted} in a loop of {CALLS:,} system calls: "
                f"the cycles in {mode} mode are hidden here, by a hypervisor for one"
            )
    return ""


def count_calls(events: Sequence[Event]) -> list[CounterReading | None]:
    """Return what each event counted in this thread while it made `CALLS` system calls; None: it has no counter.

    Raises HeadwayError where one cannot be counted on a processor, and OSError with the errno of perf_event_open(2)
    where it cannot be in a thread.
    """
    tried = open_per_cpu(events, processors.online()[:1])
    close_all(fd for fds in tried.values() for fd in fds)
    opened: list[list[int]] = []
    try:
        for event in events:
            opened.append([])
            for form in (event, *event.alternatives):
                opened[-1].append(open_counter(form, pid=0))
        before = [[read_counter(fd) for fd in fds] for fds in opened]
        for _ in range(CALLS):
            os.getppid()
        after = [[read_counter(fd) for fd in fds] for fds in opened]
    finally:
        close_all(fd for fds in opened for fd in fds)
    return [_grown(event, *both) for event, *both in zip(events, before, after, strict=True)]


def _grown(
    event: Event, before: Sequence[CounterReading | None], after: Sequence[CounterReading | None]
) -> CounterReading | None:
    """Return what all forms of an event counted between two readings. Each form counts on another type of core."""
    value = enabled = running = 0
    for old, new in zip(before, after, strict=True):
        if old is None or new is None:
            return None
        value += new.value - old.value
        enabled = max(enabled, new.enabled - old.enabled)
        running += new.running - old.running
    everywhere = event.cpus is None or bool(event.alternatives)
    return CounterReading(value, enabled if everywhere else running, running)
