"""How a recorder divides the memory that it may take: rings, rows on their way to the disk, threads that have ended.

Detail goes before rows. Less memory first means smaller rings and parts, which lose nothing as long as the recorder
comes in time. Then fewer of the threads that have ended have a ledger of their own: the others are added up. Rows are
lost last, where a ring is full before it is read. Whatever is lost is counted (docs/losses.md).

The figures of what each takes are measured, on a machine with 2 processors and 170 threads.
"""

from __future__ import annotations

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux.bpf.rings.transitions import MAX_THREAD_RECORDS, words_of_rings
from headway.linux.options import MeasureOptions
from headway.linux.procfs.memory import Room
from headway.linux.sources.ebpf import footprint
from headway.linux.sources.ebpf.options import EXIT_BYTES, MAX_ENDED, MIN_THREADS
from headway.recording.writer import ROWS_OF_A_PART

__all__ = ["MemoryPlan", "Recorded", "default_memory", "least_memory", "plan_memory"]

PROCESS = 112 << 20
"""Bytes of a recorder without rows and threads: Python, its libraries, Arrow's pools."""
ROW = 400
"""Bytes of a row of the largest part: those of parts that are collected, wait and are sorted and encoded at a time."""
DECODED = 100
"""Bytes of a row that has been read of a ring and waits to be taken, while the room for more is made."""
ENDED = 8 << 10
"""Bytes of a thread that has ended: its ledger, and its rows of the table ``states`` while that is written. There are
as many that are added up as are kept one by one."""
KEPT = 512
"""Bytes of a thread that a part on the disk names, where parts are dropped."""
_SAMPLED = 68 << 10
"""Bytes of the buffer of a thread's samples."""
_SYMBOLS = 64 << 20
"""Bytes of the tables of call frames and symbols of what the programs have mapped, and of the stacks."""
LARGEST_STEP = 11
"""How often rings and parts are halved at most."""
_FEWEST = 256
"""Threads that can be born, and that are kept after their end, at least."""
_FULL_STEPS = 4
"""So often rings and parts are halved before there is room for fewer threads, because their rows are lost with them."""
_SMALLEST_RING = 1 << 10
_SMALLEST_PART = 1 << 14
_SMALLEST_EXITS = 1 << 18
_SHARE = 8
"""One part in so many is for threads that have ended, and half of that for those that parts on the disk name."""
_ALONE, _PROCESSOR = 512 << 20, 256 << 20
"""The most that is taken where nobody says how much: whatever the machine, and for each processor."""
_MACHINE = 4
"""One part in so many of the room that the machine has is taken at most."""
_MARGIN = 16
"""One part in so many of what a control group allows is left."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What decides how much memory recording needs."""

    cpus: int
    """Processors that there can ever be."""
    threads: int
    """Threads that live now."""
    measure: MeasureOptions
    counting: bool = False
    """Whether events are counted by state (`footprint.counts_events`)."""
    forget: bool = False
    """Whether threads that have ended are forgotten while recording goes on (the flight recorder)."""
    limited: bool = False
    """Whether parts on the disk are dropped while recording goes on."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The sizes of what a recorder consists of."""

    need: int
    """Bytes that it takes at most."""
    ring_words: int
    """Words of each processor's ring of spans: `BpfSource`."""
    max_threads: int
    exit_bytes: int
    max_ended: int
    rows: int
    """Rows of a part (`RecordingWriter`)."""
    take_rows: int
    """Rows of a batch (`Recorder`)."""
    kept_threads: int
    """Threads that all parts on the disk may name, where parts are dropped."""


def plan_memory(limit: int, recorded: Recorded) -> MemoryPlan:
    """Return the largest sizes that take at most ``limit`` bytes. Raises HeadwayError if the least takes more."""
    for step in range(LARGEST_STEP + 1):
        found = _plan(limit, step, recorded)
        if found.need <= limit:
            return found
    raise HeadwayError(
        f"recording needs {_mib(least_memory(recorded))} MiB of memory here, and may take {limit >> 20}",
        "give more with --memory, or raise the limit of the control group",
    )


def least_memory(recorded: Recorded) -> int:
    """Return the least bytes that `plan_memory` accepts."""
    low, high = 0, 1 << 40
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _plan(middle, LARGEST_STEP, recorded).need <= middle else (middle + 1, high)
    return low


def default_memory(room: Room | None, recorded: Recorded) -> int:
    """Return the bytes that a recorder takes at most where nobody says how many."""
    ample = _ALONE + recorded.cpus * _PROCESSOR
    if room is None:
        return ample
    if room.limited_by:
        return min(ample, room.size - room.size // _MARGIN)
    return min(ample, max(room.size // _MACHINE, min(least_memory(recorded), room.size)))


def _plan(limit: int, step: int, recorded: Recorded) -> MemoryPlan:
    cpus = recorded.cpus
    words = words_of_rings(cpus)[0]
    words, absences = words_of_rings(
        cpus, max(words >> step, min(words, _SMALLEST_RING)), stacks=recorded.measure.stacks
    )
    fewest = max(recorded.threads * 3 // 2, recorded.threads + _FEWEST)
    threads = min(max(MIN_THREADS >> max(step - _FULL_STEPS, 0), fewest), MAX_THREAD_RECORDS - 1)
    exits = max(EXIT_BYTES >> step, _SMALLEST_EXITS)
    rows = max(ROWS_OF_A_PART >> step, _SMALLEST_PART)
    take = rows // 4
    # A row has a word at least, and an absence three.
    batch = take + cpus * (words + (absences // 3 if recorded.measure.stacks else absences))
    of_ended = 0 if recorded.forget else min(2 * MAX_ENDED * ENDED, max(limit // _SHARE, 2 * _FEWEST * ENDED))
    of_kept = max(limit // _SHARE // 2, 2 * threads * KEPT) if recorded.limited else 0
    need = (
        PROCESS
        + footprint.PROGRAMS
        + footprint.of_threads(
            threads + 1, cpus, recorded.measure, intervals=recorded.forget, counting=recorded.counting
        )
        + footprint.of_rings(cpus, (words, absences))
        + footprint.of_stacks(recorded.measure)
        + (recorded.threads * _SAMPLED + _SYMBOLS if recorded.measure.stacks else 0)
        + exits
        + ROW * max(rows + take, batch)
        + DECODED * batch
        + of_ended
        + of_kept
    )
    return MemoryPlan(need, words, threads, exits, of_ended // (2 * ENDED), rows, take, of_kept // KEPT)


def _mib(size: int) -> int:
    return -(-size >> 20)
