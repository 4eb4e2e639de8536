"""What changes do to a wait graph: how much work is left, how long waits outside take, which waits are gone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError
from headway.model import Kind, is_interrupt

from .changes import Change, Faster, LockFree, MoreThreads, Processors, Without
from .functions import FunctionShares
from .graph import Step, WaitGraph
from .pools import with_more_threads
from .rows import Activity, Ints, Rows

__all__ = ["Effect", "Times", "apply", "as_recorded"]

_LOCKS = ("wait.futex", "wait.gil", "wait.flock", "wait.mutex")
_REGIONS = ("noneffective", "poll", "user")
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Times:
    """How long everything takes, by step: arrays of shape (steps,)."""

    work: Ints
    """The work before the step."""
    length: Ints
    """Of a wait for something outside, how long it takes. Of a wake-up, how long it is under way."""
    until: Ints
    """Of a wait for something outside, when it ends."""
    early: Ints
    """How long the thread is ready before it competes with others for a processor."""
    late: Ints
    """How long it is ready after that."""


@dataclass(slots=True)
class Effect:
    """A wait graph with changes. ``least`` and ``most`` differ where it is not known how much a change does."""

    graph: WaitGraph
    least: Ints
    """How much less time each row takes, at least, shape (rows,). Negative: more."""
    most: Ints
    """The same, at most."""
    keep: NDArray[np.float64]
    """The part that is left of each step's wait for something outside, shape (steps,)."""
    gone: NDArray[np.bool_]
    """The waits that are gone, shape (steps,)."""
    weightless: NDArray[np.uint8]
    """The threads that need no processor, shape (threads,)."""
    processors: int
    neighbours_least: float = 1.0
    """The part that is left of the delays by what is not measured, in the worse case, and ..."""
    neighbours_most: float = 1.0
    """... in the better one."""
    slower: bool = False
    """Whether a change makes something slower."""
    assumptions: list[str] = field(default_factory=list)

    def times(self, *, most: bool) -> Times:
        """Return how long everything takes."""
        graph = self.graph
        at, recorded = self._positions(most=most)
        work = np.maximum(at - at[graph.previous], 0)
        work[np.repeat(self.weightless.astype(np.bool_), np.diff(graph.first))] = 0
        shorter = np.where(graph.delay, 0, graph.length - (graph.length * self.keep).astype(np.int64))
        # Neighbours preempt a thread the more often the longer it works, and delay it as long each time.
        preempted = graph.delay | (graph.kind == Step.PREEMPT) | (graph.kind == Step.GIVE)
        last = np.maximum.accumulate(np.where(graph.kind == Step.WAKE, 0, np.arange(len(graph.kind))))
        since = np.where(np.arange(len(last)) > 0, last[graph.previous], 0)
        before = recorded - recorded[since]
        ratio = np.where(preempted & (before > 0), (at - at[since]) / np.maximum(before, 1), 1.0)
        whole = np.where(graph.delay, graph.length, graph.early + graph.late)
        others = self.neighbours_most if most else self.neighbours_least
        ratio *= 1 - (1 - others) * np.minimum(graph.by_others / np.maximum(whole, 1), 1)
        if (ratio == 1).all():
            return Times(work, graph.length - shorter, np.maximum(graph.until - shorter, 0), graph.early, graph.late)
        early, late, delays = ((column * ratio).astype(np.int64) for column in (graph.early, graph.late, graph.length))
        length = np.where(graph.delay, delays, graph.length - shorter)
        return Times(work, length, np.maximum(graph.until - shorter, 0), early, late)

    def _positions(self, *, most: bool) -> tuple[Ints, Ints]:
        """Return the work before each step since the beginning of all rows, with the changes and as recorded."""
        graph, rows = self.graph, self.graph.rows
        lost = self.most if most else self.least
        begin = np.maximum(rows.begin, graph.end.start)
        whole = np.where(rows.activity == Activity.RUNS, np.maximum(rows.end - begin, 0), 0)
        left = whole - np.minimum(lost, whole)
        row = graph.row
        within = np.clip(graph.within - (begin - rows.begin)[row], 0, whole[row])
        recorded = np.concatenate([[0], np.cumsum(whole)])[row] + within
        changed = left[row] != whole[row]
        part = within.astype(np.float64) * left[row] / np.maximum(whole[row], 1)
        at = np.concatenate([[0], np.cumsum(left)])[row] + np.where(changed, part.astype(np.int64), within)
        return at, recorded

    def kinds(self) -> NDArray[np.int8]:
        """Return what each step is, without the waits that are gone and the wake-ups that ended them."""
        kind = self.graph.kind
        if not self.gone.any():
            return kind
        wakes = (kind == Step.WAKE) & self.gone[np.maximum(self.graph.target, 0)]
        return np.where(self.gone | wakes, np.int8(Step.NOTHING), kind)


