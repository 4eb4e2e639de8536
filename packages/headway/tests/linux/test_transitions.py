"""The decoder of the rings of transitions: what was written is what is read, and nothing written there can harm it."""

from __future__ import annotations

import ctypes
import weakref
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiling import shared_library

from headway.linux.bpf.rings._transitions import TransitionDecoder
from headway.linux.bpf.rings.transitions import TransitionReader, words_of_rings
from headway.linux.bpf.shared.layout import READY_PARTS, RING, RING_RECORDS, STATES
from headway.linux.bpf.threads.rows import EndedThread, RecordedThread, UnfinishedSpan

if TYPE_CHECKING:
    from headway.linux.bpf.rings._transitions import Columns

START = 1_000_000_000_000
WORDS = 1 << 10
THREAD_RECORDS = 8
N_STATES = STATES["N_STATES"]
UNKNOWN = STATES["UNKNOWN"]
WORD = (1 << 64) - 1


class Ring:
    """The words of one ring, put there by a test."""

    def __init__(self, memory: memoryview, cpu: int, words: int = WORDS) -> None:
        self._words = memory[cpu * words : (cpu + 1) * words]
        self.written = 0

    def put(self, *words: int) -> None:
        for word in words:
            self._words[self.written % len(self._words)] = word & WORD
            self.written += 1


def memory(n_cpus: int, words: int = WORDS) -> memoryview:
    return memoryview(bytearray(8 * n_cpus * words)).cast("Q")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The code of the eBPF programs that writes the rings."""
    found = shared_library("ring_writer", tmp_path_factory.mktemp("ring_writer"))
    number, word, address = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
    found.new_machine.restype = address
    found.new_machine.argtypes = [number, address, number, address, number, address, number]
    found.free_machine.argtypes = [address]
    found.on.argtypes = [address, number]
    found.charge_span.argtypes = [number, word, word, word, number, word]
    found.record_amount.argtypes = [number, number, word, word, word]
    found.record_move.argtypes = [number, number, number, word, word]
    found.record_absence.argtypes = [number, number, word, word]
    found.leave_with_stacks.argtypes = [number, word, word, word, word, number]
    for name in ("written", "written_absences", "lost_spans"):
        getattr(found, name).restype = word
    return found


class Machine:
    """Rings that the code of the eBPF programs writes; the memory is ``spans``, ``absences`` and ``tails``."""

    def __init__(
        self,
        library: ctypes.CDLL,
        n_cpus: int,
        words: int = WORDS,
        rings: tuple[bytearray, ...] | None = None,
    ) -> None:
        self.library = library
        self._rings = rings or (bytearray(8 * n_cpus * words), bytearray(8 * n_cpus * words), bytearray(64 * n_cpus))
        self.spans, self.absences, self.tails = (memoryview(ring).cast("Q") for ring in self._rings)
        self._held = [(ctypes.c_char * len(ring)).from_buffer(ring) for ring in self._rings]
        at = [ctypes.addressof(held) for held in self._held]
        self._machine = library.new_machine(n_cpus, at[0], words, at[1], words, at[2], THREAD_RECORDS)
        weakref.finalize(self, library.free_machine, self._machine)

    def on(self, cpu: int) -> ctypes.CDLL:
        """Return the code, which runs on this processor from now on."""
        self.library.on(self._machine, cpu)
        return self.library

    def written(self, cpu: int) -> tuple[int, int]:
        code = self.on(cpu)
        return code.written(), code.written_absences()

    def has_been_read(self, cpu: int, until: tuple[int, int]) -> None:
        """There is room up to a ring's length after what was read."""
        self.tails[8 * cpu], self.tails[8 * cpu + 1] = until


