"""Units of work of a recording: the tasks that its threads worked on, and how long each takes in a replay.

A server's run has no end that matters: it lasts as long as it was recorded. What matters is how long each request
takes, and how many there are in a second. A replay tells when each thread came to each of its steps, and so when a unit
began and ended: between two steps time passes in proportion to that of the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from headway.model.task_slices import TaskSlice, TaskSlices
from headway.recording.reader import Recording
from headway.recording.tasks import has_tasks

from ._schedule import Replay
from .graph import WaitGraph
from .rows import Ints, Rows, places

__all__ = [
    "Figures",
    "Moments",
    "UnitPrediction",
    "Units",
    "moments_of",
    "predict_units",
    "units_in",
    "units_of",
    "within",
]

Times = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Units:
    """Units of work: arrays of shape (n,), times as recorded. All have begun and ended while it was recorded."""

    titles: tuple[str, ...]
    title: Ints
    """Index into `titles`."""
    begin: Ints
    begins_in: Ints
    """The thread in which it began, by its place in `Rows.threads`."""
    end: Ints
    ends_in: Ints

    def __len__(self) -> int:
        """The number of units."""
        return len(self.title)


@dataclass(frozen=True, slots=True)
class Moments:
    """When each unit began and ended in a replay, shape (n,); NaN: that is not known."""

    begin: Times
    end: Times


@dataclass(frozen=True, slots=True)
class Figures:
    """Of some units: how long they take, in the recording's time unit, and how many there are in one such unit."""

    mean: float
    p99: float
    rate: float
    """From the beginning of the first one to the end of the last one."""


@dataclass(frozen=True, slots=True)
class UnitPrediction:
    """How long units of one title take in a changed run, and how many there are."""

    title: str
    """Empty: all units."""
    count: int
    recorded: Figures
    low: Figures | None
    """The lower end of the range of each figure; None: the unchanged replay of these units is too far off."""
    high: Figures | None
    error: float
    """That of the unchanged replay, as a share of the recorded mean."""

    @property
    def gain(self) -> tuple[float, float]:
        """The lowest and the highest gain, as a share of the mean; negative: a loss. (0, 0): it is not known."""
        if self.low is None or self.high is None:
            return 0.0, 0.0
        return 1 - self.high.mean / self.recorded.mean, 1 - self.low.mean / self.recorded.mean


def units_in(recording: Recording, rows: Rows) -> Units | None:
    """Return the units of work of a recording: its tasks; None: it has none. ``rows``: what was read of it."""
    if not has_tasks(recording):
        return None
    numbers = np.array(sorted(recording.threads()), np.int64)
    slices = TaskSlices()
    found = [
        one
        for batch in recording.batches()
        for one in slices.add(batch.transitions, np.maximum(places(batch.transitions.thread, numbers), -1))
    ]
    return units_of(found, list(slices.rest()), rows)


def units_of(slices: Iterable[TaskSlice], unfinished: Iterable[TaskSlice], rows: Rows) -> Units:
    """Return the units that slices of tasks make up.

    A task with an id is one unit, in however many slices and threads of its process; without one each slice is a unit.
    What had begun before the recording, or had not ended with it, is left out: its length is not known.
    """
    whole: dict[object, tuple[TaskSlice, TaskSlice]] = {}
    partly = {_key(one, rows) for one in unfinished}
    for number, one in enumerate(slices):
        key = _key(one, rows) or number
        first, last = whole.get(key, (one, one))
        whole[key] = min(first, one, key=lambda each: each.begin), max(last, one, key=lambda each: each.end)
    kept = [
        (first, last)
        for key, (first, last) in whole.items()
        if key not in partly and first.begin > rows.window.start and last.end < rows.window.end
    ]
    titles = {title: number for number, title in enumerate(dict.fromkeys(first.title for first, _ in kept))}

    def column(values: Iterable[int]) -> Ints:
        return np.fromiter(values, np.int64, len(kept))

    return Units(
        tuple(titles),
        column(titles[first.title] for first, _ in kept),
        column(first.begin for first, _ in kept),
        column(first.place for first, _ in kept),
        column(last.end for _, last in kept),
        column(last.place for _, last in kept),
    )


def _key(one: TaskSlice, rows: Rows) -> tuple[int, str, int] | None:
    """Return what the slices of one unit share; None: it is a unit of its own."""
    return (rows.threads[one.place].pid, one.name, one.id) if one.id else None


def within(units: Units, rows: Rows) -> NDArray[np.bool_]:
    """Return which rows lie within a unit of their thread, by their middles; shape (rows,)."""
    own = units.begins_in == units.ends_in
    room = rows.window.duration + 2
    order = np.argsort(units.begins_in[own] * room + units.begin[own], kind="stable")
    begins = (units.begins_in[own] * room + units.begin[own] - rows.window.start)[order]
    ends = np.maximum.accumulate((units.begins_in[own] * room + units.end[own] - rows.window.start)[order])
    if not len(begins):
        return np.zeros(len(rows), np.bool_)
    middle = rows.thread.astype(np.int64) * room + (rows.begin + rows.end) // 2 - rows.window.start
    before = np.searchsorted(begins, middle, side="right") - 1
    return (before >= 0) & (middle < ends[np.maximum(before, 0)])


