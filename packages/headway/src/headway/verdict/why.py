"""The causes that a verdict tells apart, and the one that each state has."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

from headway.model import SPINNING, Kind, is_interrupt, kind_of
from headway.model.calls import CALLS_THAT_FORCE

__all__ = ["AT_REST", "HELD_UP", "Why", "reason_of", "why_of"]


class Why(Enum):
    """A cause: what a thread's time went into."""

    OWN_CODE = "own_code"
    """The program's own code. Where no hardware counter tells it, waiting for caches and memory is in it."""
    MEMORY = "memory"
    """Waiting for caches and memory."""
    STALLS = "stalls"
    """Stalled for another reason."""
    MARKED = "marked"
    """A region that the program marks as no progress."""
    SYSTEM_CALLS = "system_calls"
    """On a processor in system calls."""
    PAGE_FAULTS = "page_faults"
    """Page faults, reclaim and swap, on a processor or waiting; and the calls that take memory and give it back."""
    INTERRUPTS = "interrupts"
    """Interrupts on the thread's processor, while it ran or was ready."""
    POLLING = "polling"
    """Asking by system calls for what is not there yet."""
    SPINNING = "spinning"
    """Asking in user code for what is not there yet."""
    OWN_THREADS = "own_threads"
    """Ready; another thread of its process had the processor."""
    NEIGHBOURS = "neighbours"
    """Ready; another process had the processor."""
    QUOTA = "quota"
    """Ready; the CPU quota was used up."""
    WAKE_UP = "wake_up"
    """Ready; the processor was idle and on its way out of that."""
    PROCESSOR = "processor"
    """Ready; it is not known what had the processor."""
    HYPERVISOR = "hypervisor"
    """The hypervisor ran something else, while the thread ran or was ready."""
    LOCK = "lock"
    """Waiting for a lock, or for another thread."""
    DISK_READS = "disk_reads"
    """Waiting for a disk to read."""
    DISK_WRITES = "disk_writes"
    """Waiting for a disk to write, and the kernel's time in calls that force data to it."""
    DISK = "disk"
    """Waiting for a disk; it is not known whether to read or to write."""
    NETWORK = "network"
    """Waiting for a socket's other end."""
    PIPE = "pipe"
    """Waiting for the process at the other end of a pipe or a message queue."""
    EVENTS = "events"
    """Waiting for one of several files, or for a signal."""
    SLEEP = "sleep"
    """Sleeping on purpose."""
    CHILDREN = "children"
    """Waiting for child processes that were not measured."""
    STARTS = "starts"
    """Processes that do little but begin and end."""
    OTHER = "other"
    """Waiting for what none of the others says."""

    __hash__ = object.__hash__


_BY_KIND = {
    Kind.EFFECTIVE: Why.OWN_CODE,
    Kind.MEMORY: Why.MEMORY,
    Kind.STALL: Why.STALLS,
    Kind.STOLEN: Why.HYPERVISOR,
    Kind.READY: Why.PROCESSOR,
    Kind.WAIT: Why.OTHER,
}
_READY = {
    "ready.throttled": Why.QUOTA,
    "ready.own": Why.OWN_THREADS,
    "ready.neighbour": Why.NEIGHBOURS,
    "ready.interrupt": Why.INTERRUPTS,
    "ready.stolen": Why.HYPERVISOR,
    "ready.wakeup": Why.WAKE_UP,
}
_WAITS = {
    **dict.fromkeys(("futex", "gil", "mmap_lock", "file_lock", "kernel_lock", "flock"), Why.LOCK),
    **dict.fromkeys(("fault", "reclaim"), Why.PAGE_FAULTS),
    "disk": Why.DISK,
    "net": Why.NETWORK,
    **dict.fromkeys(("pipe", "ipc"), Why.PIPE),
    **dict.fromkeys(("poll", "epoll", "signal", "io_uring"), Why.EVENTS),
    "sleep": Why.SLEEP,
    "child": Why.CHILDREN,
}
_MEMORY = frozenset({"fault", "reclaim", "mmap", "munmap", "mremap", "mprotect", "madvise", "brk"})
HELD_UP = frozenset(
    {"gil", "mmap_lock", "file_lock", "kernel_lock", "flock", "fault", "reclaim", "disk", "fuse", "nfs", "overlay"}
)
"""The waits that a thread has in the middle of its work, and never for want of any."""
AT_REST = frozenset({"poll", "epoll", "signal", "io_uring", "net", "sleep"})
"""The waits in which a thread waits for its next work. One for a pipe is as often for room to write."""


@lru_cache(maxsize=4096)
def reason_of(state: str) -> str:
    """Return what a thread waits for in a state: ``disk`` of ``wait.disk``; empty if it is no such state."""
    first, _, reason = state.partition(".")
    return reason if first == "wait" else ""


@lru_cache(maxsize=4096)
def why_of(state: str) -> Why | None:
    """Return the cause of the time in a state; None: it has none (a kernel thread without work, what was not seen)."""
    kind = kind_of(state)
    if kind is Kind.KERNEL:
        return _in_kernel(state)
    if kind is Kind.POLL:
        return Why.SPINNING if state == SPINNING else Why.POLLING
    if kind is Kind.READY:
        return _READY.get(state, Why.PROCESSOR)
    reason = reason_of(state)
    if reason in _WAITS:
        return _WAITS[reason]
    return None if reason == "work" or state == "idle" else _BY_KIND.get(kind)


def _in_kernel(state: str) -> Why:
    first, _, call = state.partition(".")
    if is_interrupt(state):
        return Why.INTERRUPTS
    if first == "noneffective":
        return Why.MARKED
    if call in CALLS_THAT_FORCE:
        return Why.DISK_WRITES
    return Why.PAGE_FAULTS if call.partition(".")[0] in _MEMORY else Why.SYSTEM_CALLS
