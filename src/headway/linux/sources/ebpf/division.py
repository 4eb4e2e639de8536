"""Division: the processor time that no handler divided, divided by samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from headway.linux.bpf._memory import Cells
from headway.model import RUNNING, Cell, Processor, Thread, divide

__all__ = ["divided"]

_Row = TypeVar("_Row", Thread, Processor)


def divided(rows: Iterable[_Row]) -> list[_Row]:
    """Return the threads or processors with their undivided time given to the states that their samples fell into.

    A row without a sample keeps its time in the state ``running``. How often a state that has samples was entered is
    not known.
    """
    return [
        _divide(row, row.states) if isinstance(row.states, Cells) and row.states.undivided_time else row for row in rows
    ]


def _divide(row: _Row, cells: Cells) -> _Row:
    counts = cells.sample_counts
    if not counts:
        return row
    states = dict(cells.items())
    estimates = divide(states.pop(RUNNING).time, counts)
    for state, estimate in estimates.items():
        known = states.get(state)
        states[state] = Cell(estimate.time + (known.time if known is not None else 0), None)
    return replace(row, states=states, sampled=estimates)
