from ._program import InstructionTable
from ._waypoints import WaypointFlow

class Etmv4Flow(WaypointFlow):
    def __init__(
        self,
        program: InstructionTable,
        *,
        cycle_accurate: bool,
        return_stack: bool,
        waits: bool,
        embedded: bool,
        transactions: bool,
        deepest: int,
        threads: bool,
        assumes: bool,
    ) -> None: ...
