from ._program import InstructionTable
from ._waypoints import WaypointFlow

class PtmFlow(WaypointFlow):
    def __init__(
        self,
        program: InstructionTable,
        *,
        cycle_accurate: bool,
        branch_broadcast: bool,
        return_stack: bool,
        barriers: bool,
        threads: bool,
        assumes: bool,
    ) -> None: ...
