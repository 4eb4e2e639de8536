"""What the machine counts of what it could not show, by an entry point of the group headway.losses."""

from __future__ import annotations

from headway.model import Loss

__all__ = ["LOSSES"]

LOSSES = (
    Loss(
        "threads_unplaced",
        "threads of the machine's program that had no room, or that two harts ran at once: their time is no thread's",
    ),
    Loss("wakes_of_running_threads", "wake-ups that the machine's program announced for a thread that was running"),
    Loss("interrupts_merged", "interrupts of the machine that came while the same one was pending"),
    Loss("uart_overruns", "bytes that the machine's UART received while its buffer was full"),
    Loss("profile_records", "records of the machine's profile that came when the buffer was full"),
    Loss("trace_groups", "groups of trace packets that the trace unit's FIFO had no room for"),
)
"""The machine's losses. Its ledger has them by name."""
