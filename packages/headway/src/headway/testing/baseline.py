"""The baseline: a file with the figures of every passed test and the machine they were measured on.

It is JSON, ``headway.pytest/1``, and small enough to be kept beside the tests. The file may come from anywhere, so
every value is checked. A change of meaning raises the number. Unknown fields are ignored.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Any

from headway._version import __version__
from headway.errors import HeadwayError
from headway.files import read_file, written_whole
from headway.model import Quality
from headway.text import valid
from headway.values import WrongValueError, integer, no_number, optional, shown, table, text

from .levels import FigureLevel, level
from .progress import PhaseProgress
from .record import Record

__all__ = ["FIGURES", "Baseline", "BaselineEntry", "MeasuredMachine", "entry_of"]

SCHEMA = "headway.pytest/1"
FIGURES = ("epi", "rpi", "mpi", "kpi", "iopi", "instructions", "wall")
"""What is kept of each test: indices in its unit, instructions, and the time from beginning to end in ns."""
MAX_BYTES = 1 << 26
"""The largest size of a file in bytes."""
_LONGEST = 10_000
_WHAT = "a file that pytest --headway-save has written"


@dataclass(frozen=True, slots=True)
class MeasuredMachine:
    """The properties of a machine on which figures depend."""

    architecture: str
    processor: str
    """The maker's name of the processor; empty if the kernel does not tell."""
    processors: int
    kernel: str
    python: str

    @classmethod
    def here(cls) -> MeasuredMachine:
        """Return the properties of this machine."""
        python = f"{platform.python_implementation()} {platform.python_version()}"
        return cls(platform.machine(), _processor(), os.cpu_count() or 1, platform.release(), python)

    def unlike(self, other: MeasuredMachine) -> str:
        """Return why figures of the other machine cannot be compared with this one's; empty if they can."""
        if self.architecture != other.architecture:
            return f"it is from a machine of another architecture ({shown(other.architecture)})"
        if self.processor != other.processor:
            return f"it is from another processor ({shown(other.processor)}; here it is {shown(self.processor)})"
        return ""

    def changes(self, other: MeasuredMachine) -> list[str]:
        """Return what else differs and may matter, one clause each."""
        return [
            f"{what} {shown(there)}, here {shown(here)}"
            for what, there, here in (
                ("processors:", other.processors, self.processors),
                ("kernel", other.kernel, self.kernel),
                ("Python", other.python, self.python),
            )
            if there != here
        ]


def _processor() -> str:
    """Return the processor's name from /proc/cpuinfo: on x86 the model name, on Arm implementer and part numbers."""
    found: dict[str, str] = {}
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            name, colon, value = line.partition(":")
            if not colon:
                break
            found[name.strip()] = value.strip()
    if "model name" in found:
        return found["model name"]
    return " ".join(found[name] for name in ("CPU implementer", "CPU part", "CPU variant") if name in found)


@dataclass(frozen=True, slots=True)
class BaselineEntry:
    """The figures of a test, or of a block of one, over all rounds."""

    unit: str
    quality: Mapping[str, Quality]
    """The quality of the indices, by name."""
    levels: Mapping[str, FigureLevel | None]
    """The levels of `FIGURES`, by name; None: not available."""
    blocks: Mapping[str, BaselineEntry] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """Return the entry as plain tables, numbers and words."""
        return {
            "unit": self.unit,
            "quality": {name: quality.value for name, quality in self.quality.items()},
            **{name: None if had is None else asdict(had) for name, had in self.levels.items()},
            **({"blocks": {valid(n): e.to_document() for n, e in self.blocks.items()}} if self.blocks else {}),
        }


def entry_of(record: Record) -> BaselineEntry | None:
    """Return the figures of a test over its rounds; None if it was never called, or not measured."""
    rounds = record.phases["call"]
    if not rounds:
        return None
    blocks = {name: _entry(of_block, {}) for name, of_block in record.blocks.items() if of_block}
    return _entry(rounds, blocks)