@dataclass
class Processor:
    """A processor that does things, and what it added up."""

    machine: Machine
    cpu: int = 0
    time: int = START
    record: int = 0
    cells: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))
    last: tuple[int, int, int] | None = None
    """State, time charged and count of the last span."""

    def charge(self, duration: int, taken: int, state: int, left: int) -> None:
        end = self.time + duration
        self.machine.on(self.cpu).charge_span(self.record, self.time, end, duration - taken, state, left)
        self.time = end
        self._add(state, duration - taken, left, taken)
        self.last = state, duration - taken, left

    def amount(self, state: int, time: int, count: int) -> None:
        self.machine.on(self.cpu).record_amount(self.record, state, time & WORD, count & WORD, self.time)
        self._add(state, time, count, -time)

    def move(self, to: int) -> None:
        if self.last is None:
            return
        state, time, count = self.last
        count = min(count, 1)  # others are not moved
        self.machine.on(self.cpu).record_move(self.record, state, to, time, count)
        self._add(state, -time, -count, 0)
        self._add(to, time, count, 0)
        self.last = None

    def switch(self, record: int) -> None:
        self.record, self.last = record, None

    def _add(self, state: int, time: int, count: int, taken: int) -> None:
        cell = self.cells[self.record, state]
        cell[0] += time
        cell[1] += count
        self.cells[self.record, -1][2] += taken


def sums(parts: list[Columns], cpu: int) -> dict[tuple[int, int], list[int]]:
    """By thread record (which is the thread's number here, and 0 for none) and state; -1: what was taken."""
    found: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for part in parts:
        _, durations, takens, cpus, threads, states, counts, *_ = (column.tolist() for column in part)
        for on, thread, state, duration, taken, count in zip(
            cpus, threads, states, durations, takens, counts, strict=True
        ):
            if on == cpu:
                cell = found[max(thread, 0), state]
                cell[0] += duration - taken
                cell[1] += count
                found[max(thread, 0), -1][2] += taken
    return {key: cell for key, cell in found.items() if any(cell)}


def decoder_of(library: ctypes.CDLL, n_cpus: int = 1, words: int = WORDS) -> tuple[TransitionDecoder, Machine]:
    machine = Machine(library, n_cpus, words)
    decoder = TransitionDecoder(machine.spans, machine.absences, n_cpus, (words, words), THREAD_RECORDS, START, rows=1)
    for record in range(1, THREAD_RECORDS):
        decoder.has(record, START, record)
    return decoder, machine


STATE = st.integers(1, N_STATES - 1)
KIND = st.sampled_from(sorted(RING_RECORDS.values()))
DURATION = st.one_of(st.integers(0, 10_000), st.integers(0, 1 << 40))
STEPS = st.one_of(
    st.tuples(st.just("charge"), DURATION, st.floats(0, 1), STATE, st.sampled_from([0, 1, 1, 70_000])),
    st.tuples(st.just("amount"), STATE, st.integers(-(1 << 34), 1 << 34), st.integers(-(1 << 33), 1 << 33)),
    st.tuples(st.just("move"), STATE),
    st.tuples(st.just("switch"), st.integers(0, THREAD_RECORDS - 1)),
    st.tuples(st.just("read")),
    st.tuples(st.just("take")),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), STEPS), max_size=80), st.integers(5, 8))
