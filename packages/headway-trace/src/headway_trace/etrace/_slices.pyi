from collections.abc import Callable

from headway_trace._edges import SliceEdges

from ._decoder import EtraceRows

class SourceSlices:
    def __init__(self, edges: SliceEdges, appears: Callable[[int], object]) -> None: ...
    def add(self, rows: EtraceRows) -> None: ...
    def finish(self) -> None: ...
