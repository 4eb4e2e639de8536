"""Division: the processor time that no handler divided, divided by the cycles of both modes and by samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from headway.linux.bpf.threads._cells import Cells
from headway.model import RUNNING, Cell, Estimate, Processor, Thread, divide, divide_by_mode, known_durations

__all__ = ["divided"]

_Row = TypeVar("_Row", Thread, Processor)


def divided(rows: Iterable[_Row]) -> list[_Row]:
    """Return the threads or processors with their undivided time given to states.

    Where cycles by mode are known, they tell user code from the kernel, and samples divide the kernel's time. Elsewhere
    samples divide all of it, and a row without a sample keeps its time in the state ``running``. How often a state that
    has such time was entered is not known, except of marked regions.
    """
    return [
        _divide(row, row.states) if isinstance(row.states, Cells) and row.states.undivided_time else row for row in rows
    ]


def _divide(row: _Row, cells: Cells) -> _Row:
    estimates = _estimates(cells)
    if not estimates:
        return row
    states = dict(cells.items())
    del states[RUNNING]
    for state, estimate in estimates.items():
        known = states.get(state)
        count = known.count if known is not None and state.startswith("user.") else None
        states[state] = Cell(estimate.whole + (known.time if known is not None else 0), count)
    divided = replace(row, states=states, sampled=estimates)
    if isinstance(divided, Thread) and divided.durations is not None:
        return replace(divided, durations=known_durations(divided.durations, states))
    return divided


def _estimates(cells: Cells) -> dict[str, Estimate]:
    """Return the parts of the undivided time by state; empty: nothing tells them."""
    time, cycles, counts = cells.undivided_time, cells.mode_cycles, cells.sample_counts
    if cycles is not None and cycles.credible:
        return divide_by_mode(time, cycles, counts)
    return divide(time, counts) if counts else {}
