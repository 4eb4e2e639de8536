from ._packets import Packets
from ._program import InstructionTable
from ._records import Records

class PtmFlow:
    stretches: int
    contradictions: int
    left: int
    visited: int
    waiting: bool
    def __init__(
        self,
        program: InstructionTable,
        *,
        cycle_accurate: bool,
        branch_broadcast: bool,
        return_stack: bool,
        barriers: bool,
        threads: bool,
    ) -> None: ...
    def begins(self) -> None: ...
    def feed(self, packets: Packets) -> Records: ...
    def more(self) -> Records: ...
    def finish(self) -> Records: ...
    def lost(self, index: int) -> None: ...
