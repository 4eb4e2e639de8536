"""Predictions: how long a run would take with changes, as a range between two replays.

A recording does not tell all that two threads have to do with each other: a thread that found what it needed did not
wait, and so there is no wake-up. So a changed run is replayed under two assumptions.

- *most*: whoever comes later than the thread that it waited for goes on without a wait.
- *least*: all threads meet as they did in the recording. A thread that wakes another one first waits until that one
  sleeps, and a thread does not end before those that it created and outlived. So nobody gets ahead of anybody.

The unchanged run takes the same time under both. Each changed replay is compared with the unchanged one, and the range
is made wider by the error of the unchanged replay: the difference between it and the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from headway.errors import HeadwayError

from ._schedule import Replay
from .changes import Change
from .effects import Effect, apply, as_recorded
from .functions import FunctionShares
from .graph import WaitGraph, Waits, build
from .path import find_end
from .rows import Rows
from .units import Moments, UnitPrediction, Units, moments_of, predict_units
from .wakeups import find_wakeups

__all__ = ["Assumption", "Model", "Prediction", "check_error", "model_of"]

SLICE = 3_000_000
"""A time slice, ns: for so long a thread keeps its processor while another one wants it (CFS and EEVDF, 2 to 4 ms)."""
MAX_ERROR = 0.05
"""With a larger error of the unchanged replay a warning is due."""
WORST_ERROR = 0.10
"""With a larger one there is no prediction unless it is asked for."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """How threads are taken to go on where the recording does not tell."""

    meet: bool
    """Threads meet as they did: nobody gets ahead."""
    punctual: bool
    """Waits of which it is not known whether they would be shorter end at the same time as in the recording."""


MOST = Assumption(meet=False, punctual=False)
LEAST = Assumption(meet=True, punctual=True)


@dataclass(frozen=True, slots=True)
class Prediction:
    """How long a changed run takes: between ``low`` and ``high``, in the recording's time unit."""

    changes: tuple[Change, ...]
    recorded: int
    """The wall time of the recorded run."""
    low: int
    high: int
    assumptions: tuple[str, ...]
    """What the range rests on, in words."""
    notes: tuple[str, ...]
    """What is to be known about it, in words."""
    units: tuple[UnitPrediction, ...] = ()
    """What becomes of the units of work: first of all of them, then of those of each title."""

    @property
    def gain(self) -> tuple[float, float]:
        """The lowest and the highest gain, as a share of the wall time; negative: a loss."""
        return 1 - self.high / self.recorded, 1 - self.low / self.recorded


