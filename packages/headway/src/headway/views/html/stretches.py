"""Nested slices on tracks as a page; the export of instruction traces uses it.

A track is a lane. At each moment it is in the state of its innermost slice: a function executes (``user.NAME``), stalls
(``stall.…``), sleeps, or is not known. The figures are sums over the slices and as reliable as the slices are.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from headway.model import NO_STATE, Cell, Ledger, Precision, Quality, Thread, Transitions, Window
from headway.views.edges import SliceEdges, SliceHead

from ._spans import InnermostSpans
from .document import Subject
from .page import MAX_BYTES, room_for_timeline, write_page
from .timeline import Lanes, PackedTimeline, TimelineBuilder

__all__ = ["Stretches"]

_AT_ONCE = 1 << 15
"""The number of rows handed over at once; so many rows have no more states than can be numbered."""
_INSTANTS = 5
"""The number of instants of a name whose times are said."""
_EXECUTES, _TRAP = "function", "trap"
_NAMED = 8
"""The most names of instants that are told."""
_PRECISION = Precision(
    effective=Quality.BOUND, memory=Quality.UNAVAILABLE, kernel=Quality.UNAVAILABLE, poll=Quality.UNAVAILABLE
)
_REASONS = {
    "epi": "stalls that are too short for a slice of their own are in it",
    "mpi": "waiting for memory is in the stalls",
    "kpi": "a trace does not say which functions are a kernel's",
    "iopi": "a trace does not say which functions ask in vain",
}

Ints = NDArray[np.signedinteger[Any]]


class Stretches:
    """Takes tracks and their edges, those of each track in order, and writes the page. It keeps 24 bytes a span."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[str, int]] = {}
        self._states: dict[str, int] = {}
        self._spans = InnermostSpans()
        self._heads: Sequence[SliceHead] = ()
        self._numbers = array("i")
        self._instants: dict[str, list[tuple[int, int]]] = {}
        self._counters = False

    def describe(self, track: int, name: str, parent: int | None = None) -> None:
        """Name a track. Must be called before its edges."""
        self._names[track] = name, track if parent is None else parent

    def put(self, edges: SliceEdges) -> None:
        """Add edges."""
        heads = edges.heads
        if heads is not self._heads:
            self._heads, self._numbers = heads, array("i")
        self._numbers.extend(self._number(head) for head in heads[len(self._numbers) :])
        for place in self._spans.add(edges.tracks, edges.times, edges.places, self._numbers):
            name = heads[edges.places[place]].name
            self._instants.setdefault(name, []).append((edges.times[place], edges.tracks[place]))

    def _number(self, head: SliceHead) -> int:
        """Return the number of the state of a slice; -1 for an instant."""
        return -1 if head.instant else self._states.setdefault(_state(head.name, head.category), len(self._states))

    def counter(self, track: int, name: str, unit: str, parent: int) -> None:
        """Take a counter, which the page does not show."""
        self._counters = True

    def count(self, track: int, time: int, value: int) -> None:
        """Take a counter's value, which the page does not show."""

    def remarks(self) -> list[str]:
        """Return what the page says of instants, and of counters."""
        found = []
        named = sorted(self._instants.items())
        for name, places in named[:_NAMED]:
            times = [f"{time:,} ({self._names.get(track, (str(track), 0))[0]})" for time, track in places[:_INSTANTS]]
            rest = f" and {len(places) - _INSTANTS:,} more" if len(places) > _INSTANTS else ""
            found.append(f"{name} at {', '.join(times)}{rest}")
        if more := sum(len(places) for _, places in named[_NAMED:]):
            found.append(f"{more:,} more instants are not on this page: --to perfetto has them")
        if self._counters:
            found.append("the windows of the profile are not on this page: --to perfetto has them")
        return found

    def write(self, stream: TextIO, subject: Subject, times: str) -> None:
        """Write the page. ``times`` says in words what a unit of time is. Raises OSError if the stream does."""
        numbers, (places, starts, ends, states) = self._spans.columns()
        track = np.array([*numbers, 0], np.int64)[np.frombuffer(places, np.int32)]
        start, end = np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)
        state = np.frombuffer(states, np.int32)
        ledger = self._ledger(track, start, end, state, times)
        write_page(stream, ledger, subject, timeline=self._timeline(ledger, track, start, end, state))

    def _ledger(self, track: Ints, start: Ints, end: Ints, state: Ints, times: str) -> Ledger:
        window = Window(int(start.min()), int(end.max())) if len(start) else Window(0, 0)
        names = [*self._states]
        threads = []
        for number in np.unique(track).tolist():
            of = track == number
            spent = np.zeros(len(names), np.int64)
            np.add.at(spent, state[of], (end - start)[of])
            cells = {names[at]: Cell(int(spent[at]), None) for at in np.flatnonzero(spent).tolist()}
            name, parent = self._names.get(number, (f"track {number}", number))
            first, span = int(start[of].min()), int(spent.sum())
            threads.append(Thread(number, parent, name, first, first, None, window.end, span, cells))
        return Ledger(
            source="trace",
            window=window,
            threads=tuple(threads),
            precision=_PRECISION,
            reasons={**_REASONS, "times": times},
            unit="cycles",
            time_unit="cycles",
        )

    def _timeline(self, ledger: Ledger, track: Ints, start: Ints, end: Ints, state: Ints) -> PackedTimeline:
        lanes = Lanes(
            window=ledger.window,
            threads={thread.tid: place for place, thread in enumerate(ledger.threads)},
            lives=[(thread.start, thread.until) for thread in ledger.threads],
            cpus=(),
        )
        timeline = TimelineBuilder(lanes, len(start), room_for_timeline(MAX_BYTES, ledger))
        names = [*self._states]
        order = np.argsort(end, kind="stable")
        for first in range(0, len(order), _AT_ONCE):
            rows = order[first : first + _AT_ONCE]
            used, number = np.unique(state[rows], return_inverse=True)
            timeline.add(_batch(track[rows], start[rows], end[rows], number, [names[at] for at in used.tolist()]))
        return timeline.packed()


def _state(name: str, category: str) -> str:
    return f"user.{name}" if category == _EXECUTES else f"irq.{name}" if category == _TRAP else name


def _batch(track: Ints, start: Ints, end: Ints, state: Ints, names: list[str]) -> Transitions:
    none = np.full(len(track), -1, np.int32)
    return Transitions(
        time=start,
        duration=end - start,
        taken=np.zeros_like(none),
        cpu=none.astype(np.int16),
        thread=track.astype(np.int32),
        state=state.astype(np.uint16),
        count=np.zeros_like(none),
        waker=none,
        waker_tid=np.zeros_like(none),
        waker_state=np.full(len(track), NO_STATE, np.uint16),
        states=names,
    )
