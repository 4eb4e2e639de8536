"""The vocabulary and the laws: states, cells, ledger, indices, quality, advice. Imports nothing else of headway."""

from .accounting import Accounts, Level, Position, Step, Tally, Transition, level_of
from .advice import Advice, advise
from .cause import Behind, Cause, CauseKey, add_causes, list_causes, subtract_causes, within
from .cell import Cell
from .counted import Counted
from .facilities import Facilities, Interrupt
from .indices import (
    EXACT,
    Amounts,
    Indices,
    Precision,
    amounts_of,
    indices_of,
    interrupt_time,
    processor_time,
    time_by_kind,
)
from .kinds import Kind, kind_of
from .ledger import Ledger, Overhead, Processor, Thread, Window, add_states, merge, since, unit_of, violations
from .quality import Quality
from .references import MOST, References
from .remedy import Remedy
from .utilisation import ALL, FIGURES, Sample, Utilisation, across, joined

__all__ = [
    "ALL",
    "EXACT",
    "FIGURES",
    "MOST",
    "Accounts",
    "Advice",
    "Amounts",
    "Behind",
    "Cause",
    "CauseKey",
    "Cell",
    "Counted",
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
    "Sample",
    "Step",
    "Tally",
    "Thread",
    "Transition",
    "Utilisation",
    "Window",
    "across",
    "add_causes",
    "add_states",
    "advise",
    "amounts_of",
    "indices_of",
    "interrupt_time",
    "joined",
    "kind_of",
    "level_of",
    "list_causes",
    "merge",
    "processor_time",
    "since",
    "subtract_causes",
    "time_by_kind",
    "unit_of",
    "violations",
    "within",
]
