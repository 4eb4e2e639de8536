"""Rows that are read from the memory shared with the eBPF programs; those with cells are in _snapshots.pyx.

Times are ns of CLOCK_MONOTONIC. States, and kinds of objects, are the numbers of the programs (layout.h).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "EndedThread",
    "LivingThread",
    "OpenStack",
    "OpenWait",
    "RecordedThread",
    "TaskKey",
    "ThreadDepth",
    "UnfinishedSpan",
    "WrittenWords",
]


class LivingThread(NamedTuple):
    """A thread that is measured and has not ended."""

    tid: int
    pid: int
    birth: int


class EndedThread(NamedTuple):
    """A thread that has ended, and the thread record that it had."""

    record: int
    tid: int
    pid: int
    name: str
    birth: int
    end: int


class RecordedThread(NamedTuple):
    """A thread that is in a thread record, and what it does."""

    record: int
    tid: int
    pid: int
    name: str
    birth: int
    cpu: int
    """-1: off the processor."""
    state: int
    since: int


class TaskKey(NamedTuple):
    """A task of a thread."""

    name: str
    """Empty: it has none."""
    task: int
    """Its id; 0: tasks of one name are added up, whatever their ids."""
    other: bool
    """All tasks of the thread for which there was no room."""


class ThreadDepth(NamedTuple):
    """A thread that is measured and has not ended, and how deep it is."""

    record: int
    """The thread record."""
    tid: int
    pid: int
    birth: int
    deep: int
    """One of `layout.DEPTHS`; 0: it is not deep."""


class UnfinishedSpan(NamedTuple):
    """What a snapshot adds for a span that is under way."""

    since: int
    duration: int
    taken: int
    """What was charged beyond the snapshot, ns."""
    cpu: int
    """-1: off the processor."""
    record: int
    """The thread record; 0: of no thread."""
    state: int
    entries: int


class OpenWait(NamedTuple):
    """What a thread waits for at the moment."""

    tid: int
    pid: int
    birth: int
    since: int
    state: int
    kind: int
    """Of object."""
    object: int


class OpenStack(NamedTuple):
    """A thread off the processor, and where in its code."""

    birth: int
    user: int
    """The number of the stack; 0: none."""
    kernel: int
    tid: int
    pid: int
    state: int
    time: int
    """Off the processor until the snapshot, ns."""
    record: int
    """The thread record."""


class WrittenWords(NamedTuple):
    """How far a processor has written its rings of transitions."""

    spans: int
    absences: int
