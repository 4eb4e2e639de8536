"""Whether a condition about changes (``--fail-if``) is proven by the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.conditions import Change, ChangeCondition

from .compared import ComparedFigure, ComparedRuns, figure_of
from .differences import Difference

__all__ = ["Verdict", "confidence_for", "verdicts"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the runs say about a condition."""

    condition: ChangeCondition
    proven: bool
    """Whether it holds for the whole interval of each change that it needs."""
    figures: Mapping[Change, ComparedFigure]
    """The figure of each change, with intervals of the confidence below."""
    confidence: float

    def interval(self, change: Change) -> Difference | None:
        """Return the interval that the change is compared with, as a share of one or in the figure's unit.

        None: there is none.
        """
        return _interval(self.figures[change], change)

    def why_not(self, change: Change) -> str:
        """Return why there is no interval to compare the change with; empty if there is one."""
        figure, found = self.figures[change], self.interval(change)
        if found is not None:
            return "" if found.low is not None else "too few rounds"
        if figure.absolute is None:
            return figure.reason
        return "it is 0 in a run, so it has no change in per cent" if change.relative else f"it is in {figure.unit}"


def confidence_for(conditions: Sequence[ChangeCondition], confidence: float) -> float:
    """Return the confidence of each interval, so that all changes together are wrong no more often than one may be.

    What is left of 1 is divided among the changes (Bonferroni).
    """
    number = sum(1 for condition in conditions for _ in condition.changes)
    return 1 - (1 - confidence) / max(number, 1)


def verdicts(conditions: Sequence[ChangeCondition], found: ComparedRuns) -> list[Verdict]:
    """Return what the runs say about each condition."""
    confidence = confidence_for(conditions, found.confidence)
    said = []
    for condition in conditions:
        figures = {
            change: figure_of(change.name, "", found.a, found.b, found.order, confidence)
            for change in condition.changes
        }

        def proven(change: Change, figures: Mapping[Change, ComparedFigure] = figures) -> bool:
            interval = _interval(figures[change], change)
            if interval is None or interval.low is None or interval.high is None:
                return False
            return change.holds_for_all(interval.low, interval.high)

        said.append(Verdict(condition, condition.holds(proven), figures, confidence))
    return said


def _interval(figure: ComparedFigure, change: Change) -> Difference | None:
    if figure.reason == "0 in every run":
        return Difference(0.0, 0.0, 0.0)
    if change.relative:
        return figure.relative
    return figure.absolute if figure.unit == "ns" else None