def _entry(rounds: Sequence[PhaseProgress], blocks: Mapping[str, BaselineEntry]) -> BaselineEntry:
    units = {one.unit for one in rounds}
    levels: dict[str, FigureLevel | None] = {}
    for name in FIGURES:
        comparable = len(units) == 1 or name in ("instructions", "wall")
        levels[name] = level([getattr(one, name) for one in rounds]) if comparable else None
    quality = {name: reduce(or_, (one.quality[name] for one in rounds)) for name in rounds[0].quality}
    return BaselineEntry(rounds[0].unit, quality, levels, blocks)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The figures of the tests of a run, by their node ids."""

    machine: MeasuredMachine
    source: str
    """``bpf`` or ``proc``; both joined by + if workers differed."""
    tests: Mapping[str, BaselineEntry]
    created: str = ""
    """When it was measured, in ISO 8601."""

    @classmethod
    def read(cls, path: str) -> Baseline:
        """Read a baseline from a file. Raises HeadwayError with one sentence."""
        data = read_file(path, _WHAT, MAX_BYTES)
        try:
            return cls._of_document(json.loads(data, parse_constant=no_number))
        except WrongValueError as error:
            raise HeadwayError(f"{path!a}: {error}: give {_WHAT}") from None
        except (ValueError, RecursionError) as error:
            raise HeadwayError(f"{path!a} is not JSON ({ascii(str(error))[1:-1]:.100}): give {_WHAT}") from None

    @classmethod
    def _of_document(cls, found: object) -> Baseline:
        document = table(found, "the document")
        if document.get("schema") != SCHEMA:
            raise WrongValueError(f"its schema is {shown(document.get('schema'))}, not {SCHEMA}")
        where = table(document.get("machine"), "machine")
        words = {name: text(where, name, _LONGEST) for name in ("architecture", "processor", "kernel", "python")}
        tests = table(document.get("tests"), "tests")
        return cls(
            MeasuredMachine(processors=integer(where, "processors", 1), **words),
            text(document, "source", 60),
            {name: _entry_of_document(one, f"the test {shown(name)}") for name, one in tests.items()},
            text(document, "created", 60),
        )

    def write(self, path: str) -> None:
        """Write the baseline to a file, which is replaced as a whole. Raises HeadwayError with one sentence."""
        document = {
            "schema": SCHEMA,
            "headway": __version__,
            "created": self.created or datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": asdict(self.machine),
            "source": self.source,
            "tests": {valid(name): self.tests[name].to_document() for name in sorted(self.tests)},
        }
        data = json.dumps(document, indent=1, allow_nan=False) + "\n"
        try:
            with written_whole(path) as file:
                file.write(data.encode("ascii"))
        except OSError as error:
            raise HeadwayError(
                f"the baseline cannot be written to {path!a} ({error.strerror}): name a file in a folder that you may "
                "write to"
            ) from None


_INDICES = ("rpi", "epi", "mpi", "kpi", "iopi")


def _entry_of_document(found: object, name: str, *, outer: bool = True) -> BaselineEntry:
    document = table(found, name)
    try:
        unit = text(document, "unit", 10)
        if unit not in ("ns", "cycles"):
            raise WrongValueError(f"unit is {shown(unit)}")
        worth = table(document.get("quality"), "quality")
        quality = {index: _quality(worth, index) for index in _INDICES}
        levels = {figure: _level(document, figure) for figure in FIGURES}
        inner = table(document.get("blocks", {}), "blocks") if outer else {}
    except WrongValueError as error:
        raise WrongValueError(f"{name}: {error}") from None
    blocks = {
        block: _entry_of_document(one, f"{name}, block {shown(block)}", outer=False) for block, one in inner.items()
    }
    return BaselineEntry(unit, quality, levels, blocks)


def _quality(found: Mapping[str, Any], index: str) -> Quality:
    word = text(found, index, 20)
    try:
        return Quality(word)
    except ValueError:
        raise WrongValueError(f"the quality of {index} is {shown(word)}") from None


def _level(document: Mapping[str, Any], figure: str) -> FigureLevel | None:
    if document.get(figure) is None:
        return None
    found = table(document[figure], figure)
    return FigureLevel(integer(found, "median", 0), optional(found, "spread"), integer(found, "rounds", 1))
