"""Intel PT in perf.data: the instructions of each thread, from the areas of the processors that it had."""

from __future__ import annotations

import csv
import io
import json
import platform
import random
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.running import headway

from headway.errors import HeadwayError, SelectionError
from headway_trace.hosts import csv_lines, open_host
from headway_trace.perfdata.file import Feature
from headway_trace.perfdata.recorded import Recorded
from headway_trace.pt import library
from headway_trace.pt.threads import PtThreads
from headway_trace.records import Gap, Instruction, Why

from ..common import in_common
from ..pt import Program, Walk, disable, enable, fup, program, synchronisation, tsc
from ..test_pt import endless
from .lines import as_csv
from .writing import Writer, text

pytestmark = [
    pytest.mark.skipif(not library.available(), reason="libipt is not installed"),
]


SHIFT, MULTIPLIER, ZERO = 1, 1, 500
"""Two ticks are a nanosecond, and the counter was 0 at 500 ns of perf's clock."""
KERNEL = 0xFFFFFFFF81000000
PMU = 8
INFO = (PMU, SHIFT, MULTIPLIER, ZERO, 1, 1 << 10, 1 << 11, 3, 0, 1, 1 << 9, 0, 0, 0, 1 << 1, 0, 0)


def time_of(tick: int) -> int:
    return ZERO + tick // 2


@dataclass
class Made:
    """A recording, and what its threads executed."""

    path: str
    executed: dict[int, list[tuple[int, int]]]
    runs: dict[int, list[tuple[int, int]]]
    """The ticks from which and to which each thread ran."""


def recording(
    folder: Path,
    seed: int,
    turns: int,
    *,
    switches: bool = True,
    pieces: int = 1,
    processors: int = 1,
    clock: int | None = None,
    kernel: bool = False,
) -> Made:
    """Two processes that take turns on each of some processors; only their own code is traced.

    ``kernel``: it is the kernel's, and is in a folder as ``perf record --kcore`` writes it.
    """
    chance = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    writer, executed, runs = Writer(), dict[int, list[tuple[int, int]]](), dict[int, list[tuple[int, int]]]()
    writer.info(1, INFO)
    made: dict[int, Program] = {}
    walks: dict[int, Walk] = {}
    for number in range(2 * processors):
        tid = 100 + number
        base = KERNEL + (number << 20) if kernel else 0x400000
        some = (program(one, base=base) for one in range(seed + number, seed + 999))
        made[tid] = next(one for one in some if not endless(one))
        if not kernel:
            path = folder / f"program{number}"
            path.write_bytes(b"x" * 64 + made[tid].code)  # mapped from byte 64 on
            writer.mmap2(tid, made[tid].base, len(made[tid].code), str(path), offset=64)
        writer.comm(tid, tid, f"prog{number}")
        walks[tid] = Walk(made[tid], seed + number)
        executed[tid], runs[tid] = walks[tid].executed, []
    areas = []
    for cpu in range(processors):
        now, out, before = 10_000 + cpu, bytearray(synchronisation(None, 10_000 + cpu)), 0
        for turn in range(turns):
            tid = 100 + 2 * cpu + turn % 2
            walk = walks[tid]
            begin = now = now + 1000
            if switches:
                who, other = ((before, before), (tid, tid)) if before else ((0, 0), (tid, tid))
                writer.switch(cpu, who, other, time=time_of(begin), out=True)
                writer.switch(cpu, (tid, tid), who, time=time_of(begin), out=False)
            before, now = tid, now + 200
            walk.out.clear()
            if chance.random() < 0.5:
                walk.out += synchronisation(None, now)
            walk.put(tsc(now) + enable(walk.address))
            walk.go(chance.randint(1, 30))
            walk.until_a_packet()
            now += 500
            walk.put(tsc(now) + fup(walk.address) + disable())
            out += walk.out
            now += 200
            runs[tid].append((begin, now))
        if switches:
            writer.switch(cpu, (before, before), (0, 0), time=time_of(now + 100), out=True)
        areas.append((cpu, bytes(out)))
    for cpu, data in areas:
        cuts = sorted({0, len(data), *(chance.randrange(len(data)) for _ in range(pieces - 1))})
        for start, end in pairwise(cuts):
            writer.area(data[start:end], offset=4096 + start, number=cpu, cpu=cpu)
    place = folder / "perf.data"
    if kernel:
        (place / "kcore_dir").mkdir(parents=True)
        (place / "kcore_dir/kcore").write_bytes(core({one.base: one.code for one in made.values()}))
        names = "".join(f"{one.base:016x} T handler_{tid}\t[module{tid}]\n" for tid, one in made.items())
        (place / "kcore_dir/kallsyms").write_text(names)
    features = {Feature.CPUID: text("GenuineIntel,6,158,10")}
    saved = writer.save(place / "data" if kernel else place, features, clock)
    return Made(str(place) if kernel else saved, executed, runs)


