"""The vocabulary and the laws: states, kinds, cells, ledger, indices, quality. Imports nothing else of headway."""

from .cell import Cell
from .indices import EXACT, Indices, Precision, indices_of, interrupt_time, time_by_kind
from .kinds import Kind, kind_of
from .ledger import Ledger, Overhead, Processor, Thread, Window, add_states, merge, since, violations
from .quality import Quality

__all__ = [
    "EXACT",
    "Cell",
    "Indices",
    "Kind",
    "Ledger",
    "Overhead",
    "Precision",
    "Processor",
    "Quality",
    "Thread",
    "Window",
    "add_states",
    "indices_of",
    "interrupt_time",
    "kind_of",
    "merge",
    "since",
    "time_by_kind",
    "violations",
]