def test_rows_add_up_to_what_was_charged_whenever_they_are_read(
    library: ctypes.CDLL, steps: list[tuple[int, tuple[Any, ...]]], room: int
) -> None:
    decoder, machine = decoder_of(library, 2, 1 << room)
    processors = [Processor(machine, cpu) for cpu in range(2)]
    parts: list[Columns] = []
    last = START + (1 << 47)  # so that no amount is too large

    def read(horizon: int) -> None:
        decoder.read([machine.written(cpu) for cpu in range(2)], horizon, last)
        for cpu in range(2):
            machine.has_been_read(cpu, decoder.read_until(cpu))

    for cpu, (what, *how) in steps:
        match what:
            case "charge":
                duration, part, state, left = how
                processors[cpu].charge(duration, int(duration * part), state, left)
            case "amount" | "move" | "switch":
                getattr(processors[cpu], what)(*how)
            case "read":
                read(last)
            case "take":
                parts.append(decoder.take())
        if machine.written(cpu)[0] - decoder.read_until(cpu)[0] > (1 << room) - 16:
            read(last)
    read(last)
    parts.append(decoder.take())
    assert decoder.damaged == decoder.nameless == 0
    for cpu, processor in enumerate(processors):
        assert machine.on(cpu).lost_spans() == 0
        assert sums(parts, cpu) == {key: cell for key, cell in processor.cells.items() if any(cell)}
        at = START
        for part in parts:
            for time, duration, on in zip(part[0].tolist(), part[1].tolist(), part[3].tolist(), strict=True):
                if duration and on == cpu:
                    assert time == at
                    at += duration
        assert at == processor.time


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 3), st.booleans()), min_size=1, max_size=40))
def test_an_occurrence_that_was_none_is_taken_from_the_row_that_ended_with_it(
    library: ctypes.CDLL, spans: list[tuple[int, int, bool]]
) -> None:
    decoder, machine = decoder_of(library)
    processor = Processor(machine)
    processor.switch(1)
    for duration, state, dropped in spans:
        processor.charge(duration, 0, state, 1)
        if dropped:
            processor.amount(state, 0, -1)
    decoder.read([machine.written(0)], processor.time, processor.time)
    _, durations, _, _, _, states, counts, *_ = (column.tolist() for column in decoder.take())
    assert list(zip(durations, states, counts, strict=True)) == [(d, s, int(not dropped)) for d, s, dropped in spans]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(0, WORD),
            st.integers(0, 200),
            st.builds(lambda kind, rest: kind | rest << RING["RECORD_BITS"], KIND, st.integers(0, 1 << 40)),
            st.builds(lambda time: START + time, st.integers(-1000, 10_000)),
            st.builds(
                lambda duration, state: state << RING["SPAN_STATE"] | duration << RING["SPAN_DURATION"],
                st.integers(0, 5000),
                STATE,
            ),
        ),
        max_size=64,
    ),
    st.lists(st.tuples(st.integers(0, WORD), st.integers(0, WORD)), max_size=3),
    st.integers(0, 10_000),
)
def test_whatever_is_on_a_ring_no_time_is_invented(
    words: list[int], written: list[tuple[int, int]], horizon: int
) -> None:
    spans, absences = memory(1, 64), memory(1, 64)
    decoder = TransitionDecoder(spans, absences, 1, (64, 64), THREAD_RECORDS, START)
    for ring in (spans, absences):
        Ring(ring, 0, 64).put(*words)
    now = START + 10_000
    for heads in ((len(words), len(words)), *written):
        decoder.read([heads], START + horizon, now)
    time, duration, taken, cpu, _, state, *_ = decoder.take()
    assert decoder.damaged <= 2
    assert (duration >= 0).all()
    assert (time >= START).all()
    assert (time + duration <= START + horizon).all()
    assert ((state > 0) & (state < N_STATES)).all()
    assert (duration >= taken)[duration > 0].all()
    placed = (cpu == 0) & (duration > 0)
    assert (time[placed][1:] >= (time + duration)[placed][:-1]).all()


def ready_word(part: int, record: int, others: int, by: int = 0) -> int:
    """Return the first word of a time ready whose largest part is this one, with so many words of other parts."""
    return (
        RING_RECORDS["RECORD_ABSENCE"]
        | (STATES["READY_PART"] + part) << RING["RECORD_STATE"]
        | record << RING["ABSENCE_NUMBER"]
        | by << RING["ABSENCE_WOKEN_BY"]
        | others << RING["ABSENCE_WAKER"]
    )


def part_word(state: int, time: int) -> int:
    return state << RING["PART_STATE"] | time << RING["PART_TIME"]


PARTS = st.integers(0, len(READY_PARTS) - 1)


