from collections.abc import Sequence
from mmap import mmap

from headway.linux.perf.counters import CounterPlan

from ..histograms._durations import DurationMaps

class MappedMemory:
    torn: int
    def __init__(
        self,
        maps: tuple[mmap, ...],
        n_cpus: int,
        max_thread_records: int,
        polls: Sequence[str] = ...,
        functions: Sequence[str] = ...,
        plan: CounterPlan | None = ...,
        counts: tuple[mmap, ...] = ...,
        tasks: tuple[mmap, ...] = ...,
        max_task_records: int = ...,
        durations: DurationMaps | None = ...,
    ) -> None: ...
    @property
    def durations(self) -> DurationMaps | None: ...
    def state_name(self, state: int) -> str: ...
    def thread_records_used(self) -> int: ...
    def now(self) -> int: ...