def as_recorded(graph: WaitGraph) -> Effect:
    """Return the graph as it is."""
    return Effect(
        graph,
        np.zeros(len(graph.rows), np.int64),
        np.zeros(len(graph.rows), np.int64),
        np.ones(len(graph.kind), np.float64),
        np.zeros(len(graph.kind), np.bool_),
        np.zeros(graph.threads, np.uint8),
        graph.processors,
    )


def apply(graph: WaitGraph, changes: Iterable[Change], functions: FunctionShares | None = None) -> Effect:
    """Apply the changes, all of them together. Raises HeadwayError if the recording has not what they name."""
    wanted = list(changes)
    for change in wanted:
        if isinstance(change, MoreThreads):
            places = _named_threads(graph.rows, change.what)
            graph = with_more_threads(graph, places, change.factor)
    effect = as_recorded(graph)
    for change in wanted:
        match change:
            case Faster():
                _make_faster(effect, change, functions)
            case LockFree():
                _free_lock(effect, change)
            case Processors():
                _set_processors(effect, change)
            case Without():
                _remove(effect, change)
            case MoreThreads():
                effect.assumptions.append(
                    f"the threads {change.what} share their work: what a thread did between two waits, another may do"
                )
    return effect


# ---- what a change names ----


def _matches(words: Sequence[str], pattern: str) -> NDArray[np.bool_]:
    return np.array([fnmatchcase(word, pattern) for word in words], np.bool_)


def _named_threads(rows: Rows, pattern: str) -> Ints:
    """Return the places of the threads of a name, or of a tid. Raises HeadwayError if there are none."""
    named = _matches([thread.name for thread in rows.threads], pattern)
    if re.fullmatch(r"[0-9]+", pattern, re.ASCII) and not named.any():
        named = np.array([thread.tid == int(pattern) for thread in rows.threads], np.bool_)
    if not named.any():
        raise HeadwayError(f"the recording has no thread {pattern!a}: it has {_list(t.name for t in rows.threads)}")
    return np.flatnonzero(named)


def _list(words: Iterable[str]) -> str:
    found = list(dict.fromkeys(word for word in words if word))
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(ascii(word)[1:-1] for word in found[:_SHOWN]) + more if found else "none"


def _states_of(rows: Rows, pattern: str) -> NDArray[np.bool_]:
    """Return which states a pattern names: a state, or the tag of a marked region or function."""
    found = _matches(rows.states, pattern)
    if not found.any():
        for word in _REGIONS:
            found |= _matches(rows.states, f"{word}.{pattern}")
    return found


def _resolve(
    rows: Rows, what: str, functions: FunctionShares | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None, dict[str, tuple[float, float]]]:
    """Return the threads, and the states or else the shares of a function by thread name, that a word names.

    No states and no shares: all time on a processor. Raises HeadwayError if it names nothing, or two things.
    """
    every = np.ones(len(rows.threads), np.bool_)
    name, colon, rest = what.rpartition(":")
    named = _matches([thread.name for thread in rows.threads], what)
    if colon and name and not named.any():
        some = np.zeros(len(rows.threads), np.bool_)
        some[_named_threads(rows, name)] = True
        states = _states_of(rows, rest)
        if states.any():
            return some, states, {}
        shares = dict(functions.find(rest)) if functions is not None else {}
        if shares:
            return some, None, shares
        raise HeadwayError(_nothing(rows, rest, functions))
    states = _states_of(rows, what)
    shares = dict(functions.find(what)) if functions is not None and not states.any() else {}
    meanings = [
        word
        for word, there in (
            (f"the state {what} (write '*:{what}')", bool(states.any())),
            (f"the function {what} (write '*:{what}')", bool(shares)),
            (f"the threads {what} (write '{what}:*')", bool(named.any())),
        )
        if there
    ]
    if len(meanings) > 1:
        raise HeadwayError(f"{what!a} may mean {' or '.join(meanings)}: say which")
    if named.any():
        return named, None, {}
    if not meanings:
        raise HeadwayError(_nothing(rows, what, functions))
    return every, states if states.any() else None, shares


def _nothing(rows: Rows, what: str, functions: FunctionShares | None) -> str:
    used = np.unique(np.concatenate([rows.state, rows.amount_state]))
    some = f"the recording has no state, marked region or thread {what!a}"
    also = "" if functions is None else f", and its profile no function {what!a} (it has {_list(functions.names())})"
    hint = ": to name functions, give a profile of the same program with --profile" if functions is None else ""
    states = _list(rows.states[number] for number in used.tolist())
    return f"{some} (states: {states}; threads: {_list(t.name for t in rows.threads)}){also}{hint}"