@given(PARTS, st.lists(st.tuples(PARTS, st.integers(0, 500)), max_size=len(READY_PARTS) - 1), st.integers(0, 500))
def test_a_time_ready_is_its_parts(largest: int, others: list[tuple[int, int]], left: int) -> None:
    length = left + sum(time for _, time in others)
    absences = memory(1)
    decoder = TransitionDecoder(memory(1), absences, 1, (WORDS, WORDS), THREAD_RECORDS, START)
    decoder.has(3, START - 1, 17)
    words = [ready_word(largest, 3, len(others)), START, START + length]
    words += [part_word(STATES["READY_PART"] + part, time) for part, time in others]
    Ring(absences, 0).put(*words)
    decoder.read([(0, len(words))], START + 10_000, START + 10_000)
    time, duration, taken, cpu, thread, state, count, *_ = decoder.take()
    found: dict[int, int] = defaultdict(int)
    for number, net in zip(state.tolist(), (duration - taken).tolist(), strict=True):
        found[number - STATES["READY_PART"]] += net
    expected: dict[int, int] = defaultdict(int, {largest: left})
    for part, time_ in others:
        expected[part] += time_
    assert {part: t for part, t in found.items() if t} == {part: t for part, t in expected.items() if t}
    assert duration.tolist()[:1] == [length][: len(duration)]
    assert (time + duration == START + length).all()
    assert (thread == 17).all()
    assert (cpu == -1).all()
    assert count.sum() == (1 if len(duration) else 0)
    assert decoder.damaged == 0


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, len(READY_PARTS) + 1),
    st.integers(0, THREAD_RECORDS + 1),
    st.integers(0, len(READY_PARTS) + 2) | st.integers(0, (1 << 24) - 1),
    st.integers(0, 3),
    st.integers(-10, 1000),
    st.lists(
        st.builds(part_word, st.integers(0, (1 << RING["STATE_BITS"]) - 1), st.integers(0, 2000))
        | st.builds(part_word, PARTS.map(lambda part: STATES["READY_PART"] + part), st.integers(0, 1200))
        | st.integers(0, WORD),
        max_size=8,
    ),
)
def test_no_part_of_ready_is_longer_than_the_time_whatever_is_on_the_ring(
    largest: int, record: int, others: int, by: int, length: int, parts: list[int]
) -> None:
    absences = memory(1, 16)
    decoder = TransitionDecoder(memory(1, 16), absences, 1, (16, 16), THREAD_RECORDS, START)
    words = [ready_word(largest, record, others, by), START, START + length, *parts]
    Ring(absences, 0, 16).put(*words)
    decoder.read([(0, len(words))], START + 2000, START + 2000)
    time, duration, taken, _, _, state, *_ = decoder.take()
    assert decoder.damaged <= 1
    assert (taken <= duration).all()
    assert (duration >= 0).all()
    assert (time >= START).all()
    assert (time + duration <= START + 2000).all()
    assert ((state > 0) & (state < N_STATES)).all()
    assert int((duration - taken).sum()) == int(duration.sum()), "the parts add up to the time that was waited"


@pytest.mark.parametrize(
    "words",
    [
        [ready_word(1, 3, len(READY_PARTS))],
        [ready_word(1, 3, 1, by=1), START, START + 100, part_word(STATES["READY_PART"], 10)],
        [ready_word(1, 3, 1), START, START + 100, part_word(STATES["READY_PART"], 101)],
        [ready_word(1, 3, 2), START, START + 100, *[part_word(STATES["READY_PART"], 60)] * 2],
        [ready_word(1, 3, 1), START, START + 100, part_word(STATES["USER"], 10)],
        [ready_word(1, 3, 2), START, START + 100, part_word(STATES["READY_PART"], 10)],
    ],
    ids=["too many parts", "a waker", "a part longer than all", "parts longer than all", "no part", "a word missing"],
)
def test_parts_of_ready_that_cannot_be_are_damage_and_no_time(words: list[int]) -> None:
    absences = memory(1)
    decoder = TransitionDecoder(memory(1), absences, 1, (WORDS, WORDS), THREAD_RECORDS, START)
    Ring(absences, 0).put(*words, *[0] * (3 - len(words)))
    decoder.read([(0, max(len(words), 3))], START + 1000, START + 1000)
    assert len(decoder.take()[0]) == 0
    assert decoder.damaged == 1


def absence_word(state: int, record: int) -> int:
    return RING_RECORDS["RECORD_ABSENCE"] | state << RING["RECORD_STATE"] | record << RING["ABSENCE_NUMBER"]


@given(st.lists(st.tuples(st.sampled_from(["WAIT_FUTEX", "WAIT_PIPE"]), st.integers(0, WORD)), max_size=60))
def test_a_wait_at_a_futex_has_its_address_and_no_other_wait_has_one(waits: list[tuple[str, int]]) -> None:
    absences = memory(1)
    decoder = TransitionDecoder(memory(1), absences, 1, (WORDS, WORDS), THREAD_RECORDS, START, rows=1)
    decoder.has(3, START - 1, 17)
    ring = Ring(absences, 0)
    for at, (state, address) in enumerate(waits):
        ring.put(absence_word(STATES[state], 3), START + at, START + at + 1)
        if state == "WAIT_FUTEX":
            ring.put(address)
    decoder.read([(0, ring.written)], START + 10_000, START + 10_000)
    columns = decoder.take()
    assert columns[5].tolist() == [STATES[state] for state, _ in waits]
    assert columns[10].tolist() == [address if state == "WAIT_FUTEX" else 0 for state, address in waits]
    assert decoder.damaged == 0


