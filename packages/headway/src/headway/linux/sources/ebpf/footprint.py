"""How much of the kernel's memory the maps of the eBPF programs take, which counts as that of whoever loads them."""

from __future__ import annotations

from headway.linux.bpf.shared.layout import PUBLISHED, STATES, size_of
from headway.linux.options import MeasureOptions
from headway.linux.perf import counters

from .mode_counters import ModeCounters

__all__ = ["PROGRAMS", "counts_events", "of_rings", "of_stacks", "of_threads"]

PROGRAMS = 8 << 20
"""Bytes of the programs, of what the verifier needs meanwhile, and of the maps that have one size."""
_NUMBERS = 128
"""Bytes of a thread in the maps that number processes and free records, and in the kernel's own storage of a task."""
_PUBLISHED = PUBLISHED["PUBLISHED_UNIT"] * (1 + PUBLISHED["STATE_UNITS"])
"""Bytes of a thread in the map of one user."""
_PROCESSOR = 64 << 10
_WORD = 8
_HASHED = 72
"""Bytes that an entry of a hash map takes beside its value, with its key."""
_WALKED = 32 << 20
"""Bytes of the maps by which stacks are walked, with the rows of a few programs."""


def counts_events(measure: MeasureOptions) -> bool:
    """Return whether events are counted by state: those that were asked for, or what the processor has.

    Raises HeadwayError if an event is not known.
    """
    return bool(ModeCounters(counters.plan(measure.events), measure).plan.events)


def of_threads(n: int, cpus: int, measure: MeasureOptions, *, intervals: bool, counting: bool) -> int:
    """Return the bytes of the maps that have an entry for each of ``n`` threads, or for each processor.

    ``intervals``: snapshots are taken while measuring goes on. ``counting``: `counts_events`.
    """
    times = 2 if intervals or measure.changes else 1
    each = size_of("thread_record") + (times - 1) * size_of("thread_snapshot") + _NUMBERS + cpus * _WORD
    each += _PUBLISHED if measure.publish else 0
    each += times * size_of("thread_counts") if counting else 0
    of_processor = _PROCESSOR + (times * size_of("processor_counts") if counting else 0)
    return n * each + cpus * of_processor + (_of_tasks(times) if measure.tasks else 0)


def _of_tasks(times: int) -> int:
    from .programs import TASK_RECORDS

    names = 3 * STATES["N_TASK_NAMES"] * size_of("task_name")
    return names + times * TASK_RECORDS * size_of("task_record")


def of_rings(cpus: int, words: tuple[int, int]) -> int:
    """Return the bytes of the rings of transitions: of spans and of absences, by their words on each processor."""
    return cpus * sum(words) * _WORD


def of_stacks(measure: MeasureOptions) -> int:
    """Return the bytes of the maps of stacks, and of those by which they are walked.

    The rows of what many programs have mapped take more: 8 bytes for each row of call frame information.
    """
    if not measure.stacks:
        return 0
    from headway.linux.bpf.samples.stacks import RING_BYTES, STACKS

    return STACKS * (size_of("stack") + _HASHED) + RING_BYTES + (_WALKED if measure.unwind else 0)
