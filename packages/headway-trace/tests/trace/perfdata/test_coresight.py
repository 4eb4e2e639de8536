"""CoreSight in perf.data: registers of the trace units, frames, and the instructions of each thread."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.running import headway

from headway.errors import HeadwayError
from headway_trace import etmv3, etmv4, ptm
from headway_trace.hosts import HostCapture, csv_lines, open_host
from headway_trace.perfdata.etm import processors_of
from headway_trace.records import Instruction, Record, Timestamp

from ..encoding import frames
from ..etmv4 import ON, START, atoms, context, long_address, timestamp
from .lines import as_csv
from .writing import Writer

ETMV3, ETMV4, ETE = 0x3030303030303030, 0x4040404040404040, 0x5050505050505050
CONFIGURATION = 0xC1  # context IDs and timestamps
IDENTITIES = 0x28000EA1, 0x4100F403, 0x488, 0
BASE = 0x400000
NOP, RET = b"\x1f\x20\x03\xd5", b"\xc0\x03\x5f\xd6"


def unit(cpu: int, trace_id: int, kind: int = ETMV4) -> list[int]:
    """The words of one trace unit, in version 1 of the header."""
    if kind == ETE:
        return [kind, cpu, 9, CONFIGURATION, trace_id, *IDENTITIES, 0xCC, 0x47715A13, 0]
    return [kind, cpu, 8, CONFIGURATION, trace_id, *IDENTITIES, 0xCC, 0]


def words(*units: Sequence[int]) -> list[int]:
    return [1, 9 << 32 | len(units), 0, *(word for one in units for word in one)]


def functions(seed: int) -> tuple[bytes, list[int]]:
    """A program of functions that only return, and where each begins."""
    chance = random.Random(seed)
    code, starts = bytearray(), []
    for _ in range(10):
        starts.append(BASE + len(code))
        code += NOP * chance.randint(0, 6) + RET
    return bytes(code), starts


def walk(code: bytes, starts: Sequence[int], chance: random.Random, calls: int, tid: int) -> tuple[bytes, list[int]]:
    """A thread goes from function to function: its trace, and the addresses that it executed."""
    at = chance.choice(starts)
    trace, executed = ON + context(thread=tid) + long_address(at), []
    for _ in range(calls):
        while code[at - BASE : at - BASE + 4] != RET:
            executed.append(at)
            at += 4
        executed.append(at)
        at = chance.choice(starts)
        trace += atoms([True]) + long_address(at)
    return trace, executed


def made(
    folder: Path, seed: int, turns: int, *, raw: bool = False, hardware_ids: bool = False
) -> tuple[str, dict[int, list[int]]]:
    """Two processes that take turns on two processors, whose units share a buffer in frames, or (raw) do not."""
    chance, writer = random.Random(seed), Writer()
    known = {0: 0x10, 1: 0x11}
    kind = ETE if raw else ETMV4
    writer.info(3, words(*(unit(cpu, 0 if hardware_ids else known[cpu], kind) for cpu in known)))
    if hardware_ids:
        for cpu, number in known.items():
            writer.hardware_id(cpu, number)
    executed: dict[int, list[int]] = {100: [], 101: []}
    programs = {}
    for tid in executed:
        programs[tid] = functions(seed + tid)
        (folder / f"p{tid}").write_bytes(programs[tid][0])
        writer.mmap2(tid, BASE, len(programs[tid][0]), str(folder / f"p{tid}"))
        writer.comm(tid, tid, f"prog{tid}")
    for cpu in known:
        trace = START
        for turn in range(turns):
            tid = 100 + (turn + cpu) % 2
            part, addresses = walk(*programs[tid], chance, chance.randint(1, 20), tid)
            trace += part + timestamp(1000 * (turn + 1))
            executed[tid] += addresses
        data = trace if raw else frames([(known[cpu], trace)])
        writer.area(data + b"\x05" * (-len(data) % 8), number=cpu, cpu=cpu)  # perf pads an area
        writer.aux(0, len(data), flags=0x100 if raw else 0, cpu=cpu)
    return writer.save(folder / "perf.data"), executed


def found_in(capture: HostCapture, tid: int) -> list[int]:
    (stream,) = capture.chosen([tid])
    return [one.address for one in stream.records() if isinstance(one, Instruction)]


@given(st.integers(0, 1 << 20), st.integers(2, 6), st.booleans(), st.booleans())
def test_each_thread_has_its_own_instructions(
    tmp_path_factory: pytest.TempPathFactory, seed: int, turns: int, raw: bool, hardware_ids: bool
) -> None:
    folder = tmp_path_factory.mktemp("etm")
    path, executed = made(folder, seed, turns, raw=raw, hardware_ids=hardware_ids)
    capture = open_host(path)
    for tid, addresses in executed.items():
        assert found_in(capture, tid) == addresses


@given(st.integers(0, 1 << 20), st.integers(2, 6), st.booleans(), st.integers(0, 7), st.integers(0, 7))
def test_parts_and_lines_are_the_records_between_two_timestamps(
    tmp_path_factory: pytest.TempPathFactory, seed: int, turns: int, raw: bool, begin: int, end: int
) -> None:
    path, executed = made(tmp_path_factory.mktemp("etm"), seed, turns, raw=raw)
    capture = open_host(path)
    for start, stop in ((None, None), (1000 * begin, 1000 * end)):
        for tid in executed:
            (stream,) = capture.chosen([tid])
            wanted, time = list[Record](), 0
            for record in stream.records():
                if isinstance(record, Timestamp):
                    time = record.time
                elif start is None or start <= time < 1000 * end:
                    wanted.append(record)
            found = [(one, memory) for block, memory in stream.parts(*stream.bounds(start, stop)) for one in block]
            assert [one for one, _ in found] == wanted
            assert b"".join(csv_lines(stream, start, stop)).decode() == as_csv(stream, found)


@pytest.mark.end_to_end
def test_the_commands_answer(tmp_path: Path) -> None:
    path, executed = made(tmp_path, 1, 4)
    result = headway("trace", "decode", path, "--thread", 100, "--disassemble", "--format", "json")
    assert result.returncode == 0, result.stderr
    rows = [row for row in json.loads(result.stdout) if row["address"]]
    assert [int(row["address"], 16) for row in rows] == executed[100]
    assert {row["instruction"] for row in rows} == {"nop", "ret"}
    result = headway("trace", "stats", path, "--format", "json")
    assert result.returncode == 0, result.stderr
    found = {(row["stream"], row["what"]): row["value"] for row in json.loads(result.stdout)}
    assert found["prog101:101", "instructions"] == len(executed[101])
    result = headway("trace", "at", path, "--time", 2500, "--format", "json")
    assert result.returncode == 0, result.stderr
    assert any(row["state"] == "executed" and row["uncertainty"] == 1000 for row in json.loads(result.stdout))


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=60))
def test_any_words_describe_trace_units_or_are_refused(some: list[int]) -> None:
    for head in ([], [1, 2, 0, ETMV4], [0, 2, 0, ETE], [1, 1 << 32 | 1, 0, ETMV3, 0, 4]):
        try:
            found = processors_of([*head, *some], "x")
        except HeadwayError:
            continue
        assert all(isinstance(one.setting, etmv3.Setting | ptm.Setting | etmv4.Setting) for one in found)


def test_older_units_are_known_by_their_registers() -> None:
    old = [ETMV3, 1, 4, 0x1000, 0x11, 0x8D294004, 0x4114F250]  # ETMCR, ETMTRACEIDR, ETMCCER, ETMIDR
    (one,) = processors_of([1, 1, 0, *old], "x")
    assert (one.cpu, one.trace_id, one.setting.protocol) == (1, 0x11, "ETMv3")
    new = [ETMV3, 0, 0x1000, 0x10, 0x8D294004, 0x411CF301]
    (one,) = processors_of([0, 1, 0, *new], "x")
    assert (one.cpu, one.trace_id, one.setting.protocol) == (0, 0x10, "PTM")
