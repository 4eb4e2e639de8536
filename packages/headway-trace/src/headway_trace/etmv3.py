"""The setting of an ETMv3 trace unit, and the parser for its output.

The format depends on the setting (whether P-headers count cycles, how long context IDs are …), but the trace does not
contain it. It has to be read from the unit's registers. Source: ARM IHI 0014Q, chapter 3, ETMCR, ETMIDR and ETMCCER.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ._etmv3 import Parser, atoms
from ._flow import Flow
from ._packets import Packets
from ._program import InstructionTable
from .packets import Packet

__all__ = ["Packets", "Parser", "Setting", "atoms", "packets"]


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting of the trace unit. ``context_bytes``: 0, 1, 2 or 4; ``timestamp_bits``: 48 or 64."""

    cycle_accurate: bool = True
    context_bytes: int = 0
    timestamp_bits: int = 64
    alternative_branches: bool = False
    data_values: bool = False
    data_addresses: bool = False
    virtual_machines: bool = True
    deprecated_branches: bool = False
    branch_broadcast: bool = False
    counted_through_overflow: bool = False

    @property
    def threads(self) -> bool:
        """Whether context IDs are traced."""
        return self.context_bytes > 0

    @classmethod
    def from_registers(cls, etmcr: int, etmidr: int, etmccer: int) -> Setting:
        """Return the setting that the registers show; each is a number of 32 bits."""
        minor = etmidr >> 4 & 15
        return cls(
            cycle_accurate=bool(etmcr >> 12 & 1),
            context_bytes=(0, 1, 2, 4)[etmcr >> 14 & 3],
            timestamp_bits=64 if etmccer >> 29 & 1 else 48,
            alternative_branches=bool(etmidr >> 20 & 1),
            data_values=bool(etmcr >> 2 & 1),
            data_addresses=bool(etmcr >> 3 & 1),
            virtual_machines=bool(etmccer >> 26 & 1),
            # The form of ETMv3.0 to 3.2, for exceptions into ARM state. From later units it would be damage.
            deprecated_branches=minor < 3,
            branch_broadcast=bool(etmcr >> 8 & 1),
            counted_through_overflow=1 <= minor <= 4,
        )

    @property
    def protocol(self) -> str:
        """The name of the protocol."""
        return "ETMv3"

    def parser(self) -> Parser:
        """Return a parser for one stream."""
        return Parser(
            cycle_accurate=self.cycle_accurate,
            context_bytes=self.context_bytes,
            timestamp_bits=self.timestamp_bits,
            alternative_branches=self.alternative_branches,
            data_values=self.data_values,
            data_addresses=self.data_addresses,
            virtual_machines=self.virtual_machines,
            deprecated_branches=self.deprecated_branches,
        )

    def flow(self, program: InstructionTable, *, confined: bool = False, assumes: bool = False) -> Flow:
        """Return the flow of one stream through a program. ``confined``: nothing outside the program is traced.

        ``assumes`` makes no difference, as each instruction is traced.
        """
        return Flow(
            program,
            cycle_accurate=self.cycle_accurate,
            branch_broadcast=self.branch_broadcast,
            counted_through_overflow=self.counted_through_overflow,
            threads=self.threads,
            confined=confined,
        )


def packets(chunks: Iterable[bytes], setting: Setting) -> Iterator[Packet]:
    """Yield the packets of one stream, whose bytes may be divided into chunks anywhere."""
    parser = setting.parser()
    for chunk in chunks:
        yield from parser.feed(chunk)
    yield from parser.finish()