# ---- what it does ----


def _make_faster(effect: Effect, change: Faster, functions: FunctionShares | None) -> None:
    rows, lost = effect.graph.rows, 1.0 - float(change.keep)
    threads, states, shares = _resolve(rows, change.what, functions)
    effect.slower |= lost < 0
    runs = rows.activity == Activity.RUNS
    begin = np.maximum(rows.begin, effect.graph.end.start)
    whole = np.where(runs, np.maximum(rows.end - begin, 0), 0)
    if shares:
        _shorten_by_shares(effect, threads, shares, whole, lost)
        return
    kinds = rows.kinds()
    table = np.array([kind.in_rpi for kind in kinds], np.bool_) if states is None else states
    # Stolen time and what headway took do not get less.
    table = table & np.array([kind not in (Kind.STOLEN, Kind.OVERHEAD) for kind in kinds], np.bool_)
    own = np.where(table[rows.state] & threads[rows.thread], np.clip(whole - np.maximum(rows.taken, 0), 0, None), 0)
    given = table[rows.amount_state] & threads[rows.thread[rows.amount_row]]
    np.add.at(own, rows.amount_row[given], np.minimum(rows.amount[given], whole[rows.amount_row[given]]))
    own = np.minimum(own, whole)
    shorter = (own * lost).astype(np.int64)
    effect.least = np.minimum(effect.least + shorter, whole)
    effect.most = np.minimum(effect.most + shorter, whole)
    _shorten_interrupts(effect, table[rows.state] & threads[rows.thread] & runs, whole, lost)
    if states is not None:
        _shorten_waits(effect, threads, states, change)


def _shorten_interrupts(effect: Effect, chosen: NDArray[np.bool_], whole: Ints, lost: float) -> None:
    """Interrupts within the rows ``chosen`` come less often if these are shorter, or as often: nobody knows."""
    rows = effect.graph.rows
    interrupts = np.array([is_interrupt(state) for state in rows.states], np.bool_)[rows.state]
    place = np.arange(len(rows))
    before = np.maximum.accumulate(np.where(interrupts, 0, place))
    after = np.minimum.accumulate(np.where(interrupts, len(rows) - 1, place)[::-1])[::-1]
    same = (rows.thread[before] == rows.thread) & (rows.thread[after] == rows.thread)
    within = interrupts & ~chosen & same & chosen[before] & chosen[after]
    if not within.any():
        return
    changed = np.where(within, whole * lost, 0).astype(np.int64)
    if lost > 0:
        effect.most = np.minimum(effect.most + changed, whole)
    else:
        effect.least = effect.least + changed
    effect.assumptions.append(
        "interrupts within what changes come in proportion to its length, or as often as they did"
    )


def _shorten_by_shares(
    effect: Effect,
    threads: NDArray[np.bool_],
    shares: dict[str, tuple[float, float]],
    whole: Ints,
    lost: float,
) -> None:
    rows = effect.graph.rows
    bounds = np.array([shares.get(thread.name, (0.0, 0.0)) for thread in rows.threads], np.float64).reshape(-1, 2)
    bounds[~threads] = 0
    in_rpi = np.array([kind.in_rpi for kind in rows.kinds()], np.bool_)
    own = np.where(in_rpi[rows.state], np.clip(whole - np.maximum(rows.taken, 0), 0, None), 0)
    effect.least = np.minimum(effect.least + (own * bounds[rows.thread, 0] * lost).astype(np.int64), whole)
    effect.most = np.minimum(effect.most + (own * bounds[rows.thread, 1] * lost).astype(np.int64), whole)
    effect.assumptions.append(
        "a function has the same share of its threads' processor time at any moment: that of the profile"
    )


def _shorten_waits(effect: Effect, threads: NDArray[np.bool_], states: NDArray[np.bool_], change: Faster) -> None:
    graph, rows = effect.graph, effect.graph.rows
    off = graph.off_row >= 0
    row = np.maximum(graph.off_row, 0)
    chosen = off & states[rows.state[row]] & threads[rows.thread[row]]
    ours = chosen & (graph.kind == Step.SLEEP)
    effect.keep = np.where(ours, effect.keep * float(change.keep), effect.keep)
    others = int(np.count_nonzero(chosen & (graph.kind == Step.WAIT)))
    if others:
        of = int(np.count_nonzero(chosen))
        effect.assumptions.append(
            f"of {of:,} waits {change.what}, {others:,} are ended by measured threads: "
            "they are as long as what those threads do"
        )


