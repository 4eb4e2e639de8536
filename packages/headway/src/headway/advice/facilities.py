"""The facilities of a machine that advice can use. Advice gives no command for what the machine does not have."""

from __future__ import annotations

from collections.abc import Mapping

from headway.dataclass import dataclass

__all__ = ["DeviceInterrupt", "Facilities"]


@dataclass(frozen=True, slots=True)
class DeviceInterrupt:
    """The interrupt of a device."""

    number: int
    """The NUMBER in ``/proc/irq/NUMBER``."""
    device: str
    affinity: str
    """The processors that may handle it, in the kernel's list notation (``0-3,8``)."""
    counts: Mapping[int, int]
    """How often each processor has handled it: since the machine was booted, or while something was measured."""
    network: bool = False
    """Whether it is that of a network device."""


@dataclass(frozen=True, slots=True)
class Facilities:
    """What is known of the machine. By default nothing is known."""

    processors: tuple[int, ...] = ()
    """The processors that are online."""
    nodes: int = 1
    """The number of NUMA nodes."""
    resctrl: bool = False
    """Whether the shared cache or the memory bandwidth can be divided (Linux's resctrl)."""
    interrupts: tuple[DeviceInterrupt, ...] = ()
    resctrl_mounted: bool = False
    """Whether the files of resctrl are there."""
    counted: bool = False
    """Whether the interrupts' counts are those of the time that was measured, and not since the machine was booted."""
