"""What a machine has that advice can draw on: a command for what is not there helps nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Facilities", "Interrupt"]


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A device's interrupt."""

    number: int
    """Of ``/proc/irq/NUMBER``."""
    device: str
    affinity: str
    """The processors that may handle it, in the kernel's notation (``0-3,8``)."""
    counts: Mapping[int, int]
    """How often each processor handled it since the machine was started."""


@dataclass(frozen=True, slots=True)
class Facilities:
    """What is known of the machine; the default: nothing is."""

    processors: tuple[int, ...] = ()
    """Those that are on."""
    nodes: int = 1
    """NUMA nodes."""
    resctrl: bool = False
    """Whether the shared cache, or memory bandwidth, can be divided (Linux's resctrl)."""
    interrupts: tuple[Interrupt, ...] = ()
