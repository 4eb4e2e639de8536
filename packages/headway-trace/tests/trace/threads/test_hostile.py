"""Trace files whose checks are right and whose counts are not: no count makes the arithmetic of times overflow."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz.mutation import varint, word
from tests.fuzz.targets.hwt import framed
from tests.trace.threads.files import older_file

from headway_trace.threads.container import MachineShape, TraceFile, TraceFileWriter, digest_of
from headway_trace.threads.reading import Trace, TracedProgram

START, NOPS = 0x8000_0000, b"\x01\x00" * 64
PROGRAM = TracedProgram(((START, NOPS),))
ENDS = b"\xd0" + varint(1024) + b"\0"
CLOCK = b"\x90" + varint(1024) + b"\0"
E, W_LONG = b"\x80", b"\x44"
FARTHEST = (1 << 56) - 1
"""The largest count of a packet."""


def sync(cycle: int, *, restart: bool = False) -> bytes:
    """An I-sync of thread 0 with a global count."""
    head = b"\x70" if restart else b"\x08"
    return head + b"\x98" + varint(cycle) + b"\x80" + word(7) + word(START)


def trace(path: Path, streams: dict[int, bytes], *, threads: int = 6) -> Trace:
    """A trace file with these packets of each core, in one segment behind a right head."""
    shape = MachineShape(len(streams), threads, True, True, 1024, digest_of(PROGRAM.segments), "nops")
    with (path / "a.hwt").open("wb") as stream:
        writer = TraceFileWriter(stream, shape)
        for core, packets in streams.items():
            end = varint(0) + varint(0) + ENDS
            writer.add(core, framed([(0, packets), (1, end), (2, end)]))
        writer.close()
    return Trace(TraceFile(path / "a.hwt"), PROGRAM)


def test_an_old_trace_without_cycles_has_an_atom_for_each_instruction(tmp_path: Path) -> None:
    shape = MachineShape(1, 1, True, False, 1024, digest_of(PROGRAM.segments), "nops")
    end = varint(0) + varint(0) + ENDS
    packets = head() + b"\x70\xa0\x80" + word(7) + word(START | 1) + b"\x90"
    chunks = [(0, framed([(0, packets), (1, end), (2, end)]))]
    (tmp_path / "a.hwt").write_bytes(older_file(shape, chunks, version=2))
    opened = Trace(TraceFile(tmp_path / "a.hwt"), PROGRAM)
    assert sum(rows.counts().get(16, 0) for rows in opened.rows(0)) == 3
    assert opened.statistics(0).contradictions == 0


def test_packets_of_few_bytes_that_stand_for_many_instructions_are_decoded_in_parts(tmp_path: Path) -> None:
    # A branch to itself, and 64 times taken: 2,000 such packets.
    loop = TracedProgram(((START, word(0x63)),))
    shape = MachineShape(1, 1, True, False, 1024, digest_of(loop.segments), "loop")
    packets = head() + b"\x70\xa0\x80" + word(7) + word(START | 1) + (b"\x02" + b"\xff" * 8) * 2000
    end = varint(0) + varint(0) + ENDS
    with (tmp_path / "a.hwt").open("wb") as stream:
        writer = TraceFileWriter(stream, shape)
        writer.add(0, framed([(0, packets), (1, end), (2, end)]))
        writer.close()
    opened = Trace(TraceFile(tmp_path / "a.hwt"), loop)
    sizes = [len(rows) for rows in opened.rows(0)]
    assert sum(sizes) == 128_001, "with the gap before the first"
    assert max(sizes) < 100_000
    assert opened.statistics(0).contradictions == 0


def head(cycle: int = 0, tick: int = 0) -> bytes:
    return varint(cycle) + varint(tick) + CLOCK


@pytest.mark.parametrize("count", [FARTHEST, FARTHEST + 1, 1 << 62, (1 << 63) - 1, (1 << 64) - 1])
@pytest.mark.parametrize("threads", [1, 6, 8])
def test_the_length_of_a_gap_fits_whatever_its_counts_say(tmp_path: Path, count: int, threads: int) -> None:
    opened = trace(tmp_path, {0: head() + sync(0) + E + b"\x60" + sync(count, restart=True) + E}, threads=threads)
    rows = [row for part in opened.rows(0, stalls=True) for row in (part[at] for at in range(len(part)))]
    of_first = [row for row in rows if row[0] == 0]
    assert all(0 <= cycle < 1 << 63 and 0 <= cycles < 1 << 63 for _, cycle, cycles, *_ in of_first if cycle and cycles)
    instructions = [cycle for _, cycle, _, _, _, what, _ in of_first if what == 16]
    if count <= FARTHEST:  # a cycle of a thread is as many of the core as there are threads
        assert instructions == [0, count * threads]
    else:
        assert instructions == [0], "no trace unit counts so far: these bytes are no packet"
    assert b"".join(opened.csv(0, stalls=True)).count(b",executed,") == len(instructions)


def test_time_does_not_pass_beyond_what_can_be_counted(tmp_path: Path) -> None:
    # A gap whose length is not known has all bits set in the row.
    long_wait = W_LONG + word(0xFFFFFFF << 4 | 12)
    opened = trace(tmp_path, {0: head() + sync(FARTHEST) + E + long_wait * 1000 + E})
    for rows in opened.rows(0, stalls=True):
        for at in range(len(rows)):
            _, cycle, cycles, *_ = rows[at]
            assert cycle is None or 0 <= cycle < 1 << 63
            assert cycles is None or 0 <= cycles < 1 << 63


def test_the_time_between_two_instructions_does_not_wrap(tmp_path: Path) -> None:
    long_wait = W_LONG + word(0xFFFFFFF << 4 | 12)
    opened = trace(tmp_path, {0: head() + sync(0) + E + long_wait * 20 + E}, threads=1)
    passed = [rows[at][2] for rows in opened.rows(0) for at in range(len(rows)) if rows[at][5] == 16]
    assert passed == [1, (1 << 32) - 1], "20 times 2^28 cycles; the largest number that fits"


@pytest.mark.parametrize("tick", [0, 5, FARTHEST])
def test_cores_whose_clocks_are_years_apart_can_be_asked_for_one_moment(tmp_path: Path, tick: int) -> None:
    still = varint(0) + varint(tick) + b"\x81" + varint(1) + b"\0"  # one sixteenth, in one tick of each window
    fast = head() + sync(FARTHEST) + E
    opened = trace(tmp_path, {0: fast, 1: still + sync(FARTHEST) + E})
    for core in (0, 1):
        for cycle in (0, opened.clock(core).end - 1):
            assert len(opened.at(cycle, core)) == 12


def test_the_gap_before_the_first_instruction_is_written_as_unknown(tmp_path: Path) -> None:
    opened = trace(tmp_path, {0: head() + b"\x70\x80" + b"\x80" + word(0) + word(START) + E})
    assert b"0x0,0,0,,,0,unknown" in b"".join(opened.csv(0, stalls=True))
