"""The interface of a policy, which tells when the next look into a buffer can be useful and learns from each look."""

from __future__ import annotations

from typing import Protocol

__all__ = ["NEVER", "USEFUL", "Policy"]

NEVER = 2**63 - 1
"""The moment of a look that is not planned by the clock."""
USEFUL = 0.5
"""The filled part of a buffer that makes a look worthwhile. A buffer with less is left to fill."""


class Policy(Protocol):
    """The plan of looks into one buffer. Times of the processor and of the clock are in the same unit."""

    reads_clock: bool
    """Whether it needs the thread's processor time; otherwise it is given 0."""

    waits_for_kernel: bool
    """Whether looks happen when the kernel reports that there is enough; `due` is then `NEVER`."""

    def due(self, now: int, used: int) -> int:
        """Return the earliest moment at which a look can be useful; ``now`` or earlier means to look at once.

        ``used``: the processor time that the thread has used up to ``now``.
        """

    def looked(self, now: int, used: int, filled: int, lost: int) -> bool:
        """Learn from a look that found ``filled`` bytes. Return whether to drain the buffer now.

        ``lost``: bytes that found no room since the last look; 0 if there were none, or if they are not counted. In
        both cases a buffer that is found full has lost something, or is about to.
        """
