"""Kinds: what a state means for progress.

A *state* says what a thread is doing. It is a name with dots: ``user``, ``kernel.read``, ``irq.timer``, ``wait.futex``.
Its *kind* says what that means for progress. The kind follows from the name alone, so every source, recording and view
agrees on it without a table of states.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

__all__ = ["KINDS", "Kind", "kind_of"]


class Kind(Enum):
    """What the time in a state means for the thread's progress."""

    EFFECTIVE = "effective"
    """On the processor, making progress."""
    MEMORY = "memory"
    """On the processor, waiting for memory that others use too."""
    KERNEL = "kernel"
    """On the processor, in the kernel or in a region marked as no progress."""
    POLL = "poll"
    """On the processor, asking again for something that is not there yet."""
    STALL = "stall"
    """On the processor, stalled for another reason (data dependency, pipeline refill)."""
    STOLEN = "stolen"
    """Not on the processor: the hypervisor ran something else."""
    OVERHEAD = "overhead"
    """On the processor, used by the observer and not by the thread."""
    READY = "ready"
    """Off the processor, able to run."""
    WAIT = "wait"
    """Off the processor, waiting for something."""
    UNKNOWN = "unknown"
    """Not seen."""

    __hash__ = object.__hash__
    """Members are single objects, so their identity can be the hash. Enum's own hash is written in Python and would
    dominate the time of adding up many threads.
    """

    @property
    def in_rpi(self) -> bool:
        """Whether time of this kind is processor time that the thread had (law 3)."""
        return self in _IN_RPI


_IN_RPI = frozenset({Kind.EFFECTIVE, Kind.MEMORY, Kind.KERNEL, Kind.POLL, Kind.STALL})

KINDS = {
    "user": Kind.EFFECTIVE,
    "running": Kind.EFFECTIVE,
    "memory": Kind.MEMORY,
    "kernel": Kind.KERNEL,
    "irq": Kind.KERNEL,
    "softirq": Kind.KERNEL,
    "noneffective": Kind.KERNEL,
    "poll": Kind.POLL,
    "stall": Kind.STALL,
    "stolen": Kind.STOLEN,
    "overhead": Kind.OVERHEAD,
    "ready": Kind.READY,
    "wait": Kind.WAIT,
    "stopped": Kind.WAIT,
    "idle": Kind.WAIT,
    "unknown": Kind.UNKNOWN,
}
"""The kind of a state by the first word of its name. Any other word has the kind UNKNOWN."""


@lru_cache(maxsize=4096)
def kind_of(state: str) -> Kind:
    """Return the kind of a state, from the first word of its name.

    ``running`` is processor time that the source could not divide among user code and the kernel. It counts as
    effective, which makes that a bound. ``idle`` (a processor without work) is a wait. ``unknown.*`` is time that was
    not seen: ``unknown.unmeasured`` (a processor ran threads that are not measured), ``unknown.elsewhere`` (a thread
    ran on a processor that is not measured). A name whose first word is not in `KINDS` is ``unknown`` too, so it never
    counts as progress by mistake.
    """
    return KINDS.get(state.partition(".")[0], Kind.UNKNOWN)
