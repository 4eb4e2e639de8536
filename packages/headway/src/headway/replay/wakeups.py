"""Where each wait was ended: the span of the waker in which it sent the wake-up, and who created each thread.

Three things need more than the recorded waker:

- A wake-up for another processor may arrive after its sender has gone to sleep. It was sent at the end of the sender's
  last span on a processor.
- A packet over the loopback device is received in a soft interrupt within the sender's own system call. The wake-up is
  then recorded as the interrupt's, but it is the sender's. It, too, may arrive later, on an idle processor.
- A thread is created in a system call of its creator. The recording has no waker for that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .rows import Activity, Ints, Rows

__all__ = ["OUTSIDE", "Wakeups", "find_wakeups"]

OUTSIDE = -1
"""No span of a measured thread: something outside ended the wait, or it is not known what."""

_SENDING = ("sendto", "sendmsg", "sendmmsg", "write", "writev", "pwritev", "sendfile", "splice", "connect", "close")
_SENDS = frozenset({*(f"kernel.{call}" for call in (*_SENDING, "shutdown", "exit_group", "exit")), "running"})
_CREATES = frozenset(f"kernel.{call}" for call in ("clone", "clone3", "fork", "vfork", "spawn"))
_DEVICES = frozenset({"wait.disk"})
"""Waits for a device, whoever completed them: the thread that ends one does it on behalf of the device."""
_MAX_DELAY = 1_000_000
"""A wake-up arrives at most so long after it was sent, ns. An idle processor of a virtual machine takes 0.1 ms."""
_MAX_SIBLINGS = 1000
"""In a process with more threads a creator is not looked for among those that ran."""


@dataclass(frozen=True, slots=True)
class Wakeups:
    """Who ended the waits of `Rows`: arrays of shape (rows,), and of shape (threads,) for births."""

    source: Ints
    """For each wait, the row of the waker in which it sent the wake-up, or `OUTSIDE`. `OUTSIDE` for other rows."""
    sent: Ints
    """When the wake-up was sent. It is the end of the wait, or earlier if the wake-up took time to arrive."""
    creator: Ints
    """For each thread, the row in which another thread created it, or `OUTSIDE`."""
    asleep: int
    """Waits whose recorded waker was asleep for all of them. They count as ended from outside."""
    inferred: int
    """Wake-ups over the loopback device that were found to be a measured thread's."""


def find_wakeups(rows: Rows) -> Wakeups:
    """Find the senders of all wake-ups."""
    source = np.full(len(rows), OUTSIDE, np.int64)
    sent = rows.end.copy()
    device = np.array([state in _DEVICES for state in rows.states], np.bool_)
    waits = (rows.activity == Activity.WAITS) & ~device[rows.state]
    known = np.flatnonzero(waits & (rows.waker >= 0) & (rows.waker != rows.thread))
    place, time = _sender(rows, rows.waker[known].astype(np.int64), rows.end[known])
    fits = (place >= 0) & (time > rows.begin[known])
    source[known[fits]], sent[known[fits]] = place[fits], time[fits]
    inferred = _over_loopback(rows, np.flatnonzero(waits & (rows.waker < 0)), source, sent)
    return Wakeups(source, sent, _creators(rows), int(np.count_nonzero(~fits)), inferred)


def _sender(rows: Rows, thread: Ints, time: Ints) -> tuple[Ints, Ints]:
    """Return the last span on a processor of each thread before a time, and the time, or the span's end if earlier."""
    place = rows.covering(thread, time)
    moved = time.copy()
    for _ in range(3):  # it may be ready, or asleep and ready again
        off = np.flatnonzero((place >= 0) & (rows.activity[np.maximum(place, 0)] != Activity.RUNS))
        if not len(off):
            break
        before = place[off] - 1
        moved[off] = rows.begin[place[off]]
        place[off] = np.where(before >= rows.first[thread[off]], before, -1)
    still = (place >= 0) & (rows.activity[np.maximum(place, 0)] != Activity.RUNS)
    return np.where(still, -1, place), moved


