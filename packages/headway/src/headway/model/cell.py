"""The cell: what was gathered in one state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Cell"]

Events = Mapping[str, "int | None"]


@dataclass(frozen=True, slots=True, init=False)
class Cell:
    """What a thread or a processor gathered in one state.

    ``time`` is in the ledger's time unit. Every other figure is None where the source cannot count it. A sum with a
    part that is None is None, which keeps addition associative and commutative.
    """

    time: int
    count: int | None
    """Occurrences: how often the state was entered. Returning from an interruption is not entering."""
    cycles: int | None
    instructions: int | None
    stall_cycles: int | None
    memory_stall_cycles: int | None
    external_stall_cycles: int | None
    """The part of the memory stall cycles spent waiting for memory outside the processor. The rest waited for a cache.
    """
    events: Events | None = field(hash=False)
    """The events that the user asked for, by name. A missing name and the value None mean that the count is not known;
    None instead of a mapping means that no event was asked for.
    """

    def __init__(
        self,
        time: int = 0,
        count: int | None = 0,
        cycles: int | None = None,
        instructions: int | None = None,
        stall_cycles: int | None = None,
        memory_stall_cycles: int | None = None,
        external_stall_cycles: int | None = None,
        events: Events | None = None,
    ) -> None:
        # Measurements create millions of cells. The slots' own setters take a third less time than the code that
        # dataclass generates.
        _set_time(self, time)
        _set_count(self, count)
        _set_cycles(self, cycles)
        _set_instructions(self, instructions)
        _set_stall_cycles(self, stall_cycles)
        _set_memory_stall_cycles(self, memory_stall_cycles)
        _set_external_stall_cycles(self, external_stall_cycles)
        _set_events(self, events)

    def __add__(self, other: Cell) -> Cell:
        """Return the sum of both cells."""
        return Cell(
            self.time + other.time,
            _add(self.count, other.count),
            _add(self.cycles, other.cycles),
            _add(self.instructions, other.instructions),
            _add(self.stall_cycles, other.stall_cycles),
            _add(self.memory_stall_cycles, other.memory_stall_cycles),
            _add(self.external_stall_cycles, other.external_stall_cycles),
            None if self.events is other.events is None else _add_events(self.events, other.events),
        )

    def __sub__(self, earlier: Cell) -> Cell:
        """Return what was added since an earlier reading of the same cell."""
        return Cell(
            self.time - earlier.time,
            _sub(self.count, earlier.count),
            _sub(self.cycles, earlier.cycles),
            _sub(self.instructions, earlier.instructions),
            _sub(self.stall_cycles, earlier.stall_cycles),
            _sub(self.memory_stall_cycles, earlier.memory_stall_cycles),
            _sub(self.external_stall_cycles, earlier.external_stall_cycles),
            None if self.events is earlier.events is None else _sub_events(self.events, earlier.events),
        )

    @property
    def empty(self) -> bool:
        """Whether nothing was gathered, as far as is known."""
        return not (
            self.time
            or self.count
            or self.cycles
            or self.instructions
            or self.stall_cycles
            or self.memory_stall_cycles
            or self.external_stall_cycles
            or (self.events and any(self.events.values()))
        )


_set_time = Cell.__dict__["time"].__set__
_set_count = Cell.__dict__["count"].__set__
_set_cycles = Cell.__dict__["cycles"].__set__
_set_instructions = Cell.__dict__["instructions"].__set__
_set_stall_cycles = Cell.__dict__["stall_cycles"].__set__
_set_memory_stall_cycles = Cell.__dict__["memory_stall_cycles"].__set__
_set_external_stall_cycles = Cell.__dict__["external_stall_cycles"].__set__
_set_events = Cell.__dict__["events"].__set__


def _add(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _sub(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a - b


def _add_events(a: Events | None, b: Events | None) -> Events:
    a, b = a or {}, b or {}
    return {name: _add(a.get(name), b.get(name)) for name in {**a, **b}}


def _sub_events(a: Events | None, b: Events | None) -> Events:
    a, b = a or {}, b or {}
    return {name: _sub(a.get(name), b.get(name)) for name in {**a, **b}}
