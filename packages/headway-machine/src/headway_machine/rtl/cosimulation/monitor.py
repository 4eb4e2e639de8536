"""State monitors in hardware, one a hart, which are fed the states that the reference machine tells."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

from headway_machine.config import Config

from ..monitor import StateMonitor
from .simulator import compiled

__all__ = ["MonitorRow", "Monitors"]

_ENTRY = 24
"""Bytes of an entry of the signals (``headway_machine/signals.pxd``)."""
_STATES = 256


class MonitorRow(NamedTuple):
    """What a monitor has gathered for a state, and what it could not be told."""

    occurrences: int
    cycles: int
    instructions: int
    untold_occurrences: int
    """Of states that another follows at once, where a thread enters two at one instant; and of a state just entered."""
    untold_cycles: int
    """In strict turn, of idle states: the cycles that are no whole rotation."""


class Monitors:
    """The monitors of all harts of a machine; a context manager."""

    def __init__(self, config: Config) -> None:
        """Build them. Raises HeadwayError if there is no C++ compiler."""
        self._code = _library(config.threads if config.issue == "strict" else 1)
        self._monitors = self._code.monitor_new(config.harts)

    def __enter__(self) -> Monitors:
        return self

    def __exit__(self, *_: object) -> None:
        self._code.monitor_free(self._monitors)
        self._monitors = None

    def feed(self, entries: bytes) -> None:
        """Run the monitors on what the processor has told since the last call."""
        self._code.monitor_feed(self._monitors, entries, len(entries) // _ENTRY)

    def rows(self, hart: int) -> dict[int, MonitorRow]:
        """Return what a hart's monitor has gathered, by state; states without anything are left out."""
        rows = self._code.monitor_rows(self._monitors, hart)
        found = {
            state: MonitorRow(*(getattr(rows[state], name) for name in MonitorRow._fields)) for state in range(_STATES)
        }
        entered = self._code.monitor_entered(self._monitors, hart)
        if entered >= 0:
            found[entered] = found[entered]._replace(untold_occurrences=found[entered].untold_occurrences + 1)
        return {state: row for state, row in found.items() if any(row)}


class _Row(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in MonitorRow._fields]


@cache
def _library(step: int) -> Any:
    """Return the simulator of a monitor. Raises HeadwayError if it cannot be built."""
    code = compiled(StateMonitor(_STATES, step=step), "monitor.cc", {"STEP": step})
    code.monitor_new.restype = ctypes.c_void_p
    code.monitor_new.argtypes = [ctypes.c_int]
    code.monitor_feed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64]
    code.monitor_rows.restype = ctypes.POINTER(_Row)
    code.monitor_rows.argtypes = [ctypes.c_void_p, ctypes.c_int]
    code.monitor_entered.argtypes = [ctypes.c_void_p, ctypes.c_int]
    code.monitor_free.argtypes = [ctypes.c_void_p]
    return code
