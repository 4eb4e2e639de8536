"""The record that a test's report carries: the figures of each of its rounds, phase by phase.

pytest-xdist sends reports from the workers to the main process with their ``user_properties`` (names and values), and
JUnit XML has these too. `PROPERTY` has everything, as JSON. The properties after it are for people, and for tools that
take numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.text import valid

from .levels import level
from .progress import PhaseProgress

__all__ = ["PHASES", "PROPERTY", "Record", "carried", "without"]

PROPERTY = "headway"
PHASES = ("setup", "call", "teardown")

Property = tuple[str, object]


@dataclass(slots=True)
class Record:
    """The figures of every round of one test, for each phase and for each block by its name."""

    phases: dict[str, list[PhaseProgress]] = field(default_factory=lambda: {phase: [] for phase in PHASES})
    blocks: dict[str, list[PhaseProgress]] = field(default_factory=dict)
    floor: PhaseProgress | None = None
    """The figures of an empty span, where the test was measured."""
    cost: int = 0
    """Time that measuring took beside the test, in ns. It is in none of the test's figures."""
    threshold: float | None = None
    """How much slower the test may become according to its marker, as a share of one; negative: it is not compared."""
    why_not: str = ""
    """Why nothing was measured, or not everything; empty if everything was."""

    def properties(self) -> list[Property]:
        """Return the record as properties of a report."""
        document = {
            "phases": {phase: _documents(rounds) for phase, rounds in self.phases.items()},
            "blocks": {valid(name): _documents(rounds) for name, rounds in self.blocks.items()},
            "floor": None if self.floor is None else self.floor.to_document(),
            "cost": self.cost,
            "threshold": self.threshold,
            "why_not": self.why_not,
        }
        found: list[Property] = [(PROPERTY, json.dumps(document, separators=(",", ":")))]
        rounds = self.phases["call"]
        if rounds:
            found += [(f"{PROPERTY}_unit", rounds[0].unit)]
            for name in ("epi", "rpi", "instructions"):
                middle = level([getattr(one, name) for one in rounds])
                if middle is not None:
                    found.append((f"{PROPERTY}_{name}", middle.median))
            found.append((f"{PROPERTY}_epi_quality", rounds[0].quality["epi"].value))
            middle = level([one.wall for one in rounds])
            if middle is not None:
                found.append((f"{PROPERTY}_wall_ns", middle.median))
        return found


def _documents(rounds: Iterable[PhaseProgress]) -> list[dict[str, Any]]:
    return [one.to_document() for one in rounds]


def carried(properties: Iterable[Sequence[object]]) -> Record | None:
    """Return the record among a report's properties, or None."""
    for name, value in properties:
        if name == PROPERTY and isinstance(value, str):
            found = json.loads(value)
            return Record(
                {phase: _rounds(found["phases"][phase]) for phase in PHASES},
                {name: _rounds(rounds) for name, rounds in found["blocks"].items()},
                None if found["floor"] is None else PhaseProgress.of_document(found["floor"]),
                found["cost"],
                found["threshold"],
                found["why_not"],
            )
    return None


def _rounds(found: Iterable[dict[str, Any]]) -> list[PhaseProgress]:
    return [PhaseProgress.of_document(one) for one in found]


def without(properties: Iterable[Property]) -> list[Property]:
    """Return the properties without those of headway."""
    return [pair for pair in properties if pair[0] != PROPERTY and not str(pair[0]).startswith(f"{PROPERTY}_")]