def test_a_wait_at_a_futex_without_its_last_word_is_damage() -> None:
    absences = memory(1)
    decoder = TransitionDecoder(memory(1), absences, 1, (WORDS, WORDS), THREAD_RECORDS, START)
    Ring(absences, 0).put(absence_word(STATES["WAIT_FUTEX"], 3), START, START + 1)
    decoder.read([(0, 3)], START + 1000, START + 1000)
    assert len(decoder.take()[0]) == 0
    assert decoder.damaged == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["WAIT_FUTEX", "WAIT_PIPE", "READY", "UNKNOWN"]),
            st.lists(st.integers(0, 2) | st.integers(0, WORD), min_size=4, max_size=4),
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_a_wait_has_its_stacks_and_those_of_the_thread_that_woke_it(
    library: ctypes.CDLL, waits: list[tuple[str, list[int], bool]]
) -> None:
    decoder, machine = decoder_of(library)
    code = machine.on(0)
    code.take_stacks()
    for at, (state, hashes, woken) in enumerate(waits):
        code.leave_with_stacks(3, *hashes, woken)
        code.record_absence(3, STATES[state], START + at, START + at + 1)
    decoder.read([machine.written(0)], START + 10_000, START + 10_000)
    stacks = decoder.take_stacks()
    columns = decoder.take()
    assert columns[5].tolist() == [STATES[state] for state, _, _ in waits]
    found = [stacks[place].tolist() if place >= 0 else [0] * 4 for place in columns[11].tolist()]
    assert found == [
        [*hashes[:2], *(hashes[2:] if woken else (0, 0))] if state.startswith("WAIT") else [0] * 4
        for state, hashes, woken in waits
    ]
    assert decoder.damaged == 0


def test_a_wait_whose_last_stack_is_missing_is_damage() -> None:
    absences = memory(1)
    decoder = TransitionDecoder(memory(1), absences, 1, (WORDS, WORDS), THREAD_RECORDS, START)
    word = absence_word(STATES["WAIT_PIPE"], 3) ^ RING_RECORDS["RECORD_ABSENCE"] | RING_RECORDS["RECORD_STACKED"]
    Ring(absences, 0).put(word, START, START + 1, 1, 2, 3)
    decoder.read([(0, 6)], START + 1000, START + 1000)
    assert len(decoder.take()[0]) == 0
    assert decoder.damaged == 1


def test_a_span_that_was_something_else_is_that_and_not_two_corrections(library: ctypes.CDLL) -> None:
    decoder, machine = decoder_of(library)
    processor = Processor(machine)
    processor.switch(1)
    processor.charge(500, 20, STATES["USER"], 1)
    processor.move(STATES["POLL"])
    decoder.read([machine.written(0)], START + 1000, START + 1000)
    columns = decoder.take()
    assert [column.tolist() for column in columns[:7]] == [[START], [500], [20], [0], [1], [STATES["POLL"]], [1]]


def test_a_hole_is_a_span_that_is_not_known_and_of_nobody(library: ctypes.CDLL) -> None:
    decoder, machine = decoder_of(library)
    processor = Processor(machine)
    processor.switch(1)
    processor.charge(500, 0, STATES["USER"], 1)
    processor.time = START + 700
    processor.charge(100, 0, STATES["USER"], 1)
    decoder.read([machine.written(0)], START + 1000, START + 1000)
    time, duration, _, _, thread, state, *_ = decoder.take()
    assert time.tolist() == [START, START + 500, START + 700]
    assert duration.tolist() == [500, 200, 100]
    assert thread.tolist() == [1, -1, 1]
    assert state.tolist() == [STATES["USER"], UNKNOWN, STATES["USER"]]


def test_what_finds_no_room_on_the_ring_is_counted_and_is_a_hole(library: ctypes.CDLL) -> None:
    decoder, machine = decoder_of(library, words=32)
    processor = Processor(machine)
    processor.switch(2)
    for _ in range(100):
        processor.charge(10, 0, STATES["USER"], 1)
    lost = machine.on(0).lost_spans()
    decoder.read([machine.written(0)], START + 1000, START + 1000)
    machine.has_been_read(0, decoder.read_until(0))
    processor.charge(10, 0, STATES["USER"], 1)
    decoder.read([machine.written(0)], START + 2000, START + 2000)
    _, duration, _, _, thread, state, *_ = decoder.take()
    known = state == STATES["USER"]
    assert lost > 0
    assert (~known).sum() == 1
    assert duration[known].sum() == 10 * (101 - lost)
    assert duration.sum() == 10 * 101
    assert set(thread[known].tolist()) == {2}
    assert thread[~known].tolist() == [-1]


