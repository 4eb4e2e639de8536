"""The spans of a recording by thread: sorted, without overlaps and without gaps, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError
from headway.model import NO_STATE, Batch, Kind, ThreadSeen, Transitions, Window, kind_of
from headway.recording.reader import Recording

__all__ = ["MAX_ROWS", "Activity", "Ints", "Others", "Rows", "gather", "load", "places"]

Ints = NDArray[np.int64]

MAX_ROWS = 25_000_000
"""The largest number of rows that are read. Each takes about 280 bytes while a run is replayed."""

_HARDLY = 0.01
"""A share of the threads' processor time. A processor that had less of it is not one of theirs."""
_OFF = {Kind.READY, Kind.WAIT}
_COLUMNS = ("time", "duration", "taken", "cpu", "thread", "waker", "waker_tid")


class Activity(IntEnum):
    """What a span means for the replay."""

    RUNS = 0
    """On a processor, or the hypervisor or headway had it."""
    READY = 1
    WAITS = 2
    """Asleep, or not seen."""


@dataclass(frozen=True, slots=True)
class Others:
    """The spans in which processors ran threads that are not measured: arrays of shape (n,), by processor and time."""

    cpu: Ints
    begin: Ints
    end: Ints


@dataclass(frozen=True, slots=True)
class Rows:
    """The spans of all threads: arrays of shape (n,), sorted by thread and time.

    The spans of a thread follow each other without overlap and without gap. Times are in the recording's time unit.
    Threads are given by their place, from 0, in the order of their numbers in the recording.
    """

    window: Window
    time_unit: str
    threads: tuple[ThreadSeen, ...]
    first: Ints
    """Where the rows of a thread begin, shape (threads + 1,)."""
    thread: NDArray[np.int32]
    begin: Ints
    end: Ints
    state: NDArray[np.int32]
    """Index into `states`."""
    cpu: NDArray[np.int32]
    """The processor; -1: none."""
    taken: Ints
    """The part of the span that does not belong to its state (`Transitions.taken`)."""
    waker: NDArray[np.int32]
    """The place of the thread that ended the wait; -1: none."""
    waker_state: NDArray[np.int32]
    """Index into `states`: the interrupt that ended the wait; -1: none."""
    waker_tid: NDArray[np.int32]
    """The tid of a waker that is not measured; 0: none."""
    futex: NDArray[np.uint64]
    """Of a wait at a futex, its address; 0: not known."""
    states: tuple[str, ...]
    activity: NDArray[np.int8]
    """An `Activity`."""
    amount_row: Ints
    """Amounts without a place, shape (m,): the row within which each lies, ..."""
    amount_state: NDArray[np.int32]
    """... the state that it belongs to, ..."""
    amount: Ints
    """... and how much it is."""
    others: Others
    cpus: int
    """The number of processors on which the threads ran."""
    dropped: Mapping[str, int]
    """Rows that could not be used, by reason."""
    locks: Mapping[int, str] = field(default_factory=dict)
    """The names of locks by address, where only one process has a lock there."""

    def __len__(self) -> int:
        """Return the number of spans."""
        return len(self.begin)

    def kinds(self) -> list[Kind]:
        """Return the kind of each of `states`."""
        return [kind_of(state) for state in self.states]

    def covering(self, thread: Ints, time: Ints) -> Ints:
        """Return, for each thread and time, the row that has the moment just before it; -1: there is none."""
        span = self.window.duration + 2
        keys = self.thread.astype(np.int64) * span + (self.begin - self.window.start)
        place = np.searchsorted(keys, thread * span + (time - self.window.start), side="left") - 1
        found = np.maximum(place, 0)
        if not len(self):
            return np.full(len(thread), -1, np.int64)
        fits = (place >= 0) & (self.thread[found] == thread) & (self.begin[found] < time) & (self.end[found] >= time)
        return np.where(fits, found, -1)


def load(recording: Recording, shown: Callable[[int], None] = lambda done: None) -> Rows:
    """Read a recording. ``shown`` is called with the number of rows read so far.

    Raises HeadwayError if it has no rows, or too many.
    """
    where = str(recording.path)
    if not recording.rows and recording.damaged:
        file, why = next(iter(recording.damaged.items()))
        raise HeadwayError(f"no transitions of {where!a} can be read: {file} is damaged ({why})")
    if not recording.rows:
        raise HeadwayError(f"{where!a} has no transitions, so there is nothing to follow: give one of headway record")
    if recording.rows > MAX_ROWS:
        raise HeadwayError(
            f"{where!a} has {recording.rows:,} transitions, and a replay can hold {MAX_ROWS:,}: "
            "record a shorter time, or with --level switches"
        )
    found = gather(
        recording.batches(), recording.threads(), recording.window, recording.document.ledger.time_unit, shown
    )
    return replace(found, locks=_by_address(recording.document.locks))