def _over_loopback(rows: Rows, waits: Ints, source: Ints, sent: Ints) -> int:
    """Set the source of waits that a soft interrupt of the network ended within the system call of one thread.

    The interrupt goes on when the wait ends. Or it was the last one before that, and ended no other wait.
    """
    words = {state: number for number, state in enumerate(rows.states)}
    receives = words.get("softirq.net_rx")
    if receives is None:
        return 0
    waits = waits[rows.waker_state[waits] == receives]
    sends = np.array([state in _SENDS for state in rows.states], np.bool_)
    spans = np.flatnonzero((rows.state == receives) & (rows.activity == Activity.RUNS))
    spans = spans[spans > 0]
    before = spans - 1
    within = (rows.thread[before] == rows.thread[spans]) & (rows.end[before] == rows.begin[spans])
    spans = spans[within & sends[rows.state[before]]]
    found, number = np.full(len(waits), OUTSIDE, np.int64), np.zeros(len(waits), np.int64)
    last = np.full(len(waits), OUTSIDE, np.int64)
    for cpu in np.unique(rows.cpu[spans]).tolist():
        here = spans[rows.cpu[spans] == cpu]
        here = here[np.argsort(rows.begin[here], kind="stable")]
        place = np.searchsorted(rows.begin[here], rows.end[waits], side="left") - 1
        span = here[np.maximum(place, 0)]
        fits = (place >= 0) & (rows.end[span] >= rows.end[waits]) & (rows.thread[span] != rows.thread[waits])
        found[fits] = span[fits]
        number += fits
        before = (place >= 0) & (rows.end[span] > rows.begin[waits]) & (rows.thread[span] != rows.thread[waits])
        before &= (last < 0) | (rows.end[span] > rows.end[last])
        last[before] = span[before]
    chosen = number == 1  # with several, it is not known which
    source[waits[chosen]] = found[chosen]
    late = (number == 0) & (last >= 0) & (rows.end[waits] - rows.end[last] <= _MAX_DELAY)
    late &= ~np.isin(last, found[chosen])
    at = np.flatnonzero(late)
    at = at[np.argsort(rows.end[waits[at]], kind="stable")]
    at = at[np.unique(last[at], return_index=True)[1]]  # of several waits the first one
    source[waits[at]], sent[waits[at]] = last[at], rows.end[last[at]]
    return int(np.count_nonzero(chosen)) + len(at)


def _creators(rows: Rows) -> Ints:
    """Return the row in which each thread was created."""
    found = np.full(len(rows.threads), OUTSIDE, np.int64)
    creates = np.array([state in _CREATES for state in rows.states], np.bool_)
    calls = np.flatnonzero(creates[rows.state] & (rows.activity == Activity.RUNS))
    calls = calls[np.argsort(rows.begin[calls], kind="stable")]
    starts = rows.begin[calls]
    pids = np.array([thread.pid for thread in rows.threads], np.int64)
    running: dict[int, Ints] = {}
    for place, thread in enumerate(rows.threads):
        if rows.first[place] == rows.first[place + 1]:
            continue
        birth = int(rows.begin[rows.first[place]])
        if birth <= rows.window.start or thread.birth < rows.window.start:
            continue
        after = int(np.searchsorted(starts, birth, side="left"))
        near = calls[max(after - 64, 0) : after]
        near = near[(rows.end[near] >= birth) & (rows.thread[near] != place)]
        if thread.tid != thread.pid:
            near = near[pids[rows.thread[near]] == thread.pid]
            if not len(near):
                near = _alone(rows, pids, thread.pid, place, birth, running)
        if len(near) == 1:
            found[place] = near[0]
    return found


def _alone(rows: Rows, pids: Ints, pid: int, place: int, time: int, known: dict[int, Ints]) -> Ints:
    """Return the row of the only thread of a process that ran at a time, if there is one."""
    if pid not in known:
        known[pid] = np.flatnonzero(pids == pid)
    others: Ints = known[pid][known[pid] != place]
    if len(others) > _MAX_SIBLINGS:
        return np.zeros(0, np.int64)
    row = rows.covering(others, np.full(len(others), time))
    row = row[row >= 0]
    running: Ints = row[rows.activity[row] == Activity.RUNS]
    return running
