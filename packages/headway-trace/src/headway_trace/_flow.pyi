from typing import Any

from ._packets import Packets
from ._program import InstructionTable
from ._records import Records

class Flow:
    searching: bool
    stretches: int
    contradictions: int
    left: int
    visited: int
    searches: int
    given_up: int
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
    @property
    def remembers(self) -> bool: ...
    def remember(self) -> None: ...
    def history(self) -> bytes: ...
    def save(self) -> list[Any]: ...
    def load(self, state: list[Any], history: bytes) -> None: ...