def _by_address(locks: Mapping[tuple[int, int], str]) -> dict[int, str]:
    """Return the names of locks by address alone, of addresses that have one name in all processes."""
    found: dict[int, set[str]] = {}
    for (_, address), name in locks.items():
        found.setdefault(address, set()).add(name)
    return {address: next(iter(names)) for address, names in found.items() if len(names) == 1}


def gather(
    batches: Iterable[Batch],
    threads: Mapping[int, ThreadSeen],
    window: Window,
    time_unit: str = "ns",
    shown: Callable[[int], None] = lambda done: None,
) -> Rows:
    """Return the spans of these batches. Rows of unknown threads are left out and counted in `Rows.dropped`.

    Raises HeadwayError if the times are too far apart for that many threads.
    """
    numbers = np.array(sorted(threads), np.int64)
    if (window.duration + 2) * (len(numbers) + 1) >= 1 << 62:
        raise HeadwayError("the recording has times that are too far apart to follow who waited for whom")
    words: dict[str, int] = {}
    parts: list[dict[str, NDArray[np.int64]]] = []
    done = 0
    for batch in batches:
        parts.append(_columns(batch.transitions, numbers, words, window))
        done += len(batch.transitions)
        shown(done)
    names = [*_COLUMNS, "state", "waker_state", "futex"]
    empty = np.empty(0, np.int64)
    table = {name: np.concatenate([empty, *(part.pop(name) for part in parts)]) for name in names}
    dropped: dict[str, int] = {}
    unknown = table["thread"] == -2
    if unknown.any():
        dropped["rows of threads that are not named"] = int(np.count_nonzero(unknown))
        table = {name: column[~unknown] for name, column in table.items()}
    unknown_state = words.setdefault("unknown", len(words))
    states = tuple(words)
    kinds = [kind_of(state) for state in states]
    others, cpus = _processors(table, kinds, states)
    measured = table["thread"] >= 0
    placed = table["duration"] > 0
    amounts = {name: column[measured & ~placed] for name, column in table.items()}
    spans = _tiled({name: column[measured & placed] for name, column in table.items()}, window, unknown_state, dropped)
    del table
    activity = _activity(spans["state"], spans["cpu"], kinds)
    row, state, amount = _amounts(amounts, spans, window)
    counts = np.bincount(spans["thread"], minlength=len(numbers)) if len(numbers) else np.zeros(0, np.int64)
    return Rows(
        window=window,
        time_unit=time_unit,
        threads=tuple(threads[number] for number in numbers.tolist()),
        first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        thread=spans["thread"].astype(np.int32),
        begin=spans["time"],
        end=spans["time"] + spans["duration"],
        state=spans["state"].astype(np.int32),
        cpu=spans["cpu"].astype(np.int32),
        taken=spans["taken"],
        waker=np.maximum(spans["waker"], -1).astype(np.int32),
        waker_state=spans["waker_state"].astype(np.int32),
        waker_tid=spans["waker_tid"].astype(np.int32),
        futex=spans["futex"].view(np.uint64),
        states=states,
        activity=activity,
        amount_row=row,
        amount_state=state.astype(np.int32),
        amount=amount,
        others=others,
        cpus=cpus,
        dropped=dropped,
    )


def _columns(rows: Transitions, numbers: Ints, words: dict[str, int], window: Window) -> dict[str, Ints]:
    """Return the rows as int64 columns, with threads by place (-1: none, -2: not named) and states by one numbering."""
    table = np.array([words.setdefault(state, len(words)) for state in rows.states] + [-1], np.int64)
    end = np.minimum(rows.time + rows.duration, window.end)
    begin = np.clip(rows.time, window.start, window.end)
    found = {
        "time": begin,
        "duration": np.where(rows.duration > 0, np.maximum(end - begin, 0), 0),
        "taken": rows.taken.astype(np.int64),
        "cpu": rows.cpu.astype(np.int64),
        "thread": places(rows.thread, numbers),
        "waker": places(rows.waker, numbers),
        "waker_tid": rows.waker_tid.astype(np.int64),
        "state": table[np.minimum(rows.state, len(table) - 1)],
        "futex": np.zeros(len(rows), np.int64) if rows.futex is None else rows.futex.astype(np.uint64).view(np.int64),
        "waker_state": table[np.where(rows.waker_state == NO_STATE, len(table) - 1, rows.waker_state)],
    }
    outside = (rows.duration > 0) & (found["duration"] == 0)
    return {name: column[~outside] for name, column in found.items()} if outside.any() else found


def places(column: NDArray[np.int32], numbers: Ints) -> Ints:
    """Return the places of threads in `Rows.threads`, by their numbers; -1: none, -2: not one of ``numbers``."""
    if not len(numbers):
        return np.where(column < 0, -1, -2).astype(np.int64)
    place = np.minimum(np.searchsorted(numbers, column), len(numbers) - 1)
    return np.where(column < 0, -1, np.where(numbers[place] == column, place, -2)).astype(np.int64)


