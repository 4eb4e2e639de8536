"""The exact run time of the thread that runs the tests, if the source is /proc.

The source reads threads also while they run. A thread found able to run in two readings is assumed to have run in
between, for at most one tick of the kernel; if that was too much, later readings get less
(`headway.linux.sources.proc`). Between two tests, later is too late. But the runner sleeps while the observer is asked,
and then the kernel's account of its run time is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headway.model import Cell, Kind, Thread, kind_of

__all__ = ["run_time", "with_run_time"]


def run_time(pid: int, tid: int) -> int | None:
    """Return the run time of a thread so far, in ns (schedstat, CONFIG_SCHED_INFO); None if it is not known."""
    try:
        with open(f"/proc/{pid}/task/{tid}/schedstat", "rb", buffering=0) as file:
            time = int(file.read(256).split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return time or None


def with_run_time(thread: Thread, time: int) -> Thread:
    """Return the thread with ``time`` ns on a processor, at most its span. The difference is taken from ``ready``.

    Its states on a processor keep their proportions, and the sum of all states stays the same.
    """
    on = {state: cell for state, cell in thread.states.items() if kind_of(state).in_rpi}
    off = {state: cell for state, cell in thread.states.items() if state not in on}
    had = sum(cell.time for cell in on.values())
    wanted = min(max(time, 0), thread.span)
    if had == wanted:
        return thread
    states = _scaled(on or {"user": Cell()}, had, wanted)
    ready = Cell()
    for state in [state for state in off if kind_of(state) is Kind.READY]:  # its parts are not known of other times
        ready += off.pop(state)
    rest = thread.span - wanted
    others = sum(cell.time for cell in off.values())
    if others > rest:  # it ran longer than ready time can cover, so the waits were shorter
        off = _scaled(off, others, rest)
        others = rest
    if rest > others:
        off["ready"] = _with_time(ready, rest - others)
    return replace(thread, states={**states, **off})


def _with_time(cell: Cell, time: int) -> Cell:
    return Cell(
        time,
        cell.count,
        cell.cycles,
        cell.instructions,
        cell.stall_cycles,
        cell.memory_stall_cycles,
        cell.external_stall_cycles,
        cell.events,
    )


def _scaled(states: Mapping[str, Cell], had: int, wanted: int) -> dict[str, Cell]:
    """Return the states scaled so that their times add up to ``wanted``, without remainder."""
    found, left = {}, wanted
    for number, (state, cell) in enumerate(states.items(), 1):
        time = left if number == len(states) else cell.time * wanted // had if had else 0
        left -= time
        found[state] = _with_time(cell, time)
    return found
