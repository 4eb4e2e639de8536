"""What a policy is: it says when the next look into a buffer can be of use, and learns from what the look finds."""

from __future__ import annotations

from typing import Protocol

__all__ = ["NEVER", "USEFUL", "Policy"]

NEVER = 2**63 - 1
"""The moment of a look that nobody will take by the clock."""
USEFUL = 0.5
"""The part of a buffer that makes a look worth it: with less the buffer is left to fill."""


class Policy(Protocol):
    """When to look into one buffer. All times are in one unit, a processor's time and the clock's."""

    reads_clock: bool
    """Whether it wants to know the thread's processor time; else it is given 0."""

    waits_for_kernel: bool
    """Whether it looks when the kernel says that there is enough; then `due` is `NEVER`."""

    def due(self, now: int, used: int) -> int:
        """The earliest moment at which a look can be of use; ``now`` or before: look.

        ``used``: the processor time that the thread has used up to ``now``.
        """

    def looked(self, now: int, used: int, filled: int, lost: int) -> bool:
        """Learn from a look that found so many bytes; returns whether to drain the buffer now.

        ``lost``: bytes that found no room since the last look; 0: none, or it is not counted here. Either way a buffer
        that is found full has lost something, or is about to.
        """
