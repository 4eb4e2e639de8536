"""What is worth trying: changes to what the critical path consists of, and what each would gain."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from headway.errors import HeadwayError
from headway.model import Kind, kind_of

from .changes import Change, Faster, LockFree, Processors, Without
from .path import CriticalPath, PieceKind, critical_path
from .predict import Model, Prediction
from .rows import Activity, Ints
from .units import Units, within

__all__ = ["Candidate", "candidates", "rank"]

HALF = Fraction(1, 2)
LEAST_SHARE = 0.01
"""What has less than this share of the critical path is not tried."""
MOST = 12
"""The largest number of changes that are tried."""
_NEIGHBOURS = 3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change, and how much of the critical path it is about."""

    change: Change
    on_path: int
    """The time on the critical path that it is about, in the recording's time unit."""


def candidates(model: Model, path: CriticalPath) -> list[Candidate]:
    """Return the changes that are worth trying, those that are about most of the critical path first.

    Of a recording without an end of its own, they are about most of the time of its units of work.
    """
    if model.whole and model.units is not None:
        of_units = list(_of_units(model, model.units, path))
        whole = max(sum(one.on_path for one in of_units), 1)
        found = [one for one in of_units if one.on_path >= whole * LEAST_SHARE]
    else:
        least = max(int(model.recorded * LEAST_SHARE), 1)
        found = [one for one in _all(model, path) if one.on_path >= least]
    found.sort(key=lambda one: (-one.on_path, str(one.change)))
    kept = found[:MOST]
    # Whether the run needs all its processors is always of interest.
    if model.graph.processors > 1:
        kept.append(Candidate(Processors(-1, True), 0))
    return kept


def rank(
    model: Model, shown: Callable[[int, int], None] = lambda done, all_: None
) -> list[tuple[Candidate, Prediction]]:
    """Predict all candidates, and return them with the highest certain gain first: the lower end of its range.

    ``shown`` is called with how many predictions have been made, and how many there are.
    """
    graph = model.graph
    chosen = candidates(model, critical_path(graph.rows, graph.wakeups, graph.end))
    found = []
    for done, one in enumerate(chosen):
        shown(done, len(chosen))
        try:
            found.append((one, model.predict([one.change])))
        except HeadwayError:
            continue  # the name of a thread or state means something else as a pattern
    return sorted(found, key=lambda pair: _gain(model, pair[1]), reverse=True)


def _gain(model: Model, one: Prediction) -> tuple[float, float]:
    """Return the lowest and the highest gain: of the units of work, where the recording has no end of its own."""
    gain = one.units[0].gain if model.whole and one.units else one.gain
    return min(gain), max(gain)


def _all(model: Model, path: CriticalPath) -> Iterator[Candidate]:
    rows = path.rows
    patterns = _patterns([thread.name for thread in rows.threads])
    ready = 0
    by_state: defaultdict[tuple[str, str], int] = defaultdict(int)
    outside: Counter[str] = Counter()
    for (place, state, kind), time in path.times().items():
        what = kind_of(state)
        if kind is PieceKind.OUTSIDE and what is Kind.WAIT:
            outside[state] += time
        elif what is Kind.READY:
            ready += time
        elif kind is PieceKind.THREAD and what.in_rpi:
            by_state[patterns[place], state] += time
    for (name, state), time in by_state.items():
        yield Candidate(Faster(f"{name}:{_escaped(state)}", HALF), time)
    for state, time in outside.items():
        yield Candidate(Faster(_escaped(state), HALF), time)
    yield from _locks(path, patterns)
    yield Candidate(Processors(1, True), ready)
    yield from _neighbours(model, path, ready)


def _of_units(model: Model, units: Units, path: CriticalPath) -> Iterator[Candidate]:
    """Yield the changes to what units of work consist of."""
    rows, wakeups = path.rows, model.graph.wakeups
    patterns = _patterns([thread.name for thread in rows.threads])
    inside = within(units, rows)
    length = np.where(inside, rows.end - rows.begin, 0)
    kinds = rows.kinds()
    table = np.array([kind.in_rpi for kind in kinds], np.bool_)
    by_state: defaultdict[tuple[str, str], int] = defaultdict(int)
    runs = inside & (rows.activity == Activity.RUNS) & table[rows.state]
    columns = [(rows.thread[runs], rows.state[runs], (length - np.maximum(rows.taken, 0))[runs])]
    given = inside[rows.amount_row] & table[rows.amount_state]
    columns.append((rows.thread[rows.amount_row[given]], rows.amount_state[given], rows.amount[given]))
    for thread, state, time in columns:
        for one, of_state, of_time in _summed(thread, state, time):
            by_state[patterns[one], rows.states[of_state]] += of_time
    for (name, state_name), of_time in by_state.items():
        yield Candidate(Faster(f"{name}:{_escaped(state_name)}", HALF), of_time)
    waits = inside & (rows.activity == Activity.WAITS)
    alone = waits & (wakeups.source < 0)
    for _, of_state, of_time in _summed(np.zeros(int(alone.sum()), np.int64), rows.state[alone], length[alone]):
        if kinds[of_state] is Kind.WAIT:
            yield Candidate(Faster(_escaped(rows.states[of_state]), HALF), of_time)
    locked = np.flatnonzero(waits & (wakeups.source >= 0) & (rows.futex != 0))
    by_lock: defaultdict[tuple[str, int], int] = defaultdict(int)
    for row in locked.tolist():
        by_lock[patterns[int(rows.thread[row])], int(rows.futex[row])] += int(length[row])
    for (name, address), of_time in by_lock.items():
        yield Candidate(LockFree(f"{name}:{address:#x}", rows.locks.get(address, "")), of_time)
    ready = int(length[rows.activity == Activity.READY].sum())
    yield Candidate(Processors(1, True), ready)
    yield from _neighbours(model, path, ready)


