"""Spinning without a mark: user code that stays in a loop which only another thread can end.

Samples tell where a thread's user code was, and the code there whether that is a loop that spins
(`headway.binary.spin_loops`). A thread that two samples of its processor time in a row find in the same loop spins:
these samples are of the state `SPINNING`. Of the thread's time in user code, which is exact, the share of these samples
is moved to that state, as an estimate with its number of samples. So the times of a thread's states add up as before.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from headway.binary.spin_loops import SpinLoop, SpinLoops
from headway.linux.symbols.code import UserCode
from headway.linux.symbols.modules import Space
from headway.model import Cell, Ledger, Thread, divide

__all__ = ["SPINNING", "found_spinning", "notes_on_spinning", "with_spinning"]

SPINNING = "poll.spin"
"""The state of user code that was found spinning."""
_USER = "user"
_IN_A_ROW = 2
"""As many samples in a row are found in the same loop, at least."""

_Row = tuple[int, int, int, int, int, int, int]
"""See `headway.linux.sources.profiler.assembling`."""
_Place = tuple[Space, int]


def found_spinning(
    rows: Sequence[_Row], user: int, place_of: Callable[[int], _Place | None], code: UserCode
) -> set[int]:
    """Return the indices of the rows in which a thread spins.

    ``user``: the number of the state of user code. ``place_of`` returns the address space and the address of the
    innermost frame of a stack; None: it is in the kernel, or not known. Samples in other states, such as an interrupt,
    neither belong to a row of samples nor end one.
    """
    loops = SpinLoops(platform.machine())
    judged: dict[_Place, tuple[Space, SpinLoop] | None] = {}

    def loop_of(stack: int) -> tuple[Space, SpinLoop] | None:
        place = place_of(stack)
        if place is None:
            return None
        if place not in judged:
            space, address = place
            found = loops.around(address, lambda at, size: code.read(space, at, size))
            judged[place] = None if found is None else (space, found)
        return judged[place]

    threads: dict[int, list[int]] = {}
    for i, (_, thread, cpu, state, _, _, _) in enumerate(rows):
        if thread >= 0 and cpu >= 0 and state == user:
            threads.setdefault(thread, []).append(i)
    spinning: set[int] = set()
    for samples in threads.values():
        samples.sort(key=lambda i: rows[i][0])
        spinning.update(_runs(samples, lambda i: loop_of(rows[i][6])))
    return spinning


def notes_on_spinning(code: UserCode, machine: str) -> list[str]:
    """Return sentences on where spinning could not be looked for. ``machine``: as in `platform.machine`."""
    notes = []
    if not SpinLoops(machine).known:
        notes.append(f"spinning was not looked for: the code of {machine} is not known")
    if code.without_room:
        notes.append(
            f"spinning was not looked for in {code.without_room:,} samples of code made at run time: it was in too "
            "many places"
        )
    return notes


def _runs(samples: Iterable[int], loop_of: Callable[[int], object]) -> Iterable[int]:
    """Yield the samples of which `_IN_A_ROW` and more in a row have the same loop."""
    run: list[int] = []
    last: object = None
    for sample in samples:
        loop = loop_of(sample)
        if loop is None or loop != last:
            if len(run) >= _IN_A_ROW:
                yield from run
            run = []
        if loop is not None:
            run.append(sample)
        last = loop
    if len(run) >= _IN_A_ROW:
        yield from run


def with_spinning(ledger: Ledger, samples: Mapping[int, Counter[str]]) -> Ledger:
    """Return the ledger with the time of user code divided into spinning and the rest.

    ``samples``: of each thread by its place, how many samples of user code fell into `SPINNING` and how many did not
    (``user``). A thread without a sample of the first, or with tasks, stays as it is.
    """
    threads = tuple(
        _divided(thread, samples[i])
        if samples.get(i, Counter())[SPINNING] and _USER in thread.states and not thread.tasks
        else thread
        for i, thread in enumerate(ledger.threads)
    )
    if threads == ledger.threads:
        return ledger
    reason = "user code that spins, waiting for memory to change, was found by samples"
    return replace(ledger, threads=threads, reasons={"iopi": reason, "epi": reason, **ledger.reasons})


def _divided(thread: Thread, samples: Counter[str]) -> Thread:
    cell = thread.states[_USER]
    parts = divide(cell.time, samples)
    states = {state: other for state, other in thread.states.items() if state != _USER}
    cells = _shared(cell, samples)
    states[_USER] = Cell(0, cell.count)
    for state, part in parts.items():
        found = _with_time(cells[state], part.time, cell.count if state == _USER else None)
        marked = None if state == _USER else states.get(state)  # a region that is marked with the same word
        states[state] = found if marked is None else marked + found
    causes = tuple(cause for cause in thread.causes if cause.state != _USER)  # of which part they were is not known
    return replace(thread, states=states, causes=causes, sampled={**thread.sampled, **parts})


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
