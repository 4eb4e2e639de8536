from collections.abc import Callable, Iterator, Sequence

from ._etmv3 import Packets
from .records import Record

class Records:
    def __iter__(self) -> Iterator[Record]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, i: int, /) -> Record: ...
    def instructions(self) -> list[tuple[int, int, int]]: ...

class Flow:
    stretches: int
    contradictions: int
    def __init__(
        self,
        look: Callable[[int, int], tuple[int, int, bool, int, int, int]],
        spans: Sequence[tuple[int, int]],
        *,
        cycle_accurate: bool,
        branch_broadcast: bool,
        counted_through_overflow: bool,
        threads: bool,
    ) -> None: ...
    def feed(self, packets: Packets) -> Records: ...
    def finish(self) -> Records: ...
    def lost(self, index: int) -> None: ...
