"""Transitions as sources hand them over: batches of rows, column by column.

A transition is (time, processor, thread, state): from that time on the thread is in that state there. A row is a
transition with how long it lasted. The rows of a thread that have a duration are placed: they do not overlap, and
together they tile its life. A row without a duration is an amount that has no place within what it is part of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # importing the model must stay cheap
    from numpy import int16, int32, int64, uint16
    from numpy.typing import NDArray

__all__ = ["NO_STATE", "Batch", "OpenState", "ThreadSeen", "Transitions"]

NO_STATE = 0xFFFF
"""In `Transitions.waker_state`: none."""


@dataclass(frozen=True, slots=True)
class Transitions:
    """A batch of rows: arrays of one length n, shape (n,).

    Times are in the recording's time unit: nanoseconds of CLOCK_MONOTONIC on Linux, cycles on the reference machine.

    Laws: over the rows of one thread and state, sum(duration - taken) is the ledger's time and sum(count) its count;
    over the rows of one thread, sum(taken) is its ``overhead``, or what other rows give to other states. The same
    over the rows of one processor.
    """

    time: NDArray[int64]
    """When the stretch began."""
    duration: NDArray[int64]
    """Until the thread's next transition; 0 for an amount without a place."""
    taken: NDArray[int32]
    """Of the duration, what was not this state's. An amount without a place is -taken, a correction +taken."""
    cpu: NDArray[int16]
    """The processor; -1: none, the thread was off the processor."""
    thread: NDArray[int32]
    """The number of the thread in this recording (`ThreadSeen.thread`); -1: none that is measured."""
    state: NDArray[uint16]
    """Index into `states`."""
    count: NDArray[int32]
    """Occurrences of the state that ended with the row; 0: it was only interrupted."""
    waker: NDArray[int32]
    """On a row of a wait: the number of the thread whose wake-up ended it; -1: none that is measured."""
    waker_tid: NDArray[int32]
    """The tid of one that is not measured; 0: none."""
    waker_state: NDArray[uint16]
    """Index into `states`: what an interrupt that ended the wait was; `NO_STATE`: none."""
    states: Sequence[str]
    """The names of the states by number, "" where there is none. It grows while a recording runs."""

    def __len__(self) -> int:
        """Rows."""
        return len(self.time)


@dataclass(frozen=True, slots=True)
class ThreadSeen:
    """What is known of a thread now; the last one of its number counts (exec, rename, exit)."""

    thread: int
    """Its number in this recording, from 0."""
    tid: int
    pid: int
    name: str
    birth: int
    """Ids are used again: a thread is (tid, birth)."""
    start: int
    """When measuring it began."""
    end: int | None
    """Its exit; None: it lives."""


@dataclass(frozen=True, slots=True)
class OpenState:
    """What a thread was in the midst of: its row comes when that ends."""

    thread: int
    cpu: int
    """The processor; -1: none."""
    state: str
    since: int


@dataclass(frozen=True, slots=True)
class Batch:
    """What a source hands over at once: all that was written from ``start`` until ``end``.

    A row is in the batch in whose time it ended, so it may have begun before.
    """

    start: int
    end: int
    transitions: Transitions
    threads: Sequence[ThreadSeen]
    """Those of which something is new."""
    open: Sequence[OpenState]
    """Those that changed since the last batch, as of ``end``."""
    losses: Mapping[str, int]
    """What could not be seen, by name; since the beginning."""
