"""Totals of everything measured, in a bounded number of series.

A monitoring system keeps every series that it has ever seen, and threads come and go by the thousand. So threads are
added up by process and name, or as the user asks, and the number of series has a limit. Nothing is lost without being
counted. What has no room goes to the *rest*, which has every state and no name. Threads that ended a while ago leave,
and their time is added to the *departed*. All series, the rest and the departed together are always everything that was
measured, to the nanosecond.

No counter ever decreases. If a source takes time back, the amount is deducted from what comes next.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, fields, replace
from enum import Enum
from functools import reduce
from operator import add
from typing import NamedTuple

from headway.model import (
    KINDS,
    RUNNING,
    Amounts,
    Cell,
    Durations,
    Estimate,
    Indices,
    Kind,
    Ledger,
    Precision,
    Quality,
    StateDurations,
    Thread,
    amounts_in_time,
    amounts_of,
    kind_of,
    listed,
)

from ..printable import clean
from .neighbours import Neighbours
from .places import Labels, ProcessLabels
from .tasks import TaskSeries, TaskTotals
from .work import Promised

__all__ = [
    "EXPIRE_NS",
    "LIMITS",
    "MAX_SERIES",
    "SERIES_OF_A_HISTOGRAM",
    "By",
    "Cost",
    "Series",
    "State",
    "Totals",
    "TotalsSnapshot",
]

EXPIRE_NS = 300_000_000_000
"""How long ended threads stay, in ns: as long as Prometheus treats a series as alive without seeing it."""
MAX_SERIES = 20_000
"""The default limit of series of threads' states, over all names."""
MAX_STATES = 1024
"""The number of states that the rest and the departed tell apart. Further ones share one state for each first word."""
LIMITS = tuple(1 << power for power in range(10, 35))
"""The limits of the buckets of histograms as they are served, in ns: powers of two from 1 µs to 17 s."""
SERIES_OF_A_HISTOGRAM = len(LIMITS) + 3
"""A bucket for each limit and one without, the number, and the sum."""
LONGEST_NAME = 64
"""The largest number of characters of a name. Thread names have up to 15."""


class By(Enum):
    """By what threads are added up."""

    NAME = "name"
    """By the names of the process and the thread. The series stay the same, whatever processes come and go."""
    PROCESS = "process"
    """By the process and the thread's name."""
    CONTAINER = "container"
    """By the labels of the process's control group (`places`) and the names of the process and the thread."""
    POD = "pod"
    """By the labels of the process's control group alone."""
    CGROUP = "cgroup"
    """By the control group alone, as a label. What ``place_of`` returns decides between this and `POD`."""
    THREAD = "thread"
    """Not at all: each thread has its own series."""


_OF_ONE_PROCESS = frozenset({By.PROCESS, By.THREAD})
_NAMELESS = frozenset({By.POD, By.CGROUP})

State = tuple[str, int, int | None, tuple[tuple[str, int], ...]]
"""One state's name, time in ns, occurrences (None: not known), and events with their names."""


class Series(NamedTuple):
    """The threads with one set of labels, and all that they did."""

    labels: tuple[tuple[str, str], ...]
    since: int
    """When the first of them was first measured, in ns of the ledger's clock."""
    living: int
    """The number of living threads."""
    states: tuple[State, ...]
    divided: dict[str, int]
    """Time by kind in ns, where hardware counted user code; empty: the states' kinds give it."""
    sampled: dict[str, tuple[int, int]]
    """By kind, the time in ns that was divided by samples, and the samples."""
    samples: int
    """The number of all samples."""
    by_mode: dict[str, int]
    """By kind, the time in ns that was divided by the cycles of user and kernel mode."""
    durations: dict[str, tuple[dict[int, int], int]] = {}  # noqa: RUF012
    """By state, how many occurrences lasted how long (`headway.model.bucket_of`), and of how many that is not known.
    Empty: it is not kept.
    """

    def times(self) -> dict[Kind, int]:
        """Return the time of each kind, in ns."""
        if self.divided:
            return {Kind(kind): time for kind, time in self.divided.items()}
        found = dict.fromkeys(Kind, 0)
        for name, time, _, _ in self.states:
            found[kind_of(name)] += time
        return found

    def amounts(self) -> Amounts:
        """Return the time of each kind in ns, and the parts of it that were divided by samples and by mode."""
        sampled = {
            Kind(kind): Estimate(*self.sampled.get(kind, (0, 0)), self.by_mode.get(kind, 0))
            for kind in {**self.sampled, **self.by_mode}
        }
        undivided = sum([time for name, time, _, _ in self.states if _undivided(name)])
        return Amounts(self.times(), sampled=sampled, samples=self.samples, undivided=undivided)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one of headway's processes has used so far."""

    cpu: int = 0
    """Processor time in ns."""
    memory: int = 0
    """Resident memory in bytes."""


