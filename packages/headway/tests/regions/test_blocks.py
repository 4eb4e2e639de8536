"""Reading blocks from outside: whatever a program writes, what is read is possible, and what is right is exact."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiling import script
from tests.regions.conftest import Compile

from headway.linux.regions import blocks as layout
from headway.linux.regions.blocks import BlocksReading, RegionBlocks, arenas_in, time_of

pytestmark = pytest.mark.kernel

PID = 2**22 + 17
START = 0x10000
NOW = 10**15
U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)


def maps_line(start: int, size: int, name: str = "/memfd:headway (deleted)", permissions: str = "rw-p") -> bytes:
    return f"{start:x}-{start + size:x} {permissions} 00000000 00:01 1234 {'':20}{name}\n".encode()


def arena(*blocks: bytes, pid: int = PID, names: tuple[bytes, ...] = (), **other: int) -> bytes:
    head = struct.pack(
        "=8s6I",
        b"hwarena1",
        other.get("version", 1),
        pid,
        other.get("capacity", len(blocks)),
        other.get("n_tags", len(names)),
        other.get("threads", 0),
        other.get("tags", 0),
    )
    head += b"".join(name.ljust(32, b"\0")[:32] for name in names).ljust(1024, b"\0")
    head += struct.pack("=2IQ2IQ", other.get("used", len(blocks)), 0, 0, 0, 0, other.get("tasks", 0))
    return head.ljust(4096, b"\0") + b"".join(blocks)


def block(
    tid: int = PID,
    words: tuple[tuple[int, int], ...] = (),
    *,
    magic: bytes = b"hwblock1",
    n_tags: int | None = None,
    since: int = NOW - 10**9,
    depth: int = 0,
    opened: int = 0,
    errors: int = 0,
) -> bytes:
    n_tags = len(words) if n_tags is None else n_tags
    head = struct.pack("=8sIIQQ4I16s", magic, tid, n_tags, 0, since, depth, opened, errors, 0, b"")
    flat = [number for word in words for number in word]
    return head + struct.pack(f"={len(flat)}Q", *flat).ljust(512, b"\0")


def word(spent: int, since: int | None = None) -> int:
    """Of a tag that has ``spent`` ns, and is charged since then."""
    return (2 * spent if since is None else 2 * (spent - since) + 1) % 2**64


def read(memory: bytes, *, maps: bytes | None = None, status: str = "", tids: set[int] | None = None) -> BlocksReading:
    """What is read of a process with this memory at START."""
    with TemporaryDirectory() as name:
        process = Path(name) / str(PID)
        process.mkdir()
        (process / "status").write_text(status)
        (process / "maps").write_bytes(maps if maps is not None else maps_line(START, max(len(memory), 4096 + 576)))
        (process / "mem").write_bytes(bytes(START) + memory)
        seen = RegionBlocks(PID, proc=name, clock=lambda: NOW)
        seen.find()
        return seen.read({PID} if tids is None else tids)


def possible(reading: BlocksReading) -> None:
    """No time is negative, or longer than the block is old; no name is anything else than a region's."""
    for tid, found in reading.blocks.items():
        assert tid == found.tid
        assert found.open is None or found.open.split(".")[0] in ("noneffective", "poll", "user")
        assert sum(spent.time for spent in found.times.values()) <= max(NOW - found.since, 0)
        for state, spent in found.times.items():
            assert state.split(".")[0] in ("noneffective", "poll", "user")
            assert state != "user", "the state of all code without a region"
            assert spent.time >= 0
            assert spent.entries >= 0
    assert reading.lies >= 0


def test_a_program_in_a_time_namespace_has_another_clock(tmp_path: Path) -> None:
    process = tmp_path / str(PID)
    (process / "ns").mkdir(parents=True)
    for name in ("time", "time_for_children"):
        (process / "ns" / name).symlink_to("time:[4026532500]")
    day = 86400 * 10**9
    (process / "timens_offsets").write_text("monotonic 86400 0\n")
    (process / "status").write_text("")
    memory = arena(block(words=((word(500, NOW + day - 7), 3),), since=NOW + day - 1000, opened=1, depth=1))
    (process / "maps").write_bytes(maps_line(START, max(len(memory), 4096 + 576)))
    (process / "mem").write_bytes(bytes(START) + memory)
    seen = RegionBlocks(PID, proc=str(tmp_path), clock=lambda: NOW)
    assert seen.find()
    reading = seen.read({PID})
    assert reading.lies == 0
    assert reading.blocks[PID].since == NOW - 1000
    assert [spent.time for spent in reading.blocks[PID].times.values()] == [507]


