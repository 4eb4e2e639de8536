"""Thresholds: from where on a figure is worth a word.

The defaults are those of the commented ``thresholds.toml`` that comes with the command line; here is what each value
means and which values make sense, so that no file can bring the policy into a state that it was not made for.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any

from headway.dataclass import dataclass

__all__ = ["MAX_REMARKS", "Thresholds"]

MAX_REMARKS = 1000
"""The largest number of pieces of advice that can be asked for."""


def _share(default: float) -> Any:
    return field(default=default, metadata={"whole": False, "least": 0, "most": 1, "words": "a share from 0 to 1"})


def _whole(default: int, least: int, most: int) -> Any:
    words = f"a whole number from {least} to {most}"
    return field(default=default, metadata={"whole": True, "least": least, "most": most, "words": words})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on a figure is worth a word; shares from 0 to 1.

    Raises ValueError for a value outside its range, with its name and what is allowed.
    """

    td: float = _share(0.10)
    """Td as a share of RPI."""
    mpi: float = _share(0.25)
    """MPI as a share of Td; likewise KPI and IOPI."""
    kpi: float = _share(0.25)
    iopi: float = _share(0.25)
    ready: float = _share(0.10)
    """Waiting for a processor, as a share of the time that the thread was able to run."""
    stolen: float = _share(0.02)
    """Time stolen by the hypervisor, as a share of the time that the threads were able to run."""
    interrupts: float = _share(0.20)
    """Time in interrupts, as a share of a processor's time."""
    busy: float = _share(0.80)
    """Busy time of all processors, as a share of what the hypervisor left them; only where it is passed is the next
    one looked at."""
    system: float = _share(0.90)
    """What is no user code, as a share of the processors' busy time."""
    wait: float = _share(0.50)
    """Waiting for one thing, as a share of the time that the thread was measured."""
    rest: float = _share(0.10)
    """A thread with less processor time than this share of its time rests where it waits for others."""
    interest: float = _share(0.01)
    """The time at stake, as a share of the window: advice with less is not given."""
    least_ns: int = _whole(10_000_000, 0, 10**18)
    """The time at stake, in ns: advice with less is not given either, because there is little to gain."""
    most: int = _whole(5, 1, MAX_REMARKS)
    """The largest number of pieces of advice."""

    def may_matter(self, time: int) -> bool:
        """Return whether advice is given where threads and processors together had so much time, in ns."""
        return time >= self.least_ns

    def __post_init__(self) -> None:
        for value in fields(self):
            given, allowed = getattr(self, value.name), value.metadata
            types = (int,) if allowed["whole"] else (int, float)
            # In Python True is an int, but it is not a share. NaN is not within any limits.
            right = type(given) in types and allowed["least"] <= given <= allowed["most"]
            if not right:
                raise ValueError(f"{value.name} is {_shown(given)}, and must be {allowed['words']}")


def _shown(given: object) -> str:
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, int) and abs(given) >= 10**20:
        return "a number of more than 20 digits"
    text = repr(given)
    return text if len(text) <= 40 else f"{text[:39]}…"
