"""The rows of a ledger at the level `clocks`: what a thread did since it is measured, or since the last interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headway.linux.bpf.clocks._clock_accounts import ClockThread
from headway.model import KERNEL_THREAD, READY, RUNNING, Cell, Estimate, Thread, divide

__all__ = ["row_of", "row_since_told"]

_USER, _SYSTEM, _ARRIVALS, _VOLUNTARY, _INVOLUNTARY, _MINOR, _MAJOR = range(7)
"""The places of counts."""
_SWITCHES, _FAULTS = (_VOLUNTARY, _INVOLUNTARY), (_MINOR, _MAJOR)
_EVENTS = {
    **dict.fromkeys(("context-switches", "cs"), _SWITCHES),
    **dict.fromkeys(("page-faults", "faults"), _FAULTS),
    "minor-faults": (_MINOR,),
    "major-faults": (_MAJOR,),
    "voluntary": (_VOLUNTARY,),
    "involuntary": (_INVOLUNTARY,),
}
"""The counts that make an event, by its name (`COUNTED_AT_CLOCKS`)."""


def row_of(thread: ClockThread, names: list[str], tick: int, events: Sequence[str] = ()) -> Thread:
    """Return all that a thread did.

    ``names``: of the reasons for waiting. ``tick``: the scheduler's, ns. ``events``: that are to be told.
    """
    return _row(thread, *thread.figures(names), thread.start, tick, events)


def row_since_told(thread: ClockThread, names: list[str], tick: int, events: Sequence[str] = ()) -> Thread:
    """Return what a thread did since this was last called for it, or since it is measured."""
    run, states, counts = thread.figures(names)
    told = thread.told
    thread.told = run, states, counts, thread.until
    if told is None:
        return _row(thread, run, states, counts, thread.start, tick, events)
    earlier_run, earlier, earlier_counts, start = told
    new = {state: time - earlier.get(state, 0) for state, time in states.items()}
    between = tuple(later - before for later, before in zip(counts, earlier_counts, strict=True))
    return _row(thread, run - earlier_run, new, between, start, tick, events)


def _row(
    thread: ClockThread,
    run: int,
    others: Mapping[str, int],
    counts: tuple[int, ...],
    start: int,
    tick: int,
    events: Sequence[str],
) -> Thread:
    parts = {} if thread.in_kernel else _divided(run, counts, tick)
    cells = {state: Cell(part.time, None) for state, part in parts.items()}
    if run and not parts:  # a thread of the kernel has no code of a program, and a brief one no sample
        cells[KERNEL_THREAD if thread.in_kernel else RUNNING] = Cell(run, None)
    for state, time in others.items():
        if time:
            cells[state] = Cell(time, max(counts[_ARRIVALS], 1) if state == READY else None)
    if events:
        place = next(iter(cells), "user") if run or thread.in_kernel else "user"
        told = {name: sum(counts[each] for each in _EVENTS[name]) for name in events}
        cells[place] = replace(cells.get(place, Cell(0, None)), events=told)
    until = thread.until
    return Thread(
        tid=thread.tid,
        pid=thread.pid,
        name=thread.name,
        birth=thread.birth,
        start=start,
        end=until if thread.ended or thread.gone else None,
        until=until,
        span=until - start,
        states=cells,
        sampled=parts,
    )


def _divided(run: int, counts: tuple[int, ...], tick: int) -> dict[str, Estimate]:
    """Return the parts of a run time by the samples that user time and system time are; none without a sample."""
    user, system = counts[_USER], counts[_SYSTEM]
    if 2 * max(user, system) <= tick:
        return {}
    return divide(run, {"user": max(round(user / tick), 0), "kernel": max(round(system / tick), 0)})
