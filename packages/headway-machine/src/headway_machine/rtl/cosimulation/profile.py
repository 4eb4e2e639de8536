"""Profile buffers in hardware, one a hart, whose records are compared with those of the reference machine."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

from headway_machine.config import Config

from ..profile_buffer import ProfileBuffer
from .simulator import compiled

__all__ = ["ProfileBuffers", "ProfileCompared"]

_ENTRY = 24
"""Bytes of an entry of the signals (``headway_machine/signals.pxd``)."""


@dataclass(frozen=True, slots=True)
class ProfileCompared:
    """What was compared, summed over all harts."""

    turns: int
    """Turns of harts whose buffers were authorised."""
    records: int
    writes: int
    """Writes of the buffers' registers by the program."""
    refused: int
    """Those that are illegal instructions."""
    missed: int
    """Records for which there was no room."""
    resumed: int
    """Halts of a hart whose buffer is authorised."""
    difference: str | None
    """The first difference, as a sentence; None: there was none."""


class ProfileBuffers:
    """The buffers of all harts of a machine; a context manager."""

    def __init__(self, config: Config) -> None:
        """Build them. Raises HeadwayError if there is no C++ compiler."""
        self._code = _library()
        self._buffers = self._code.profile_new(config.harts, config.threads if config.issue == "strict" else 1)

    def __enter__(self) -> ProfileBuffers:
        return self

    def __exit__(self, *_: object) -> None:
        self._code.profile_free(self._buffers)
        self._buffers = None

    def feed(self, entries: bytes) -> None:
        """Run the buffers on what the processor has told since the last call, and compare."""
        self._code.profile_feed(self._buffers, entries, len(entries) // _ENTRY)

    def found(self) -> ProfileCompared:
        """Return what was compared so far."""
        report = self._code.profile_report(self._buffers).contents
        numbers = {name: getattr(report, name) for name in _NUMBERS}
        return ProfileCompared(**numbers, difference=report.first.decode() if report.differences else None)


_NUMBERS = ("turns", "records", "writes", "refused", "missed", "resumed")


class _Report(ctypes.Structure):
    """What has been compared so far (``profile.cc``)."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in (*_NUMBERS, "differences")),
        ("first", ctypes.c_char * 512),
    ]


@cache
def _library() -> Any:
    """Return the simulator of a buffer. Raises HeadwayError if it cannot be built."""
    code = compiled(ProfileBuffer(), "profile.cc", {})
    code.profile_new.restype = ctypes.c_void_p
    code.profile_new.argtypes = [ctypes.c_int, ctypes.c_int]
    code.profile_feed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64]
    code.profile_report.restype = ctypes.POINTER(_Report)
    code.profile_report.argtypes = [ctypes.c_void_p]
    code.profile_free.argtypes = [ctypes.c_void_p]
    return code
