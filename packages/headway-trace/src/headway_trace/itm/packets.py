"""The setting of an ITM, and the parser for its output. Everything that the format depends on is in the trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from headway.errors import HeadwayError

from .._packets import StreamParser
from .._program import InstructionTable
from ._packets import Parser

__all__ = ["Parser", "Setting"]


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting of an ITM: there is only one."""

    @property
    def threads(self) -> bool:
        """Whether context IDs are traced."""
        return False

    @property
    def cycle_accurate(self) -> bool:
        """Whether instructions have cycles: there are none."""
        return False

    @property
    def protocol(self) -> str:
        """The name of the protocol."""
        return "ITM"

    def parser(self) -> StreamParser:
        """Return a parser for one stream."""
        return Parser()

    def flow(self, program: InstructionTable, *, confined: bool = False, assumes: bool = False) -> NoReturn:
        """Raise HeadwayError: no instruction is traced."""
        raise HeadwayError("an ITM traces no instructions: choose another stream with --stream")
