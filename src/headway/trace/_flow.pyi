from collections.abc import Iterator

from ._etmv3 import Packets
from ._program import InstructionTable
from .records import Record

class Records:
    def __iter__(self) -> Iterator[Record]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, i: int, /) -> Record: ...
    def instructions(self) -> list[tuple[int, int, int]]: ...

class Flow:
    stretches: int
    contradictions: int
    left: int
    visited: int
    def __init__(
        self,
        program: InstructionTable,
        *,
        cycle_accurate: bool,
        branch_broadcast: bool,
        counted_through_overflow: bool,
        threads: bool,
        confined: bool = False,
    ) -> None: ...
    def begins(self) -> None: ...
    def feed(self, packets: Packets) -> Records: ...
    def finish(self) -> Records: ...
    def lost(self, index: int) -> None: ...
