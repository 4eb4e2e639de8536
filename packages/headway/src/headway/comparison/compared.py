"""How two commands differ in every figure, from their runs in turns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from headway.model import Kind, Quality, kind_of

from .differences import Difference, difference, holm, probability
from .figures import INDICES, INSTRUCTIONS, KINDS, WALL, CommandRun
from .turns import Order, blocks

__all__ = ["LEAST", "ComparedFigure", "ComparedRuns", "compare", "figure_of"]

LEAST = 0.001
"""States with less time than this share of the wall time of all runs are not looked at."""


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One figure of two commands, and how far B is from A in it."""

    name: str
    group: str
    """``index``, ``kind``, ``count`` or ``state``."""
    unit: str
    """``ns``, ``cycles``, or empty for a number."""
    quality: Quality
    """The worst one of all runs."""
    a: tuple[int, ...] = ()
    """The values of A's runs, by round. Empty: not known."""
    b: tuple[int, ...] = ()
    relative: Difference | None = None
    """B less A as a share of A. None: it is 0 in a run, so there is no ratio."""
    absolute: Difference | None = None
    """B less A, in the unit."""
    probability: float | None = None
    """The probability of such differences if there is none. None: nothing was compared."""
    corrected: float | None = None
    """The same, corrected for the number of figures looked at."""
    reason: str = ""
    """Why nothing was compared."""

    @property
    def medians(self) -> tuple[float, float] | None:
        """The medians of A and B."""
        return (statistics.median(self.a), statistics.median(self.b)) if self.a and self.b else None

    def differs(self, confidence: float) -> int:
        """Return 1 if B has more, -1 if it has less, and 0 if that is not certain.

        Over all figures looked at, the probability of one wrong answer or more is at most 1 less the confidence.
        """
        if self.corrected is None or self.corrected > 1 - confidence:
            return 0
        shown = self.relative or self.absolute
        return 0 if shown is None else 1 if shown.estimate > 0 else -1


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """Two commands compared."""

    a: tuple[CommandRun, ...]
    """The runs of A by round, of complete blocks."""
    b: tuple[CommandRun, ...]
    order: Order
    confidence: float
    figures: tuple[ComparedFigure, ...]
    left_out: int = 0
    """The number of states with too little time to be looked at."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """What could not be seen in all runs together."""

    @property
    def looked_at(self) -> int:
        """The number of figures of which a difference could have been found."""
        return sum(figure.probability is not None for figure in self.figures)


def compare(a: Sequence[CommandRun], b: Sequence[CommandRun], order: Order, confidence: float) -> ComparedRuns:
    """Compare the runs of two commands, by round. There must be one whole block at least.

    The figures are wall time, the indices, ready, wait and stolen, what was counted, and states. A state that makes up
    one of the others is not one more. ``confidence``: of each interval, and of all the answers of
    `ComparedFigure.differs` together.
    """
    whole = sum(map(len, blocks(min(len(a), len(b)), order)))
    a, b = tuple(a[:whole]), tuple(b[:whole])
    runs = [*a, *b]
    events = dict.fromkeys(name for run in runs for name in run.counts if name != INSTRUCTIONS)
    counted = [*([INSTRUCTIONS] if any(INSTRUCTIONS in run.counts for run in runs) else []), *events]
    found = [
        *(figure_of(name, "index", a, b, order, confidence) for name in (WALL, *INDICES)),
        *(figure_of(name, "kind", a, b, order, confidence) for name in KINDS),
        *(figure_of(name, "count", a, b, order, confidence) for name in counted),
    ]
    known = {(figure.a, figure.b) for figure in found}
    states, left_out = _states(runs)
    for name in states:
        figure = figure_of(name, "state", a, b, order, confidence)
        if (figure.a, figure.b) not in known:
            found.append(figure)
    return ComparedRuns(a, b, order, confidence, tuple(_corrected(found)), left_out, _losses(runs))


def _states(runs: Sequence[CommandRun]) -> tuple[list[str], int]:
    """Return the states to look at, those with most time first, and the number of the others.

    They are chosen by the time in all runs of both commands together, which does not depend on which command is which.
    """
    times: dict[str, int] = {}
    for run in runs:
        for state, time in run.times.items():
            if kind_of(state) is not Kind.OVERHEAD:
                times[state] = times.get(state, 0) + time
    least = LEAST * sum(run.wall for run in runs)
    large = [state for state, time in times.items() if time >= least]
    return sorted(large, key=lambda state: (-times[state], state)), len(times) - len(large)


def figure_of(
    name: str, group: str, a: Sequence[CommandRun], b: Sequence[CommandRun], order: Order, confidence: float
) -> ComparedFigure:
    """Compare one figure. Its ``probability`` is not corrected for the number of figures."""
    runs = [*a, *b]
    units = {run.unit_of(name) for run in runs}
    quality = reduce(or_, (run.quality_of(name) for run in runs), Quality.EXACT)
    unit = units.pop()
    if units:
        return ComparedFigure(name, group, "", Quality.UNAVAILABLE, reason="counted in cycles in some runs only")
    figures = [run.value(name) for run in runs]
    known = [value for value in figures if value is not None]
    if len(known) < len(figures):
        return ComparedFigure(name, group, unit, Quality.UNAVAILABLE, reason="not known of every run")
    of_a, of_b = tuple(known[: len(a)]), tuple(known[len(a) :])
    if not any(known):
        return ComparedFigure(name, group, unit, quality, of_a, of_b, reason="0 in every run")
    parts = blocks(len(a), order)
    absolute = [statistics.fmean(of_b[round] - of_a[round] for round in block) for block in parts]
    shown = ComparedFigure(
        name,
        group,
        unit,
        quality,
        of_a,
        of_b,
        absolute=difference(absolute, confidence),
        probability=probability(absolute),
    )
    if not all(known):
        return shown
    logs = [statistics.fmean(math.log(of_b[round] / of_a[round]) for round in block) for block in parts]
    relative = difference(logs, confidence)
    return replace(
        shown,
        relative=Difference(
            math.expm1(relative.estimate),
            None if relative.low is None else math.expm1(relative.low),
            None if relative.high is None else math.expm1(relative.high),
        ),
        probability=probability(logs),
    )


def _corrected(figures: Sequence[ComparedFigure]) -> list[ComparedFigure]:
    known = [figure.probability for figure in figures if figure.probability is not None]
    corrected = iter(holm(known))
    return [figure if figure.probability is None else replace(figure, corrected=next(corrected)) for figure in figures]


def _losses(runs: Sequence[CommandRun]) -> dict[str, int]:
    found: dict[str, int] = {}
    for run in runs:
        for name, number in run.losses.items():
            found[name] = found.get(name, 0) + number
    return dict(sorted(found.items()))
