"""A policy that looks when the kernel reports a watermark. Buffers without such a report cannot use it."""

from __future__ import annotations

from ..policy import NEVER

__all__ = ["Watermark"]


class Watermark:
    """The kernel's way: no look happens until the file becomes readable, and then everything is drained."""

    reads_clock = False
    waits_for_kernel = True

    def due(self, now: int, used: int) -> int:
        """Return `NEVER`, because the kernel reports when to look; see `headway.buffers.policy.Policy`."""
        return NEVER

    def looked(self, now: int, used: int, filled: int, lost: int) -> bool:
        """Return whether there is anything to drain; see `headway.buffers.policy.Policy`."""
        return filled > 0
