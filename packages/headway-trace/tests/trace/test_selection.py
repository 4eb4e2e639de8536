"""Parts of a capture: those records, by time and by thread, that looking through all of them finds."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.recording.queries.runs import Recorded, Row, Thread
from tests.recording.queries.runs import write as write_recording
from tests.running import headway
from tests.trace.encoding import ALIGNMENT, atom, branch, frames, sync, timestamp
from tests.trace.programs import BASE
from tests.trace.snapshots import STREAM, write

from headway_trace._selection import Selection
from headway_trace.alignment import AlignedTime, fit
from headway_trace.decode import Capture, Stream
from headway_trace.records import Gap, Instruction, Record
from headway_trace.selection import Wanted, stretches_of
from headway_trace.switches import last_of_threads, run_starts_of

CONTEXTS = (
    "[device]\nname=ETM\nclass=trace_source\ntype=ETM3.5\n[regs]\nETMCR(0x000)=0x1000D000\n"
    "ETMIDR(0x079)=0x410CF250\nETMCCER(0x07A)=0x344008F2\nETMTRACEIDR(0x080)=0x10\n"
)
"""A unit that counts cycles and traces context IDs of four bytes."""
MHZ = 50
"""Ticks in a microsecond."""


def switching(seed: int, runs: int) -> tuple[bytes, list[tuple[int, int]]]:
    """A stream in which threads take turns, and the thread of each turn with the cycle of its first instruction."""
    chance, turns = random.Random(seed), list[tuple[int, int]]()
    stream, cycle, before = ALIGNMENT, 0, 0
    for _ in range(runs):
        thread = chance.choice([one for one in (100, 101, 102) if one != before])
        before = thread
        stream += sync(BASE, reason=0 if turns else 1, context=thread.to_bytes(4, "little"))
        turns.append((thread, cycle + 10))
        long = chance.randrange(64)
        for number in range(65):  # 64 nop, bx lr
            cycles = chance.randrange(10, 20_000) if number == long else 10
            stream += atom(True, cycles)
            cycle += cycles
        turns[-1] = thread, turns[-1][1] if long else cycle - 640
        stream += branch(BASE) + timestamp(1000 + cycle)
    return stream, turns


def captured(folder: Path, stream: bytes, **changes: str) -> Stream:
    return Capture.open(str(write(folder, frames([(0x10, stream)]), **changes))).streams[0x10]


def by_looking(stream: Stream, begin: int | None, end: int | None, threads: tuple[int, ...]) -> list[Record]:
    """What is wanted, by looking at all records."""
    found = fit(stream.timestamps())
    chosen: list[Record] = []
    for record in stream.records():
        if not isinstance(record, Instruction | Gap) or record.cycle is None:
            continue
        if threads and isinstance(record, Instruction) and record.thread not in threads:
            continue
        length = record.cycles or 0 if isinstance(record, Gap) else 0
        first, last = (found.moment(record.epoch, cycle) for cycle in (record.cycle - length, record.cycle))
        if not isinstance(last, AlignedTime):
            continue
        since = first.time if isinstance(first, AlignedTime) else last.time
        if (begin is None or last.time >= begin) and (end is None or since < end):
            chosen.append(record)
    return chosen


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_selection_is_what_looking_through_all_finds(tmp_path: Path, data: st.DataObject) -> None:
    stream = captured(tmp_path, switching(data.draw(st.integers(0, 1 << 20)), 12)[0], etm=CONTEXTS)
    found = fit(stream.timestamps())
    assert found.span is not None
    start, stop = map(int, found.span)
    begin = data.draw(st.none() | st.integers(start - 100, stop + 100))
    end = data.draw(st.none() | st.integers(start - 100, stop + 100))
    threads = data.draw(st.sampled_from([(), (100,), (101, 102), (7,)]))
    stretches = None if begin is None and end is None else stretches_of(found, begin, end)
    selection = Selection(stretches, threads or None)
    chosen = [one for one in stream.records(selection) if isinstance(one, Instruction | Gap)]
    assert chosen == by_looking(stream, begin, end, threads)


def test_gaps_that_reach_into_the_part_belong_to_it(tmp_path: Path) -> None:
    stream = captured(tmp_path, STREAM)
    for begin in range(995, 1110):
        for end in (None, begin + 1, begin + 40):
            selection = Selection(stretches_of(fit(stream.timestamps()), begin, end))
            chosen = [one for one in stream.records(selection) if isinstance(one, Instruction | Gap)]
            assert chosen == by_looking(stream, begin, end, ())


def test_no_thread_is_wanted_of_what_has_none() -> None:
    wanted = Wanted(threads=(5,))
    assert wanted.holds(5)
    assert wanted.holds(None)
    assert not wanted.holds(6)
    assert Wanted().holds(6)


def rows(*words: object) -> list[dict[str, str]]:
    done = headway("trace", *words, "--format", "csv")
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


@pytest.mark.end_to_end
def test_the_commands_select_and_disassemble(tmp_path: Path) -> None:
    path = write(tmp_path / "capture", frames([(0x10, switching(3, 12)[0])]), etm=CONTEXTS)
    every = rows("decode", path)
    assert {row["thread"] for row in every if row["address"]} == {"100", "101", "102"}
    mine = rows("decode", path, "--thread", 101, "--disassemble")
    assert [{k: v for k, v in row.items() if k != "instruction"} for row in mine] == [
        row for row in every if row["thread"] in ("101", "")
    ]
    assert {row["instruction"] for row in mine if row["address"]} == {"nop", "bx lr"}
    done = headway("trace", "decode", path, "--thread", 101, "--disassemble", "--format", "json")
    assert [row["instruction"] for row in json.loads(done.stdout)] == [row["instruction"] for row in mine]
    placed = rows("align", path, "--instructions")
    part = rows("decode", path, "--from", 15_000, "--to", 40_000)
    assert part
    assert part == [
        one for one, at in zip(every, placed, strict=True) if at["time"] and 15_000 <= float(at["time"]) < 40_000
    ]
    (moment,) = rows("at", path, "--time", 15_000, "--disassemble")
    assert moment["instruction"] in ("nop", "bx lr")
    assert not rows("at", path, "--time", 15_000, "--thread", 5)
    for words, says in (
        (("--thread", 5), "no context IDs"),
        (("--from", 9, "--to", 9), "nothing in between"),
    ):
        done = headway("trace", "decode", write(tmp_path / "other"), *words)
        assert done.returncode
        assert says in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.end_to_end
@pytest.mark.parametrize("style", ["csv", "json"])
def test_where_nothing_is_selected_one_sentence_says_what_there_is(tmp_path: Path, style: str) -> None:
    path = write(tmp_path / "capture", frames([(0x10, switching(3, 12)[0])]), etm=CONTEXTS)
    for words, says in (
        (("--thread", 5), "has no instruction of thread 5; it has the threads 100, 101, 102"),
        (("--from", 1, "--to", 2), "has no instruction from 1 to 2; it has the times from 13772 to"),
        (("--to", 1), "has no instruction before 1; it has the times from 13772 to"),
        (
            ("--thread", 5, "--from", 1),
            "has no instruction of thread 5 from 1 on; it has the threads 100, 101, 102 and",
        ),
    ):
        done = headway("trace", "decode", path, *words, "--format", style)
        assert done.returncode == 0
        assert says in done.stderr
    assert "has no instruction" not in headway("trace", "decode", path, "--format", style).stderr
    assert "has no instruction" not in headway("trace", "decode", path, "--thread", 101, "--format", style).stderr


def test_the_turns_of_threads_and_what_they_executed_last(tmp_path: Path) -> None:
    stream, turns = switching(4, 30)
    one = captured(tmp_path, stream, etm=CONTEXTS)
    streams = [(one, fit(one.timestamps()))]
    starts = run_starts_of(streams)
    assert sum(map(len, starts.values())) == len(turns) - 1
    every = [record for record in one.records() if isinstance(record, Instruction)]
    for thread, tick in turns[5::3]:
        last = last_of_threads(streams, 1000 + tick)
        before = [record for record in every if record.cycle is not None and record.cycle <= tick]
        for who in {record.thread for record in before} - {thread, None}:
            assert who is not None
            assert last[who][0] == [record for record in before if record.thread == who][-1]


@pytest.mark.end_to_end
def test_a_capture_beside_a_recording(tmp_path: Path) -> None:
    """The clock of the timestamps has 50 MHz and began before; the recording is longer than the capture."""
    stream, turns = switching(5, 60)
    start, offset = 7_000_000_000, 400_000_000
    edges = [start + offset + tick * 1000 // MHZ for _, tick in turns]
    end = edges[-1] + 500_000_000
    table, kept = [], []
    for number, tid in enumerate((100, 101, 102, 103)):
        kept.append(Thread(number, tid, tid, f"prog{number}", start, start, None))
        at = start
        early = [start + 1000 * n * (3 + number) for n in range(1, 40)] if tid < 103 else []
        mine = [
            (edge, after) for edge, after, (who, _) in zip(edges, [*edges[1:], end], turns, strict=True) if who == tid
        ]
        for begin, stop in [*((moment, moment + 500) for moment in early), *mine]:
            table.append(Row(at, begin - at, 0, None, number, "ready.wait"))
            table.append(Row(begin, stop - begin, 0, 0, number, "user"))
            at = stop
        if at < end:
            table.append(Row(at, end - at, 0, None, number, "wait.sleep"))
    run = write_recording(Recorded(start, end, table, kept), tmp_path / "run.hw")
    path = write(tmp_path / "capture", frames([(0x10, stream)]), etm=CONTEXTS)
    when = edges[40] - start + 2000
    done = headway("at", run, f"{when}ns", "--trace", path, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = {row["tid"]: row for row in json.loads(done.stdout)}
    running = turns[40][0]
    assert found[running]["state"] == "user"
    assert found[running]["instruction"] in ("nop", "bx lr")
    assert abs(found[running]["executed"] - when - start) <= 450_000
    assert found[103]["executed_unknown"] == "unknown.outside"
    assert "50 MHz" in done.stderr
    other = next(turn for turn in reversed(range(40)) if turns[turn][0] != running)
    before = found[turns[other][0]]
    assert abs(before["executed"] - edges[other + 1]) <= 200_000
    strange = headway("at", run, f"{when}ns", "--trace", write(tmp_path / "plain"))
    assert strange.returncode == 125
    assert "no context IDs" in strange.stderr or "context IDs and timestamps" in strange.stderr
