"""Types of parameters: what the values of options may be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from headway.errors import HeadwayError
from headway.linux.options import MAX_IDS

if TYPE_CHECKING:  # what a type of parameters needs is loaded where one is given
    from headway.conditions import Condition

__all__ = [
    "BufferSize",
    "Ids",
    "MemorySize",
    "Milliseconds",
    "Percentage",
    "ProcessorList",
    "RecordingSize",
    "Seconds",
    "WhenCondition",
    "WholeNumber",
    "all_ids",
]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Ids(click.ParamType[tuple[int, ...]]):
    """Process or thread ids: ``PID[,PID...]``."""

    name = "ids"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Text to numbers."""
        if isinstance(value, tuple):
            return value
        if not re.fullmatch(r"[1-9]\d{0,9}(,[1-9]\d{0,9})*", value, re.ASCII):
            self.fail(f"{value!r} is no list of ids: write it like 4711 or 4711,4712", param, ctx)
        ids = tuple(dict.fromkeys(int(part) for part in value.split(",")))
        if max(ids) > MAX_IDS:
            self.fail(f"{max(ids)} is no id: they go up to {MAX_IDS}", param, ctx)
        return ids


def all_ids(ctx: click.Context, param: click.Parameter, value: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Return the ids of an option that may be repeated, each once (``callback``)."""
    return tuple(dict.fromkeys(each for ids in value for each in ids))


class ProcessorList(click.ParamType[tuple[int, ...]]):
    """A list of processors: ``0-3,8``."""

    name = "cpus"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Text to numbers."""
        if isinstance(value, tuple):
            return value
        from headway.linux.procfs.processors import parse_list

        try:
            return parse_list(value)
        except HeadwayError as error:
            self.fail(str(error), param, ctx)


class _Duration(click.ParamType[float]):
    """A length of time, converted to seconds."""

    unit = 1.0
    least = 0.001
    words = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Text to seconds."""
        if isinstance(value, float):
            return value
        if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value, re.ASCII) or float(value) * self.unit < self.least:
            least = self.least / self.unit
            self.fail(f"{value!r} is no length of time: give a number of {self.words}, {least:g} or more", param, ctx)
        return float(value) * self.unit


class Seconds(_Duration):
    """Seconds, at least 0.001."""

    name = "seconds"


class Milliseconds(_Duration):
    """Milliseconds, at least 10, converted to seconds."""

    name = "ms"
    unit, least, words = 0.001, 0.010, "milliseconds"


class Percentage(click.ParamType[float]):
    """A share above 0 and at most 1, written in per cent: ``1%`` or ``0.5``."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Text to a share."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)\s*%?", value, re.ASCII)
        share = float(found[1]) / 100 if found else 0.0
        if not 0 < share <= 1:
            self.fail(f"{value[:40]!a} is no share: give per cent above 0 and at most 100, as in 1%", param, ctx)
        return share


class _Size(click.ParamType[int]):
    """A number of bytes, with a unit of 1,024, its square and so on, or without."""

    name = "size"
    least = 1
    most = 1 << 63
    words = "no size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Text to bytes."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,15})([KMGT]?)(?:i?B)?", value, re.ASCII | re.IGNORECASE)
        size = int(found[1]) * _UNITS[found[2].upper()] if found else 0
        if not self.least <= size <= self.most:
            self.fail(f"{value!r} is {self.words}", param, ctx)
        return size


class RecordingSize(_Size):
    """A size of a recording in bytes: ``500M``."""

    least, words = 1 << 20, "no size of a recording: give 1M or more, as in 500M or 2G"


class MemorySize(_Size):
    """The memory that a process may take, in bytes: ``500M``."""

    least, words = 1 << 20, "no size of memory: give 1M or more, as in 500M or 2G"


class BufferSize(_Size):
    """A size of a thread's buffer in bytes: ``64K``."""

    least, most, words = 4 << 10, 64 << 20, "no size of a thread's buffer: give 4K to 64M, as in 64K or 131072"


class WhenCondition(click.ParamType["Condition"]):
    """A condition: ``process: ready > 20 %``."""

    name = "condition"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Condition:
        """Text to condition."""
        from headway.conditions import Condition, parse_condition
        from headway.linux.bpf.shared.states import NAMES

        if isinstance(value, Condition):
            return value

        try:
            return parse_condition(value, NAMES)
        except HeadwayError as error:
            self.fail(str(error), param, ctx)


class WholeNumber(click.ParamType[int]):
    """A number from 0 to 2^64 - 1, decimal or with 0x."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Text to a number."""
        if isinstance(value, int):
            return value
        try:
            number = int(value, 0)
        except ValueError:
            number = -1
        if not 0 <= number < 1 << 64:
            self.fail(f"{value[:40]!a} is not a number from 0 to 2^64 - 1", param, ctx)
        return number
