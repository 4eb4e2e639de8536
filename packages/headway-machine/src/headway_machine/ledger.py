"""The ledger of a run, made of the cells to which the machine charged every cycle.

Times are in ticks of the machine, indices in cycles of the cores. Every figure is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from headway.model import EXACT, Behind, Cause, Cell, Counted, Ledger, Overhead, Processor, Thread, Window, list_causes

__all__ = [
    "EVENTS",
    "RawCell",
    "RawThread",
    "ledger_of",
    "negative_times",
    "process_of",
    "thread_ids",
    "thread_name",
]

EVENTS = (
    "stall.data",
    "stall.refill",
    "stall.slot",
    "memory.fetch",
    "memory.load",
    "memory.store",
    "memory.tlb",
)
"""The events of a cell: cycles in which nothing was issued, by reason."""

RawCell = tuple[int, int, int, int, int, int, int, int, tuple[int, ...]]
"""State number, time, cycles, instructions, count, stall, memory-stall and external-stall cycles, and the `EVENTS`."""
RawThread = tuple[int, bytes, int, int, bool, Sequence[RawCell]]
"""Id, name, birth, end (-1: still alive), whether it stands for a hart without a thread, and cells."""

_COUNTED = ("cycles", "instructions", "stall_cycles", "memory_stall_cycles", "external_stall_cycles")
_OVERHEAD = "overhead"
_HARTS_FROM = 1000
_PROGRAM, _NOBODY = 1, 0
_NOTHING_POLLED: Mapping[int, str] = {}


def ledger_of(
    threads: Iterable[RawThread],
    processors: Iterable[tuple[int, Sequence[RawCell]]],
    *,
    until: int,
    names: Mapping[int, str],
    losses: Mapping[str, int],
    polled: Mapping[int, str] = _NOTHING_POLLED,
) -> Ledger:
    """Return the ledger of a run of ``until`` ticks; ``names`` has the name of every state.

    ``polled`` has the registers behind each state of the poll latch.
    """
    raw = list(threads)
    found = []
    for tid, (number, name, birth, end, hart, cells) in zip(thread_ids([_identity(t) for t in raw]), raw, strict=True):
        last = until if end < 0 else end
        found.append(
            Thread(
                tid=tid,
                pid=process_of(hart),
                name=thread_name(number, name, hart),
                birth=birth,
                start=birth,
                end=None if end < 0 else end,
                until=last,
                span=last - birth,
                states=_states(cells, names),
                causes=_causes(cells, names, polled),
            )
        )
    done = tuple(Processor(number, until, _states(cells, names)) for number, cells in processors)
    cost = sum(cell.time for p in done for state, cell in p.states.items() if state == _OVERHEAD)
    changes = sum(cell.count or 0 for p in done for cell in p.states.values())
    return Ledger(
        source="machine",
        window=Window(0, until),
        threads=tuple(sorted(found, key=lambda thread: thread.key)),
        processors=done,
        precision=EXACT,
        losses=dict(losses),
        overhead=Overhead(cost, changes),
        unit="cycles",
        time_unit="cycles",
        counted={name: Counted(until, until) for name in (*_COUNTED, *EVENTS)},
        events=EVENTS,
    )


def _identity(thread: RawThread) -> tuple[int, int, bool]:
    number, _, birth, _, hart, _ = thread
    return number, birth, hart


def thread_ids(threads: Sequence[tuple[int, int, bool]]) -> list[int]:
    """Return the ids of threads, of which each is (id in its block or number of its hart, birth, whether it is a hart).

    A software thread has the id from its thread block. What hart N does without a thread has the id N above a multiple
    of 1000 that no thread's id reaches. If a program gives the same id to threads born at the same tick, the later ones
    get ids above these.
    """
    first = (max((number for number, _, hart in threads if not hart), default=0) // _HARTS_FROM + 1) * _HARTS_FROM
    spare = first + max((number for number, _, hart in threads if hart), default=0) + 1
    found: dict[tuple[int, int], None] = {}
    for number, birth, hart in threads:
        tid = first + number if hart else number
        if (tid, birth) in found:
            tid, spare = spare, spare + 1
        found[tid, birth] = None
    return [tid for tid, _ in found]


def thread_name(number: int, name: bytes, hart: bool) -> str:
    """Return the name of a thread, or of a hart without one."""
    return f"hart {number}" if hart else name.decode("utf-8", "surrogateescape")


def process_of(hart: bool) -> int:
    """Return the process id of a thread: all belong to the program, a hart without a thread to no process."""
    return _NOBODY if hart else _PROGRAM


def negative_times(cells: Iterable[RawCell], names: Mapping[int, str]) -> dict[str, int]:
    """Return the times below 0, by state: how far corrections exceed what their states have so far."""
    found = _summed(cells, names)
    return {name: cell.time for name, cell in found.items() if cell.time < 0}


def _summed(cells: Iterable[RawCell], names: Mapping[int, str]) -> dict[str, Cell]:
    found: dict[str, Cell] = {}
    for number, time, cycles, instructions, count, stall, memory, external, lost in cells:
        name, events = names[number], dict(zip(EVENTS, lost, strict=True))
        cell = Cell(time, count, cycles, instructions, stall, memory, external, events)
        found[name] = found[name] + cell if name in found else cell
    return found


def _states(cells: Iterable[RawCell], names: Mapping[int, str]) -> dict[str, Cell]:
    found = _summed(cells, names)
    for name, cell in found.items():
        if cell.time < 0 or (cell.cycles or 0) < 0:
            found[name], found[_OVERHEAD] = _given_back(cell, found[_OVERHEAD])
    return found


def _causes(cells: Iterable[RawCell], names: Mapping[int, str], polled: Mapping[int, str]) -> tuple[Cause, ...]:
    """Return what the poll latch saw: for each of its states, the registers that were not ready."""
    return list_causes(
        {
            (names[number], Behind.OBJECT, polled[number], None): (time, count)
            for number, time, _, _, count, *_ in cells
            if number in polled
        }
    )


def _given_back(cell: Cell, overhead: Cell) -> tuple[Cell, Cell]:
    """Take back the part of an overhead correction that exceeds what the state has so far.

    The rest of the correction would have come out of time that the state never got before the run ended.
    """
    time, cycles = min(cell.time, 0), min(cell.cycles or 0, 0)
    return (
        replace(cell, time=cell.time - time, cycles=(cell.cycles or 0) - cycles),
        replace(overhead, time=overhead.time + time, cycles=(overhead.cycles or 0) + cycles),
    )
