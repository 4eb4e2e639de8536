"""The wait graph of a run: what each thread did in turn, in a form that can be replayed.

A thread is a sequence of steps. Before each step lies an amount of work, which needs a processor. The steps are the
moments at which something else than work happens: the thread wakes another one, is preempted, waits, or ends. What the
steps are does not depend on how long the work takes, so a change only changes the amounts of work and the lengths of
waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from .competition import divide_ready
from .path import End
from .rows import Activity, Ints, Rows
from .wakeups import OUTSIDE, Wakeups

__all__ = ["Step", "WaitGraph", "Waits", "build"]


class Step(IntEnum):
    """What happens after the work of a step."""

    WAKE = 0
    """The thread wakes the thread that waits in step `WaitGraph.target`."""
    PREEMPT = 1
    """It was ready without having waited: it gives the processor to others, if any want it."""
    WAIT = 2
    """It waits until another thread wakes it."""
    SLEEP = 3
    """It waits for something outside, for `WaitGraph.length`."""
    END = 4
    """It ends, or the recording does."""
    NOTHING = 5
    """Nothing: the work goes on."""
    GIVE = 6
    """Something that is not measured has its processor, for `WaitGraph.late`."""


class Waits(IntEnum):
    """When a wait for something outside ends in a replay."""

    AFTER = 0
    """As long after it began as in the recording: a sleep, a disk."""
    MAYBE = 1
    """Either that or at the same time as in the recording: it is not known what it waited for (a network, a peer)."""
    AT = 2
    """At the same time as in the recording: a thread that was created by something outside."""


@dataclass(frozen=True, slots=True)
class WaitGraph:
    """The steps of all threads: arrays of shape (steps,), by thread and in order. Times are since `End.start`."""

    rows: Rows
    wakeups: Wakeups
    end: End
    first: Ints
    """Where the steps of a thread begin, shape (threads + 1,)."""
    kind: NDArray[np.int8]
    """A `Step`."""
    row: Ints
    """The row in which the step is."""
    within: Ints
    """How much of the row lies before the step."""
    previous: Ints
    """The step of the same recorded thread before this one: the work before the step lies between the two. A thread's
    first step, which has no work before it, is its own.
    """
    off_row: Ints
    """The row of the wait that begins with the step; -1: none."""
    target: Ints
    """Of a wake-up, the step that it ends; -1: none."""
    length: Ints
    """Of a wait for something outside, how long it took. Of a wake-up, how long it was under way."""
    until: Ints
    """Of a wait for something outside, when it ended."""
    outside: NDArray[np.int8]
    """Of a wait for something outside, a `Waits`."""
    dispatch: Ints
    """When the thread got a processor after the step, in the recording; -1: it did not need one then."""
    contended: Ints
    """How long it was ready while measured threads had all processors."""
    early: Ints
    """How long it was ready for other reasons before it competed with them: neighbours that are not measured had a
    processor, or one was idle and did not take it yet.
    """
    late: Ints
    """How long its processor did not run it although no measured thread had it: a neighbour that is not measured did,
    or it was on its way out of idle.
    """
    by_others: Ints
    """How much of `early` and `late`, or of the length of a `delay`, was due to neighbours that are not measured."""
    delay: NDArray[np.bool_]
    """Whether a wait for something outside is no wait: it was preempted, and no processor was kept for it."""
    processors: int
    parent: Ints
    """The thread that created each and ended after it, shape (threads,); -1: none did."""
    copy_of: Ints
    """The place in `Rows.threads` of each thread, shape (measured,). Only a pool with more threads has several of one.
    """

    @property
    def threads(self) -> int:
        """The number of threads."""
        return len(self.copy_of)


@dataclass(frozen=True, slots=True)
class _Pauses:
    """The times that threads were off the processors between birth and end: arrays of shape (n,)."""

    begin: Ints
    """The first row of each: that of the wait, or else of the time ready."""
    waits: NDArray[np.bool_]
    """Whether it begins with a wait."""
    ready_from: Ints
    ready_until: Ints
    next_row: Ints
    """The row with which the thread went on."""
    needs: NDArray[np.bool_]
    """Whether it got a processor then."""


def _pauses(rows: Rows) -> _Pauses:
    """Find them. A wait and the time ready after it are one; time ready that follows no wait is one of its own."""
    lives = np.flatnonzero(np.diff(rows.first))
    first, last = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    first[rows.first[lives]] = last[rows.first[lives + 1] - 1] = True
    is_ready, is_wait = rows.activity == Activity.READY, rows.activity == Activity.WAITS
    after_wait = np.zeros(len(rows), np.bool_)
    after_wait[1:] = is_wait[:-1] & ~first[1:]
    begin = np.flatnonzero(is_wait | (is_ready & ~after_wait & ~first))  # time ready at birth belongs to that
    followed = np.zeros(len(rows), np.bool_)
    followed[:-1] = is_ready[1:] & ~last[:-1]
    waits = is_wait[begin]
    ready = np.where(waits, np.where(followed[begin], begin + 1, -1), begin)
    final = np.maximum(begin, ready)
    # The one in which the recording leaves a thread is none: nothing is known after it.
    kept = ~last[final]
    begin, waits, ready, final = begin[kept], waits[kept], ready[kept], final[kept]
    ready_from = np.where(waits, rows.end[begin], rows.begin[begin])
    return _Pauses(
        begin,
        waits,
        ready_from,
        np.where(ready >= 0, rows.end[np.maximum(ready, 0)], ready_from),
        final + 1,
        # Whoever was ready got a processor, even if it did not use it.
        (ready >= 0) | (rows.activity[final + 1] == Activity.RUNS),
    )


def build(rows: Rows, wakeups: Wakeups, end: End) -> WaitGraph:
    """Make the wait graph of a run, of what its threads did from `End.start` on."""
    zero, pauses = end.start, _pauses(rows)
    # Threads begin with a step of their own: when they were created, or at once if they were there before.
    lives = np.flatnonzero(np.diff(rows.first))
    starts, ends = rows.first[lives], rows.first[lives + 1] - 1
    creator = wakeups.creator[lives]
    born_ready = rows.activity[starts] == Activity.READY
    born_asleep = rows.activity[starts] == Activity.WAITS
    source = np.where(pauses.waits, wakeups.source[pauses.begin], OUTSIDE)
    woken, created = np.flatnonzero(source >= 0), np.flatnonzero(creator >= 0)
    # Steps are made in five groups: births, pauses, wake-ups, creations, ends. Every column has them in this order
    # until all columns are sorted by thread and time.
    sizes = [len(starts), len(source), len(woken), len(created), len(ends)]
    off = len(starts) + len(source)

    def column(start: Ints, pause: Ints, default: int) -> Ints:
        """Return a column of the first steps of threads, of their pauses, and a value for all other steps."""
        return np.concatenate([start, pause, np.full(sum(sizes[2:]), default)]).astype(np.int64)

    sent, birth = wakeups.sent[pauses.begin[woken]], rows.begin[starts[created]]
    row = np.concatenate([starts, pauses.begin, source[woken], creator[created], ends])
    within = np.zeros(len(row), np.int64)
    within[off:] = np.concatenate([sent, birth, rows.end[ends]]) - rows.begin[row[off:]]
    within[-len(ends) :][rows.activity[ends] != Activity.RUNS] = 0  # the end is that of the last span on a processor
    kind = column(
        np.where(creator >= 0, Step.WAIT, Step.SLEEP),
        np.where(pauses.waits, np.where(source >= 0, Step.WAIT, Step.SLEEP), Step.PREEMPT),
        Step.WAKE,
    ).astype(np.int8)
    kind[-len(ends) :] = Step.END
    # At one moment a thread begins first, then pauses, then wakes others, and ends last.
    order = np.lexsort((np.repeat([0, 1, 2, 2, 3], sizes), within, row))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    target = np.full(len(row), -1, np.int64)
    target[off : off + len(woken) + len(created)] = place[np.concatenate([len(starts) + woken, created])]
    begins = rows.begin[pauses.begin]
    lasts = np.where(pauses.waits, pauses.ready_from, pauses.ready_until) - np.maximum(begins, zero)
    length = column(np.zeros(len(starts), np.int64), lasts, 0)
    length[off : off + len(woken)] = rows.end[pauses.begin[woken]] - sent
    until = column(rows.begin[starts] - zero, rows.end[pauses.begin] - zero, 0)
    outside = column(np.full(len(starts), Waits.AT), _outside(rows, pauses.begin), Waits.AFTER)
    needs = column((~born_asleep).astype(np.int64), pauses.needs.astype(np.int64), 0) > 0
    ready_until = np.maximum(
        column(np.where(born_ready, rows.end[starts], rows.begin[starts]), pauses.ready_until, 0), zero
    )
    contended, early, late, by_others = divide_ready(
        rows,
        np.maximum(column(rows.begin[starts], pauses.ready_from, 0), zero),
        ready_until,
        np.where(needs, np.minimum(column(starts + born_ready, pauses.next_row, -1), len(rows) - 1), -1),
    )
    # Time ready that no measured thread explains is no competition: something else had the processor, or a quota was
    # used up.
    alone = (kind == Step.PREEMPT) & (contended == 0)
    # Where neighbours had most of that time, the thread keeps its processor and they have it (GIVE). Otherwise the
    # thread stays away from all processors for as long (SLEEP).
    gives = alone & needs & (2 * by_others > early + late)
    delay = (kind == Step.PREEMPT) & (alone | ~needs) & ~gives
    kind[gives], kind[delay], outside[delay] = Step.GIVE, Step.SLEEP, Waits.AFTER
    late[gives] += early[gives]
    early[gives | delay] = 0
    late[delay] = contended[delay] = 0
    counts = np.bincount(rows.thread[row], minlength=len(rows.threads))
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return WaitGraph(
        rows=rows,
        wakeups=wakeups,
        end=end,
        first=first,
        kind=kind[order],
        row=row[order],
        within=within[order],
        previous=_previous(first),
        off_row=column(np.full(len(starts), -1), np.where(pauses.waits, pauses.begin, -1), -1)[order],
        target=target[order],
        length=np.maximum(length, 0)[order],
        until=np.maximum(until, 0)[order],
        outside=outside[order].astype(np.int8),
        dispatch=np.where(needs, ready_until - zero, -1)[order],
        contended=contended[order],
        early=early[order],
        late=late[order],
        by_others=by_others[order],
        delay=delay[order],
        processors=rows.cpus,
        parent=_parents(rows, wakeups),
        copy_of=np.arange(len(rows.threads)),
    )


def _parents(rows: Rows, wakeups: Wakeups) -> Ints:
    creator = np.where(wakeups.creator >= 0, rows.thread[np.maximum(wakeups.creator, 0)], -1).astype(np.int64)
    ends = np.array([rows.window.end + 1 if t.end is None else t.end for t in rows.threads], np.int64)
    return np.where((creator >= 0) & (ends <= ends[np.maximum(creator, 0)]) & (ends <= rows.window.end), creator, -1)


def _previous(first: Ints) -> Ints:
    found = np.arange(-1, first[-1] - 1)
    starts = first[:-1][np.diff(first) > 0]
    found[starts] = starts
    return found


_KNOWN_LENGTH = ("wait.sleep", "wait.disk", "wait.fault", "wait.gil", "wait.futex", "stopped")


def _outside(rows: Rows, waits: Ints) -> Ints:
    """Return how waits for something outside end: sleeps and disks after a time, others maybe at a time."""
    table = np.array([state.startswith(_KNOWN_LENGTH) for state in rows.states], np.bool_)
    timer = np.array([state in ("irq.timer", "softirq.timer", "softirq.hrtimer") for state in rows.states], np.bool_)
    waker = rows.waker_state[waits]
    ends = np.where(waker >= 0, timer[np.maximum(waker, 0)], False)
    return np.where(table[rows.state[waits]] | ends, Waits.AFTER, Waits.MAYBE).astype(np.int64)
