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
from .rows import Activity

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
    """Return the changes that are worth trying, those that are about most of the critical path first."""
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
    return sorted(found, key=lambda pair: (min(pair[1].gain), max(pair[1].gain)), reverse=True)


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
