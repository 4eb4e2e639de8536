"""The setting of an ETMv4 or ETE trace unit, its parser, and the flow of its packets.

The format depends on the setting (how long context IDs are, how many elements may be speculative …), but the trace does
not contain it. It has to be read from the unit's registers. Source: ARM IHI 0064, chapter 7, TRCCONFIGR and TRCIDR0 to
TRCIDR8; ARM DDI 0487, D17 (ETE), TRCDEVARCH.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ._etmv4 import Parser
from ._etmv4_flow import Etmv4Flow
from ._packets import StreamParser
from ._program import InstructionTable
from .packets import Packet

__all__ = ["Parser", "Setting", "packets"]

_ETE = 0x50


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting of the trace unit. ``version``: 0x40 to 0x46 of ETMv4, from 0x50 on of ETE.

    ``deepest`` is the number of elements that may be speculative. ``commits``: cycle counts tell how many elements to
    commit. ``waits``: WFI and WFE are traced as branches. ``transactions``: the start of a transaction is an element
    to commit.
    """

    version: int = 0x40
    cycle_accurate: bool = False
    machine_bytes: int = 1
    thread_bytes: int = 4
    threads: bool = False
    conditions: bool = False
    quotas: bool = False
    data: bool = False
    deepest: int = 0
    commits: bool = False
    branch_broadcast: bool = False
    return_stack: bool = False
    waits: bool = False
    transactions: bool = True

    @classmethod
    def from_registers(
        cls, trcconfigr: int, trcidr0: int, trcidr1: int, trcidr2: int, trcidr8: int = 0, trcdevarch: int | None = None
    ) -> Setting:
        """Return the setting that the registers show; each is a number of 32 bits. ``trcdevarch``: of an ETE."""
        if trcdevarch is None:
            version = (trcidr1 >> 8 & 15) << 4 | trcidr1 >> 4 & 15
        else:
            version = (trcdevarch >> 12 & 15) << 4 | trcdevarch >> 16 & 15
        machine = {1: 1, 2: 2, 4: 4}.get(trcidr2 >> 10 & 31, 0)
        return cls(
            version=version,
            cycle_accurate=bool(trcconfigr >> 4 & 1),
            machine_bytes=machine if machine == 1 or version > 0x40 else 0,
            thread_bytes=4 if trcidr2 >> 5 & 31 == 4 else 0,
            threads=bool(trcconfigr >> 6 & 1),
            conditions=bool(trcidr0 >> 6 & 1 and trcconfigr >> 8 & 7),
            quotas=bool(trcidr0 >> 15 & 3),
            data=bool(trcconfigr >> 16 & 3),
            deepest=trcidr8,
            commits=not trcidr0 >> 29 & 1,
            branch_broadcast=bool(trcconfigr >> 3 & 1),
            return_stack=bool(trcconfigr >> 12 & 1),
            waits=bool(trcidr2 >> 31 and version >= 0x43),
            transactions=not trcidr0 >> 30 & 1,
        )

    @property
    def protocol(self) -> str:
        """The name of the protocol."""
        return "ETE" if self.version >= _ETE else "ETMv4"

    def parser(self) -> StreamParser:
        """Return a parser for one stream."""
        return Parser(
            version=self.version,
            machine_bytes=self.machine_bytes,
            thread_bytes=self.thread_bytes,
            conditions=self.conditions,
            quotas=self.quotas,
            commits=self.commits,
            data=self.data,
            deepest=self.deepest,
        )

    def flow(self, program: InstructionTable, *, confined: bool = False, assumes: bool = False) -> Etmv4Flow:
        """Return the flow of one stream through a program. ``confined`` makes no difference.

        ``assumes``: go on where trace and program contradict each other.
        """
        return Etmv4Flow(
            program,
            cycle_accurate=self.cycle_accurate,
            return_stack=self.return_stack,
            waits=self.waits,
            embedded=self.version >= _ETE,
            transactions=self.transactions and self.version >= _ETE,
            deepest=self.deepest,
            threads=self.threads,
            assumes=assumes,
        )


def packets(chunks: Iterable[bytes], setting: Setting) -> Iterator[Packet]:
    """Yield the packets of one stream, whose bytes may be divided into chunks anywhere."""
    parser = setting.parser()
    for chunk in chunks:
        yield from parser.feed(chunk)
    yield from parser.finish()
