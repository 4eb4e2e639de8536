"""The metrics made of a snapshot of totals: their names, units, meanings and samples.

The names follow OpenMetrics: a family's name ends with its unit, and a counter's sample has the suffix ``_total``.
Shares such as TE are not metrics, because shares cannot be added up; they are the quotient of two rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from functools import lru_cache

from headway._version import __version__
from headway.dataclass import dataclass
from headway.model import READY, READY_PARTS, Quality, TraceContext, bucket_of, kind_of
from headway.views.losses import is_time, without_unit

from .totals import LIMITS, Cost, Series, TotalsSnapshot
from .work import Promised

__all__ = ["HISTOGRAM_LIMITS", "Family", "Histogram", "Labels", "Sort", "families"]

Labels = tuple[tuple[str, str], ...]
Sample = tuple[Labels, Labels, float]
"""The labels that consecutive samples share, the sample's own labels, and the value."""

HISTOGRAM_LIMITS = tuple(limit / 1e9 for limit in LIMITS)
"""The limits of the buckets of histograms, in seconds."""

_INDICES = ("rpi", "epi", "mpi", "kpi", "iopi", "td")


class Sort(Enum):
    """The type of a family's values."""

    COUNTER = "counter"
    """They only grow, from `Family.since` on."""
    GAUGE = "gauge"
    INFO = "info"
    """Always 1; the information is in the labels."""
    HISTOGRAM = "histogram"
    """How often values were how large: `Family.histograms` has them."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """One histogram of a family, cumulative since the beginning."""

    common: Labels
    own: Labels
    """The labels that consecutive histograms share, and its own."""
    below: tuple[int, ...]
    """How many values were at most each limit of `HISTOGRAM_LIMITS`."""
    count: int
    """The number of all values."""
    total: float
    """Their sum."""


@dataclass(frozen=True, slots=True)
class Family:
    """Samples with one meaning."""

    name: str
    """The name with its unit, without the suffix of its sort."""
    sort: Sort
    unit: str
    """``seconds``, ``bytes``, or empty."""
    help: str
    samples: Iterable[Sample]
    histograms: Iterable[Histogram] = ()
    exemplars: Mapping[Labels, TraceContext] = field(default_factory=dict)
    """By the common labels of samples: a span in which the value grew by 1, and when, in ns since 1970."""


def families(snapshot: TotalsSnapshot, *, counts: bool = False, serving: Cost | None = None) -> Iterator[Family]:
    """Yield all metrics. ``counts``: also how often each state was entered. ``serving``: the cost of serving."""
    yield from _of_threads(snapshot, counts)
    yield from _of_processors(snapshot, counts)
    yield from _of_measuring(snapshot)
    if snapshot.work is not None:
        yield from _of_work(snapshot.work)
    yield from _of_ourselves(snapshot, serving)


def _seconds(ns: int) -> float:
    return ns / 1e9


@lru_cache(maxsize=8192)
def _state(name: str) -> Labels:
    return ("state", name), ("kind", kind_of(name).value)


def _all(snapshot: TotalsSnapshot) -> Iterator[Series]:
    yield from snapshot.series
    if snapshot.rest.states:
        yield snapshot.rest


def _state_times(series: Iterable[Series]) -> Iterator[Sample]:
    for one in series:
        labels = one.labels
        for name, time, _, _ in one.states:
            yield labels, _state(name), _seconds(time)


def _state_entries(series: Iterable[Series]) -> Iterator[Sample]:
    for one in series:
        for name, _, entries, _ in one.states:
            if entries is not None:
                yield one.labels, _state(name), entries


def _state_events(series: Iterable[Series]) -> Iterator[Sample]:
    for one in series:
        for name, _, _, events in one.states:
            for event, number in events:
                yield one.labels, (*_state(name), ("event", event)), number


def _indices(snapshot: TotalsSnapshot, series: Iterable[Series]) -> Iterator[Sample]:
    for one in series:
        indices = one.amounts().indices(snapshot.precision)
        for name in _INDICES:
            value = getattr(indices, name)
            if value is not None:
                yield one.labels, (("index", name),), _seconds(value)


_LAST_BUCKETS = tuple(bucket_of(limit) for limit in LIMITS)


def _histograms(series: Iterable[Series]) -> Iterator[Histogram]:
    for one in series:
        times = {name: time for name, time, _, _ in one.states}
        times[READY] = sum([times.get(name, 0) for name in (READY, *READY_PARTS)])
        for state, (buckets, _) in one.durations.items():
            numbers = list(buckets.items())
            below, at, sum_ = [], 0, 0
            for last in _LAST_BUCKETS:
                while at < len(numbers) and numbers[at][0] <= last:
                    sum_ += numbers[at][1]
                    at += 1
                below.append(sum_)
            whole = sum([number for _, number in numbers])
            yield Histogram(one.labels, _state(state), tuple(below), whole, _seconds(times.get(state, 0)))


def _of_durations(snapshot: TotalsSnapshot) -> Iterator[Family]:
    """Yield how long the single occurrences of states lasted."""
    every = [*_all(snapshot), snapshot.departed]
    if not any(one.durations for one in every):
        return
    said = (
        "How long the single occurrences of each state lasted that have ended. The sum is the time in the state; of "
        "ready, in all of its parts."
    )
    name = "headway_thread_state_duration_seconds"
    series = [one for one in (*snapshot.series, snapshot.rest) if one.durations]
    yield Family(name, Sort.HISTOGRAM, "seconds", said, (), _histograms(series))
    yield Family(
        "headway_departed_thread_state_duration_seconds",
        Sort.HISTOGRAM,
        "seconds",
        "The same of threads whose series are gone because they ended a while ago.",
        (),
        _histograms([snapshot.departed]),
    )
    yield Family(
        "headway_thread_state_unknown_durations",
        Sort.COUNTER,
        "",
        "Occurrences of states that have ended and whose durations are not known one by one.",
        [
            (one.labels, _state(state), number)
            for one in series
            for state, (_, number) in one.durations.items()
            if number
        ],
    )


def _of_threads(snapshot: TotalsSnapshot, counts: bool) -> Iterator[Family]:
    yield Family(
        "headway_thread_state_seconds",
        Sort.COUNTER,
        "seconds",
        "Time that threads spent in each state. The series with other=true has what had no room.",
        _state_times(_all(snapshot)),
    )
    if counts:
        yield Family(
            "headway_thread_state_entries",
            Sort.COUNTER,
            "",
            "How often threads entered each state, where that is known.",
            _state_entries(_all(snapshot)),
        )
    yield from _of_durations(snapshot)
    if any(events for one in _all(snapshot) for _, _, _, events in one.states):
        yield Family(
            "headway_thread_events",
            Sort.COUNTER,
            "",
            "Events that were counted in threads by the state that they were in, where that is known.",
            _state_events(_all(snapshot)),
        )
    yield Family(
        "headway_thread_index_seconds",
        Sort.COUNTER,
        "seconds",
        "Indices of progress: rpi is all processor time, epi effective, mpi memory, kpi kernel, iopi polling, td "
        "delay. "
        "One that cannot be had is missing; headway_index_quality says how good the others are.",
        _indices(snapshot, _all(snapshot)),
    )
    yield Family(
        "headway_threads",
        Sort.GAUGE,
        "",
        "Living threads.",
        ((one.labels, (), one.living) for one in _all(snapshot)),
    )
    yield Family(
        "headway_departed_thread_state_seconds",
        Sort.COUNTER,
        "seconds",
        "Time of threads whose series are gone because they ended a while ago.",
        _state_times([snapshot.departed]),
    )
    yield Family(
        "headway_departed_thread_index_seconds",
        Sort.COUNTER,
        "seconds",
        "Indices of threads whose series are gone because they ended a while ago.",
        _indices(snapshot, [snapshot.departed]),
    )
    if snapshot.neighbours:
        yield Family(
            "headway_ready_neighbour_seconds",
            Sort.COUNTER,
            "seconds",
            "Time in which threads of a process were ready and a thread of another process, the neighbour, had their "
            "processor. The series with other has what had no room.",
            [(labels, (), _seconds(time)) for labels, time in snapshot.neighbours],
        )
    if snapshot.tasks:
        yield from _of_tasks(snapshot)
    every = [*_all(snapshot), snapshot.departed._replace(labels=(("departed", "true"),))]
    if any(one.sampled for one in every):
        yield from _by_samples(every)
    if any(one.by_mode for one in every):
        yield _by_mode(every)
    whole = snapshot.whole()
    quality = whole.quality
    yield Family(
        "headway_index_exact_share",
        Sort.GAUGE,
        "",
        "Of everything measured, the share of each index that was counted exactly; the rest was divided by samples or "
        "by cycles. "
        "Of iopi, the share of rpi in which polling could be seen.",
        [((), (("index", name),), share) for name, share in whole.exact_share.items() if share is not None],
    )
    yield Family(
        "headway_index_quality",
        Sort.GAUGE,
        "",
        "1 for what each index is: exact, bound (at most this), by_mode (by the cycles of user and kernel mode), "
        "sampled, partial (at least this), or unavailable.",
        (
            ((), (("index", name), ("quality", worth.value)), float(quality[name] is worth))
            for name in _INDICES
            for worth in Quality
        ),
    )


def _by_mode(series: Iterable[Series]) -> Family:
    """Return what the cycles of user and kernel mode divided."""
    return Family(
        "headway_thread_by_mode_seconds",
        Sort.COUNTER,
        "seconds",
        "The part of threads' time of which the cycles in user mode and in kernel mode told whether it was user code "
        "or the kernel, by kind of state. The series with departed=true has that of threads whose series are gone.",
        [(one.labels, (("kind", kind),), _seconds(time)) for one in series for kind, time in one.by_mode.items()],
    )


def _in_days(context: TraceContext, epoch: int) -> TraceContext:
    """Return the context with its moment in ns since 1970."""
    return context._replace(at=context.at + epoch)


def _of_tasks(snapshot: TotalsSnapshot) -> Iterator[Family]:
    yield Family(
        "headway_task_seconds",
        Sort.COUNTER,
        "seconds",
        "Time of threads by what they worked on, by kind. A series without task_name, task_id and spans has the time "
        "between the tasks of threads. The series with other has the tasks that had no room.",
        [(one.labels, (("kind", kind),), _seconds(time)) for one in snapshot.tasks for kind, time in one.times.items()],
    )
    yield Family(
        "headway_task_changes",
        Sort.COUNTER,
        "",
        "How often a thread began to work on the task.",
        [(one.labels, (), one.changes) for one in snapshot.tasks if one.changes],
        exemplars={
            one.labels: _in_days(TraceContext(*one.context), snapshot.epoch)
            for one in snapshot.tasks
            if one.context is not None
        },
    )


def _by_samples(series: Sequence[Series]) -> Iterator[Family]:
    """Yield what samples divided. Like all counters it adds up, so a share is the quotient of two rates."""
    yield Family(
        "headway_thread_sampled_seconds",
        Sort.COUNTER,
        "seconds",
        "The part of threads' time that was divided by samples, by kind of state. The series "
        "with departed=true has that of threads whose series are gone.",
        [(one.labels, (("kind", kind),), _seconds(time)) for one in series for kind, (time, _) in one.sampled.items()],
    )
    yield Family(
        "headway_thread_samples",
        Sort.COUNTER,
        "",
        "Samples by which threads' time was divided, by kind of state.",
        [(one.labels, (("kind", kind),), number) for one in series for kind, (_, number) in one.sampled.items()],
    )


def _of_processors(snapshot: TotalsSnapshot, counts: bool) -> Iterator[Family]:
    rows = [
        ((("cpu", str(cpu)),), _state(name), time, entries)
        for cpu, states in snapshot.processors
        for name, time, entries, _ in states
    ]
    if not rows:
        return
    yield Family(
        "headway_processor_state_seconds",
        Sort.COUNTER,
        "seconds",
        "Time that processors spent in each state.",
        ((cpu, state, _seconds(time)) for cpu, state, time, _ in rows),
    )
    if counts:
        yield Family(
            "headway_processor_state_entries",
            Sort.COUNTER,
            "",
            "How often processors entered each state.",
            ((cpu, state, entries) for cpu, state, _, entries in rows if entries is not None),
        )


def _one(value: float) -> list[Sample]:
    return [((), (), value)]


def _of_measuring(snapshot: TotalsSnapshot) -> Iterator[Family]:
    times = {name: number for name, number in snapshot.losses.items() if is_time(name)}
    yield Family(
        "headway_losses",
        Sort.COUNTER,
        "",
        "What could not be seen, by name.",
        [((), (("loss", name),), number) for name, number in snapshot.losses.items() if name not in times],
    )
    yield Family(
        "headway_losses_seconds",
        Sort.COUNTER,
        "seconds",
        "Time that could not be seen, by name.",
        [((), (("loss", without_unit(name)),), _seconds(ns)) for name, ns in times.items()],
    )
    if snapshot.overhead is not None:
        yield Family(
            "headway_observer_seconds",
            Sort.COUNTER,
            "seconds",
            "Processor time that measuring takes: by eBPF in the threads measured (state overhead), else in headway.",
            _one(_seconds(snapshot.overhead)),
        )
    if snapshot.events is not None:
        yield Family(
            "headway_observed_events",
            Sort.COUNTER,
            "",
            "Events measured by eBPF, or looks at threads in /proc.",
            _one(snapshot.events),
        )
    yield Family("headway_threads_seen", Sort.COUNTER, "", "Threads that were measured.", _one(snapshot.seen))
    yield Family("headway_threads_ended", Sort.COUNTER, "", "Measured threads that have ended.", _one(snapshot.ended))
    yield Family(
        "headway_processes_unplaced",
        Sort.COUNTER,
        "",
        "Processes whose series have no labels of their control group, because they ended before it could be read.",
        _one(snapshot.unplaced),
    )
    yield Family(
        "headway_reading_timestamp_seconds",
        Sort.GAUGE,
        "seconds",
        "When all this was read, since 1970.",
        _one(_seconds(snapshot.at + snapshot.epoch)),
    )
    yield Family(
        "headway_measured_seconds",
        Sort.COUNTER,
        "seconds",
        "Time since measuring began.",
        _one(_seconds(snapshot.at - snapshot.began)),
    )


def _of_work(work: Promised) -> Iterator[Family]:
    """Yield how much of the work is done, and when the rest will be; what is not known is missing."""
    if work.state is None:
        unit, what, amount, done = "seconds", "EPI", _seconds(work.amount), _seconds(work.done)
        labels: Labels = ()
    else:
        unit, what, amount, done = "steps", "Steps", float(work.amount), float(work.done)
        labels = (("state", work.state),)
    shown = unit if unit == "seconds" else ""
    yield Family(f"headway_work_{unit}", Sort.GAUGE, shown, f"{what} that the work needs.", [((), labels, amount)])
    yield Family(f"headway_work_done_{unit}", Sort.GAUGE, shown, f"{what} of the work until now.", [((), labels, done)])
    times = (("expected", work.left), ("least", work.least), ("most", work.most))
    yield Family(
        "headway_work_left_seconds",
        Sort.GAUGE,
        "seconds",
        "How long the rest of the work will take, and the 95 % interval of that.",
        [((), (("bound", bound),), _seconds(time)) for bound, time in times if time is not None],
    )


def _of_ourselves(snapshot: TotalsSnapshot, serving: Cost | None) -> Iterator[Family]:
    yield Family(
        "headway_series", Sort.GAUGE, "", "Series of threads' states, and sets of labels.", _one(snapshot.taken)
    )
    yield Family("headway_series_limit", Sort.GAUGE, "", "The largest number of series.", _one(snapshot.room))
    yield Family(
        "headway_series_departed",
        Sort.COUNTER,
        "",
        "Sets of labels whose series are gone because their threads ended a while ago, or to make room.",
        _one(snapshot.left),
    )
    costs = [("measuring", snapshot.cost), *([("serving", serving)] if serving is not None else [])]
    yield Family(
        "headway_process_cpu_seconds",
        Sort.COUNTER,
        "seconds",
        "Processor time of headway's own processes.",
        [((), (("process", name),), _seconds(cost.cpu)) for name, cost in costs],
    )
    yield Family(
        "headway_process_resident_memory_bytes",
        Sort.GAUGE,
        "bytes",
        "Resident memory of headway's own processes; parts of the eBPF maps are in it.",
        [((), (("process", name),), cost.memory) for name, cost in costs],
    )
    yield Family(
        "headway_build",
        Sort.INFO,
        "",
        "headway's version, and the source of the figures: bpf or proc.",
        [((), (("version", __version__), ("source", snapshot.source)), 1)],
    )
