"""Utilisation and frequency of the machine's processors, computed from the ledger of a run.

A processor is a hardware thread. Its busy ticks are the cycles of all states in which it was neither halted nor stopped
by a system-management interrupt. They equal its counter of unhalted cycles without the time in such interrupts, in
which that counter goes on. A cycle of the machine's clock is 10 ns. Nothing is read while the program runs, so no
reading is disturbed, and every figure is exact.
"""

from __future__ import annotations

from dataclasses import replace

from headway.model import FIGURES, Cell, Kind, Processor, Quality, Sample, Utilisation, kind_of

from .host import TICKS_PER_SECOND
from .run import Result
from .states import IDLE, SMI

__all__ = ["sample_of"]

NS = 1_000_000_000 // TICKS_PER_SECOND
"""Nanoseconds in a cycle."""
_NOT_BUSY = (Kind.WAIT, Kind.STOLEN)


def sample_of(result: Result) -> Sample:
    """Return the whole run as one sample."""
    window = result.ledger.window
    threads = len(result.harts) // len(result.cores)
    found = result.ledger.processors
    slept = [state for state in IDLE if any(state in each.states for each in found)]
    return Sample(
        source="machine",
        start=window.start * NS,
        end=window.end * NS,
        processors=tuple(_row(each, slept, result.throttled[each.cpu // threads]) for each in found),
        counter="the ledger's cycles",
        quality=dict.fromkeys(FIGURES, Quality.EXACT),
    )


def _row(processor: Processor, slept: list[str], throttled: tuple[int, int]) -> Utilisation:
    states = processor.states
    running = [cell for state, cell in states.items() if kind_of(state) not in _NOT_BUSY]
    ticks, busy = sum(cell.cycles or 0 for cell in running), sum(cell.time for cell in running)
    stopped, stops = throttled
    return Utilisation(
        cpu=processor.cpu,
        span=processor.span * NS,
        states={state: replace(cell, time=cell.time * NS) for state, cell in states.items()},
        ticks=ticks,
        actual_hz=ticks * TICKS_PER_SECOND / busy if busy else None,
        idle={IDLE[state]: states.get(state, Cell()).time * NS for state in slept},
        throttled=stops,
        stopped=stopped * NS,
        smi=states.get(SMI, Cell(count=0)).count,
    )
