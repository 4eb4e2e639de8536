"""What is gathered in one state."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Cell"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What a thread (or a processor) gathered in one state.

    ``time`` is in the ledger's time unit. Every other figure is None where the source cannot count it; None is
    contagious (a sum of which one part is not known is not known), which keeps addition associative and commutative.
    """

    time: int = 0
    count: int | None = 0
    """Occurrences: how often the state was entered (coming back from an interruption is not entering)."""
    cycles: int | None = None
    instructions: int | None = None
    stall_cycles: int | None = None
    memory_stall_cycles: int | None = None

    def __add__(self, other: Cell) -> Cell:
        """Both cells together."""
        return Cell(
            self.time + other.time,
            _add(self.count, other.count),
            _add(self.cycles, other.cycles),
            _add(self.instructions, other.instructions),
            _add(self.stall_cycles, other.stall_cycles),
            _add(self.memory_stall_cycles, other.memory_stall_cycles),
        )

    def __sub__(self, earlier: Cell) -> Cell:
        """What came since an earlier reading of the same cell."""
        return Cell(
            self.time - earlier.time,
            _sub(self.count, earlier.count),
            _sub(self.cycles, earlier.cycles),
            _sub(self.instructions, earlier.instructions),
            _sub(self.stall_cycles, earlier.stall_cycles),
            _sub(self.memory_stall_cycles, earlier.memory_stall_cycles),
        )


def _add(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _sub(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a - b
