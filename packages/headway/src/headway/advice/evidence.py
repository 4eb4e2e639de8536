"""Evidence: what a ledger holds that shows where a time came from. What nothing shows, advice does not claim.

A wait for a file, or in a page fault, looks the same whether a disk, a daemon (FUSE, userfaultfd) or another thread's
lock makes it last. Who ended it tells them apart: block I/O ends in an interrupt (block/blk-mq.c), or is passed on by
the thread that keeps a journal. A fault that had to be tried again is counted as major even if no disk was asked
(mm/memory.c, mm_account_fault), so the count of major faults shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.model.calls import CALLS_THAT_FORCE, CALLS_THAT_READ
from headway.model.cause import Behind
from headway.model.ledger import Ledger, Thread

from .remedy import able, time_in

__all__ = [
    "DISK",
    "begun_and_ended",
    "by_disk",
    "crowded",
    "ends_of_processes",
    "forces",
    "has_own_timers",
    "idle_share",
    "reads",
    "recorded",
]

DISK = 0.5
"""A wait is called one for the disk if at least this share of its time was ended by block I/O."""
_INTERRUPTS = frozenset({"softirq.block", "irq.device"})
_JOURNALS = ("jbd2/", "xfs", "btrfs-", "dmcrypt", "kcryptd")
"""How the names of the kernel threads begin that pass the end of block I/O on."""
_TIMERS = frozenset({"irq.timer", "softirq.timer", "softirq.hrtimer"})
_WAITS_OF_A_CALL = 4
"""A call that forces out what was written waits for the disk so often at most: for the data, and for the journal."""
_IDLE = 0.10
"""Processors that are idle for a larger share of their time could take more."""


def recorded(ledger: Ledger) -> bool:
    """Return whether causes were recorded: then a wait without a waker was not ended in the window."""
    return any(thread.causes for thread in ledger.threads)


def by_disk(thread: Thread, state: str) -> float:
    """Return the share of a state's time that block I/O ended, from 0 to 1; 0 where no waker was recorded."""
    time = time_in(thread, state)
    ended = sum(
        cause.time
        for cause in thread.causes
        if cause.state == state
        and cause.behind is Behind.WAKER
        and (cause.name in _INTERRUPTS if cause.tid is None else cause.name.startswith(_JOURNALS))
    )
    return min(ended / time, 1.0) if time else 0.0


def has_own_timers(thread: Thread, interrupts: int | None) -> bool:
    """Return whether a thread slept, or let a wait time out, for at least every other one of so many interrupts.

    A timer interrupt is charged to whoever runs, and most are those of the kernel's tick and of other threads.
    """
    slept = thread.states["wait.sleep"].count or 0 if "wait.sleep" in thread.states else 0
    timed = sum(c.count or 0 for c in thread.causes if c.behind is Behind.WAKER and c.tid is None and c.name in _TIMERS)
    return interrupts is not None and 0 < interrupts <= 2 * max(slept, timed)


def forces(thread: Thread) -> bool:
    """Return whether the calls that force out what was written are enough for the thread's waits for the disk."""
    waits = thread.states["wait.disk"].count or 0
    return 0 < waits <= _WAITS_OF_A_CALL * _calls(thread, CALLS_THAT_FORCE)


def reads(thread: Thread) -> bool:
    """Return whether a thread that waited for the disk read, and forced out nothing."""
    return bool(_calls(thread, CALLS_THAT_READ)) and not _calls(thread, CALLS_THAT_FORCE)


def _calls(thread: Thread, names: Iterable[str]) -> int:
    found = (thread.states.get(f"kernel.{name}") for name in names)
    return sum(cell.count or 0 for cell in found if cell is not None)


def ends_of_processes(ledger: Ledger) -> int:
    """Return how many processes ended while the ledger was measured: those whose first thread did."""
    return sum(thread.tid == thread.pid and thread.end is not None for thread in ledger.threads)


def begun_and_ended(ledger: Ledger, threads: Iterable[Thread] | None = None) -> tuple[int, int]:
    """Return how many threads began and how many ended while the ledger was measured."""
    every = list(ledger.threads if threads is None else threads)
    return sum(t.start > ledger.window.start for t in every), sum(t.end is not None for t in every)


def idle_share(ledger: Ledger) -> float | None:
    """Return the share of the processors' time in which they were idle; None: no processor was measured."""
    span = sum(processor.span for processor in ledger.processors)
    if not span:
        return None
    return sum(cell.time for p in ledger.processors for state, cell in p.states.items() if state == "idle") / span


def crowded(ledger: Ledger, processors: int) -> bool:
    """Return whether more was measured to run than the processors can take. ``processors``: their number."""
    idle = idle_share(ledger)
    if idle is not None:
        return idle < _IDLE
    wanted = sum(able(thread.times()) for thread in ledger.threads)
    return bool(processors) and wanted > processors * ledger.window.duration
