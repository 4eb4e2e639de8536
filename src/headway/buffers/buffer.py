"""What all buffers have in common, whoever fills them."""

from __future__ import annotations

from typing import Protocol, TypeVar

__all__ = ["Buffer"]

Into = TypeVar("Into", contravariant=True)


class Buffer(Protocol[Into]):
    """What is known of one thread and waits to be collected; it is filled without software (P1).

    When it is full what comes is lost. Processor time is in the unit of the clock that its collector keeps: ns of
    CLOCK_MONOTONIC, or the machine's cycles. A buffer of a processor takes that clock itself for its thread's.
    """

    @property
    def capacity(self) -> int:
        """Bytes that it holds at most."""

    @property
    def lost(self) -> int:
        """Records that found no room, as of the last look; 0 where that is not counted."""

    @property
    def lost_bytes(self) -> int:
        """What they would have taken, about."""

    def cpu_time(self) -> int:
        """Processor time that its thread has used, from any moment on."""

    def stood_still(self) -> bool:
        """Whether its thread has certainly used no time since `cpu_time` was last asked; False: that is not known.

        It is asked of all threads, again and again, so it costs next to nothing.
        """

    def look(self) -> int:
        """Bytes that wait in it."""

    def drain(self, into: Into) -> int:
        """Move all that waits to where it goes; returns how many bytes that was."""
