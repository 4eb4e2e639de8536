"""What the program's threads executed, one step after the other, wherever they ran.

A trace has each hart's packets in order, but not those of different harts, and a thread may go on at another hart. So
the steps of all harts are put in the order of time, as far as times are known. Without cycles a hart counts as one
thread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from typing import TYPE_CHECKING

from ..walk import Code, Step

if TYPE_CHECKING:
    from .reading import Trace

__all__ = ["steps_of_threads"]

_TRAP, _UNKNOWN = 18, 32
_WAITING = 1 << 20
"""Steps that wait for those of other harts; if there are more, the order is that of what is there."""

_Timed = tuple[int, int, Step]
"""The cycle of the core, or the tick, the number in the order of decoding, and the step."""


def steps_of_threads(trace: Trace, cores: Sequence[int], code: Code) -> Iterator[Step]:
    """Yield the steps of all threads, each thread's in order."""
    if not trace.shape.cycle_accurate:
        for core in cores:
            for _, _, step in _decoded(trace, core, code, [0] * trace.shape.threads):
                yield step
        return
    for _, _, step in merge(*(_ticked(trace, core, code) for core in cores)):
        yield step


def _ticked(trace: Trace, core: int, code: Code) -> Iterator[_Timed]:
    clock = trace.clock(core)
    for number, (cycle, _, step) in enumerate(_ordered(trace, core, code)):
        yield clock.tick(cycle), core << 48 | number, step


def _ordered(trace: Trace, core: int, code: Code) -> Iterator[_Timed]:
    """Yield the steps of a core by cycle."""
    reached = [0] * trace.shape.threads
    waiting: list[_Timed] = []
    for one in _decoded(trace, core, code, reached):
        waiting.append(one)
        if len(waiting) % (1 << 14) == 0:
            waiting.sort(key=lambda timed: timed[:2])
            until = min(reached) if len(waiting) < _WAITING else waiting[len(waiting) // 2][0]
            ready = bisect_right(waiting, until - 1, key=lambda timed: timed[0])
            yield from waiting[:ready]
            del waiting[:ready]
    yield from sorted(waiting, key=lambda timed: timed[:2])


def _decoded(trace: Trace, core: int, code: Code, reached: list[int]) -> Iterator[_Timed]:
    """Yield the steps of a core as they are decoded, with the cycle that each hart has ``reached``."""
    first, timed = core * trace.shape.threads, trace.shape.cycle_accurate
    names = [f"hart {first + hart}" for hart in range(trace.shape.threads)]
    running = list(names)
    count = 0
    for rows in trace.rows(core, stalls=True):
        for number in range(len(rows)):
            hart, cycle, cycles, address, size, what, thread = rows[number]
            if cycle is not None:
                reached[hart] = max(reached[hart], cycle)
            count += 1
            if what >= _UNKNOWN:
                yield reached[hart], count, Step(running[hart], None)
            elif size or what == _TRAP:
                running[hart] = f"thread {thread:#x}" if thread and timed else names[hart]
                yield (
                    reached[hart],
                    count,
                    Step(running[hart], code, address, size, cycles or 0 if size else 0, names[hart]),
                )
