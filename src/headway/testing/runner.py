"""The thread that runs the tests, where the source is /proc: its run time is exact, because it waits while it is read.

The source looks at threads while they run too, and holds one that it finds able to run twice in a row to have run in
between, for a tick of the kernel's at most; what was too much it gives less of later (`headway.linux.sources.proc`).
Between two tests later is too late. But while the observer is asked the runner sleeps, and the kernel's account of it
is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headway.model import Cell, Thread, kind_of

__all__ = ["run_time", "with_run_time"]


def run_time(pid: int, tid: int) -> int | None:
    """What a thread has run so far, ns (schedstat, CONFIG_SCHED_INFO); None where the kernel does not say."""
    try:
        with open(f"/proc/{pid}/task/{tid}/schedstat", "rb", buffering=0) as file:
            time = int(file.read(256).split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return time or None


def with_run_time(thread: Thread, time: int) -> Thread:
    """The thread with so much time on a processor, ns, or all of its span; the difference is taken from being ready.

    Its states on a processor keep their proportions, and all its states their sum.
    """
    on = {state: cell for state, cell in thread.states.items() if kind_of(state).in_rpi}
    off = {state: cell for state, cell in thread.states.items() if state not in on}
    had = sum(cell.time for cell in on.values())
    wanted = min(max(time, 0), thread.span)
    if had == wanted:
        return thread
    states = _scaled(on or {"user": Cell()}, had, wanted)
    ready = off.pop("ready", Cell())
    rest = thread.span - wanted
    others = sum(cell.time for cell in off.values())
    if others > rest:  # it ran longer than it was ready: the waits were less
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
    """The states with so much time in all, to the nanosecond."""
    found, left = {}, wanted
    for number, (state, cell) in enumerate(states.items(), 1):
        time = left if number == len(states) else cell.time * wanted // had if had else 0
        left -= time
        found[state] = _with_time(cell, time)
    return found
