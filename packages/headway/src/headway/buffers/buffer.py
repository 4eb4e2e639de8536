"""The interface of a buffer, whoever fills it."""

from __future__ import annotations

from typing import Protocol, TypeVar

__all__ = ["Buffer"]

Into = TypeVar("Into", contravariant=True)


class Buffer(Protocol[Into]):
    """The records of one thread that wait to be collected. The buffer is filled without software.

    A full buffer loses new records. Processor time is in the unit of the collector's clock: ns of CLOCK_MONOTONIC, or
    cycles of the machine. A buffer of a processor uses that clock itself as its thread's processor time.
    """

    @property
    def capacity(self) -> int:
        """The size of the buffer in bytes."""

    @property
    def lost(self) -> int:
        """Records that found no room, as of the last look; 0 if they are not counted."""

    @property
    def lost_bytes(self) -> int:
        """The approximate size of these records in bytes."""

    def cpu_time(self) -> int:
        """Return the processor time that its thread has used, counted from any fixed moment."""

    def stood_still(self) -> bool:
        """Return whether its thread has certainly used no time since the last `cpu_time`; False if that is not known.

        It is asked for all threads again and again, so it must cost next to nothing.
        """

    def look(self) -> int:
        """Return the number of bytes that wait in the buffer."""

    def drain(self, into: Into) -> int:
        """Move all waiting records to ``into``; return their size in bytes."""
