"""What a decoded trace consists of, the same for every dialect: instructions, gaps, times.

Times are in cycles of the stream's own processor. They are counted from the stream's first synchronisation on, as
long as no time is lost; where some is (``epoch`` grows), they are counted anew, and how that lies to what was before
is known only through timestamps (``alignment``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

__all__ = ["Exception_", "Gap", "Instruction", "Record", "Timestamp", "Why"]


class Why(IntEnum):
    """Why it is not known what was executed."""

    UNSYNCHRONISED = 0
    OFF = 1
    OVERFLOW = 2
    DEBUG = 3
    DAMAGE = 4
    CONTRADICTION = 5
    IMAGE = 6
    ISA = 7
    TRUNCATED = 8

    @property
    def state(self) -> str:
        """As a state's name."""
        return f"unknown.{_NAMES[self]}"

    @property
    def says(self) -> str:
        """In words."""
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
}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. ``cycle``: when it was done, in its epoch; ``cycles``: since the one before, without gaps.

    Both are None where the trace does not count cycles. ``executed``: its condition was true. ``thread``: the context
    ID, None where it is not traced. ``index``: the byte of the stream that told of it.
    """

    cycle: int | None
    cycles: int | None
    address: int
    size: int
    executed: bool
    thread: int | None
    epoch: int
    index: int

    @property
    def state(self) -> str:
        """As a state's name: an instruction whose condition was false takes its time as well."""
        return "executed" if self.executed else "not_executed"


@dataclass(frozen=True, slots=True)
class Gap:
    """What was executed here is not known. ``cycles``: its length, None if unknown; bytes ``start`` to ``end``."""

    why: Why
    cycle: int | None
    cycles: int | None
    start: int
    end: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """The common clock showed ``time`` (ticks) when ``cycle`` cycles of the epoch had passed."""

    time: int
    cycle: int | None
    epoch: int
    index: int


@dataclass(frozen=True, slots=True)
class Exception_:  # noqa: N801 - the field's name is the language's
    """The processor took an exception; ``address`` is where it went on."""

    number: int
    address: int
    cycle: int | None
    epoch: int
    index: int


Record = Instruction | Gap | Timestamp | Exception_
