"""Time ready, and its parts: why a thread that could run did not.

A source that can tell them divides ``ready`` into the states `READY_PARTS`, which add up to it exactly. What is left in
the state ``ready`` itself was not divided. A cause of time ready (the holder of the processor) belongs to all of it.
Durations do too, because one occurrence can have several parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from .cell import Cell
from .kinds import Kind, kind_of

__all__ = ["ABOUT_PARTS", "READY", "READY_PARTS", "Counted", "count_of_durations", "time_with_causes"]

READY = "ready"
"""The state of a thread that is able to run and has no processor."""
ABOUT_PARTS = "parts of ready"
"""The name in `Ledger.reasons` under which a source says what the parts do not tell."""
READY_PARTS: Mapping[str, str] = {
    "ready.throttled": "the CPU quota of its control group, or the runtime of its scheduling class, was used up",
    "ready.own": "another thread of its own process had the processor",
    "ready.neighbour": "a thread of another process had the processor",
    "ready.interrupt": "an interrupt had the processor",
    "ready.stolen": "the hypervisor had the processor",
    "ready.wakeup": "the processor was idle, and on its way out of that",
}
"""The parts of `READY`, and why a thread does not run in each."""


class Counted(Protocol):
    """What has a count: the cell of a state."""

    @property
    def count(self) -> int | None:
        """Occurrences; None: their number is not known."""


def count_of_durations(states: Mapping[str, Counted], state: str) -> int | None:
    """Return how many durations a state has: its count; for ``ready`` with those of all of its parts.

    Returns None if the number of its occurrences is not known.
    """
    names = (READY, *READY_PARTS) if state == READY else (state,)
    counts = [states[name].count for name in names if name in states]
    return None if None in counts else sum([count for count in counts if count is not None])


def time_with_causes(states: Mapping[str, Cell], state: str) -> int:
    """Return the time that causes of this state explain: that of the state; of ``ready``, with all of its parts."""
    if state != READY:
        return states[state].time if state in states else 0
    return sum([cell.time for name, cell in states.items() if kind_of(name) is Kind.READY])
