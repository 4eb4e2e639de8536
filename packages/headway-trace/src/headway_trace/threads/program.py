"""Programs of traces of the machine: an ELF file for RV32, or a program that comes with the machine, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points

from headway.binary.lines import LineTable
from headway.files import read_file
from headway_trace.riscv.program import ProgramImage

from ..disassembly import RISCV, RISCV64, Disassembler
from .reading import TracedProgram, functions_of

__all__ = ["named_programs", "read_program", "text_of"]

_MAX_FILE = 1 << 30
_GROUP = "headway.programs"
"""The entry points of functions that return programs by name: what reads the ELF file of each."""


def named_programs() -> Mapping[str, Callable[[], bytes]]:
    """Return what reads the programs that are installed with the machine, by name."""
    return {name: read for found in entry_points(group=_GROUP) for name, read in found.load()().items()}


def read_program(path: str) -> TracedProgram:
    """Return a program that comes with the machine, or the one in an ELF file for it. Raises HeadwayError."""
    named = named_programs()
    data = named[path]() if path in named else read_file(path, "an ELF file for RV32", _MAX_FILE)
    image = ProgramImage.of(data, path)
    segments = tuple((segment.address, segment.data) for segment in image.segments)
    return TracedProgram(segments, functions_of(image.functions), LineTable(data))


def text_of(program: TracedProgram | None, *, wide: bool = False) -> Callable[[int], str]:
    """Return what gives the text of the instruction at an address; ``wide``: of RV64. Raises MissingExtraError."""
    assert program is not None
    return Disassembler(RISCV64 if wide else RISCV).of(program)
