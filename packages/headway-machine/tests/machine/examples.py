"""The example programs, and machines of several shapes to run them on."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from tests.effort import FEW

from headway_machine.config import Config
from headway_machine.machine import Machine
from headway_machine.programs import programs
from headway_machine.run import Result

EXAMPLES = Path(__file__).parents[2] / "examples"
GUEST = Path(__file__).parents[2] / "src/headway_machine/guest"
_SHAPES = ((1, 1, "strict"), (1, 6, "strict"), (1, 6, "skip"), (2, 6, "strict"), (2, 6, "skip"))
SHAPES = _SHAPES[::4] if FEW else _SHAPES
"""Cores, threads of each, issue."""
MAX_CYCLES = 50_000_000

Shape = tuple[int, int, str]


def names() -> list[str]:
    """Of all example programs."""
    return sorted(path.stem for path in EXAMPLES.glob("*.elf"))


def config_of(name: str, shape: Shape) -> Config:
    """The machine that an example asks for, in this shape."""
    cores, threads, issue = shape
    return programs()[name].config().with_values(cores=cores, threads=threads, issue=issue)


def program(name: str, words: Mapping[str, int] | None = None) -> bytes:
    """An example's ELF file, with these words at these symbols of its data instead of what is there."""
    found = bytearray((EXAMPLES / f"{name}.elf").read_bytes())
    elf = ELFFile(io.BytesIO(bytes(found)))
    for symbol, value in (words or {}).items():
        table = elf.get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        places = table.get_symbol_by_name(symbol)
        assert places is not None
        (at,) = elf.address_offsets(places[0]["st_value"], 4)
        struct.pack_into("<I", found, at, value)
    return bytes(found)


def run(name: str, shape: Shape, words: Mapping[str, int] | None = None) -> Result:
    """An example to its end."""
    return Machine(config_of(name, shape)).run(program(name, words), max_cycles=MAX_CYCLES)
