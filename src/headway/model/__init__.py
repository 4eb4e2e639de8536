"""The vocabulary and the laws: states, cells, ledger, indices, quality, advice. Imports nothing else of headway."""

from .accounting import Accounts, Level, Position, Step, Tally, Transition, level_of
from .advice import Advice, advise
from .cause import Behind, Cause
from .cell import Cell
from .facilities import Facilities, Interrupt
from .indices import EXACT, Indices, Precision, indices_of, interrupt_time, processor_time, time_by_kind
from .kinds import Kind, kind_of
from .ledger import Ledger, Overhead, Processor, Thread, Window, add_states, merge, since, violations
from .quality import Quality
from .references import MOST, References
from .remedy import Remedy

__all__ = [
    "EXACT",
    "MOST",
    "Accounts",
    "Advice",
    "Behind",
    "Cause",
    "Cell",
    "Facilities",
    "Indices",
    "Interrupt",
    "Kind",
    "Ledger",
    "Level",
    "Overhead",
    "Position",
    "Precision",
    "Processor",
    "Quality",
    "References",
    "Remedy",
    "Step",
    "Tally",
    "Thread",
    "Transition",
    "Window",
    "add_states",
    "advise",
    "indices_of",
    "interrupt_time",
    "kind_of",
    "level_of",
    "merge",
    "processor_time",
    "since",
    "time_by_kind",
    "violations",
]