def _free_lock(effect: Effect, change: LockFree) -> None:
    graph, rows = effect.graph, effect.graph.rows
    pattern, state = change.threads, change.state
    if change.what in rows.states:
        pattern, state = "*", change.what
    threads = np.zeros(len(rows.threads), np.bool_)
    threads[_named_threads(rows, pattern)] = True
    locks = _matches(rows.states, state) if state else np.array([word.startswith(_LOCKS) for word in rows.states])
    row = np.maximum(graph.off_row, 0)
    chosen = (graph.off_row >= 0) & locks[rows.state[row]] & threads[rows.thread[row]]
    if change.address:
        chosen &= rows.futex[row] == change.address
    source = graph.wakeups.source[row]
    waker = rows.thread[np.maximum(source, 0)]
    # The end of a thread is no release of a lock, and neither is what others than these threads do.
    last = rows.first[1:] - 1
    living = (source >= 0) & (source < last[waker]) & threads[waker]
    ours = chosen & (living | (graph.kind == Step.SLEEP))
    if not (chosen & living).any():
        at = f" at {change.address:#x}" if change.address else ""
        raise HeadwayError(
            f"no thread {pattern!a} waited for a lock{at} that another one of them released: "
            "headway critical-path shows what they wait for"
        )
    effect.gone = effect.gone | ours
    _shorten_calls(effect, row[ours], source[chosen & living])
    which = f"at {change.address:#x}" if change.address else "for a futex"
    effect.assumptions.append(f"waits {which} that these threads end among themselves are waits for a lock")


def _shorten_calls(effect: Effect, waits: Ints, wakes: Ints) -> None:
    """The system calls around waits that are gone, and those that ended them, may be gone too: nobody knows.

    A lock that is free needs no system call in most libraries. ``waits`` and ``wakes`` are rows.
    """
    rows = effect.graph.rows
    calls = np.array([state.startswith("kernel.") for state in rows.states], np.bool_)[rows.state]
    last = len(rows) - 1
    back = np.minimum(waits + 1, last)
    back = np.where(rows.activity[back] == Activity.READY, np.minimum(back + 1, last), back)
    around = np.concatenate([np.maximum(waits - 1, 0), back])
    around = around[rows.thread[around] == np.concatenate([rows.thread[waits], rows.thread[waits]])]
    gone = np.zeros(len(rows), np.bool_)
    gone[around] = gone[wakes] = True
    gone &= calls & (rows.activity == Activity.RUNS)
    whole = np.maximum(rows.end - np.maximum(rows.begin, effect.graph.end.start), 0)
    effect.most = np.where(gone, whole, effect.most)
    effect.assumptions.append(
        "the system calls with which they waited and woke each other are gone too, or take as long"
    )


def _set_processors(effect: Effect, change: Processors) -> None:
    now = effect.graph.processors
    effect.processors = number = change.of(now)
    effect.slower |= number < now
    if not effect.graph.by_others.any() or number == now:
        return
    if number > now:
        effect.neighbours_most = 0.0
        effect.assumptions.append(
            "with more processors, what is not measured delays threads no longer (most), or as long as it did (least)"
        )
    else:
        effect.neighbours_least *= now / number
        effect.assumptions.append(
            "with fewer processors, what is not measured delays threads as long as it did (most), or longer in "
            "proportion (least)"
        )


def _remove(effect: Effect, change: Without) -> None:
    graph, rows = effect.graph, effect.graph.rows
    if change.what == "others":
        if not graph.by_others.any():
            raise HeadwayError("nothing that is not measured delayed a thread: name a process")
        effect.neighbours_least = effect.neighbours_most = 0.0
        return
    leaders = {thread.pid: thread.name for thread in rows.threads if thread.tid == thread.pid}
    names = [leaders.get(thread.pid, thread.name) for thread in rows.threads]
    named = _matches(names, change.what)
    if re.fullmatch(r"[0-9]+", change.what, re.ASCII):
        named |= np.array([thread.pid == int(change.what) for thread in rows.threads], np.bool_)
    if not named.any():
        raise HeadwayError(f"the recording has no process {change.what!a}: it has {_list(names)}")
    if named[graph.end.thread]:
        raise HeadwayError(
            f"{change.what!a} is the process whose end is looked for: name another, or give another --tid"
        )
    copies = graph.copy_of
    effect.weightless |= named[copies].astype(np.uint8)
    wakes = (graph.kind == Step.WAKE) & named[rows.thread[graph.row]]
    owner = np.repeat(np.arange(graph.threads), np.diff(graph.first))
    target = owner[np.maximum(graph.target, 0)]
    outward = wakes & ~named[copies[target]]
    if outward.any():
        effect.assumptions.append(
            f"{change.what} ended {int(np.count_nonzero(outward)):,} waits of others: it still does, in no time"
        )
