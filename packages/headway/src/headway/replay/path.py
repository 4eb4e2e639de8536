"""The critical path of a run: what the time from its start to its end consisted of.

The path is followed back from the end. Where the thread on it ran or was ready, that is on the path. Where it waited
for another thread, the path goes on in that thread, at the moment of the wake-up. Where it waited for something
outside (a device, a timer, a peer that is not measured), that wait itself is on the path. So a thread that sleeps is
never on it, and the pieces tile the time of the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from headway.errors import HeadwayError
from headway.model import ThreadSeen

from ._walk import walk
from .rows import Activity, Ints, Rows
from .wakeups import Wakeups

__all__ = ["CriticalPath", "End", "Piece", "PieceKind", "critical_path", "find_end"]


class PieceKind(IntEnum):
    """What a piece of the critical path is."""

    THREAD = 0
    """A thread ran, or was ready."""
    OUTSIDE = 1
    """Something outside the measured threads: a device, a timer, a peer. The state is that of the wait for it."""
    WAKING = 2
    """A wake-up had been sent and had not arrived yet."""
    BEFORE = 3
    """Nothing is known of the thread yet: it had not been created, and its creator is not known."""


@dataclass(frozen=True, slots=True)
class End:
    """Where a run begins and ends: the time, and the thread whose end is the run's."""

    thread: int
    """Its place in `Rows.threads`."""
    start: int
    end: int

    @property
    def duration(self) -> int:
        """The wall time of the run."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the critical path, from ``start`` (included) until ``end`` (excluded)."""

    thread: ThreadSeen
    """The thread that ran or was ready. For a wait outside, the thread that waited."""
    state: str
    kind: PieceKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The critical path of a run, as columns of shape (pieces,), in the order of time."""

    rows: Rows
    end: End
    row: Ints
    """The row of `rows` that the piece is in."""
    begin: Ints
    until: Ints
    kind: Ints
    """A `PieceKind`."""

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self.row)

    def pieces(self) -> list[Piece]:
        """Return the pieces. They tile the time from `End.start` to `End.end`."""
        rows = self.rows
        columns = (self.row.tolist(), self.begin.tolist(), self.until.tolist(), self.kind.tolist())
        return [
            Piece(
                rows.threads[rows.thread[row]],
                "unknown" if kind == PieceKind.BEFORE else rows.states[rows.state[row]],
                PieceKind(kind),
                begin,
                until,
            )
            for row, begin, until, kind in zip(*columns, strict=True)
        ]

    def times(self) -> Mapping[tuple[int, str, PieceKind], int]:
        """Return the time on the path by place of the thread, state and kind. It adds up to the wall time exactly.

        What was taken out of a span goes to the state that it belongs to: a marked region, stolen time; the rest is
        ``overhead``. Of a span that is partly on the path, the same part of these is.
        """
        rows = self.rows
        found: defaultdict[tuple[int, str, PieceKind], int] = defaultdict(int)
        length = self.until - self.begin
        key = (rows.thread[self.row].astype(np.int64) * len(rows.states) + rows.state[self.row]) * 4 + self.kind
        for code, time in zip(*_sums(key, length), strict=True):
            pair, kind = divmod(code, 4)
            thread, state = divmod(pair, len(rows.states))
            word = "unknown" if kind == PieceKind.BEFORE else rows.states[state]
            found[thread, word, PieceKind(kind)] += time
        self._divide(found, length)
        return {key: time for key, time in found.items() if time}

    def _divide(self, found: defaultdict[tuple[int, str, PieceKind], int], length: Ints) -> None:
        """Move what was taken out of spans to the states that it belongs to."""
        rows = self.rows
        whole = rows.end - rows.begin
        on_path = np.zeros(len(rows), np.int64)
        runs = (self.kind == PieceKind.THREAD) & (rows.activity[self.row] == Activity.RUNS)
        np.add.at(on_path, self.row[runs], length[runs])
        left = np.minimum(np.maximum(rows.taken, 0), on_path)
        share = on_path / np.maximum(whole, 1)

        def move(row: Ints, state: Ints, time: Ints, name: str | None) -> None:
            size = len(rows.states)
            key = (rows.thread[row].astype(np.int64) * size + rows.state[row]) * size + state
            for code, amount in zip(*_sums(key, time), strict=True):
                pair, to = divmod(code, size)
                thread, word = divmod(pair, size)
                found[thread, rows.states[word], PieceKind.THREAD] -= amount
                found[thread, name or rows.states[to], PieceKind.THREAD] += amount

        amount = (rows.amount * share[rows.amount_row]).astype(np.int64)
        before = np.zeros(len(rows), np.int64)
        # Several amounts may be out of one span: each gets what the ones before it have left.
        order = np.argsort(rows.amount_row, kind="stable")
        row = rows.amount_row[order]
        running = np.cumsum(amount[order])
        if len(row):
            first = np.flatnonzero(np.diff(row, prepend=-1))
            base = np.repeat(running[first] - amount[order][first], np.diff(np.append(first, len(row))))
            upto = np.minimum(running - base, left[row])
            given = np.minimum(np.diff(upto, prepend=0), upto)
            given[first] = upto[first]
            given = np.maximum(given, 0)
            np.add.at(before, row, given)
            move(row, rows.amount_state[order].astype(np.int64), given, None)
        rest = np.maximum((np.maximum(rows.taken, 0) * share).astype(np.int64) - before, 0)
        rest = np.minimum(rest, on_path - before)
        taken = np.flatnonzero(rest)
        move(taken, np.zeros(len(taken), np.int64), rest[taken], "overhead")


def _sums(key: Ints, amount: Ints) -> tuple[list[int], list[int]]:
    """Return the distinct keys, and the sum of the amounts of each."""
    if not len(key):
        return [], []
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=key[order][0] - 1))
    return key[order][first].tolist(), np.add.reduceat(amount[order], first).tolist()


def find_end(rows: Rows, *, command: bool, tid: int | None = None) -> End:
    """Return where the run begins and ends.

    ``tid``: its end is the end of this thread. Otherwise, if a command was recorded, the end of the command's first
    thread; else that of the thread that ran last. A command begins when it is executed: before that its process waited
    until headway was ready. Raises HeadwayError if there is no such thread, or nothing to follow.
    """
    window = rows.window
    lives = np.flatnonzero(np.diff(rows.first))
    if not len(lives):
        raise HeadwayError("the recording has no row of a thread, so there is nothing to follow: record for longer")
    # The process that becomes the command is the first one that is measured. On the reference machine harts run without
    # a process until a kernel gives them a thread.
    leader = min((not rows.threads[place].pid, rows.threads[place].birth, place) for place in lives.tolist())[2]
    if tid is not None:
        chosen = [place for place in lives.tolist() if rows.threads[place].tid == tid]
        if not chosen:
            raise HeadwayError(f"the recording has no thread {tid}: headway report -v lists its threads")
        place = chosen[-1]
    elif command:
        place = leader
    else:
        ran = np.flatnonzero(rows.activity == Activity.RUNS)
        if not len(ran):
            raise HeadwayError("no thread of the recording ran, so there is nothing to follow: record for longer")
        place = int(rows.thread[ran[np.argmax(rows.end[ran])]])
    first, last = int(rows.first[place]), int(rows.first[place + 1]) - 1
    start = window.start
    if command:
        at, until = int(rows.first[leader]), int(rows.first[leader + 1]) - 1
        while at < until and rows.activity[at] != Activity.RUNS:
            at += 1
        start = int(rows.begin[at])
    while last > first and rows.activity[last] != Activity.RUNS:  # what it waits for at the end never came
        last -= 1
    end = int(rows.end[last])
    if end <= start:
        raise HeadwayError(f"thread {rows.threads[place].tid} did nothing in the recording: give another --tid")
    return End(place, start, end)


def critical_path(rows: Rows, wakeups: Wakeups, end: End) -> CriticalPath:
    """Return the critical path that leads to ``end``."""
    (row,) = rows.covering(np.array([end.thread]), np.array([end.end])).tolist()
    pieces = walk(
        row,
        end.end,
        end.start,
        rows.thread,
        rows.begin,
        rows.end,
        rows.activity,
        wakeups.source,
        wakeups.sent,
        wakeups.creator,
    )[::-1]
    row, begin, until, kind = (np.ascontiguousarray(pieces[:, at]) for at in range(4))
    return CriticalPath(rows, end, row, begin, until, kind)
