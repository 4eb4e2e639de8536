"""A trace of E-Trace as slices: a track for each source, with the functions that it executed, and gaps.

Only some packets have times. The instructions between two of them are placed evenly between their times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.trace.edges import SliceEdges, Tracks
from headway.trace.threads.reading import STATES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .reading import EtraceTrace

__all__ = ["write"]

_UNKNOWN = 32
_MOST = 1 << 20
"""Instructions that wait for the next time; if there are more, they are left out."""


def write(trace: EtraceTrace, ids: Iterable[int], file: Tracks) -> None:
    """Write the slices of these sources, or of all. Raises HeadwayError without a program, or without times."""
    trace.check_times()
    trace.check_program()
    assert trace.program is not None
    slices = SliceEdges(trace.program, file.put)
    begun: dict[int, int] = {}
    waiting: dict[int, list[tuple[int, int]]] = {}
    for rows, _ in trace.blocks(ids):
        for number in range(len(rows)):
            source, time, context, address, _, code, end = rows[number]
            if source not in waiting:
                file.describe(source + 1, f"source {source}")
                waiting[source] = []
            if code >= _UNKNOWN:
                _place(slices, source, begun.pop(source, None), waiting[source], None)
                if time is not None and end is not None and end > time:
                    slices.apart(source + 1, time, end, STATES[code], "gap")
                else:
                    slices.pause(source + 1)
                continue
            if time is not None:
                _place(slices, source, begun.get(source), waiting[source], time)
                begun[source] = time
            if source in begun and len(waiting[source]) < _MOST:
                waiting[source].append((address, context))
    for source, left in waiting.items():
        _place(slices, source, begun.get(source), left, None)
    slices.close()


def _place(slices: SliceEdges, source: int, begin: int | None, waiting: list[tuple[int, int]], end: int | None) -> None:
    """Place the instructions that wait between two times; without the second, only the first of them has one."""
    if begin is None or end is None or end < begin or len(waiting) >= _MOST:
        if waiting:
            slices.pause(source + 1)
        waiting.clear()
        return
    count, span = len(waiting), end - begin
    for place, (address, context) in enumerate(waiting):
        at, until = begin + span * place // count, begin + span * (place + 1) // count
        slices.executes(source + 1, at, until, address, context or None)
    waiting.clear()
