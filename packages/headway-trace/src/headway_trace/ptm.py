"""The setting of a PTM trace unit, its parser, and the flow of its packets.

The format depends on the setting (whether atoms have cycle counts, how long context IDs are …), but the trace does not
contain it. It has to be read from the unit's registers. Source: ARM IHI 0035B, chapter 3, ETMCR, ETMIDR and ETMCCER.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ._packets import StreamParser
from ._program import InstructionTable
from ._ptm import Parser
from ._ptm_flow import PtmFlow
from .packets import Packet

__all__ = ["Parser", "Setting", "packets"]


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting of the trace unit. ``context_bytes``: 0, 1, 2 or 4; ``timestamp_bits``: 48 or 64.

    ``barriers``: DMB and DSB are waypoints, too.
    """

    cycle_accurate: bool = True
    context_bytes: int = 0
    timestamp_bits: int = 64
    gray_timestamps: bool = False
    virtual_machines: bool = True
    branch_broadcast: bool = False
    return_stack: bool = False
    barriers: bool = False

    @property
    def threads(self) -> bool:
        """Whether context IDs are traced."""
        return self.context_bytes > 0

    @classmethod
    def from_registers(cls, etmcr: int, etmidr: int, etmccer: int) -> Setting:
        """Return the setting that the registers show; each is a number of 32 bits."""
        first = etmidr >> 4 & 15 == 0  # PFTv1.0 has timestamps of 48 bits, if any
        return cls(
            cycle_accurate=bool(etmcr >> 12 & 1),
            context_bytes=(0, 1, 2, 4)[etmcr >> 14 & 3],
            timestamp_bits=64 if etmccer >> 29 & 1 and not first else 48,
            gray_timestamps=first or not etmccer >> 28 & 1,
            virtual_machines=bool(etmccer >> 26 & 1),
            branch_broadcast=bool(etmcr >> 8 & 1),
            return_stack=bool(etmcr >> 29 & 1 and etmccer >> 23 & 1),
            barriers=bool(etmccer >> 24 & 1),
        )

    @property
    def protocol(self) -> str:
        """The name of the protocol."""
        return "PTM"

    def parser(self) -> StreamParser:
        """Return a parser for one stream."""
        return Parser(
            cycle_accurate=self.cycle_accurate,
            context_bytes=self.context_bytes,
            timestamp_bits=self.timestamp_bits,
            gray_timestamps=self.gray_timestamps,
            virtual_machines=self.virtual_machines,
        )

    def flow(self, program: InstructionTable, *, confined: bool = False, assumes: bool = False) -> PtmFlow:
        """Return the flow of one stream through a program. ``confined`` makes no difference.

        ``assumes``: go on where trace and program contradict each other.
        """
        return PtmFlow(
            program,
            cycle_accurate=self.cycle_accurate,
            branch_broadcast=self.branch_broadcast,
            return_stack=self.return_stack,
            barriers=self.barriers,
            threads=self.threads,
            assumes=assumes,
        )


def packets(chunks: Iterable[bytes], setting: Setting) -> Iterator[Packet]:
    """Yield the packets of one stream, whose bytes may be divided into chunks anywhere."""
    parser = setting.parser()
    for chunk in chunks:
        yield from parser.feed(chunk)
    yield from parser.finish()