# ---- replays ----


def moments_of(graph: WaitGraph, replay: Replay, units: Units) -> Moments:
    """Return when each unit began and ended in a traced replay. That is known from when its thread first ran."""
    rows, zero = graph.rows, graph.end.start
    came = np.maximum(rows.begin[graph.row] + graph.within - zero, 0)
    recorded = np.stack((came, np.maximum(graph.dispatch, came)), axis=1).ravel()
    then = np.stack((replay.reached, np.where(graph.dispatch >= 0, replay.left_at, -1)), axis=1)
    then[graph.first[:-1][np.diff(graph.first) > 0], 0] = -1  # it waits from the beginning on to be created
    then = then.ravel()
    owner = np.repeat(np.arange(graph.threads), 2 * np.diff(graph.first))
    known = then >= 0
    owner, recorded, then = owner[known], recorded[known], then[known]
    room = int(max(recorded.max(initial=0), rows.window.end - zero)) + 2
    points = np.maximum.accumulate(owner * room + recorded)

    def moments(thread: Ints, time: Ints) -> Times:
        if not len(points):
            return np.full(len(time), np.nan)
        wanted = thread * room + np.clip(time, 0, room - 1)
        before = np.searchsorted(points, wanted, side="right") - 1
        exact = (before >= 0) & (points[before] == wanted)
        after = np.where(exact, before, np.minimum(before + 1, len(points) - 1))
        inside = (before >= 0) & (owner[before] == thread) & (owner[after] == thread) & (time >= 0)
        part = np.where(exact, 0, (wanted - points[before]) / np.maximum(points[after] - points[before], 1))
        return np.where(inside, then[before] + part * (then[after] - then[before]), np.nan)

    return Moments(moments(units.begins_in, units.begin - zero), moments(units.ends_in, units.end - zero))


def predict_units(
    units: Units, unchanged: Sequence[Moments], changed: Sequence[Moments], worst: float
) -> tuple[UnitPrediction, ...]:
    """Return what becomes of the units: first of all of them, then of those of each title, the longest together first.

    ``unchanged``, ``changed``: their moments in replays under the same assumptions. A range spans these, and is made
    wider by the error of the unchanged replay; if that is larger than ``worst``, there is none. Units that one of the
    replays did not come to are left out.
    """
    known = np.all([np.isfinite(times) for each in (*unchanged, *changed) for times in (each.begin, each.end)], axis=0)
    together = np.bincount(units.title[known], (units.end - units.begin)[known], len(units.titles))
    chosen = [("", known)]
    for number in np.argsort(-together, kind="stable").tolist():
        chosen.append((units.titles[number], known & (units.title == number)))
    recorded = Moments(units.begin.astype(np.float64), units.end.astype(np.float64))
    found = (_predicted(title, some, recorded, unchanged, changed, worst) for title, some in chosen)
    return tuple(one for one in found if one is not None)


def _predicted(
    title: str,
    some: NDArray[np.bool_],
    recorded: Moments,
    unchanged: Sequence[Moments],
    changed: Sequence[Moments],
    worst: float,
) -> UnitPrediction | None:
    """Return what becomes of some units; None: there are none, or they take no time."""
    figures = [_figures(moments, some) for moments in (recorded, *unchanged)]
    if not all(one is not None and one.mean and one.p99 and one.rate for one in figures):
        return None
    before, *bases = (np.array(astuple(one)) for one in figures if one is not None)
    later = [_figures(moments, some) for moments in changed]
    ratios = [np.array(astuple(now)) / base for now, base in zip(later, bases, strict=True) if now is not None]
    errors = [base / before - 1 for base in bases]
    error = max((float(each[0]) for each in errors), key=abs)
    count, of_recorded = int(np.count_nonzero(some)), Figures(*before.tolist())
    if abs(error) > worst or len(ratios) < len(bases):
        return UnitPrediction(title, count, of_recorded, None, None, error)
    margin = np.max(np.abs(errors), axis=0)
    low = before * np.maximum(np.min(ratios, axis=0) - margin, 0)
    high = before * (np.max(ratios, axis=0) + margin)
    return UnitPrediction(title, count, of_recorded, Figures(*low.tolist()), Figures(*high.tolist()), error)


def _figures(moments: Moments, some: NDArray[np.bool_]) -> Figures | None:
    """Return the figures of some units; None: there are none, or no time passes from the first to the last one."""
    begin, end = moments.begin[some], moments.end[some]
    if not len(begin) or end.max() <= begin.min():
        return None
    lengths = end - begin
    return Figures(
        float(lengths.mean()), float(np.percentile(lengths, 99)), len(lengths) / float(end.max() - begin.min())
    )
