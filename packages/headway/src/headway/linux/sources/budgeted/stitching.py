"""Ledgers of one measurement that has several parts, one after the other, each by other means.

A part knows a thread by its id and by the moment at which the part began with it. Here a thread keeps the birth that it
had when it was first seen. Between two parts lies the time that it takes to change the means: it is in the state
``unknown``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headway.model import Cell, Ledger, Processor, Thread, Window, merge

__all__ = ["Stitching", "merged", "with_processors"]

_UNKNOWN = "unknown"
_Key = tuple[int, int]
"""A thread: (tid, birth)."""


class Stitching:
    """Takes the ledgers of parts, and makes those of the whole of them. It begins with the first part."""

    def __init__(self) -> None:
        self._boundary = 0
        """When the last part ended, ns of CLOCK_MONOTONIC."""
        self._found_until = 0
        """Until when the part that goes on found threads that had lived before it."""
        self._living: dict[int, Thread] = {}
        """The threads that lived at the boundary and that the part that goes on has not told of, by tid."""
        self._between: Sequence[Thread] = ()
        self._births: dict[_Key, int] = {}
        """By what the part that goes on calls a thread: its birth, where that is another."""

    def end_part(self, living: Iterable[Thread], at: int) -> None:
        """Have a part end at this moment. ``living``: threads as `stitched` has told of them, that have not ended."""
        self._boundary = at
        self._living = {thread.tid: thread for thread in living if thread.end is None}
        self._births = {}

    def begin_part(self, found_until: int, between: Sequence[Thread] = ()) -> None:
        """Have the next part begin. By this moment it had found all threads that there were.

        ``between``: threads that lived after the boundary, and perhaps ended before the part that begins found them.
        """
        self._found_until, self._between = found_until, between

    def stitched(self, ledger: Ledger, *, first: bool) -> Ledger:
        """Return a ledger of the part that goes on, with threads as they were called before.

        ``first``: it begins with the part, and so has the time since the boundary, too.
        """
        if not self._boundary:
            return ledger
        threads = [self._stitched(thread, first=first) for thread in ledger.threads]
        if first:
            found = {thread.tid for thread in threads if thread.start <= self._found_until}
            threads += self._ended_between(found)
        window = Window(self._boundary if first else ledger.window.start, ledger.window.end)
        return replace(ledger, window=window, threads=tuple(sorted(threads, key=lambda thread: thread.key)))

    def _stitched(self, thread: Thread, *, first: bool) -> Thread:
        key = thread.key
        if key not in self._births:
            known = self._living.get(thread.tid)
            if known is None or thread.birth > self._found_until or known.birth in self._taken(thread.tid):
                return thread
            self._births[key] = known.birth
        birth = self._births[key]
        if not first or thread.start < self._boundary:
            return replace(thread, birth=birth)
        gap = thread.start - self._boundary
        states = dict(thread.states)
        if gap:
            states[_UNKNOWN] = Cell(gap, None) + states.get(_UNKNOWN, Cell(0, None))
        return replace(thread, birth=birth, start=self._boundary, span=thread.span + gap, states=states)

    def _taken(self, tid: int) -> set[int]:
        return {birth for (other, _), birth in self._births.items() if other == tid}

    def _ended_between(self, there: set[int]) -> list[Thread]:
        """Return the threads that the part that goes on does not know: they have ended since the boundary."""
        at = self._boundary
        unseen = [thread for thread in self._between if thread.tid not in there]
        return unseen + [
            replace(
                thread,
                start=at,
                until=at,
                end=at,
                span=0,
                states={},
                sampled={},
                causes=(),
                tasks=(),
                kernel_clock=None,
            )
            for tid, thread in self._living.items()
            if tid not in there
        ]


def with_processors(ledger: Ledger, cpus: Iterable[int]) -> Ledger:
    """Return the ledger with all time of these processors: what they did in parts that did not see them is unknown."""
    known = {processor.cpu: processor for processor in ledger.processors}
    whole = ledger.window.duration
    rows = []
    for cpu in sorted({*cpus, *known}):
        row = known.get(cpu, Processor(cpu, 0, {}))
        missing = whole - row.span
        if missing > 0:
            states = dict(row.states)
            states[_UNKNOWN] = Cell(missing, None) + states.get(_UNKNOWN, Cell(0, None))
            row = replace(row, span=whole, states=states)
        rows.append(row)
    return replace(ledger, processors=tuple(rows))


def merged(earlier: Ledger | None, later: Ledger) -> Ledger:
    """Return two parts that follow each other as one."""
    return later if earlier is None else merge(earlier, later)
