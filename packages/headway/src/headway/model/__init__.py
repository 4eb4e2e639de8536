"""The vocabulary and the laws: states, cells, ledger, indices, quality. This room imports nothing else of headway.

What only recordings, profiles and utilisation need is imported when it is first used.
"""

from typing import TYPE_CHECKING

from headway.lazy import lazily

from .cause import Behind, Cause, CauseKey, add_causes, list_causes, subtract_causes, with_all_holders, within
from .cell import Cell
from .counted import Counted
from .durations import (
    DIVIDED_BY_SAMPLES,
    MAX_PARTS,
    N_POWERS,
    Buckets,
    Durations,
    Longest,
    StateDurations,
    add_durations,
    bucket_of,
    known_durations,
    limit_of,
    subtract_durations,
)
from .estimate import (
    RUNNING,
    SPINNING,
    USER,
    Estimate,
    ModeCycles,
    add_sampled,
    divide,
    divide_by_mode,
    subtract_sampled,
    wilson,
)
from .groups import NO_CGROUP, Group, GroupBy, add_times, grouped
from .indices import (
    EXACT,
    Amounts,
    Indices,
    Precision,
    amounts_in_time,
    amounts_of,
    indices_of,
    interrupt_time,
    is_interrupt,
    listed,
    observer_share,
    processor_time,
    time_by_kind,
    undivided_time,
)
from .kernel_clock import KernelClock
from .kinds import KINDS, Kind, kind_of
from .ledger import Ledger, Overhead, Processor, Thread, Window, add_states, merge, since, unit_of, violations
from .losses import KNOWN_LOSSES, Loss, every_loss, loss_of
from .origin import Origin, origin_of, parse_path
from .quality import Quality
from .ready import ABOUT_PARTS, READY, READY_PARTS, count_of_durations, time_with_causes
from .tasks import (
    NO_TASK,
    OTHER_TASKS,
    Task,
    TraceContext,
    add_tasks,
    fitted,
    merged_by_name,
    state_of_tasks,
    subtract_tasks,
    tiles,
)

if TYPE_CHECKING:
    from .hotspots import Hotspot, StackShare, StateSummary, function_of, innermost_first, summaries, unsampled
    from .profile import PARTS, Collection, Frame, Profile, SampleColumns, is_exact, matches, part_of, sampling_error
    from .transitions import NO_STATE, Batch, OpenState, ThreadSeen, Transitions
    from .utilisation import ALL, FIGURES, Sample, Utilisation, across, joined
else:
    __getattr__ = lazily(
        __name__,
        {
            ".hotspots": "Hotspot StackShare StateSummary function_of innermost_first summaries unsampled",
            ".profile": "PARTS Collection Frame Profile SampleColumns is_exact matches part_of sampling_error",
            ".transitions": "NO_STATE Batch OpenState ThreadSeen Transitions",
            ".utilisation": "ALL FIGURES Sample Utilisation across joined",
        },
    )

__all__ = [
    "ABOUT_PARTS",
    "ALL",
    "DIVIDED_BY_SAMPLES",
    "EXACT",
    "FIGURES",
    "KINDS",
    "KNOWN_LOSSES",
    "MAX_PARTS",
    "NO_CGROUP",
    "NO_STATE",
    "NO_TASK",
    "N_POWERS",
    "OTHER_TASKS",
    "PARTS",
    "READY",
    "READY_PARTS",
    "RUNNING",
    "SPINNING",
    "USER",
    "Amounts",
    "Batch",
    "Behind",
    "Buckets",
    "Cause",
    "CauseKey",
    "Cell",
    "Collection",
    "Counted",
    "Durations",
    "Estimate",
    "Frame",
    "Group",
    "GroupBy",
    "Hotspot",
    "Indices",
    "KernelClock",
    "Kind",
    "Ledger",
    "Longest",
    "Loss",
    "ModeCycles",
    "OpenState",
    "Origin",
    "Overhead",
    "Precision",
    "Processor",
    "Profile",
    "Quality",
    "Sample",
    "SampleColumns",
    "StackShare",
    "StateDurations",
    "StateSummary",
    "Task",
    "Thread",
    "ThreadSeen",
    "TraceContext",
    "Transitions",
    "Utilisation",
    "Window",
    "across",
    "add_causes",
    "add_durations",
    "add_sampled",
    "add_states",
    "add_tasks",
    "add_times",
    "amounts_in_time",
    "amounts_of",
    "bucket_of",
    "count_of_durations",
    "divide",
    "divide_by_mode",
    "every_loss",
    "fitted",
    "function_of",
    "grouped",
    "indices_of",
    "innermost_first",
    "interrupt_time",
    "is_exact",
    "is_interrupt",
    "joined",
    "kind_of",
    "known_durations",
    "limit_of",
    "list_causes",
    "listed",
    "loss_of",
    "matches",
    "merge",
    "merged_by_name",
    "observer_share",
    "origin_of",
    "parse_path",
    "part_of",
    "processor_time",
    "sampling_error",
    "since",
    "state_of_tasks",
    "subtract_causes",
    "subtract_durations",
    "subtract_sampled",
    "subtract_tasks",
    "summaries",
    "tiles",
    "time_by_kind",
    "time_with_causes",
    "undivided_time",
    "unit_of",
    "unsampled",
    "violations",
    "wilson",
    "with_all_holders",
    "within",
]