def core(memory: dict[int, bytes]) -> bytes:
    """An ELF core file with these parts of memory, as /proc/kcore is one."""
    machine = {"x86_64": 62, "aarch64": 183}[platform.machine()]
    size, at = 64 + 56 * len(memory), 64 + 56 * len(memory)
    out = bytearray(b"\x7fELF\x02\x01\x01" + bytes(9))
    out += struct.pack("<HHIQQQIHHHHHH", 4, machine, 1, 0, 64, 0, 0, 64, 56, len(memory), 0, 0, 0)
    for address, data in memory.items():
        out += struct.pack("<IIQQQQQQ", 1, 7, at, address, 0, len(data), len(data), 4096)
        at += len(data)
    assert len(out) == size
    return bytes(out + b"".join(memory.values()))


def found_in(capture: PtThreads, tid: int) -> list[tuple[int, int]]:
    return [(one.address, one.size) for one in capture.streams[tid].records() if isinstance(one, Instruction)]


@given(st.integers(0, 1 << 20), st.integers(1, 8), st.integers(1, 4), st.integers(1, 2))
def test_each_thread_has_its_own_instructions(
    tmp_path_factory: pytest.TempPathFactory, seed: int, turns: int, pieces: int, processors: int
) -> None:
    made = recording(tmp_path_factory.mktemp("perf"), seed, turns, pieces=pieces, processors=processors)
    capture = PtThreads(Recorded(made.path))
    assert capture.left_out == ""
    for tid, executed in made.executed.items():
        if not made.runs[tid]:
            assert tid not in capture.streams
            continue
        assert found_in(capture, tid) == executed
        assert capture.streams[tid].errors == {}
        records = [one for one in capture.streams[tid].records() if isinstance(one, Instruction | Gap)]
        assert {one.thread for one in records if isinstance(one, Instruction)} == {tid}
        assert {one.why for one in records if isinstance(one, Gap)} <= {Why.OFF}
        assert sum(one.cycles or 0 for one in records) == records[-1].cycle


@given(st.integers(0, 1 << 20), st.integers(2, 8), st.data())
def test_a_time_selects_what_was_executed_in_it(
    tmp_path_factory: pytest.TempPathFactory, seed: int, turns: int, data: st.DataObject
) -> None:
    made = recording(tmp_path_factory.mktemp("perf"), seed, turns)
    capture = PtThreads(Recorded(made.path))
    tid = data.draw(st.sampled_from([tid for tid, runs in made.runs.items() if runs]))
    stream = capture.streams[tid]
    start, end = data.draw(st.sampled_from(made.runs[tid]))
    part = [
        (one.address, one.size)
        for records, _ in stream.parts(*stream.bounds(time_of(start), time_of(end)))
        for one in records
        if isinstance(one, Instruction)
    ]
    whole = found_in(capture, tid)
    assert part
    assert any(whole[at : at + len(part)] == part for at in range(len(whole) - len(part) + 1))
    if len(made.runs[tid]) > 1:
        assert len(part) < len(whole)


