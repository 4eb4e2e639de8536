"""The threads of a capture by the context IDs in its streams: when each got a processor, and what it executed last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ._selection import Selection, note_threads
from .alignment import AlignedTime, Fit
from .records import Gap, Instruction
from .selection import stretches_of

if TYPE_CHECKING:
    from .decode import Stream

__all__ = ["last_of_threads", "run_starts_of"]

_MOST = 200_000
"""Beginnings of runs of all threads, at most."""


def run_starts_of(streams: Iterable[tuple[Stream, Fit]]) -> dict[int, list[float]]:
    """Return thread -> the times of the common clock, in ticks and in order, at which it got a processor."""
    found: dict[int, list[float]] = {}
    for stream, fit in streams:
        runs: list[tuple[int, int, int]] = []
        thread: int | None = None
        for block in stream.blocks():
            thread = note_threads(block, runs, {}, thread)
            if len(runs) > _MOST:
                break
        for who, epoch, cycle in runs[1:]:  # the first was on its processor before the capture began
            when = fit.moment(epoch, cycle)
            if isinstance(when, AlignedTime):
                found.setdefault(who, []).append(when.time)
    for times in found.values():
        times.sort()
    return found


def last_of_threads(
    streams: Iterable[tuple[Stream, Fit]], time: float
) -> dict[int, tuple[Instruction | Gap, Stream, float]]:
    """Return thread -> its last instruction up to a time, or the gap after it, its stream, and when that ended."""
    found: dict[int, tuple[Instruction | Gap, Stream, float]] = {}
    for stream, fit in streams:
        selection = Selection(stretches_of(fit, None, int(time) + 1))
        last: dict[int, Instruction | Gap] = {}
        thread: int | None = None
        for block in stream.chosen_blocks(selection):
            thread = note_threads(block, [], last, thread)
        for who, record in last.items():
            when = fit.moment(record.epoch, record.cycle)
            if isinstance(when, AlignedTime) and (who not in found or found[who][2] < when.time):
                found[who] = record, stream, when.time
    return found
