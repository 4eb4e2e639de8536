"""Conversion of monotonic time to the time of day, so that runs of several machines can share one time axis.

A recording has anchors: moments at which both clocks were read. Between two anchors the time of day is assumed to have
run at a constant rate, so drift is taken into account. Anchors that the others already predict are left out, so that
few straight pieces remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.recording.clock import Anchor

__all__ = ["SLEW", "ClockLine", "lines", "realtimes"]

SLEW = 500e-6
"""The largest rate at which the time of day may gain or lose on the monotonic clock; adjtimex(2) slews by no more."""
_FOREVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ClockLine:
    """From ``start`` until ``end`` (monotonic, ns), realtime = base + (t - origin) + drift * (t - origin)."""

    start: int
    end: int
    origin: int
    base: int
    drift: float
    uncertainty: int
    """In ns, either way, between the anchors."""
    known_from: int
    known_until: int
    """The first and last anchor. Outside them the uncertainty grows by `SLEW`."""

    def realtime(self, monotonic: int) -> int:
        """Return the time of day (ns since 1970) at a monotonic time."""
        passed = monotonic - self.origin
        return self.base + passed + round(self.drift * passed)

    def monotonic(self, realtime: int) -> int:
        """Return the monotonic time at a time of day (ns since 1970)."""
        passed = realtime - self.base
        return self.origin + passed - round(passed * self.drift / (1 + self.drift))

    def uncertain(self, monotonic: int) -> int:
        """Return the uncertainty of `realtime` at that time, in ns, either way."""
        beyond = max(self.known_from - monotonic, monotonic - self.known_until, 0)
        return self.uncertainty + round(SLEW * beyond)


def lines(anchors: Sequence[Anchor]) -> tuple[ClockLine, ...]:
    """Return the straight pieces through the anchors. They cover all of time without gaps; () if there are no anchors.

    The uncertainty of a piece is that of its anchors plus the largest distance of an anchor that was left out. If the
    clock was set between two anchors, which no drift can explain, the amount is added to the uncertainty.
    """
    points = sorted({a.monotonic: a for a in anchors}.values(), key=lambda a: a.monotonic)
    if not points:
        return ()
    if len(points) == 1:
        (only,) = points
        here = only.monotonic
        return (ClockLine(-_FOREVER, _FOREVER, here, only.realtime, 0.0, only.uncertainty, here, here),)
    pieces = list(_pieces(points))
    found = []
    for number, (first, last, off) in enumerate(pieces):
        passed = last.monotonic - first.monotonic
        gained = last.realtime - first.realtime - passed
        uncertainty = max(first.uncertainty, last.uncertainty) + off
        if _was_set(first, last):
            uncertainty += abs(gained)
        found.append(
            ClockLine(
                start=first.monotonic if number else -_FOREVER,
                end=last.monotonic if number < len(pieces) - 1 else _FOREVER,
                origin=first.monotonic,
                base=first.realtime,
                drift=0.0 if _was_set(first, last) else gained / passed,
                uncertainty=uncertainty,
                known_from=first.monotonic,
                known_until=last.monotonic,
            )
        )
    return tuple(found)


def realtimes(pieces: Sequence[ClockLine], times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the time of day (ns since 1970) at each time; both arrays have shape (n,).

    There must be at least one piece.
    """
    starts = np.array([piece.start for piece in pieces], np.int64)
    found = np.empty_like(times)
    which = np.searchsorted(starts, times, side="right") - 1
    for number, piece in enumerate(pieces):
        some = which == number
        passed = times[some] - piece.origin
        found[some] = piece.base + passed + np.rint(piece.drift * passed).astype(np.int64)
    return found


def _was_set(first: Anchor, last: Anchor) -> bool:
    passed = last.monotonic - first.monotonic
    gained = last.realtime - first.realtime - passed
    return abs(gained) > SLEW * passed + first.uncertainty + last.uncertainty


def _pieces(points: Sequence[Anchor]) -> list[tuple[Anchor, Anchor, int]]:
    """Return first anchor, last anchor and largest deviation in between of each piece (Ramer, Douglas and Peucker)."""
    found = []
    todo = [(0, len(points) - 1)]
    while todo:
        begin, end = todo.pop()
        first, last = points[begin], points[end]
        passed = last.monotonic - first.monotonic
        worst, at, excess = 0, None, 0
        for number in range(begin + 1, end):
            point = points[number]
            part = point.monotonic - first.monotonic
            off = abs(point.realtime - first.realtime - (last.realtime - first.realtime) * part // passed)
            worst = max(worst, off)
            if off - point.uncertainty > excess:
                at, excess = number, off - point.uncertainty
        if at is None:
            found.append((first, last, worst))
        else:
            todo += [(at, end), (begin, at)]
    return found
