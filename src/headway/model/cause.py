"""What is behind the time in a state: the thing waited for, who ended the wait, who held the processor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Behind", "Cause"]


class Behind(Enum):
    """How a cause relates to the state."""

    OBJECT = "object"
    """What it was about: a lock, a file, a socket, an interrupt's device."""
    WAKER = "waker"
    """Who ended the wait."""
    HOLDER = "holder"
    """Who had the processor meanwhile."""

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Cause:
    """A part of a thread's time in one state, by one cause.

    The causes of one state and one `Behind` add up to no more than the state's time; what is missing was not seen.
    """

    state: str
    behind: Behind
    name: str
    """Of the thing or the thread, for people to read."""
    time: int
    """In the ledger's time unit."""
    count: int
    tid: int | None = None
    """Of the thread, where the cause is one."""
