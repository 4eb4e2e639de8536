"""A program on the reference machine and, by the machine's signals, on the progress unit in hardware."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

from headway_machine.config import Config
from headway_machine.image import MachineImage
from headway_machine.machine import Machine, resolved

from ..address_ranges import RANGES
from .observed import ObservedUnit
from .simulator import compiled

__all__ = ["Compared", "Comparison", "compare"]

_ENTRY = 24
"""Bytes of an entry of the signals (``headway_machine/signals.pxd``)."""
_ROOMS = (4, 16, RANGES)
"""Address ranges that a unit is built for: the first number that is enough."""
_KINDS = {"noneffective": 1, "poll": 2}


@dataclass(frozen=True, slots=True)
class Compared:
    """What was compared, summed over all cores."""

    clocks: int
    """Clocks that the units were run for."""
    cycles: int
    """Cycles of running threads; in strict turn, rotations."""
    values: int
    """Counters that were compared, each in each cycle of each thread."""
    stored: int
    """Copies at a context switch that were compared with the machine's."""
    loaded: int
    writes: int
    """Writes of the units' registers by the program."""
    traps: int
    entries: int
    """States that were entered anew, and compared."""
    difference: str | None
    """The first difference, as a sentence; None: there was none."""

    def __add__(self, other: Compared) -> Compared:
        """Return both together."""
        numbers = {name: getattr(self, name) + getattr(other, name) for name in _NUMBERS}
        return Compared(**numbers, difference=self.difference or other.difference)


class _Report(ctypes.Structure):
    """What a simulation has compared so far (``driver.cc``)."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("clocks", "cycles", "compared", "stored", "loaded")),
        *((name, ctypes.c_int64) for name in ("writes", "traps", "entries", "differences")),
        ("first", ctypes.c_char * 512),
    ]


_NUMBERS = ("clocks", "cycles", "values", "stored", "loaded", "writes", "traps", "entries")


class Comparison:
    """The units of all cores of a machine, which are fed what its processor tells; a context manager."""

    def __init__(self, config: Config, width: int = 64) -> None:
        """Build the units. Raises HeadwayError if there is no C++ compiler.

        ``width`` is that of the unit's counters; the machine's, of 64 bits, are compared modulo 2 ** ``width``.
        """
        step = config.threads if config.issue == "strict" else 1
        ranges = next(room for room in _ROOMS if room >= len(config.ranges))
        self._code = _library(config.threads, step=step, width=width, ranges=ranges)
        starts, ends = (ctypes.c_uint32 * ranges)(), (ctypes.c_uint32 * ranges)()
        kinds = (ctypes.c_uint8 * ranges)()
        for number, part in enumerate(config.ranges):
            starts[number], ends[number], kinds[number] = part.start, part.end, _KINDS.get(part.kind, 0)
        self._simulations = [
            self._code.simulation_new(core * config.threads, config.progress.gap, starts, ends, kinds)
            for core in range(config.cores)
        ]

    def __enter__(self) -> Comparison:
        return self

    def __exit__(self, *_: object) -> None:
        for simulation in self._simulations:
            self._code.simulation_free(simulation)
        self._simulations.clear()

    def feed(self, entries: bytes) -> None:
        """Run the units on what the processor has told since the last call, as far as it is complete."""
        for simulation in self._simulations:
            self._code.simulation_feed(simulation, entries, len(entries) // _ENTRY)

    def found(self) -> Compared:
        """Return what was compared so far."""
        first, *others = (
            _compared(self._code.simulation_report(simulation).contents) for simulation in self._simulations
        )
        return sum(others, first)


def compare(config: Config, program: Any, *, max_cycles: int, width: int = 64) -> Compared:
    """Run a program for at most ``max_cycles`` ticks and compare all that the units of all cores count.

    Raises HeadwayError if the program cannot be run or if there is no C++ compiler.
    """
    image = MachineImage.of(program)
    with Comparison(resolved(config, image), width) as comparison:
        Machine(config).run(image, max_cycles=max_cycles, signals=comparison.feed)
        return comparison.found()


def _compared(report: Any) -> Compared:
    numbers = {name: getattr(report, "compared" if name == "values" else name) for name in _NUMBERS}
    return Compared(**numbers, difference=report.first.decode() if report.differences else None)


@cache
def _library(threads: int, *, step: int, width: int, ranges: int) -> Any:
    """Return the simulator of a unit. Raises HeadwayError if it cannot be built."""
    unit = ObservedUnit(threads, width, step, ranges=ranges)
    code = compiled(unit, "driver.cc", {"THREADS": threads, "STEP": step, "WIDTH": width, "RANGES": ranges})
    words, bytes_ = ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint8)
    code.simulation_new.restype = ctypes.c_void_p
    code.simulation_new.argtypes = [ctypes.c_int, ctypes.c_uint32, words, words, bytes_]
    code.simulation_feed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64]
    code.simulation_report.restype = ctypes.POINTER(_Report)
    code.simulation_report.argtypes = [ctypes.c_void_p]
    code.simulation_free.argtypes = [ctypes.c_void_p]
    return code
