"""perf.data: the records of a file, and that nothing in one can do harm."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway_trace.perfdata.events import Area, AreaInfo, Aux, Comm, Event, Exit, Fork, MemoryMapping, Switch, events
from headway_trace.perfdata.file import Feature, PerfFile

from .writing import CPU, IDENTIFIER, SAMPLE_TYPE, TID, TIME, Writer, text


def _some() -> Writer:
    w = Writer()
    w.info(1, [8, 10, 1234, 99, 1, *range(12)])
    w.mmap2(100, 0x400000, 0x1000, "/bin/true", offset=0x2000, time=5)
    w.mmap(100, 0x700000, 0x2000, "[vdso]", time=6)
    w.comm(100, 100, "true", time=7, executed=True)
    w.fork(101, 100, 101, 100, time=8)
    w.switch(2, (100, 100), (101, 101), time=9, out=True)
    w.area(b"\x02\x82" * 8 + bytes(9), offset=64, number=2, cpu=2)
    w.aux(64, 25, flags=1, time=10, cpu=2)
    w.exit(101, 101, time=11)
    return w


def _read(path: str) -> tuple[PerfFile, list[Event], Counter[str]]:
    file, left_out = PerfFile(path), Counter[str]()
    return file, list(events(file, left_out)), left_out


@pytest.mark.parametrize("form", ["file", "pipe"])
def test_every_event_is_read_from_a_file_and_from_a_pipe(tmp_path: Path, form: str) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(getattr(_some(), form)())
    file, found, left_out = _read(str(path))
    assert file.cut == ""
    assert not left_out
    info, mapped, vdso, comm, fork, switch, area, aux, exit_ = found
    assert isinstance(info, AreaInfo)
    assert info.kind == 1
    assert info.words[:5] == (8, 10, 1234, 99, 1)
    assert isinstance(mapped, MemoryMapping)
    assert (mapped.pid, mapped.address, mapped.size, mapped.offset) == (100, 0x400000, 0x1000, 0x2000)
    assert mapped.name == "/bin/true"
    assert mapped.executable
    assert mapped.when.time == 5
    assert isinstance(vdso, MemoryMapping)
    assert vdso.name == "[vdso]"
    assert isinstance(comm, Comm)
    assert comm.name == "true"
    assert comm.exec
    assert isinstance(fork, Fork)
    assert (fork.pid, fork.parent, fork.tid) == (101, 100, 101)
    assert isinstance(switch, Switch)
    assert switch.out
    assert switch.other == (101, 101)
    assert switch.when.cpu == 2
    assert isinstance(area, Area)
    assert (area.size, area.offset, area.number, area.cpu) == (25, 64, 2, 2)
    assert path.read_bytes()[area.position : area.position + area.size] == b"\x02\x82" * 8 + bytes(9)
    assert isinstance(aux, Aux)
    assert aux.truncated
    assert not aux.collided
    assert aux.when.time == 10
    assert isinstance(exit_, Exit)
    assert exit_.tid == 101


@given(
    st.sampled_from([SAMPLE_TYPE, TID | TIME, TIME | CPU, TID | TIME | CPU, IDENTIFIER | TIME]),
    st.lists(
        st.tuples(st.integers(0, 1 << 30), st.integers(0, (1 << 63) - 1), st.integers(0, 4095), st.booleans()),
        min_size=1,
        max_size=20,
    ),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, sample_type: int, some: list[tuple[int, int, int, bool]]
) -> None:
    w = Writer(sample_type=sample_type)
    for tid, time, cpu, out in some:
        w.switch(cpu, (tid, tid), (tid + 1, tid + 2), time=time, out=out)
    path = tmp_path_factory.mktemp("perf") / "perf.data"
    _, found, left_out = _read(w.save(path))
    assert not left_out
    assert len(found) == len(some)
    for (tid, time, cpu, out), one in zip(some, found, strict=True):
        assert isinstance(one, Switch)
        assert one.out is out
        assert one.other == (tid + 1, tid + 2)
        assert one.when.time == time
        assert one.when.tid == (tid if sample_type & TID else -1)
        assert one.when.cpu == (cpu if sample_type & CPU else -1)


@given(st.data())
def test_a_damaged_file_is_refused_in_one_sentence_or_read_in_part(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    good = bytearray(getattr(_some(), data.draw(st.sampled_from(["file", "pipe"])))())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(good) - 1))
        if data.draw(st.booleans()):
            good[place] = data.draw(st.integers(0, 255))
        else:
            del good[place:]
            break
        if not good:
            break
    path = tmp_path_factory.mktemp("perf") / "perf.data"
    path.write_bytes(bytes(good))
    try:
        file, found, _ = _read(str(path))
    except HeadwayError:
        pass
    else:
        assert len(found) <= 9 + len(good) // 8
        for one in found:
            if isinstance(one, Area) and not file.cut:
                assert one.position + one.size <= file.size


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a perf.data file"),
        (b"PERFILE2", "not a perf.data file"),
        (b"2ELIFREP" + bytes(96), "big-endian"),
        (b"PERFILE2" + (104).to_bytes(8, "little") + bytes(20), "cut off in its header"),
        (b"PERFILE2" + (104).to_bytes(8, "little") + bytes(88), "has no records"),
    ],
)
def test_what_is_no_perf_data_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(HeadwayError, match=words):
        PerfFile(str(path))


def test_a_file_that_was_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    whole = _some().file()
    path.write_bytes(whole[:-30])
    file, found, _ = _read(str(path))
    assert (len(found) == 8 and "bytes long" in file.cut) or "within a record" in file.cut


def test_features_are_read(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    file = PerfFile(_some().save(path, {Feature.ARCH: text("x86_64"), Feature.CPUID: text("GenuineIntel,6,158,10")}))
    assert file.text(Feature.ARCH) == "x86_64"
    assert file.text(Feature.CPUID) == "GenuineIntel,6,158,10"
    assert file.text(11) == ""


@pytest.mark.end_to_end
@pytest.mark.skipif(not shutil.which("perf"), reason="perf is not installed")
def test_what_perf_recorded_is_read(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    command = ["perf", "record", "-q", "-e", "cpu-clock:u", "--switch-events", "-o", str(path), "sleep", "0.01"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"perf record does not work here: {done.stderr.strip()[:100]}")
    file, found, left_out = _read(str(path))
    assert file.cut == ""
    assert not left_out
    assert any(isinstance(one, MemoryMapping) and one.name.endswith("sleep") for one in found)
    assert any(isinstance(one, Comm) and one.name == "sleep" for one in found)
    assert any(isinstance(one, Switch) and one.out for one in found)
    told = subprocess.run(
        ["perf", "script", "-i", str(path), "--show-mmap-events", "-F", "comm,tid,time"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    maps = [one for one in found if isinstance(one, MemoryMapping) and one.pid >= 0]
    assert told.count("PERF_RECORD_MMAP") >= len(maps)
    for one in maps:
        assert f"({one.address:#x}({one.size:#x})" in told.replace("[", "(")


def test_an_area_that_is_longer_than_the_file_ends_with_it(tmp_path: Path) -> None:
    writer = Writer()
    writer.info(1, [8] * 17)
    writer.area(bytes(100))
    data = bytearray(writer.file())
    place = data.rfind((100).to_bytes(8, "little"))
    data[place : place + 8] = b"\xff" * 8
    (tmp_path / "x").write_bytes(bytes(data))
    file, found, _ = _read(str(tmp_path / "x"))
    assert isinstance(found[-1], Area)
    assert found[-1].size == 100
    assert "within an AUX area" in file.cut
