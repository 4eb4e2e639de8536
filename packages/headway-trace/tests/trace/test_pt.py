"""Intel PT: what libipt decodes becomes records, exactly, however the trace goes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway_trace.memory import Files, Part, ProcessMemory
from headway_trace.pt import library
from headway_trace.pt.setting import PtSetting, Ticks
from headway_trace.records import Gap, Instruction, Record, Timestamp, Why

from .pt import OVF, Program, Walk, disable, enable, fup, program, synchronisation, tip, transaction, tsc

pytestmark = [
    pytest.mark.skipif(not library.available(), reason="libipt is not installed"),
]


def endless(made: Program) -> bool:
    """Whether some block leads into a cycle of jumps and calls, which needs no packets."""
    for start in range(len(made.kinds)):
        block, seen = start, set[int]()
        while made.kinds[block] in ("jmp", "call", "through"):
            if block in seen:
                return True
            seen.add(block)
            block = block + 1 if made.kinds[block] == "through" else made.targets[block]
    return False


def programs() -> st.SearchStrategy[Program]:
    return st.integers(0, 1 << 30).map(program).filter(lambda made: not endless(made))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pt")


def memory_of(made: Program, folder: Path) -> ProcessMemory:
    path = folder / f"{abs(hash(made.code))}.bin"
    path.write_bytes(made.code)
    memory = ProcessMemory(Files())
    memory.add(Part(made.base, len(made.code), str(path), 0))
    return memory


def decoded(data: bytes, memory: ProcessMemory, setting: PtSetting | None = None, most: int = 1 << 16) -> list[Record]:
    from headway_trace.pt._decoder import Decoder
    from headway_trace.pt.streams import Images

    decoder = Decoder(memoryview(data), setting or PtSetting(), Images().of(memory))
    found: list[Record] = []
    while not decoder.finished:
        found += decoder.run(most)
    return found


def executed(records: list[Record]) -> list[tuple[int, int]]:
    return [(record.address, record.size) for record in records if isinstance(record, Instruction)]


@given(programs(), st.integers(0, 1 << 30), st.integers(1, 300), st.sampled_from([3, 100, 1 << 16]))
def test_every_instruction_is_found(folder: Path, made: Program, seed: int, blocks: int, most: int) -> None:
    walk = Walk(made, seed)
    walk.begin()
    walk.go(blocks)
    walk.until_a_packet()
    end = walk.address
    walk.put(fup(end) + disable())
    records = decoded(bytes(walk.out), memory_of(made, folder), most=most)
    assert executed(records) == walk.executed


@given(programs(), st.integers(0, 1 << 30), st.lists(st.tuples(st.integers(1, 40), st.integers(1, 1000)), min_size=1))
def test_times_never_go_back_and_end_where_the_trace_does(
    folder: Path, made: Program, seed: int, parts: list[tuple[int, int]]
) -> None:
    walk, now = Walk(made, seed), 10_000
    walk.begin(now)
    for blocks, ticks in parts:
        walk.go(blocks)
        walk.until_a_packet()
        now += ticks
        walk.begin(now)  # a PSB+ with the time
    walk.go(1)
    walk.until_a_packet()
    walk.put(fup(walk.address) + disable())
    records = decoded(bytes(walk.out), memory_of(made, folder), PtSetting(ticks=Ticks(0, 3, 7)))
    assert executed(records) == walk.executed
    cycles = [record.cycle or 0 for record in records if isinstance(record, Instruction | Gap)]
    assert cycles == sorted(cycles)
    assert cycles[-1] == now - 10_000
    assert sum(record.cycles or 0 for record in records if isinstance(record, Instruction | Gap)) == now - 10_000
    stamps = [record for record in records if isinstance(record, Timestamp)]
    assert stamps[0].time == 7 + 3 * 10_000
    assert all(stamp.time == 7 + 3 * (10_000 + (stamp.cycle or 0)) for stamp in stamps)


@given(programs(), st.integers(0, 1 << 30), st.integers(1, 60), st.integers(1, 60))
def test_what_was_not_traced_is_a_gap_with_its_reason(
    folder: Path, made: Program, seed: int, first: int, second: int
) -> None:
    walk = Walk(made, seed)
    walk.begin(1000)
    walk.go(first)
    walk.until_a_packet()
    walk.put(fup(walk.address) + disable())
    walk.put(tsc(5000) + enable(walk.address))
    walk.go(second)
    walk.until_a_packet()
    walk.put(OVF + fup(walk.address))
    walk.go(second)
    walk.until_a_packet()
    walk.put(fup(walk.address) + disable())
    records = decoded(bytes(walk.out), memory_of(made, folder))
    assert executed(records) == walk.executed
    gaps = [record for record in records if isinstance(record, Gap)]
    assert [gap.why for gap in gaps] == [Why.OFF, Why.OVERFLOW, Why.OFF]
    assert gaps[0].cycles == 4000


def test_code_that_is_not_known_is_a_gap(folder: Path) -> None:
    made = next(made for made in map(program, range(100)) if made.kinds[0] == "indirect")
    walk = Walk(made, 1)
    walk.begin(1000)
    walk.put(tip(0x7000_0000))
    walk.block = 0
    walk.begin(2000)  # libipt has read this one already when it finds that there is no code
    walk.put(tip(walk.address))
    walk.begin(3000)
    walk.put(tip(walk.address))
    walk.put(fup(walk.address) + disable())
    records = decoded(bytes(walk.out), memory_of(made, folder))
    assert executed(records)[: len(made.instructions[0])] == made.instructions[0]
    assert executed(records)[-len(made.instructions[0]) :] == made.instructions[0]
    assert len(executed(records)) in (2 * len(made.instructions[0]), 3 * len(made.instructions[0]))
    assert Why.IMAGE in {record.why for record in records if isinstance(record, Gap)}


@given(programs(), st.integers(0, 1 << 30), st.data())
def test_damage_never_stops_the_decoder(folder: Path, made: Program, seed: int, data: st.DataObject) -> None:
    walk = Walk(made, seed)
    for part in range(6):
        walk.begin(1000 + 100 * part)
        walk.go(10)
        walk.until_a_packet()
    good = bytearray(walk.out)
    for _ in range(data.draw(st.integers(1, 5))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    records = decoded(bytes(good), memory_of(made, folder))
    assert len(executed(records)) <= len(walk.executed) * 3 + 100_000
    for record in records:
        if isinstance(record, Gap):
            assert 0 <= record.start <= record.end <= len(good)


@given(st.integers(0, 63), st.integers(1, (1 << 32) - 1), st.integers(0, 1 << 63), st.integers(0, (1 << 64) - 1))
def test_ticks_and_nanoseconds_agree(shift: int, multiplier: int, zero: int, time: int) -> None:
    clock = Ticks(shift, multiplier, zero)
    found = clock.ticks(time)
    assert 0 <= found < 1 << 64
    if time < zero:
        assert found == 0
    elif clock.nanoseconds(0) <= time and found < (1 << 64) - 1:
        assert clock.nanoseconds(found) <= time < clock.nanoseconds(found + 1)


def test_a_random_file_is_no_trace(tmp_path: Path) -> None:
    from headway_trace.pt.capture import PtCapture

    path = tmp_path / "x.pt"
    path.write_bytes(random.Random(1).randbytes(5000))
    only = PtCapture(str(path)).streams[0]
    with pytest.raises(HeadwayError, match="no PSB"):
        only.check()


@pytest.mark.parametrize("most", [2, 3, 1 << 16])
@pytest.mark.parametrize("aborts", [True, False])
def test_what_a_transaction_undid_is_not_called_executed(folder: Path, most: int, aborts: bool) -> None:
    base, begun, end, other = 0x400000, 0x400008, 0x40000B, 0x400020
    code = b"\x90\x90" + b"\xc7\xf8\x18\0\0\0" + b"\x90" * 3 + b"\x0f\x01\xd5" + b"\x90" * 40
    made = Program(base, code)
    out = synchronisation(None, 1000) + enable(base) + transaction(True) + fup(begun)
    if aborts:
        out += tsc(1500) + transaction(False, aborted=True) + fup(end) + tip(other) + fup(other + 2) + disable()
    else:
        out += tsc(1500) + transaction(False) + fup(end + 3) + fup(other) + disable()
    records = decoded(out, memory_of(made, folder), most=most)
    states = {one.address: one.state for one in records if isinstance(one, Instruction)}
    assert [one.address for one in records if isinstance(one, Instruction)] == sorted(states)
    undone = {at for at, state in states.items() if state == "aborted"}
    assert undone == ({begun, begun + 1, begun + 2} if aborts else set())
    assert {base, base + 1, base + 2} <= states.keys()
    assert states.keys() >= ({other, other + 1} if aborts else {end, end + 3})
