from headway_trace._edges import EdgeClock, SliceEdges

from ._flow import ThreadRows
from .clock import Clock

class TickClock(EdgeClock):
    def __init__(self, clock: Clock) -> None: ...

class ThreadSlices:
    def __init__(self, edges: SliceEdges, track: int, unit: int, least: int) -> None: ...
    def add(self, rows: ThreadRows) -> None: ...
