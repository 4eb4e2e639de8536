"""How much of a thread's time is divided exactly: the levels of detail, cheapest first."""

from __future__ import annotations

from enum import Enum

__all__ = ["COUNTED_AT_CLOCKS", "Level"]


COUNTED_AT_CLOCKS = frozenset(
    ("context-switches", "cs", "page-faults", "faults", "minor-faults", "major-faults", "voluntary", "involuntary")
)
"""The events that the kernel counts of each thread anyway, by perf's names; and its switches apart: because the thread
waited, and because another one was to run."""


class Level(Enum):
    """Which events the eBPF programs see. A level has its own layer of events and those of the levels below it."""

    CLOCKS = "clocks"
    """Births and ends of threads alone. What the kernel counts of each thread is read at intervals."""
    SWITCHES = "switches"
    """Switches, wake-ups, forks, execs and exits, and a sampling timer for the rest."""
    CALLS = "calls"
    """System calls and page faults too."""
    INTERRUPTS = "interrupts"
    """Interrupts too: everything."""

    @property
    def rank(self) -> int:
        """Its place, from 0 for the cheapest."""
        return _ORDER.index(self)

    @property
    def below(self) -> Level | None:
        """The next cheaper level; None: there is none."""
        return _ORDER[self.rank - 1] if self.rank else None

    @property
    def above(self) -> Level | None:
        """The next level that sees more; None: it sees everything."""
        return _ORDER[self.rank + 1] if self.rank + 1 < len(_ORDER) else None

    def includes(self, layer: Level) -> bool:
        """Return whether events of this layer are seen at the level."""
        return layer.rank <= self.rank

    def __lt__(self, other: Level) -> bool:
        """Order by what they cost: the cheaper one sees less."""
        return self.rank < other.rank

    def __le__(self, other: Level) -> bool:
        return self.rank <= other.rank

    def __gt__(self, other: Level) -> bool:
        return self.rank > other.rank

    def __ge__(self, other: Level) -> bool:
        return self.rank >= other.rank


_ORDER = tuple(Level)
