"""The vocabulary and the laws: states, cells, ledger, indices, quality, advice. Imports nothing else of headway."""

from .accounting import Accounts, Level, Position, Step, Tally, Transition, level_of
from .advice import Advice, References, advise
from .cause import Behind, Cause, CauseKey, add_causes, list_causes, subtract_causes, within
from .cell import Cell
from .indices import EXACT, Indices, Precision, indices_of, interrupt_time, processor_time, time_by_kind
from .kinds import Kind, kind_of
from .ledger import Ledger, Overhead, Processor, Thread, Window, add_states, merge, since, violations
from .quality import Quality

__all__ = [
    "EXACT",
    "Accounts",
    "Advice",
    "Behind",
    "Cause",
    "CauseKey",
    "Cell",
    "Indices",
    "Kind",
    "Ledger",
    "Level",
    "Overhead",
    "Position",
    "Precision",
    "Processor",
    "Quality",
    "References",
    "Step",
    "Tally",
    "Thread",
    "Transition",
    "Window",
    "add_causes",
    "add_states",
    "advise",
    "indices_of",
    "interrupt_time",
    "kind_of",
    "level_of",
    "list_causes",
    "merge",
    "processor_time",
    "since",
    "subtract_causes",
    "time_by_kind",
    "violations",
    "within",
]