def test_what_ends_after_the_horizon_is_left_for_the_next_look(library: ctypes.CDLL) -> None:
    decoder, machine = decoder_of(library)
    processor = Processor(machine)
    for _ in range(3):
        processor.charge(400, 0, STATES["USER"], 0)
    machine.on(0).record_absence(1, STATES["WAIT_PIPE"], START, START + 900)
    for horizon, rows in ((399, 0), (800, 2), (899, 0), (1200, 2)):
        decoder.read([machine.written(0)], START + horizon, START + 5000)
        assert len(decoder.take()[0]) == rows


def test_a_record_is_the_threads_that_had_it_then(library: ctypes.CDLL) -> None:
    machine = Machine(library, 1)
    decoder = TransitionDecoder(machine.spans, machine.absences, 1, (WORDS, WORDS), THREAD_RECORDS, START)
    processor = Processor(machine)
    processor.switch(3)
    for _ in range(5):
        processor.charge(100, 0, STATES["USER"], 1)
    decoder.read([machine.written(0)], START + 1000, START + 1000)
    decoder.has(3, START + 400, 9)  # it is there still; the others are told of when they have ended
    decoder.has(3, START + 200, 8)
    decoder.had(3, 8, START + 200, START + 300)
    decoder.has(3, START, 7)
    decoder.had(3, 7, START, START + 200)
    assert decoder.thread_records() == [3]
    assert decoder.take()[4].tolist() == [7, 7, 8, -1, 9]
    assert decoder.nameless == 1
    assert decoder.thread_records() == []


def test_figures_larger_than_a_row_can_hold_are_several_rows(library: ctypes.CDLL) -> None:
    decoder, machine = decoder_of(library)
    processor = Processor(machine)
    processor.charge(1 << 36, 1 << 35, STATES["USER"], 5_000_000_000)
    now = START + (1 << 37)
    decoder.read([machine.written(0)], now, now)
    time, duration, taken, _, _, _, count, *_ = decoder.take()
    assert duration.tolist() == [1 << 36] + [0] * (len(time) - 1)
    assert taken.sum(dtype=np.int64) == 1 << 35
    assert count.sum(dtype=np.int64) == 5_000_000_000


@pytest.mark.parametrize("words", [0, 3, 1 << 20])
def test_rings_that_are_not_as_long_as_said_are_refused(words: int) -> None:
    with pytest.raises(ValueError, match="not as long"):
        TransitionDecoder(memory(1), memory(1), 1, (64, words), THREAD_RECORDS, START)


def test_a_decoder_without_room_for_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="room for a row"):
        TransitionDecoder(memory(1), memory(1), 1, (WORDS, WORDS), THREAD_RECORDS, START, rows=0)


def test_a_span_longer_than_the_time_that_has_passed_is_damage_even_if_time_goes_back() -> None:
    spans = memory(1)
    decoder = TransitionDecoder(spans, memory(1), 1, (WORDS, WORDS), THREAD_RECORDS, START)
    ring = Ring(spans, 0)
    ring.put(STATES["USER"] << RING["SPAN_STATE"] | 1000 << RING["SPAN_DURATION"])
    decoder.read([(1, 0)], START + 1000, START + 1000)
    ring.put(RING_RECORDS["RECORD_LONG"] | STATES["USER"] << RING["RECORD_STATE"], 1 << 63, 0)
    decoder.read([(4, 0)], START + 500, START + 500)
    _, duration, *_ = decoder.take()
    assert duration.tolist() == [1000]
    assert decoder.damaged == 1


def test_many_lives_are_forgotten_when_they_are_over() -> None:
    decoder = TransitionDecoder(memory(1), memory(1), 1, (WORDS, WORDS), THREAD_RECORDS, START)
    for n in range(20_000):
        decoder.has(1, START + n, n)
        decoder.had(1, n, START + n, START + n)
        if n % 1000 == 0:
            decoder.forget(START + n)


