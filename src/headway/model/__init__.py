"""The vocabulary and the laws: states, cells, ledger, indices, quality. This room imports nothing else of headway."""

from .cause import Behind, Cause, CauseKey, add_causes, list_causes, subtract_causes, with_all_holders, within
from .cell import Cell
from .counted import Counted
from .groups import Group, GroupBy, add_times, grouped
from .hotspots import Hotspot, StackShare, StateSummary, function_of, innermost_first, summaries, unsampled
from .indices import (
    EXACT,
    Amounts,
    Indices,
    Precision,
    amounts_of,
    indices_of,
    interrupt_time,
    is_interrupt,
    listed,
    processor_time,
    time_by_kind,
)
from .kernel_clock import KernelClock
from .kinds import KINDS, Kind, kind_of
from .ledger import Ledger, Overhead, Processor, Thread, Window, add_states, merge, since, unit_of, violations
from .losses import KNOWN_LOSSES, Loss
from .profile import PARTS, Frame, Profile, SampleColumns, is_exact, matches, part_of, sampling_error
from .quality import Quality
from .transitions import NO_STATE, Batch, OpenState, ThreadSeen, Transitions
from .utilisation import ALL, FIGURES, Sample, Utilisation, across, joined

__all__ = [
    "ALL",
    "EXACT",
    "FIGURES",
    "KINDS",
    "KNOWN_LOSSES",
    "NO_STATE",
    "PARTS",
    "Amounts",
    "Batch",
    "Behind",
    "Cause",
    "CauseKey",
    "Cell",
    "Counted",
    "Frame",
    "Group",
    "GroupBy",
    "Hotspot",
    "Indices",
    "KernelClock",
    "Kind",
    "Ledger",
    "Loss",
    "OpenState",
    "Overhead",
    "Precision",
    "Processor",
    "Profile",
    "Quality",
    "Sample",
    "SampleColumns",
    "StackShare",
    "StateSummary",
    "Thread",
    "ThreadSeen",
    "Transitions",
    "Utilisation",
    "Window",
    "across",
    "add_causes",
    "add_states",
    "add_times",
    "amounts_of",
    "function_of",
    "grouped",
    "indices_of",
    "innermost_first",
    "interrupt_time",
    "is_exact",
    "is_interrupt",
    "joined",
    "kind_of",
    "list_causes",
    "listed",
    "matches",
    "merge",
    "part_of",
    "processor_time",
    "sampling_error",
    "since",
    "subtract_causes",
    "summaries",
    "time_by_kind",
    "unit_of",
    "unsampled",
    "violations",
    "with_all_holders",
    "within",
]
