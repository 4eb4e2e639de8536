"""The options of the caller of the eBPF source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headway.dataclass import dataclass
from headway.linux.options import MeasureOptions, Selection
from headway.linux.procfs import processors

from ..ended_rows import MAX_ENDED

if TYPE_CHECKING:
    from headway.linux.bpf.samples.stacks import StackReader

__all__ = ["EXIT_BYTES", "MAX_ENDED", "MIN_THREADS", "SourceOptions", "living_threads"]

MIN_THREADS = 8192
"""There is room for so many threads at least, where the caller does not say how many."""
EXIT_BYTES = 1 << 24
"""Of the ring of ended threads: room for the totals of about 30,000 between two looks."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The arguments of `BpfSource`, checked and completed."""

    selection: Selection
    measure: MeasureOptions
    intervals: bool
    """Snapshots are taken while measuring goes on, not only at the end."""
    reads_intervals: bool
    """The caller reads while measuring goes on; otherwise snapshots are only for changes of the level."""
    forget: bool
    """Threads that have ended are in the interval in which they did, and in no reading since the beginning."""
    record: bool
    """Every transition is kept, too."""
    max_thread_records: int
    """Entries of the map of thread records, of which the first is none."""
    ring_words: tuple[int, int]
    """Words of each processor's rings of transitions: of spans, and of absences."""
    exit_bytes: int
    """Bytes of the ring of ended threads."""
    max_ended: int
    """Ended threads that are kept one by one."""
    meanwhile: Callable[[], None] | None
    """Called while the kernel verifies the programs."""
    prepared: Callable[[StackReader], None] | None = None
    """Called with the reader of stacks, if there is one, just before measuring begins."""

    @classmethod
    def of(
        cls,
        selection: Selection,
        measure: MeasureOptions,
        *,
        intervals: bool,
        forget: bool,
        max_threads: int | None,
        record: bool,
        ring_words: int | None,
        exit_bytes: int | None,
        max_ended: int | None,
        meanwhile: Callable[[], None] | None,
        prepared: Callable[[StackReader], None] | None = None,
    ) -> SourceOptions:
        """Return the options that the arguments of `BpfSource` mean on this machine."""
        max_thread_records = (max_threads or max(MIN_THREADS, living_threads() * 3 // 2)) + 1
        words = 1, 1
        if record:
            from headway.linux.bpf.rings.transitions import MAX_THREAD_RECORDS, words_of_rings

            max_thread_records = min(max_thread_records, MAX_THREAD_RECORDS)
            words = words_of_rings(processors.possible(), ring_words, stacks=measure.stacks)
        snapshots = intervals or measure.changes  # the level changes at snapshots
        return cls(
            selection,
            measure,
            snapshots,
            intervals,
            forget,
            record,
            max_thread_records,
            words,
            exit_bytes or EXIT_BYTES,
            MAX_ENDED if max_ended is None else max_ended,
            meanwhile,
            prepared,
        )


def living_threads() -> int:
    """Return how many threads there are (proc_loadavg(5), fourth field); 0: that cannot be read."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0