@given(st.integers(1, 8192))
def test_rings_are_as_many_words_as_a_power_of_two_and_together_not_too_many(n_cpus: int) -> None:
    for words in words_of_rings(n_cpus):
        assert words & (words - 1) == 0
        assert n_cpus * words <= 1 << 25
    assert words_of_rings(2) == (1 << 21, 1 << 19)
    assert words_of_rings(n_cpus, 64) == (64, 64)


# ---- whose rows they are ----


@dataclass
class Kernel:
    """Threads that come and go in few thread records of one processor: what `Memory` and `Exits` tell of them."""

    library: ctypes.CDLL
    rings: tuple[bytearray, ...] = field(default_factory=lambda: tuple(bytearray(8 * n) for n in (WORDS, WORDS, 8)))
    time: int = START
    records: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Thread record -> tid and birth of who is there."""
    ended: list[EndedThread] = field(default_factory=list)
    ran: list[tuple[int, int]] = field(default_factory=list)
    """Who ran, and since when."""
    lives: list[tuple[int, int, int]] = field(default_factory=list)
    """Of those that have ended: tid, birth and end."""
    unwritten: int = 0

    def __post_init__(self) -> None:
        self.machine = Machine(self.library, 1, rings=self.rings)

    def be_born(self, record: int) -> None:
        if record not in self.records:
            self.time += 1
            self.records[record] = 100 + len(self.lives) + len(self.records), self.time

    def run(self, record: int) -> None:
        if record in self.records:
            self.machine.on(0).charge_span(record, self.time, self.time + 5, 5, STATES["USER"], 1)
            self.ran.append((self.records[record][0], self.time))
            self.time += 5

    def end(self, record: int) -> None:
        if record in self.records:
            tid, birth = self.records.pop(record)
            self.ended.append(EndedThread(record, tid, tid, "thread", birth, self.time))
            self.lives.append((tid, birth, self.time))

    def written(self) -> list[tuple[int, int]]:
        return [self.machine.written(0)]

    def now(self) -> int:
        return self.time + 1_000_000

    def thread_records_used(self) -> int:
        return THREAD_RECORDS

    def look_at(self, numbers: Iterable[int]) -> list[RecordedThread]:
        here = [(n, *self.records[n]) for n in numbers if n in self.records]
        return [RecordedThread(n, tid, tid, "thread", birth, -1, STATES["READY"], self.time) for n, tid, birth in here]

    def task_name(self, number: int) -> str | None:
        """None of them has a task."""
        return ""

    def state_name(self, state: int) -> str:
        return f"state.{state}"

    def unfinished(self, at: int, cpus: Iterable[int]) -> list[UnfinishedSpan]:
        return []

    def follow(self) -> None:
        self.ended.clear()

    def take_news(self) -> list[EndedThread]:
        found, self.ended = self.ended, []
        return found


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["be_born", "run", "run", "end", "look", "take"]), st.integers(1, 3))))
def test_rows_are_of_who_had_the_record_then_however_often_it_was_used_again(
    library: ctypes.CDLL, steps: list[tuple[str, int]]
) -> None:
    kernel = Kernel(library)
    reader = TransitionReader(
        kernel.rings,  # type: ignore[arg-type]
        kernel,  # type: ignore[arg-type]
        kernel,  # type: ignore[arg-type]
        words=(WORDS, WORDS),
        max_thread_records=THREAD_RECORDS,
        n_cpus=1,
        cpus=lambda: [0],
        start=START,
        consume=lambda: None,
    )
    pieces = []
    for what, record in steps:
        if what == "look":
            reader.look(all_of_it=True)
        elif what == "take":
            pieces.append(reader.take())
        else:
            getattr(kernel, what)(record)
    pieces.append(reader.finish(kernel.now()))
    threads = {seen.thread: seen for piece in pieces for seen in piece.threads}
    rows = [
        (threads[thread].tid, time)
        for piece in pieces
        for thread, time, state in zip(
            piece.transitions.thread.tolist(),
            piece.transitions.time.tolist(),
            piece.transitions.state.tolist(),
            strict=True,
        )
        if state == STATES["USER"]
    ]
    assert rows == kernel.ran
    assert len({seen.tid for seen in threads.values()}) == len(threads)
    found = {(seen.tid, seen.birth, seen.end) for seen in threads.values()}
    assert found == {*kernel.lives, *((tid, birth, None) for tid, birth in kernel.records.values())}
    assert reader.losses()["transitions_of_unknown_threads"] == 0