def test_what_was_executed_at_a_moment_is_found_without_the_rest(tmp_path: Path) -> None:
    made = recording(tmp_path, 5, 6)
    capture = PtThreads(Recorded(made.path))
    for tid, other in ((100, 101), (101, 100)):
        for start, end in made.runs[tid]:
            moment = capture.streams[tid].at_time(time_of((start + end) // 2))
            assert isinstance(moment.record, Instruction)
            assert (moment.record.address, moment.record.size) in made.executed[tid]
            assert capture.streams[other].at_time(time_of((start + end) // 2)).why == "unknown.outside"


def test_the_last_instruction_before_a_moment_is_found(tmp_path: Path) -> None:
    made = recording(tmp_path, 5, 6)
    capture = PtThreads(Recorded(made.path))
    for tid in (100, 101):
        for _, end in made.runs[tid]:
            moment = capture.streams[tid].last(time_of(end) + 50)
            assert isinstance(moment.record, Instruction)
            assert moment.time is not None
            assert moment.time <= time_of(end)
        last = capture.streams[tid].last(1 << 40).record
        assert isinstance(last, Instruction)
        assert (last.address, last.size) == made.executed[tid][-1]
        assert capture.streams[tid].last(time_of(9000)).why == "unknown.outside"


def test_without_switches_the_stream_is_the_processor(tmp_path: Path) -> None:
    made = recording(tmp_path, 5, 1, switches=False)
    capture = open_host(made.path, [f"{tmp_path / 'program0'}@{0x400000 - 64:#x}"])
    (stream,) = capture.chosen(())
    assert stream.label == "cpu0"
    assert stream.thread is None
    assert [(one.address, one.size) for one in stream.records() if isinstance(one, Instruction)] == made.executed[100]


def test_a_full_area_is_a_gap_and_is_counted(tmp_path: Path) -> None:
    made = next(one for one in map(program, range(99)) if not endless(one))
    (tmp_path / "p").write_bytes(made.code)
    walk, writer = Walk(made, 1), Writer()
    writer.info(1, INFO)
    writer.mmap2(7, made.base, len(made.code), str(tmp_path / "p"))
    writer.started(7, 7, time=time_of(900))
    walk.begin(1000)
    walk.go(30)
    walk.until_a_packet()
    cut = len(walk.out)
    walk.begin(9000)  # after the loss
    walk.go(30)
    walk.until_a_packet()
    walk.put(fup(walk.address) + disable())
    writer.area(bytes(walk.out), number=0, cpu=0)
    writer.aux(0, cut, flags=1, cpu=0)
    capture = PtThreads(Recorded(writer.save(tmp_path / "perf.data")))
    assert "1 gaps where an AUX area was full" in capture.left_out
    assert found_in(capture, 7) == walk.executed
    gaps = [one for one in capture.streams[7].records() if isinstance(one, Gap)]
    assert [gap.why for gap in gaps] == [Why.OFF, Why.OVERFLOW, Why.OFF]
    assert gaps[1].cycles == 8000


def test_code_that_is_not_the_one_that_ran_is_said(tmp_path: Path) -> None:
    made = recording(tmp_path, 5, 4)
    (tmp_path / "program0").unlink()
    capture = PtThreads(Recorded(made.path))
    found = found_in(capture, 101)
    assert in_common(found, made.executed[101]) == len(found)
    if found != made.executed[101]:  # libipt before 2.2 finds its way again only at the next PSB
        assert Why.IMAGE in {one.why for one in capture.streams[101].records() if isinstance(one, Gap)}
    assert "program0' cannot be read" in capture.left_out
    with pytest.raises(HeadwayError, match="no program is known for stream prog0:100"):
        capture.streams[100].check()


def test_an_image_stands_for_the_mapped_file_of_its_name(tmp_path: Path) -> None:
    made = recording(tmp_path / "there", 5, 4)
    (tmp_path / "here").mkdir()
    (tmp_path / "there/program0").rename(tmp_path / "here/program0")
    capture = PtThreads(Recorded(made.path, [str(tmp_path / "here/program0")]))
    assert found_in(capture, 100) == made.executed[100]
    assert capture.left_out == ""


def test_the_kernel_s_code_and_names_are_those_that_perf_copied(tmp_path: Path) -> None:
    made = recording(tmp_path, 5, 8, kernel=True)
    capture = PtThreads(Recorded(made.path))
    for tid in (100, 101):
        assert found_in(capture, tid) == made.executed[tid]
        assert capture.streams[tid].image.symbol(made.executed[tid][0][0]) == f"handler_{tid}"
    done = headway("trace", "decode", made.path, "--thread", 101, "--format", "csv")
    rows = [row for row in csv.DictReader(io.StringIO(done.stdout)) if row["address"]]
    assert [int(row["address"], 16) for row in rows] == [address for address, _ in made.executed[101]]
    assert {row["symbol"] for row in rows} == {"handler_101"}
    (tmp_path / "perf.data/kcore_dir/kallsyms").unlink()
    capture = PtThreads(Recorded(made.path))
    assert capture.streams[100].image.symbol(made.executed[100][0][0]) == ""
    assert "kallsyms' cannot be read" in capture.left_out


def test_a_copy_of_the_kernel_that_is_none_is_left_out(tmp_path: Path) -> None:
    made = recording(tmp_path, 5, 8, kernel=True)
    kcore = tmp_path / "perf.data/kcore_dir/kcore"
    beyond = core({(1 << 64) - 16: b"x" * 64})
    many = core({KERNEL + number: b"x" for number in range(2000)})
    for content in (b"", b"no ELF", kcore.read_bytes()[:70], core({}), beyond, many):
        kcore.write_bytes(content)
        assert "kcore" in Recorded(made.path).left_out()[0]
        done = headway("trace", "stats", made.path)
        assert "Traceback" not in done.stderr
    with (tmp_path / "perf.data/kcore_dir/kallsyms").open("wb") as names:
        names.truncate(1 << 28)
    kcore.write_bytes(core({KERNEL: b"\x90"}))
    assert "is too large" in Recorded(made.path).left_out()[0]


def test_a_folder_of_several_files_of_records_is_refused(tmp_path: Path) -> None:
    made = recording(tmp_path, 5, 8, kernel=True)
    (tmp_path / "perf.data/data.0").write_bytes(b"")
    done = headway("trace", "decode", made.path)
    assert "perf record --threads" in done.stderr
    assert done.returncode == 125


def test_only_threads_that_are_there_can_be_chosen(tmp_path: Path) -> None:
    capture = PtThreads(Recorded(recording(tmp_path, 5, 4).path))
    assert [one.id for one in capture.chosen([101])] == [101]
    with pytest.raises(SelectionError, match="no thread 7 "):
        capture.chosen([7])


@pytest.mark.end_to_end
def test_decode_prints_a_thread_with_its_instructions(tmp_path: Path) -> None:
    made = recording(tmp_path, 5, 4)
    arguments = "trace", "decode", made.path, "--thread", 100, "--disassemble", "--format", "json"
    result = headway(*arguments)
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [(int(row["address"], 16), row["size"]) for row in rows if row["address"]] == made.executed[100]
    assert {row["thread"] for row in rows} == {100}
    assert all(row["instruction"] for row in rows if row["address"])


@given(st.integers(0, 1 << 20), st.integers(2, 5))
def test_lines_of_csv_are_the_records(tmp_path_factory: pytest.TempPathFactory, seed: int, turns: int) -> None:
    capture = open_host(recording(tmp_path_factory.mktemp("pt"), seed, turns).path)
    for stream in capture.chosen([]):
        found = [(one, memory) for block, memory in stream.parts() for one in block]
        assert b"".join(csv_lines(stream, None, None)).decode() == as_csv(stream, found)


@pytest.mark.end_to_end
def test_at_shows_every_thread(tmp_path: Path) -> None:
    made = recording(tmp_path, 5, 4)
    start, end = made.runs[100][0]
    result = headway("trace", "at", made.path, "--time", time_of((start + end) // 2), "--format", "json")
    assert result.returncode == 0, result.stderr
    mine, other = json.loads(result.stdout)
    assert (mine["thread"], mine["state"]) == (100, "executed")
    assert (other["thread"], other["state"]) == (101, "unknown.outside")


@pytest.mark.end_to_end
@pytest.mark.parametrize("what", ["stats", "align"])
def test_the_other_answers_are_given(tmp_path: Path, what: str) -> None:
    made = recording(tmp_path, 5, 4)
    result = headway("trace", what, made.path, "--format", "json")
    assert result.returncode == 0, result.stderr
    assert {row["stream"] for row in json.loads(result.stdout)} == {"prog0:100", "prog1:101"}


@pytest.mark.end_to_end
def test_a_recording_without_a_trace_is_refused(tmp_path: Path) -> None:
    writer = Writer()
    writer.comm(1, 1, "x")
    result = headway("trace", "stats", writer.save(tmp_path / "perf.data"))
    assert result.returncode == 125
    assert "no trace of a processor" in result.stderr


@pytest.mark.end_to_end
@pytest.mark.parametrize("form", ["perfetto", "html"])
def test_a_thread_is_exported(tmp_path: Path, form: str) -> None:
    made = recording(tmp_path, 5, 4)
    out = tmp_path / "out"
    result = headway("trace", "export", made.path, "--thread", 100, "--to", form, "-o", out)
    assert result.returncode == 0, result.stderr
    assert len(out.read_bytes()) > 200
    if form == "perfetto":  # a page is compressed
        assert b"prog0:100" in out.read_bytes()
        assert b"prog1:101" not in out.read_bytes()
