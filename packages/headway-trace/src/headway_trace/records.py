"""The records of a decoded trace, the same for every format: instructions, gaps, timestamps, exceptions.

Times are in cycles of the stream's own processor. They are counted from the stream's first synchronisation on, as long
as no time is lost. Where time is lost, a new epoch begins, and cycles are counted anew; only timestamps relate it to
the epochs before (``alignment``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

__all__ = ["A64", "ARM", "THUMB", "Exception_", "Gap", "Instruction", "Record", "Timestamp", "Why", "place_of"]

ARM: Final = 0
THUMB: Final = 1
A64: Final = 4
"""Instruction sets."""


def place_of(address: int, isa: int) -> int:
    """Return an address with its instruction set in lowest bits that are 0 in its addresses: 1 of T32, 2 of A64."""
    return address | (1 if isa == THUMB else 2 if isa == A64 else 0)


class Why(IntEnum):
    """The reason why it is not known what was executed."""

    UNSYNCHRONISED = 0
    OFF = 1
    OVERFLOW = 2
    DEBUG = 3
    DAMAGE = 4
    CONTRADICTION = 5
    IMAGE = 6
    ISA = 7
    TRUNCATED = 8
    COUNTED = 9

    @property
    def state(self) -> str:
        """The reason as the name of a state."""
        return f"unknown.{_NAMES[self]}"

    @property
    def says(self) -> str:
        """The reason in words."""
        return _WORDS[self]


_NAMES = {
    Why.UNSYNCHRONISED: "unsynchronised",
    Why.OFF: "trace_off",
    Why.OVERFLOW: "overflow",
    Why.DEBUG: "debug",
    Why.DAMAGE: "damage",
    Why.CONTRADICTION: "contradiction",
    Why.IMAGE: "image",
    Why.ISA: "instruction_set",
    Why.TRUNCATED: "cut_off",
    Why.COUNTED: "counted",
}
_WORDS = {
    Why.UNSYNCHRONISED: "the trace begins before its first synchronisation",
    Why.OFF: "the trace unit was told not to trace",
    Why.OVERFLOW: "the trace unit's buffer overflowed",
    Why.DEBUG: "the processor was stopped by a debugger",
    Why.DAMAGE: "bytes that are no packet",
    Why.CONTRADICTION: "packets and program contradict each other",
    Why.IMAGE: "no program is known at the address",
    Why.ISA: "ThumbEE or Jazelle, which is not followed",
    Why.TRUNCATED: "the stream ends in a packet",
    Why.COUNTED: "the trace unit told only how many instructions were executed",
}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    ``cycle`` is when it was done, in its epoch; ``cycles`` is the time since the one before, without gaps. Both are
    None if the trace does not count cycles. ``executed`` tells whether its condition was true; it is None if the
    instruction has a condition and the protocol traces only the conditions of branches. ``thread`` is the context ID,
    or None if it is not traced. ``index`` is the byte of the stream that reported the instruction. ``assumed``: trace
    and program contradicted each other on the way to the instruction, and were followed all the same. ``aborted``: it
    was executed in a transaction of the processor's (TSX), which was aborted, so that nothing of it remained.
    """

    cycle: int | None
    cycles: int | None
    address: int
    size: int
    executed: bool | None
    thread: int | None
    epoch: int
    index: int
    isa: int = 0
    """The instruction set, of Arm's: A32, T32 or A64, as `ARM`, `THUMB` and `A64`."""
    assumed: bool = False
    aborted: bool = False

    @property
    def state(self) -> str:
        """The instruction as the name of a state. An instruction whose condition was false takes time as well."""
        if self.aborted:
            return "aborted"
        if self.assumed:
            return "assumed"
        return "conditional" if self.executed is None else "executed" if self.executed else "not_executed"


@dataclass(frozen=True, slots=True)
class Gap:
    """A part in which it is not known what was executed: its length in ``cycles`` (None: unknown), and its bytes."""

    why: Why
    cycle: int | None
    cycles: int | None
    start: int
    end: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A time of the common clock (ticks), which it showed when ``cycle`` cycles of the epoch had passed."""

    time: int
    cycle: int | None
    epoch: int
    index: int


@dataclass(frozen=True, slots=True)
class Exception_:  # noqa: N801 - the field's name is the language's
    """An exception that the processor took; ``address`` is where it continued, None if that is not known."""

    number: int
    address: int | None
    cycle: int | None
    epoch: int
    index: int


Record = Instruction | Gap | Timestamp | Exception_