def _activity(state: Ints, cpu: Ints, kinds: list[Kind]) -> NDArray[np.int8]:
    """Return what each span means. Of unknown states the processor tells whether the thread ran."""
    code = {Kind.READY: Activity.READY, Kind.WAIT: Activity.WAITS, Kind.UNKNOWN: Activity.WAITS}
    table = np.array([code.get(kind, Activity.RUNS) for kind in kinds], np.int8)
    unknown = np.array([kind is Kind.UNKNOWN for kind in kinds], np.bool_)
    found = table[state]
    found[unknown[state] & (cpu >= 0)] = Activity.RUNS
    return found


def _processors(table: Mapping[str, Ints], kinds: list[Kind], states: tuple[str, ...]) -> tuple[Others, int]:
    """Return what processors did for threads that are not measured, and how many processors the measured ones used.

    A processor where they ran hardly at all does not count: they were there before they were confined to others
    (`sched_setaffinity`, as taskset does it).
    """
    runs = (table["thread"] >= 0) & (table["cpu"] >= 0) & (table["duration"] > 0)
    used, place = np.unique(table["cpu"][runs], return_inverse=True)
    time = np.bincount(place, table["duration"][runs], len(used))
    used = used[time >= time.sum() * _HARDLY]
    foreign = np.array([state.startswith("unknown") for state in states], np.bool_)
    chosen = (table["thread"] == -1) & (table["duration"] > 0) & np.isin(table["cpu"], used)
    chosen &= foreign[table["state"]]
    cpu, begin, duration = (table[name][chosen] for name in ("cpu", "time", "duration"))
    order = np.lexsort((begin, cpu))
    cpu, begin, end = cpu[order], begin[order], (begin + duration)[order]
    new = np.ones(len(cpu), np.bool_)
    new[1:] = (cpu[1:] != cpu[:-1]) | (begin[1:] > end[:-1])
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(cpu)) - 1 if len(first) else first
    return Others(cpu[first], begin[first], end[last]), max(len(used), 1)


def _tiled(table: dict[str, Ints], window: Window, unknown: int, dropped: dict[str, int]) -> dict[str, Ints]:
    """Return the spans sorted by thread and time. Overlaps are cut, gaps within a thread's life become ``unknown``."""
    order = np.lexsort((table["time"], table["thread"]))
    table = {name: column[order] for name, column in table.items()}
    if not len(order):
        return table
    thread, begin = table["thread"], table["time"]
    offset = thread * (window.duration + 2) - window.start
    latest = np.maximum.accumulate(begin + table["duration"] + offset) - offset
    same = thread[1:] == thread[:-1]
    cut = np.zeros(len(thread), np.int64)
    cut[1:] = np.where(same, np.maximum(latest[:-1] - begin[1:], 0), 0)
    if cut.any():
        dropped["rows that overlap others of their thread"] = int(np.count_nonzero(cut))
        table["time"] = begin + cut
        table["duration"] = table["duration"] - cut
        kept = table["duration"] > 0
        table = {name: column[kept] for name, column in table.items()}
        thread, begin = table["thread"], table["time"]
    end = begin + table["duration"]
    gap = np.flatnonzero((thread[1:] == thread[:-1]) & (begin[1:] > end[:-1]))
    if len(gap):
        dropped["gaps in threads"] = len(gap)
        new = {
            "time": end[gap],
            "duration": begin[gap + 1] - end[gap],
            "thread": thread[gap],
            "state": np.full(len(gap), unknown, np.int64),
            **{name: np.full(len(gap), -1, np.int64) for name in ("cpu", "waker", "waker_state")},
            **{name: np.zeros(len(gap), np.int64) for name in ("taken", "waker_tid", "futex")},
        }
        table = {name: np.insert(column, gap + 1, new[name]) for name, column in table.items()}
    return table


def _amounts(table: Mapping[str, Ints], spans: Mapping[str, Ints], window: Window) -> tuple[Ints, Ints, Ints]:
    """Return the amounts that states were given out of spans: the row of each, its state, and its time.

    An amount belongs to the moment at which a span begins or ends. It is out of the one that had so much taken from it.
    """
    given = np.flatnonzero(table["taken"] < 0)
    thread, time, amount = table["thread"][given], table["time"][given], -table["taken"][given]
    none = np.zeros(0, np.int64)
    if not len(given) or not len(spans["time"]):
        return none, none, none
    span = window.duration + 2
    keys = spans["thread"] * span + (spans["time"] - window.start)
    after = np.searchsorted(keys, thread * span + (time - window.start), side="right") - 1
    fits = (after >= 0) & (spans["thread"][np.maximum(after, 0)] == thread)
    thread, time, amount, after, given = thread[fits], time[fits], amount[fits], after[fits], given[fits]
    before = np.maximum(after - 1, 0)
    ends_here = (spans["thread"][before] == thread) & (spans["time"][after] == time)
    earlier = ends_here & (spans["taken"][after] < amount) & (spans["taken"][before] >= amount)
    row = np.where(earlier, before, after)
    fits = spans["cpu"][row] >= 0
    return row[fits], table["state"][given][fits], amount[fits]
