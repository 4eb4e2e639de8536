"""What every hart did in each cycle of a window: who had the issue slot, and what the others waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway_trace.threads.reading import STATES

from .debugging import DebugSession

__all__ = ["MAX_CYCLES", "ROTATION", "Issued", "Window", "window_of"]

MAX_CYCLES = 100_000
"""The largest number of cycles of a window."""
_PATIENCE = 20_000
"""Ticks after the window in which a hart's stall must end to be known."""
_LEAD = 4096
"""Ticks before the window in which an instruction begins that goes on in it, such as a division on a slow clock."""
_ISSUES = frozenset(code for code, state in STATES.items() if state in ("executed", "not_executed", "trap"))
ROTATION = "rotation"
"""In strict turn: the cycles of other harts that belong to an instruction's own."""


@dataclass(frozen=True, slots=True)
class Issued:
    """An instruction that had the issue slot."""

    cycle: int
    hart: int
    address: int
    state: str
    """"executed", "not_executed" (a branch that was not taken), or "trap"."""


@dataclass(frozen=True, slots=True)
class Window:
    """Cycles of a core's clock, from ``first`` to before ``end``."""

    core: int
    first: int
    end: int
    harts: Mapping[int, Sequence[str]]
    """For each hart of the core, its state in each cycle.

    The states are those of trace-format.md, `ROTATION`, "stopped", "idle.reset", and "" if it is not known.
    """
    issued: Sequence[Issued]
    """The instructions that were issued in the window, in their order."""

    @property
    def slots(self) -> Sequence[int | None]:
        """The hart that had the issue slot in each cycle; None: no hart."""
        had: list[int | None] = [None] * (self.end - self.first)
        for one in self.issued:
            had[one.cycle - self.first] = one.hart
        return had


def window_of(session: DebugSession, *, core: int, first: int, cycles: int) -> Window:
    """Run a session to a tick, and return what the harts of a core did in the cycles from there on.

    The session goes on a little further, until it is known what each hart waited for. Raises HeadwayError if there is
    no such core or window, or if the program ends before.
    """
    cores = session.harts // session.threads
    if not 0 <= core < cores:
        raise HeadwayError(f"there is no core {core}: they are 0 to {cores - 1}")
    if not 0 < cycles <= MAX_CYCLES or first < session.now:
        raise HeadwayError(f"{cycles} cycles from {first}: give 1 to {MAX_CYCLES}, from {session.now} on")
    session.run_until(cycle=max(first - _LEAD, session.now))
    session.log(True)
    session.run_until(cycle=first)
    if session.now < first:
        session.log(False)
        raise HeadwayError(f"the program ends at cycle {session.now}, before {first}")
    begin = session.core_cycle(core)
    session.run_until(cycle=first + cycles)
    end = min(begin + cycles, session.core_cycle(core))
    harts = range(core * session.threads, (core + 1) * session.threads)
    rows: dict[int, list[str]] = {hart: [""] * (end - begin) for hart in harts}
    issued: list[Issued] = []
    patience = session.now + _PATIENCE
    waits = {hart: session.idle_state(hart) for hart in harts}
    while not session.ended and session.now < patience:
        reached = {hart: at + length for hart, at, length, _, _ in session.logged() if hart in rows}
        if all(waits[hart] or reached.get(hart, 0) >= end for hart in harts):
            break
        before = session.now
        session.run(cycles=500)
        if session.now == before:  # the run has reached its limit
            break
    for hart, at, length, address, what in session.logged():
        if hart not in rows:
            continue
        # A hart has the slot in the last cycle of its own; in strict turn that is a rotation.
        slot = at + length - 1
        issues = what in _ISSUES
        for cycle in range(max(at, begin), min(at + length, end)):
            rows[hart][cycle - begin] = ROTATION if issues and cycle < slot else STATES[what]
        if issues and begin <= slot < end:
            issued.append(Issued(slot, hart, address, STATES[what]))
    session.log(False)
    for hart, row in rows.items():
        known = next((n for n in range(len(row), 0, -1) if row[n - 1]), 0)
        row[known:] = [waits[hart]] * (len(row) - known)
    return Window(core, begin, end, rows, sorted(issued, key=lambda one: (one.cycle, one.hart)))
