"""Transitions as sources hand them over: batches of rows, stored column by column.

A transition is (time, processor, thread, state): from that time on the thread is in that state on that processor. A row
is a transition together with its duration. The rows of a thread that have a duration do not overlap, and together they
tile its life. A row without a duration is an amount of time whose place within a larger part is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from headway.dataclass import dataclass

if TYPE_CHECKING:  # importing the model must stay cheap
    from numpy import int16, int32, int64, uint16, uint64
    from numpy.typing import NDArray

__all__ = ["NO_STATE", "Batch", "OpenState", "Samples", "ThreadSeen", "Transitions"]

NO_STATE = 0xFFFF
"""The value of `Transitions.waker_state` for no state."""


@dataclass(frozen=True, slots=True)
class Transitions:
    """A batch of rows: arrays of one length n, shape (n,).

    Times are in the recording's time unit: nanoseconds of CLOCK_MONOTONIC on Linux, cycles on the reference machine.

    Laws: over the rows of one thread and state, sum(duration - taken) is the ledger's time and sum(count) its count.
    Over the rows of one thread, sum(taken) is its ``overhead``, or what other rows give to other states. The same holds
    over the rows of one processor.
    """

    time: NDArray[int64]
    """When the span of time began."""
    duration: NDArray[int64]
    """The time until the thread's next transition; 0 for an amount without a place."""
    taken: NDArray[int32]
    """The part of the duration that does not belong to this state. A row without a duration adds time to its state by a
    negative value, and takes time from it by a positive one (a correction).
    """
    cpu: NDArray[int16]
    """The processor; -1: the thread was off the processor."""
    thread: NDArray[int32]
    """The number of the thread in this recording (`ThreadSeen.thread`); -1: no measured thread."""
    state: NDArray[uint16]
    """Index into `states`."""
    count: NDArray[int32]
    """Occurrences of the state that ended with the row; 0: the state was only interrupted."""
    waker: NDArray[int32]
    """On a row of a wait: the number of the thread whose wake-up ended it; -1: no measured thread."""
    waker_tid: NDArray[int32]
    """The tid of a waker that is not measured; 0: none."""
    waker_state: NDArray[uint16]
    """Index into `states`: the state of the interrupt that ended the wait; `NO_STATE`: none."""
    states: Sequence[str]
    """The names of the states by number, "" for an unused number. It grows while a recording runs."""
    task: NDArray[int32] | None = None
    """Index into `tasks`: what the thread worked on; -1: it worked on no task. None: no row has a task."""
    task_id: NDArray[uint64] | None = None
    """The id of that task; 0: it has none."""
    tasks: Sequence[str] = ()
    """The names of the tasks by number, "" for tasks without a name."""
    futex: NDArray[uint64] | None = None
    """On a row of a wait at a futex: its address, which says which lock it was; 0: not known. None: no row has one."""
    stack: NDArray[int32] | None = None
    """On a row of a wait: the number of the stack with which the thread began to wait; -1: not known. None: no stacks
    are recorded.
    """
    waker_stack: NDArray[int32] | None = None
    """Likewise: the number of the stack with which the waker ended the wait."""
    traces: Mapping[int, int] = field(default_factory=dict)
    """Of ids of tasks that are spans of OpenTelemetry: the id of the span's trace (W3C Trace Context)."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.time)


@dataclass(frozen=True, slots=True)
class ThreadSeen:
    """What is known of a thread now. The last one with the same number is valid (exec, rename, exit make new ones)."""

    thread: int
    """Its number in this recording, from 0."""
    tid: int
    pid: int
    name: str
    birth: int
    """Thread ids are reused: a thread is (tid, birth)."""
    start: int
    """When its measurement began."""
    end: int | None
    """Its exit; None: it is alive."""
    cgroup: str | None = None
    """The path of the control group of its process; None: it was not read."""


@dataclass(frozen=True, slots=True)
class OpenState:
    """The state that a thread is in at the end of a batch. Its row comes when the state ends."""

    thread: int
    cpu: int
    """The processor; -1: none."""
    state: str
    since: int


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of processor time: arrays of one length n, shape (n,)."""

    time: NDArray[int64]
    thread: NDArray[int32]
    """The number of the thread in this recording; -1: no measured thread."""
    cpu: NDArray[int16]
    state: NDArray[int32]
    """Index into `states`."""
    weight: NDArray[int64]
    """The processor time for which it stands, in the time unit."""
    stack: NDArray[int32]
    """The number of its stack; -1: not known."""
    states: Sequence[str]

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.time)


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything that a source recorded from ``start`` until ``end``.

    A row is in the batch in which it ended, so it may have begun before.
    """

    start: int
    end: int
    transitions: Transitions
    threads: Sequence[ThreadSeen]
    """The threads of which something is new."""
    open: Sequence[OpenState]
    """The threads whose state changed since the last batch, as of ``end``."""
    losses: Mapping[str, int]
    """What could not be seen, by name, counted since the beginning."""
    samples: Samples | None = None
    """What was sampled, if stacks are recorded."""
