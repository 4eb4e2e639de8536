"""Rows of the shared memory have each field where its name says: read from memory that the test has written."""

from __future__ import annotations

import mmap
import struct

import pytest

from headway.linux.bpf.reading.memory import BpfMaps
from headway.linux.bpf.shared._layout import CONSTANTS
from headway.linux.bpf.shared.layout import CAUSES, STATES, fields_of, offset_of, size_of
from headway.linux.bpf.threads.rows import (
    LivingThread,
    OpenStack,
    OpenWait,
    RecordedThread,
    UnfinishedSpan,
    WrittenWords,
)

pytestmark = pytest.mark.unit

CPUS, RECORDS = 2, 8
AT = 10_000
WAITING, RUNNING = 3, 5
"""Thread records that are in use."""
WAIT = STATES["WAIT_FUTEX"]


class Memory:
    """The maps of the programs, and how to write fields of their structures."""

    def __init__(self) -> None:
        names = ("processor", "processor", "thread_record", "thread_snapshot", "control", "tag_name")
        room = (CPUS, CPUS, RECORDS, RECORDS, 1, 4096)
        self.maps = tuple(mmap.mmap(-1, size_of(name) * n) for name, n in zip(names, room, strict=True))
        self.processors, _, self.thread_records, _, self.control, _ = self.maps

    def write(self, memory: mmap.mmap, structure: str, place: int = 0, **values: int | bytes) -> None:
        for name, value in values.items():
            at, form = fields_of(structure)[name]
            struct.pack_into(f"={form}", memory, place * size_of(structure) + at, value)

    def add_cell(self, record: int, state: int, time: int) -> None:
        """Write the one cell of a thread record, which begins as a snapshot does."""
        self.write(self.thread_records, "thread_record", record, used=1)
        at = record * size_of("thread_record") + offset_of("thread_snapshot", "cells")
        struct.pack_into("=QQ", self.thread_records, at, time, state << CONSTANTS["COUNT_BITS"] | 2)


@pytest.fixture
def memory() -> BpfMaps:
    """A thread that waits, and one that runs on the second processor."""
    made = Memory()
    maps = BpfMaps(made.maps, CPUS, RECORDS)
    made.write(made.control, "control", thread_records=RECORDS, snapshot=7)
    made.write(
        *(made.thread_records, "thread_record", WAITING),
        birth=1_000,
        since=4_000,
        tid=31,
        pid=30,
        state=WAIT,
        resume=STATES["USER"],
        object=0xABC,
        object_kind=CAUSES["OBJECT_ADDRESS"],
        user_stack=71,
        kernel_stack=72,
        name=b"waiting",
    )
    made.write(
        *(made.thread_records, "thread_record", RUNNING),
        birth=2_000,
        tid=51,
        pid=50,
        cpu=2,
        name=b"running",
    )
    made.write(
        *(made.processors, "processor", 1),
        since=6_000,
        thread_record=RUNNING,
        state=STATES["USER"],
        written=17,
        written_absences=19,
    )
    made.add_cell(WAITING, STATES["USER"], 3_000)
    made.add_cell(RUNNING, STATES["USER"], 4_000)
    return maps


def test_living_threads_are_named(memory: BpfMaps) -> None:
    living = [LivingThread(tid=31, pid=30, birth=1_000), LivingThread(tid=51, pid=50, birth=2_000)]
    assert memory.living() == living
    assert memory.unmarked() == living


def test_a_thread_in_a_record_says_what_it_does_and_since_when(memory: BpfMaps) -> None:
    assert memory.look_at(range(RECORDS)) == [
        RecordedThread(WAITING, tid=31, pid=30, name="waiting", birth=1_000, cpu=-1, state=WAIT, since=4_000),
        RecordedThread(RUNNING, tid=51, pid=50, name="running", birth=2_000, cpu=1, state=STATES["USER"], since=6_000),
    ]


def test_an_open_wait_says_what_it_is_for(memory: BpfMaps) -> None:
    kind = CAUSES["OBJECT_ADDRESS"]
    assert memory.open_waits() == [
        OpenWait(tid=31, pid=30, birth=1_000, since=4_000, state=WAIT, kind=kind, object=0xABC)
    ]


def test_an_open_stack_says_where_and_for_how_long(memory: BpfMaps) -> None:
    assert memory.open_stacks(AT) == [
        OpenStack(birth=1_000, user=71, kernel=72, tid=31, pid=30, state=WAIT, time=6_000, record=WAITING)
    ]


def test_unfinished_spans_are_of_processors_and_of_threads_that_are_off(memory: BpfMaps) -> None:
    user = STATES["USER"]

    def span(since: int, duration: int, cpu: int, record: int, state: int, entries: int) -> UnfinishedSpan:
        return UnfinishedSpan(since, duration, taken=0, cpu=cpu, record=record, state=state, entries=entries)

    assert memory.unfinished(AT, [1]) == [
        span(6_000, 4_000, cpu=1, record=RUNNING, state=user, entries=0),
        span(AT, 0, cpu=-1, record=RUNNING, state=user, entries=1),
        span(4_000, 6_000, cpu=-1, record=WAITING, state=WAIT, entries=1),
        span(AT, 0, cpu=-1, record=WAITING, state=user, entries=1),
    ]


def test_what_was_charged_beyond_the_snapshot_is_taken_back(memory: BpfMaps) -> None:
    (span,) = (each for each in memory.unfinished(5_000, [1]) if each.cpu == 1)
    assert (span.since, span.duration, span.taken) == (5_000, 0, 1_000)


def test_the_words_of_each_ring_are_named(memory: BpfMaps) -> None:
    assert memory.written() == [WrittenWords(0, 0), WrittenWords(spans=17, absences=19)]


def test_a_thread_row_has_its_thread_and_what_it_did(memory: BpfMaps) -> None:
    waiting, running = memory.read_threads(AT)
    assert (waiting.tid, waiting.pid, waiting.name, waiting.birth, waiting.end) == (31, 30, "waiting", 1_000, 0)
    assert (running.tid, running.pid, running.name, running.birth, running.end) == (51, 50, "running", 2_000, 0)
    assert {name: cell.time for name, cell in waiting.cells.items()} == {"user": 3_000, "wait.futex": 6_000}
    assert {name: cell.time for name, cell in running.cells.items()} == {"user": 8_000}
    assert memory.torn == 0