# -- what is right ----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 1000)), max_size=31), st.integers(0, 10**8), st.data())
def test_a_block_that_does_not_lie_is_read_exactly(spent: list[tuple[int, int]], ago: int, data: st.DataObject) -> None:
    charged = data.draw(st.integers(-1, len(spent) - 1))
    words = tuple((word(t, NOW - ago if i == charged else None), n) for i, (t, n) in enumerate(spent))
    names = tuple(b"noneffective.%d" % i for i in range(len(spent)))
    reading = read(arena(block(words=words, opened=charged + 1, depth=int(charged >= 0)), names=names))
    found = reading.blocks[PID]
    for i, (t, n) in enumerate(spent):
        expected = t + (ago if i == charged else 0)
        if words[i] != (0, 0):
            assert (found.times[f"noneffective.{i}"].time, found.times[f"noneffective.{i}"].entries) == (expected, n)
    assert found.open == (f"noneffective.{charged}" if charged >= 0 else None)
    assert reading.lies == 0


@given(st.integers(0, 2**60), st.none() | st.integers(0, 2**60), st.integers(0, 2**60))
def test_a_word_is_a_function_of_time(spent: int, since: int | None, now: int) -> None:
    assert time_of(word(spent, since), now) == spent + (0 if since is None else now - since)


def test_the_newer_of_two_blocks_of_one_thread_is_its() -> None:
    dead = block(words=((word(5, NOW - 100), 1),), opened=1, since=NOW - 1000)
    live = block(words=((word(7), 1),), since=NOW - 500)
    for order in ((dead, live), (live, dead)):
        reading = read(arena(*order, names=(b"poll",)))
        assert reading.blocks[PID].times["poll"].time == 7


def test_threads_are_known_by_the_observers_ids() -> None:
    status = f"Name:\tx\nNSpid:\t{PID}\t7\n"
    with TemporaryDirectory() as name:
        process = Path(name) / str(PID)
        for tid, own in ((PID, 7), (PID + 1, 9)):
            task = process / "task" / str(tid)
            task.mkdir(parents=True)
            (task / "status").write_text(f"NSpid:\t{tid}\t{own}\n")
        (process / "status").write_text(status)
        memory = arena(block(tid=7), block(tid=9), block(tid=8), pid=7)
        (process / "maps").write_bytes(maps_line(START, len(memory)))
        (process / "mem").write_bytes(bytes(START) + memory)
        seen = RegionBlocks(PID, proc=name, clock=lambda: NOW)
        assert seen.find()
        assert seen.read().blocks.keys() == {PID, PID + 1}


# -- what is not ------------------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(st.lists(st.tuples(U64, U64), max_size=32), U32, U64, U32, U32, U32, U32, U32, st.binary(max_size=1024))
def test_whatever_is_written_what_is_read_is_possible(
    words: list[tuple[int, int]],
    n_tags: int,
    since: int,
    depth: int,
    opened: int,
    arena_tags: int,
    used: int,
    capacity: int,
    text: bytes,
) -> None:
    hostile = block(words=tuple(words), n_tags=n_tags, since=since, depth=depth, opened=opened)
    names = tuple(text[i : i + 32] for i in range(0, len(text), 32))
    possible(read(arena(hostile, hostile, names=names, n_tags=arena_tags, used=used, capacity=capacity)))
    possible(read(arena(hostile, hostile, names=names, used=2, capacity=2)))


@given(st.binary(max_size=8000))
def test_any_memory_is_survived(memory: bytes) -> None:
    possible(read(memory))
    possible(read(b"hwarena1" + struct.pack("=II", 1, PID) + memory))


@given(st.binary(max_size=400) | st.text("0123456789abcdef- rwp/memfd:headway (deleted)\n").map(str.encode))
def test_any_maps_are_survived(text: bytes) -> None:
    for start, size in arenas_in(text + maps_line(START, 8192)):
        assert 0 <= start < start + size < 2**63


def test_only_private_mappings_of_that_name_are_looked_at() -> None:
    right = maps_line(START, 8192)
    assert arenas_in(right) == [(START, 8192)]
    for wrong in (
        maps_line(START, 8192, permissions="r--p"),
        maps_line(START, 8192, permissions="rw-s"),
        maps_line(START, 8192, name="/memfd:headway (deleted) not"),
        maps_line(START, 8192, name="/tmp/memfd:headway (deleted)"),
        maps_line(START, 8192, name="/memfd:headway"),
        b"0-1000 r--p 00000000 00:01 7 /tmp/x\r" + maps_line(START, 8192),
        maps_line(START, 4096),
        maps_line(2**64 - 8192, 8191),
        b"",
    ):
        assert arenas_in(wrong) == []
        assert arenas_in(wrong + right) == [(START, 8192)]
    assert len(arenas_in(right * 1000)) == layout.MAX_ARENAS


