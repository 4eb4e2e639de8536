"""Spinning in a ledger: a thread's time in user code divided into spinning and the rest, by samples.

Of the time in user code, which is exact, the share of the samples that spin is moved to the state `SPINNING`, as an
estimate with its number of samples. So the times of a thread's states add up as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from headway.dataclass import dataclass
from headway.model import DIVIDED_BY_SAMPLES, SPINNING, USER, Behind, Cause, Cell, Ledger, Thread, add_causes, divide

__all__ = ["IN_A_ROW", "Place", "with_spinning"]

IN_A_ROW = 2
"""As many samples in a row find a thread in the same loop, at least, if it spins."""


@dataclass(slots=True)
class Place:
    """The code of a loop in which a thread spun."""

    samples: int = 0
    spins: int = 0
    """How often samples in a row found the thread there, after something else."""


_NOWHERE: Mapping[int, Mapping[str, Place]] = {}


def with_spinning(
    ledger: Ledger, samples: Mapping[int, Counter[str]], places: Mapping[int, Mapping[str, Place]] = _NOWHERE
) -> Ledger:
    """Return the ledger with the time of user code divided into spinning and the rest.

    ``samples``: of each thread by its place, how many samples of user code fell into `SPINNING` and how many did not
    (``user``). A thread without a sample of the first, or with tasks, stays as it is. ``places``: where threads spun,
    by name, which become causes of that state.
    """
    threads = tuple(
        _divided(thread, samples[i], places.get(i, {}))
        if samples.get(i, Counter())[SPINNING] and USER in thread.states and not thread.tasks
        else thread
        for i, thread in enumerate(ledger.threads)
    )
    if threads == ledger.threads:
        return ledger
    reason = "user code that spins, waiting for memory to change, was found by samples"
    reasons = {"iopi": reason, "epi": reason, **ledger.reasons}
    if any(USER in (thread.durations or ()) and SPINNING in thread.sampled for thread in threads):
        reasons["durations"] = "; ".join(filter(None, [reasons.get("durations"), DIVIDED_BY_SAMPLES]))
    return replace(ledger, threads=threads, reasons=reasons)


def _divided(thread: Thread, samples: Counter[str], places: Mapping[str, Place]) -> Thread:
    cell = thread.states[USER]
    parts = divide(cell.time, samples)
    states = {state: other for state, other in thread.states.items() if state != USER}
    cells = _shared(cell, samples)
    states[USER] = Cell(0, cell.count)
    for state, part in parts.items():
        found = _with_time(cells[state], part.time, cell.count if state == USER else None)
        marked = None if state == USER else states.get(state)  # a region that is marked with the same word
        states[state] = found if marked is None else marked + found
    causes = [cause for cause in thread.causes if cause.state != USER]  # of which part they were is not known
    shares = divide(parts[SPINNING].time, Counter({name: place.samples for name, place in places.items()}))
    spun = [Cause(SPINNING, Behind.OBJECT, name, shares[name].time, place.spins) for name, place in places.items()]
    return replace(thread, states=states, causes=add_causes(causes, spun), sampled={**thread.sampled, **parts})


def _with_time(cell: Cell, time: int, count: int | None) -> Cell:
    """Return a cell with another time and count."""
    return Cell(
        time, count, cell.cycles, cell.instructions, cell.stall_cycles, cell.memory_stall_cycles,
        cell.external_stall_cycles, cell.events,
    )  # fmt: skip


def _shared(cell: Cell, samples: Counter[str]) -> dict[str, Cell]:
    """Return a cell for each state with its share of what hardware counted."""
    counts = [field.name for field in fields(Cell) if field.name not in ("time", "count", "events")]
    found = {}
    for state in samples:
        values: dict[str, Any] = {
            name: None if (whole := getattr(cell, name)) is None else divide(whole, samples)[state].time
            for name in counts
            if samples[state]
        }
        events = cell.events
        if events is not None and samples[state]:
            events = {n: None if v is None else divide(v, samples)[state].time for n, v in events.items()}
        found[state] = Cell(events=events, **values)
    return found