class Model:
    """A wait graph that predicts. ``functions``: a profile of the same program, to find functions in.

    ``units``: units of work, of which it is predicted how long they take, too.
    """

    def __init__(
        self,
        graph: WaitGraph,
        functions: FunctionShares | None = None,
        *,
        whole: bool = False,
        units: Units | None = None,
    ) -> None:
        """``whole``: the run ends when all threads have done what they did, and not when the followed one has."""
        self.graph, self.functions, self.whole = graph, functions, whole
        self.units = units if units is not None and len(units) else None
        self._follow = -1 if whole else graph.end.thread

    @property
    def recorded(self) -> int:
        """The wall time of the recorded run."""
        return self.graph.end.duration

    @cached_property
    def unchanged(self) -> dict[Assumption, Replay]:
        """The replays of the unchanged run, under each assumption."""
        effect = as_recorded(self.graph)
        return {assumption: self._replay(effect, assumption, most=False) for assumption in (LEAST, MOST)}

    @property
    def replayed(self) -> int:
        """The wall time of the unchanged run when it is replayed: the one that is further off."""
        return max((replay.end for replay in self.unchanged.values()), key=lambda end: abs(end - self.recorded))

    @property
    def error(self) -> float:
        """The error of the model: of the unchanged replay, as a share of the recorded wall time."""
        return self.replayed / self.recorded - 1

    @property
    def given_up(self) -> int:
        """The waits of the unchanged replay that nothing ended."""
        return max(replay.forced for replay in self.unchanged.values())

    def predict(self, changes: Iterable[Change]) -> Prediction:
        """Return how long the run takes with all of these changes.

        Raises HeadwayError if the recording has not what they name.
        """
        wanted = tuple(changes)
        effect = apply(self.graph, wanted, self.functions)
        ratios = []
        forced = 0
        moments: list[Moments] = []
        for assumption in (LEAST, MOST):
            replay = self._replay(effect, assumption, most=assumption is MOST)
            base = self.unchanged[assumption]
            ratios.append(replay.end / max(base.end, 1))
            forced = max(forced, replay.forced - base.forced)
            if self.units is not None and effect.graph is self.graph:
                moments.append(moments_of(self.graph, replay, self.units))
        margin = abs(self.error)
        low = round(self.recorded * max(min(ratios) - margin, 0.0))
        high = round(self.recorded * (max(ratios) + margin))
        notes = []
        if not effect.slower and max(ratios) > 1:
            notes.append(
                "a scheduling anomaly: with less work, threads get their processors in another order, and one replay "
                f"takes {max(ratios) - 1:.2%} longer"
            )
        if forced:
            notes.append(f"{forced:,} waits were given up: in the changed run nothing ends them")
        units: tuple[UnitPrediction, ...] = ()
        if self.units is not None and moments:
            units = predict_units(self.units, self._moments_unchanged, moments, WORST_ERROR)
        elif self.units is not None:
            notes.append("what becomes of single tasks is not told where threads are added")
        return Prediction(wanted, self.recorded, low, high, self._assumptions(effect), tuple(notes), units)

    @cached_property
    def _moments_unchanged(self) -> list[Moments]:
        """When the units began and ended in the unchanged replays."""
        if self.units is None:
            return []
        return [moments_of(self.graph, self.unchanged[assumption], self.units) for assumption in (LEAST, MOST)]

    def _assumptions(self, effect: Effect) -> tuple[str, ...]:
        found: list[str] = list(effect.assumptions)
        if (self.graph.outside == Waits.MAYBE).any():
            found.append(
                "waits for what is not known to be a disk or a timer are as long as they were (most), or end when "
                "they did (least)"
            )
        if self.graph.by_others.any():
            found.append(
                "what is not measured delays a thread as long each time, and the more often the longer it works"
            )
        return tuple(dict.fromkeys(found))

    def _replay(self, effect: Effect, assumption: Assumption, *, most: bool) -> Replay:
        graph = effect.graph
        times = effect.times(most=most)
        return Replay(
            graph.first,
            effect.kinds(),
            times.work,
            graph.target,
            times.length,
            times.until,
            graph.outside,
            graph.dispatch,
            times.early,
            times.late,
            graph.contended,
            effect.weightless,
            graph.parent,
            effect.processors,
            SLICE,
            assumption.meet,
            assumption.punctual,
        ).run(self._follow, self.units is not None)


def model_of(
    rows: Rows,
    *,
    command: bool,
    tid: int | None,
    functions: FunctionShares | None = None,
    units: Units | None = None,
) -> Model:
    """Return the model of a recorded run and its units of work, to the end of thread ``tid``, or of the run.

    ``command``: the recording is of a command, and its run ends with the command's first thread. Raises HeadwayError if
    there is no such thread.
    """
    graph = build(rows, find_wakeups(rows), find_end(rows, command=command, tid=tid))
    return Model(graph, functions, whole=not command and tid is None, units=units)


def check_error(model: Model, remedy: str) -> None:
    """Raise HeadwayError if the unchanged replay is so far off that predictions are worth little."""
    if abs(model.error) > WORST_ERROR:
        off = f"{abs(model.error):.0%} {'longer' if model.error > 0 else 'less'} than it took"
        raise HeadwayError(
            f"there is no prediction: replayed without a change, this run takes {off}, so the recording lacks "
            "something that decided when threads ran",
            remedy,
        )


GENERAL: Sequence[str] = (
    "most: a thread that comes later than the one that it waited for goes on without a wait",
    "least: all threads meet as they did in the recording, and nobody gets ahead of anybody",
    "work takes as long as it did, whatever else runs; nothing new is waited for; processors are given away fairly",
)
"""The assumptions of every prediction."""
