"""A plan, and a plan that is being made."""

from __future__ import annotations

from dataclasses import field

from headway.dataclass import dataclass

from .changes import Change
from .controls import Controls

__all__ = ["Draft", "PlacementPlan"]


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """What will be done, in order, and what was asked for but will not be done."""

    id: str
    changes: tuple[Change, ...] = ()
    pids: tuple[int, ...] = ()
    """The processes that it is made for."""
    notes: tuple[str, ...] = ()
    """What the user should know before agreeing."""
    refused: tuple[str, ...] = ()
    """Why a remedy is not in the plan, one sentence each."""


@dataclass(slots=True)
class Draft:
    """A plan being made."""

    id: str
    controls: Controls
    free: frozenset[int]
    """The processors that no part of the plan has taken yet."""
    pids: tuple[int, ...]
    """The processes that the plan is made for."""
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def done(self) -> PlacementPlan:
        """Return the plan."""
        return PlacementPlan(self.id, tuple(self.changes), self.pids, tuple(self.notes), tuple(self.refused))