def _summed(thread: Ints, state: Ints, time: Ints) -> Iterator[tuple[int, int, int]]:
    """Yield the sum of times by thread and state."""
    if not len(thread):
        return
    keys, place = np.unique(np.stack((thread, state), axis=1), axis=0, return_inverse=True)
    sums = np.bincount(place.ravel(), time, len(keys))
    for (one, of_state), total in zip(keys.tolist(), sums.tolist(), strict=True):
        yield one, of_state, int(total)


def _escaped(word: str) -> str:
    return re.sub(r"([\[*?])", r"[\1]", word)


def _patterns(names: list[str]) -> list[str]:
    """Return a pattern for each name: the name, or with many names that differ in numbers only, what they share."""
    families: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        families[re.sub(r"[0-9]+", "0", name)].add(name)
    found = []
    for name in names:
        if len(families[re.sub(r"[0-9]+", "0", name)]) > 1:
            found.append(re.sub(r"[0-9]+", "*", _escaped(name)))
        else:
            found.append(_escaped(name))
    return found


def _locks(path: CriticalPath, patterns: list[str]) -> Iterator[Candidate]:
    """Yield the locks by which the path went from one thread of a group to another, with the waits there.

    Of waits without an address (of an interpreter's lock, or in a recording without addresses), the group is one lock.
    """
    rows = path.rows
    if len(path) < 2:
        return
    thread = rows.thread[path.row].astype(np.int64)
    switches = np.flatnonzero(thread[1:] != thread[:-1])
    locks = np.array([state.startswith(("wait.futex", "wait.gil", "wait.mutex")) for state in rows.states], np.bool_)
    groups = {pattern: number for number, pattern in enumerate(dict.fromkeys(patterns))}
    group = np.array([groups[pattern] for pattern in patterns], np.int64)
    after = switches + 1
    # The wait is the row before the piece with which the woken thread goes on, unless it is that piece.
    row = path.row[after]
    row = np.where(rows.activity[row] == Activity.WAITS, row, np.maximum(row - 1, 0))
    fits = (rows.activity[row] == Activity.WAITS) & locks[rows.state[row]]
    same = group[thread[switches]] == group[thread[after]]
    names = list(groups)
    length = rows.end[row] - rows.begin[row]
    futex, of_group = rows.futex[row], group[thread[after]]
    for number, address in sorted(set(zip(of_group[fits & same].tolist(), futex[fits & same].tolist(), strict=True))):
        chosen = fits & same & (of_group == number) & (futex == address)
        what = f"{names[number]}:{address:#x}" if address else names[number]
        yield Candidate(LockFree(what, rows.locks.get(address, "")), int(min(length[chosen].sum(), path.end.duration)))


def _neighbours(model: Model, path: CriticalPath, ready: int) -> Iterator[Candidate]:
    """Yield the processes that are worth removing: those that had the most processor time of others."""
    graph, rows = model.graph, path.rows
    if not ready:
        return
    if graph.by_others.any():
        yield Candidate(Without("others"), ready)
    own = rows.threads[path.end.thread].pid
    runs = rows.activity == Activity.RUNS
    times = np.zeros(len(rows.threads), np.int64)
    np.add.at(times, rows.thread[runs], (rows.end - rows.begin)[runs])
    of_process: Counter[int] = Counter()
    for thread, time in zip(rows.threads, times.tolist(), strict=True):
        of_process[thread.pid] += time
    on_path = {rows.threads[place].pid for place in np.unique(rows.thread[path.row]).tolist()}
    others = [(pid, time) for pid, time in of_process.most_common(_NEIGHBOURS + len(on_path)) if pid not in on_path]
    leaders = {thread.pid: thread.name for thread in rows.threads if thread.tid == thread.pid}
    names = Counter(leaders.values())
    for pid, time in others[:_NEIGHBOURS]:
        if pid != own:
            name = leaders.get(pid, "")
            alone = names[name] == 1 and name not in ("", "others") and not name.isdigit()
            yield Candidate(Without(_escaped(name) if alone else str(pid)), min(time, ready))
