"""What one stream of a Linux machine's trace was executing at a moment."""

from __future__ import annotations

from dataclasses import dataclass

from .memory import ProcessMemory
from .records import Gap, Instruction

__all__ = ["HostMoment"]


@dataclass(frozen=True, slots=True)
class HostMoment:
    """The record that a moment is in, with its memory; or, without one, ``why`` it is not known (the name of a state).

    ``time`` is in the common time and has an ``uncertainty`` to either side: how far away the times in the
    trace are.
    """

    record: Instruction | Gap | None = None
    memory: ProcessMemory | None = None
    why: str = ""
    time: int | None = None
    uncertainty: int | None = None