@dataclass(frozen=True, slots=True)
class TotalsSnapshot:
    """All totals at one moment, as plain values that can be sent to another process."""

    source: str
    began: int
    """When measuring began, in ns of the ledger's clock."""
    at: int
    """The time of the reading, in ns of the ledger's clock."""
    epoch: int
    """What must be added to that clock for the time since 1970, in ns."""
    series: tuple[Series, ...]
    rest: Series
    """What had no room."""
    departed: Series
    """What has left."""
    processors: tuple[tuple[int, tuple[State, ...]], ...]
    losses: dict[str, int]
    overhead: int | None
    """Time that measuring took from the threads, in ns."""
    events: int | None
    """Events measured by eBPF, or looks at threads in /proc."""
    living: int
    seen: int
    """The number of threads measured so far."""
    ended: int
    unplaced: int
    """The number of processes whose control group could not be read (`places.Places.missed`)."""
    room: int
    """The limit of the number of series."""
    taken: int
    """The number of series."""
    left: int
    """The number of label sets whose series have left."""
    reasons: dict[str, str]
    """Why a figure is not exact."""
    precision: Precision
    cost: Cost
    """The cost of the measuring process."""
    neighbours: tuple[tuple[Labels, int], ...] = ()
    """Who had the processor while threads of other processes were ready, in ns; empty where causes are not recorded."""
    tasks: tuple[TaskSeries, ...] = ()
    """What threads worked on; empty where no thread had a task, or tasks are not measured."""
    work: Promised | None = None
    """When the work of --work will be done; None: there is none."""

    def whole(self) -> Indices:
        """Return the indices of everything measured. Where all is exact, only their qualities matter, so they are 0."""
        every = [one for one in (*self.series, self.rest, self.departed) if one.states]
        if not any(
            one.sampled or one.by_mode or any(_undivided(name) for name, _, _, _ in one.states) for one in every
        ):
            return Amounts({}).indices(self.precision)
        return reduce(add, [one.amounts() for one in every]).indices(self.precision)

    def pack(self) -> bytes:
        """Return the snapshot as bytes, for `unpack` in another process of the same program."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["series"] = tuple(map(tuple, self.series))
        plain["rest"], plain["departed"] = tuple(self.rest), tuple(self.departed)
        plain["tasks"] = tuple(map(tuple, self.tasks))
        plain["precision"] = tuple(quality.value for quality in astuple(self.precision))
        plain["cost"] = astuple(self.cost)
        plain["work"] = None if self.work is None else tuple(self.work)
        return marshal.dumps(plain)

    @staticmethod
    def unpack(data: bytes) -> TotalsSnapshot:
        """Return the snapshot that `pack` packed."""
        plain = marshal.loads(data)
        plain["series"] = tuple(map(Series._make, plain["series"]))
        plain["rest"], plain["departed"] = Series(*plain["rest"]), Series(*plain["departed"])
        plain["tasks"] = tuple(map(TaskSeries._make, plain["tasks"]))
        plain["precision"] = Precision(*map(Quality, plain["precision"]))
        plain["cost"] = Cost(*plain["cost"])
        plain["work"] = None if plain["work"] is None else Promised(*plain["work"])
        return TotalsSnapshot(**plain)


class _Tally:
    """Time and occurrences of one state. Both only grow."""

    __slots__ = ("count", "events", "owed", "owed_count", "time")

    def __init__(self) -> None:
        self.time = self.owed = self.owed_count = 0
        self.count: int | None = 0
        self.events: dict[str, int] = {}

    def add(self, time: int, count: int | None) -> None:
        if time < 0 or self.owed:
            time -= self.owed
            self.owed, time = max(-time, 0), max(time, 0)
        self.time += time
        if count is None or self.count is None:
            self.count = None
            return
        if count < 0 or self.owed_count:
            count -= self.owed_count
            self.owed_count, count = max(-count, 0), max(count, 0)
        self.count += count

    def add_events(self, events: Mapping[str, int | None]) -> None:
        for name, number in events.items():
            if number is not None:  # an event may be unknown in some states
                self.events[name] = self.events.get(name, 0) + max(number, 0)


class _Spread:
    """How long the occurrences of one state lasted. No number ever decreases."""

    __slots__ = ("buckets", "unplaced")

    def __init__(self) -> None:
        self.buckets: dict[int, _Tally] = {}
        self.unplaced = _Tally()

    def add(self, durations: Durations) -> None:
        for bucket, number in durations.coarser(1).buckets:
            self.buckets.setdefault(bucket, _Tally()).add(number, 0)
        self.unplaced.add(durations.unplaced, 0)

    def take_in(self, other: _Spread) -> None:
        for bucket, tally in other.buckets.items():
            self.buckets.setdefault(bucket, _Tally()).add(tally.time, 0)
        self.unplaced.add(other.unplaced.time, 0)

    def frozen(self) -> tuple[dict[int, int], int]:
        return {bucket: tally.time for bucket, tally in sorted(self.buckets.items())}, self.unplaced.time


class _Group:
    """The threads of one set of labels."""

    __slots__ = ("by_mode", "divided", "durations", "labels", "living", "sampled", "samples", "since", "states")

    def __init__(self, labels: tuple[tuple[str, str], ...], since: int) -> None:
        self.labels, self.since = labels, since
        self.living = 0
        self.states: dict[str, _Tally] = {}
        self.divided: dict[Kind, _Tally] = {}
        self.sampled: dict[Kind, _Tally] = {}
        """Of each kind, the time that was divided by samples, and as occurrences the samples."""
        self.samples = 0
        self.by_mode: dict[Kind, _Tally] = {}
        """Of each kind, the time that was divided by the cycles of user and kernel mode."""
        self.durations: dict[str, _Spread] = {}

    def divide(self, times: Mapping[Kind, int]) -> None:
        for kind, time in times.items():
            if kind not in self.divided:
                self.divided[kind] = _Tally()
            self.divided[kind].add(time, 0)

    def estimate(self, sampled: Mapping[Kind, Estimate], samples: int) -> None:
        for kind, part in sampled.items():
            if part.time or part.samples:
                self.sampled.setdefault(kind, _Tally()).add(part.time, part.samples)
            if part.by_mode:
                self.by_mode.setdefault(kind, _Tally()).add(part.by_mode, 0)
        self.samples += max(samples, 0)

    def bounded(self, state: str) -> _Tally:
        """Return the tally of a state or, if there are too many, of the states with the same first word."""
        if state not in self.states and len(self.states) >= MAX_STATES:
            state = state.partition(".")[0]
            state = f"{state}.other" if state in KINDS else "unknown"
        return self.states.setdefault(state, _Tally())

    def take_in(self, other: _Group) -> None:
        for state, tally in other.states.items():
            mine = self.bounded(state)
            mine.add(tally.time, tally.count)
            mine.add_events(tally.events)
        self.divide({kind: tally.time for kind, tally in other.divided.items()})
        self.estimate({kind: Estimate(tally.time, tally.count or 0) for kind, tally in other.sampled.items()}, 0)
        self.estimate({kind: Estimate(by_mode=tally.time) for kind, tally in other.by_mode.items()}, 0)
        self.samples += other.samples
        for state, spread in other.durations.items():
            self.bounded_spread(state).take_in(spread)

    def bounded_spread(self, state: str) -> _Spread:
        """Return the spread of a state or, if there are too many, of the states with the same first word."""
        if state not in self.durations and len(self.durations) >= MAX_STATES:
            state = state.partition(".")[0]
            state = f"{state}.other" if state in KINDS else "unknown"
        return self.durations.setdefault(state, _Spread())

    def frozen(self) -> Series:
        return Series(
            self.labels,
            self.since,
            self.living,
            _states(self.states),
            {kind.value: tally.time for kind, tally in self.divided.items()},
            {kind.value: (tally.time, tally.count or 0) for kind, tally in self.sampled.items()},
            self.samples,
            {kind.value: tally.time for kind, tally in self.by_mode.items()},
            {state: spread.frozen() for state, spread in self.durations.items()},
        )


def _states(tallies: Mapping[str, _Tally]) -> tuple[State, ...]:
    return tuple([(name, t.time, t.count, tuple(t.events.items())) for name, t in tallies.items()])


def _name(text: str) -> str:
    """Return a name for a label: harmful characters as escapes, and not too long."""
    return clean(text, LONGEST_NAME)


def _undivided(state: str) -> bool:
    """Return whether the state is processor time that was not divided."""
    return state.partition(".")[0] == RUNNING


_Key = tuple[int, int, str, str, Labels]


class Totals:
    """Adds up ledgers of consecutive intervals, in ns."""

    def __init__(
        self,
        by: By = By.PROCESS,
        *,
        most: int = MAX_SERIES,
        expire: int = EXPIRE_NS,
        process_name: Callable[[int], str] = lambda pid: "",
        place_of: Callable[[int], Labels | None] = lambda pid: (),
    ) -> None:
        """Set the limits: ``most`` series of threads' states; ``expire``, how long ended threads stay, in ns.

        ``process_name`` is called for the name of a process whose first thread is not measured. ``place_of`` reads the
        labels of a process's control group (`places.Places`); with `By.NAME` it is not called.
        """
        self._by, self._most, self._expire, self._process_name = by, most, expire, process_name
        self._places = None if by is By.NAME else ProcessLabels(place_of)
        self._groups: dict[_Key, _Group] = {}
        self._gone: dict[_Key, int] = {}
        """Groups without a living thread, and since when. The first is the first to leave."""
        self._rest = _Group((("other", "true"),), 0)
        self._departed = _Group((), 0)
        self._taken = self._left = 0
        self._names: dict[int, str] = {}
        self._neighbours = Neighbours()
        self._tasks = TaskTotals()
        self._processors: dict[int, dict[str, _Tally]] = {}
        self._losses: dict[str, _Tally] = {}
        self._overhead: _Tally | None = _Tally()
        self._events: _Tally | None = _Tally()
        self._living = self._seen = self._ended = 0
        self._began: int | None = None
        self._last: Ledger | None = None

    def add(self, ledger: Ledger) -> None:
        """Add the ledger of the next interval. Raises ValueError if it is not in ns."""
        if ledger.time_unit != "ns":
            raise ValueError(f"totals are in ns, this ledger is in {ledger.time_unit}")
        at = ledger.window.end
        if self._began is None:
            self._began = self._rest.since = self._departed.since = ledger.window.start
        self._learn_names(ledger.threads)
        if self._places is not None:
            self._places.look(ledger.threads, self._name_of, at)
        self._neighbours.add(ledger.threads, self._name_of)
        self._tasks.add(ledger.threads, self._name_of)
        for group in (*self._groups.values(), self._rest):
            group.living = 0
        counting = bool(ledger.counted or ledger.events)
        ended = 0
        keys = [self._key(thread) for thread in ledger.threads]
        for key in keys:  # groups that are needed again must not leave to make room
            self._gone.pop(key, None)
        for thread, key in zip(ledger.threads, keys, strict=True):
            group = self._group(key, thread)
            if thread.end is None:
                group.living += 1
            else:
                ended += 1
            self._charge(group, thread.states)
            if counting:
                self._count(group, thread.states, ledger)
            if ledger.counted:
                group.divide(ledger.times(thread))
            if thread.durations is not None:
                self._spread(group, thread.durations)
            if thread.sampled:
                if ledger.counted:
                    had = amounts_of(thread.states, cycles=False, sampled=thread.sampled)
                else:
                    had = amounts_in_time({}, thread.sampled)
                group.estimate(had.sampled, had.samples)
        self._seen += max(len(ledger.threads) - self._living, 0)
        self._ended += ended
        self._living = len(ledger.threads) - ended
        self._let_go(at)
        for processor in ledger.processors:
            tallies = self._processors.setdefault(processor.cpu, {})
            for state, count, time in listed(processor.states):
                tallies.setdefault(_name(state), _Tally()).add(time, count)
        for name, number in ledger.losses.items():
            self._losses.setdefault(_name(name), _Tally()).add(number, 0)
        self._overhead = _add_known(self._overhead, ledger.overhead.time)
        self._events = _add_known(self._events, ledger.overhead.events)
        self._last = replace(ledger, threads=(), processors=())

    def snapshot(self, *, epoch: int = 0, cost: Cost = Cost(), work: Promised | None = None) -> TotalsSnapshot:
        """Return the totals as of the last ledger. ``epoch``: its clock plus this is the time since 1970, in ns.

        ``work``: when that will be done.

        Raises ValueError before the first ledger.
        """
        last = self._last
        if self._began is None or last is None:
            raise ValueError("there is nothing yet")
        return TotalsSnapshot(
            source=last.source,
            began=self._began,
            at=last.window.end,
            epoch=epoch,
            series=tuple([group.frozen() for group in self._groups.values()]),
            rest=self._rest.frozen(),
            departed=self._departed.frozen(),
            processors=tuple([(cpu, _states(states)) for cpu, states in sorted(self._processors.items())]),
            losses={name: tally.time for name, tally in self._losses.items()},
            overhead=None if self._overhead is None else self._overhead.time,
            events=None if self._events is None else self._events.time,
            living=self._living,
            seen=self._seen,
            ended=self._ended,
            unplaced=0 if self._places is None else self._places.missed,
            room=self._most,
            taken=self._taken,
            left=self._left,
            reasons={_name(name): clean(reason) for name, reason in last.reasons.items()},
            precision=last.precision,
            cost=cost,
            neighbours=self._neighbours.frozen(),
            tasks=self._tasks.frozen(),
            work=work,
        )

    def _learn_names(self, threads: Iterable[Thread]) -> None:
        """Take the names of the processes from their first threads."""
        before, self._names = self._names, {}
        for thread in threads:
            pid = thread.pid
            if thread.tid == pid:
                self._names[pid] = _name(thread.name)
            elif pid not in self._names and pid in before:
                self._names[pid] = before[pid]

    def _name_of(self, pid: int) -> str:
        name = self._names.get(pid)
        if name is None:
            name = self._names[pid] = _name(self._process_name(pid))
        return name

    def _key(self, thread: Thread) -> _Key:
        return (
            thread.pid if self._by in _OF_ONE_PROCESS else 0,
            thread.tid if self._by is By.THREAD else 0,
            "" if self._by in _NAMELESS else self._name_of(thread.pid),
            "" if self._by in _NAMELESS else _name(thread.name),
            () if self._places is None else self._places.of(thread),
        )

    def _group(self, key: _Key, thread: Thread) -> _Group:
        group = self._groups.get(key)
        if group is not None:
            return group
        if not self._make_room():
            return self._rest
        pid, tid, process, name, place = key
        labels = [] if self._by in _NAMELESS else [("process", process), ("thread", name)]
        if self._by in _OF_ONE_PROCESS:
            labels.insert(0, ("pid", str(pid)))
        if self._by is By.THREAD:
            labels.append(("tid", str(tid)))
        labels += place
        self._taken += 1
        group = self._groups[key] = _Group(tuple(labels), thread.start)
        return group

    def _charge(self, group: _Group, states: Mapping[str, Cell]) -> None:
        tallies = group.states
        for given, count, time in listed(states):
            state = _name(given)
            tally = tallies.get(state)
            if tally is None:
                if not time and not count:
                    continue
                tally = self._tally(group, state)
            tally.add(time, count)

    def _spread(self, group: _Group, durations: StateDurations) -> None:
        """Add how long occurrences lasted. A histogram takes the room of many series."""
        for given, found in durations.items():
            state = _name(given)
            spread = group.durations.get(state)
            if spread is None:
                if not found.buckets and found.unplaced <= 0:
                    continue
                if group is self._rest or not self._make_room(SERIES_OF_A_HISTOGRAM):
                    spread = self._rest.bounded_spread(state)
                else:
                    self._taken += SERIES_OF_A_HISTOGRAM
                    spread = group.durations[state] = _Spread()
            spread.add(found)

    def _count(self, group: _Group, states: Mapping[str, Cell], ledger: Ledger) -> None:
        for given, cell in states.items():
            state = _name(given)
            found: dict[str, int | None] = {name: (cell.events or {}).get(name) for name in ledger.events}
            if ledger.counted:
                found["cycles"], found["instructions"] = cell.cycles, cell.instructions
                found["stall_cycles"], found["memory_stall_cycles"] = cell.stall_cycles, cell.memory_stall_cycles
            tally = group.states.get(state)
            if tally is None and any(found.values()):
                tally = self._tally(group, state)
            if tally is not None:
                tally.add_events(found)

    def _tally(self, group: _Group, state: str) -> _Tally:
        """Return a tally for a state that is new to the group."""
        if group is self._rest or not self._make_room():
            return self._rest.bounded(state)
        self._taken += 1
        tally = group.states[state] = _Tally()
        return tally

    def _make_room(self, more: int = 1) -> bool:
        """Return whether there is room for so many more series. To make room, ended threads leave early."""
        while self._taken + more > self._most and self._gone:
            self._fold(next(iter(self._gone)))
        return self._taken + more <= self._most

    def _let_go(self, at: int) -> None:
        for key, group in self._groups.items():
            if group.living:
                self._gone.pop(key, None)
            elif key not in self._gone:
                self._gone[key] = at
        for key in [key for key, since in self._gone.items() if since <= at - self._expire]:
            self._fold(key)

    def _fold(self, key: _Key) -> None:
        del self._gone[key]
        group = self._groups.pop(key)
        self._departed.take_in(group)
        self._taken -= 1 + len(group.states) + SERIES_OF_A_HISTOGRAM * len(group.durations)
        self._left += 1


def _add_known(tally: _Tally | None, more: int | None) -> _Tally | None:
    """Return the sum, or None if a part is not known."""
    if tally is None or more is None:
        return None
    tally.add(more, 0)
    return tally
