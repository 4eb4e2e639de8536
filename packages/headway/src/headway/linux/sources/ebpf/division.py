"""Division: the processor time that no handler divided, divided by the cycles of both modes and by samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from headway.linux.bpf.reading.memory import BpfMaps
from headway.linux.bpf.threads._cells import Cells
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions
from headway.linux.perf.counters import CounterPlan
from headway.linux.perf.modes import with_modes
from headway.model import RUNNING, Cell, Estimate, Processor, Thread, divide, divide_by_mode, known_durations

__all__ = ["ModeCounters", "divided"]

_Row = TypeVar("_Row", Thread, Processor)

_BY_MODE = (
    "user code and the kernel are told apart by the cycles in user mode and in kernel mode (exact in cycles, and in "
    "time as far as the clock rate was the same in both), and what the kernel did by samples"
)
_SHARED = "the counters of cycles by mode were shared with another program and counted a part of the time only"


class ModeCounters:
    """Whether cycles by mode divide the time that no handler divides.

    ``plan``: the events to be counted, without these. Where they can be counted, ``self.plan`` has them too.
    """

    def __init__(self, plan: CounterPlan, options: MeasureOptions) -> None:
        self.plan = plan
        self._why_not = ""
        self.needed = options.level is Level.SWITCHES or options.changes
        """Whether there may be such time."""
        if self.needed:
            found = with_modes(plan, alone=not options.changes)
            if isinstance(found, str):
                self._why_not = found
            else:
                self.plan = found

    def describe(self, memory: BpfMaps) -> str:
        """Return in words by what time is divided, as of the last reading of the memory."""
        if self._why_not:
            return f"user code and the kernel are told apart by samples, because {self._why_not}"
        if not memory.tells_modes:
            return f"user code and the kernel are told apart by samples, because {_SHARED}"
        return _BY_MODE


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
