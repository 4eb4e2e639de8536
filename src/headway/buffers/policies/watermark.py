"""Look when the kernel says that the buffer is filled to its watermark; what cannot tell cannot be polled this way."""

from __future__ import annotations

from ..policy import NEVER

__all__ = ["Watermark"]


class Watermark:
    """The kernel's way: nobody looks until the file becomes readable, and then everything is taken."""

    reads_clock = False
    waits_for_kernel = True

    def due(self, now: int, used: int) -> int:
        """See `headway.buffers.policy.Policy`."""
        return NEVER

    def looked(self, now: int, used: int, filled: int, lost: int) -> bool:
        """See `headway.buffers.policy.Policy`."""
        return filled > 0