@pytest.mark.parametrize(
    ("lie", "lies"),
    [
        (block(words=((word(2 * 10**9), 1),)), 1),
        (block(words=((word(-5), 1),)), 1),
        (block(words=((word(0, NOW + 5), 1),)), 1),
        (block(words=((word(0, 1), 1),)), 1),
        (block(words=((word(1, NOW - 1), 1), (word(1, NOW - 1), 1))), 1),
        (block(words=((word(6 * 10**8), 1), (word(6 * 10**8), 1))), 1),
        (block(words=((word(1), 2**64 - 1),)), 1),
        (block(words=((word(1), 1),), since=NOW + 1), 2),
        (block(n_tags=33), 1),
        (block(opened=33), 1),
    ],
)
def test_a_lie_is_counted_and_bent(lie: bytes, lies: int) -> None:
    reading = read(arena(lie, names=(b"noneffective.a", b"poll.b")))
    assert reading.lies == lies
    possible(reading)


@pytest.mark.parametrize("name", [b"", b"user", b"noneffectiveness", b"poll.", b"poll.\xff", b"noneffective.a\nb"])
def test_a_name_that_is_no_regions_is_not_used(name: bytes) -> None:
    reading = read(arena(block(words=((word(5), 1),)), names=(name,)))
    assert reading.blocks[PID].times.keys() == {layout.OTHER}
    assert reading.lies == 1


@pytest.mark.parametrize(
    "memory",
    [
        arena(block(tid=0), block(tid=PID + 1), block(magic=b"\0" * 8)),
        arena(block(), version=2),
        arena(block(), pid=PID + 1),
        b"hwarena",
        b"",
    ],
    ids=["free, another's, or just being taken", "another version", "a copy in a child", "cut short", "unreadable"],
)
def test_what_is_nobodys_is_passed_over(memory: bytes) -> None:
    reading = read(memory)
    assert (reading.blocks, reading.lies, reading.reason) == ({}, 0, None)


def test_a_process_that_is_not_there_has_no_regions(tmp_path: Path) -> None:
    seen = RegionBlocks(PID, proc=str(tmp_path))
    assert not seen.find()
    assert seen.read().blocks == {}


# -- real programs ----------------------------------------------------------------------------------------------------


def test_a_program_is_read_while_it_runs_and_after_it_executed_another(compile_marked: Compile) -> None:
    program = subprocess.Popen([compile_marked("exec_in_region.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        program.stdout.read(1)
        seen = RegionBlocks(program.pid)
        assert seen.find()
        first, second = seen.read().blocks[program.pid], seen.read().blocks[program.pid]
        assert (first.open, first.depth, first.errors) == ("poll.inner", 2, 0)
        assert first.times.keys() == {"noneffective.outer", "poll.inner"}
        assert first.times["noneffective.outer"] == second.times["noneffective.outer"]
        assert first.times["poll.inner"].time < second.times["poll.inner"].time, "it goes on while it waits"
        program.stdin.write(b"xy")
        program.stdin.flush()
        assert program.stdout.read(1) == b"y"
        assert seen.read().blocks == {}, "what was there before is gone"
        assert not seen.find()
    finally:
        program.kill()
        program.communicate()


def test_who_may_not_read_is_told_so() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to stop being it")
    subprocess.run(script("unreadable_regions"), check=True)


def test_a_process_that_has_ended_is_not_one_that_may_not_be_read() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to stop being it")
    subprocess.run(script("ended_regions"), check=True)


# -- logs of tasks ----------------------------------------------------------------------------------------------------


def tasks(
    *logs: int, pid: int = PID, magic: bytes = b"hwtasks1", version: int = 1, at: int, n: int | None = None
) -> bytes:
    """What a process has for tasks, and behind it, at ``at``, the addresses of logs."""
    n = len(logs) if n is None else n
    return struct.pack(f"=8s6IQ{len(logs)}Q", magic, version, pid, 1, 0, n, 0, at, *logs)


def test_a_thread_has_the_log_of_its_block() -> None:
    blocks = arena(block(), block(PID + 1), tasks=START + 4096 + 2 * 576)
    behind = tasks(0x7000, 0x9000, at=START + len(blocks) + 40)
    reading = read(blocks + behind, tids={PID, PID + 1})
    assert {tid: found.log for tid, found in reading.blocks.items()} == {PID: 0x7000, PID + 1: 0x9000}


def test_a_program_of_an_earlier_header_has_no_logs() -> None:
    assert read(arena(block())).blocks[PID].log == 0


@given(U64, U64, U32, U32, U32, st.sampled_from([b"hwtasks1", b"hwtasks2"]))
def test_addresses_of_logs_may_be_anything(where: int, log: int, n: int, pid: int, version: int, magic: bytes) -> None:
    size = 4096 + 576
    behind = tasks(log, pid=pid, magic=magic, version=version, at=START + size + 40, n=n)
    for address in (where, START + size):
        found = read(arena(block(), tasks=address) + behind).blocks[PID]
        assert 0 <= found.log < 1 << 47
        assert not found.log & 7
