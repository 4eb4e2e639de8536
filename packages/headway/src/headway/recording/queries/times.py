"""Instants of a recording as users write them: time since its start, or a time of day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from headway.errors import HeadwayError
from headway.recording.clock import Anchor

from .alignment import lines

__all__ = ["Clocked", "RunClock", "instant_of"]

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
_LENGTH = re.compile(r"(\d{1,18})(?:\.(\d{1,18}))?\s*([a-zµ]*)", re.ASCII | re.IGNORECASE)
_DAY = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))?\s*(Z|UTC|[+-]\d\d:?\d\d)?", re.ASCII | re.IGNORECASE
)


class Clocked(Protocol):
    """What must be known of a recording to find an instant in it."""

    @property
    def words(self) -> str:
        """The recording's name in a sentence."""

    @property
    def start(self) -> int:
        """The start, in its time unit."""

    @property
    def time_unit(self) -> str:
        """``ns`` or ``cycles``."""

    @property
    def anchors(self) -> Sequence[Anchor]:
        """The clock anchors."""


@dataclass(frozen=True, slots=True)
class RunClock:
    """A plain implementation of `Clocked`."""

    words: str
    start: int
    time_unit: str
    anchors: Sequence[Anchor]


def instant_of(text: str, run: Clocked) -> int:
    """Return the time in the recording that ``text`` means: time since its start (``3.2s``, ``150ms``), or a time of
    day.

    A time of day without an offset is in this machine's time zone. Cycles of the reference machine are plain numbers.
    Raises HeadwayError.
    """
    day = _DAY.fullmatch(text.strip())
    if day:
        return _at_day(text, day, run)
    length = _LENGTH.fullmatch(text.strip())
    if run.time_unit == "cycles":
        if length and not length[2] and length[3].lower() in ("", "cycles"):
            return run.start + int(length[1])
        raise HeadwayError(f"{text[:60]!a} is not an instant of a run of the machine: give the cycle as a number")
    if not length or length[3].lower() not in _UNITS:
        raise HeadwayError(
            f"{text[:60]!a} is not an instant: give the time since the recording's start, as 3.2s or 150ms, "
            "or a time of day, as 2026-11-21T12:00:03.2"
        )
    unit = _UNITS[length[3].lower()]
    fraction = length[2] or ""
    part: int = int(fraction or 0) * unit // 10 ** len(fraction)
    return run.start + int(length[1]) * unit + part


def _at_day(text: str, found: re.Match[str], run: Clocked) -> int:
    pieces = lines(run.anchors)
    if not pieces:
        raise HeadwayError(f"{run.words} does not say what time of day it was recorded: give the time since its start")
    zone = (found[3] or "").upper()
    zone = "+00:00" if zone in ("Z", "UTC") else zone
    try:
        moment = datetime.fromisoformat(found[1].replace(" ", "T") + zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise HeadwayError(f"{text[:60]!a} is not a time of day: write it as 2026-11-21T12:00:03.2") from None
    realtime = int(moment.timestamp()) * 10**9 + int((found[2] or "").ljust(9, "0") or 0)
    for line in pieces:
        monotonic = line.monotonic(realtime)
        if line.start <= monotonic < line.end:
            return monotonic
    return pieces[-1].monotonic(realtime)
