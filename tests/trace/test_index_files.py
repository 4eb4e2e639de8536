"""Later looks at a capture read its index and answer the same. After a change or damage the index is made anew."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.trace.encoding import frames
from tests.trace.snapshots import STREAM, write

from headway.commands.trace import command
from headway.errors import HeadwayError
from headway.trace import index_files, moments, stream_index
from headway.trace.decode import Capture
from headway.trace.index_files import Built, IndexFile, IndexFolder
from headway.trace.moments import Index
from headway.trace.snapshot import TraceSnapshot


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(moments, "_SMALL", 0)
    monkeypatch.setattr(stream_index, "_PIECE", 32)
    monkeypatch.setattr(stream_index, "_RECORDS", 20)
    return write(tmp_path / "capture", frames([(0x10, STREAM * 20)]))


def asked(capture: Path, cycle: int = 777) -> str:
    result = CliRunner().invoke(
        command, ["at", str(capture), "--stream", "0x10", "--cycle", str(cycle), "--format", "csv"]
    )
    assert result.exit_code == 0, result.output
    return result.output


def kept(capture: Path) -> Path:
    return IndexFolder.of(TraceSnapshot.open(capture), ()).path


def test_a_later_look_reads_the_index_and_answers_the_same(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = asked(capture)
    assert sorted(os.listdir(kept(capture))) == ["0x10", "contents"]
    monkeypatch.setattr(moments, "build", lambda *_: pytest.fail("the stream was indexed again"))
    monkeypatch.setattr("headway.trace.decode._contents", lambda *_: pytest.fail("the buffer was read again"))
    assert asked(capture) == first
    assert asked(capture, 5) != first


@pytest.mark.parametrize("file", ["trace.bin", "memory.bin", "etm.ini"])
def test_a_capture_that_changed_is_indexed_again(capture: Path, file: str) -> None:
    asked(capture)
    before, data = kept(capture), (capture / file).read_bytes()
    setting = data.replace(b"0x10001000", b"0x10000000")  # it counts no cycles
    (capture / file).write_bytes(setting if file == "etm.ini" else data + bytes(16))
    assert kept(capture) != before


def test_an_index_that_others_may_write_is_not_used(capture: Path) -> None:
    asked(capture)
    (kept(capture) / "0x10").chmod(0o666)
    with pytest.raises(ValueError, match="0x10"):
        IndexFile(kept(capture) / "0x10")
    assert IndexFolder(kept(capture)).read("0x10") is None


def test_without_a_folder_to_write_into_the_answer_is_the_same(capture: Path, tmp_path: Path) -> None:
    first = asked(capture)
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("a file")
    assert asked(capture) == first


def test_the_folders_of_the_captures_that_were_looked_at_last_stay(tmp_path: Path) -> None:
    for number in range(index_files._KEPT + 3):
        folder = tmp_path / f"{number}"
        IndexFolder(folder).write("one", Built({}, {}))
        os.utime(folder, (number, number))
    IndexFolder(tmp_path / "last").write("one", Built({}, {}))
    assert len(os.listdir(tmp_path)) == index_files._KEPT
    assert (tmp_path / "last" / "one").exists()
    assert not (tmp_path / "0").exists()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), cycle=st.integers(0, 1100))
def test_a_damaged_index_makes_no_difference(capture: Path, seed: int, cycle: int) -> None:
    draw, folder = random.Random(seed), IndexFolder(capture.parent / "index")
    streams = list(Capture.open(str(capture)).streams.values())
    wanted = Index(streams).at_cycle(0x10, cycle)
    Index(streams, folder)
    file = folder.path / "0x10"
    data = bytearray(file.read_bytes())
    for _ in range(draw.randint(1, 3)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    file.write_bytes(data[: draw.choice((len(data), draw.randint(0, len(data))))])
    found = Index(streams, folder).at_cycle(0x10, cycle)
    assert [(one.time, one.cycle, one.record, one.why) for one in found] == [
        (one.time, one.cycle, one.record, one.why) for one in wanted
    ]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), cycle=st.integers(0, 1100))
def test_an_index_with_right_digests_and_wrong_content_cannot_break_anything(
    capture: Path, seed: int, cycle: int
) -> None:
    draw, folder = random.Random(seed), IndexFolder(capture.parent / "index")
    (stream,) = Capture.open(str(capture)).streams.values()
    built = stream_index.build(stream)
    sections = dict(built.sections)
    name = draw.choice(sorted(set(sections) - {"states"}))
    data = bytearray(sections[name])
    for _ in range(draw.randint(1, 3)):
        if data:
            data[draw.randrange(len(data))] = draw.randrange(256)
    sections[name] = bytes(data[: draw.choice((len(data), draw.randint(0, len(data))))])
    header = dict(built.header)
    if draw.random() < 0.3:
        key = draw.choice(sorted(header))
        header[key] = draw.choice((None, 0, -1, 1 << 70, "x", [], [1, 2], 0.5, True))
    folder.write("0x10", Built(header, sections))
    index = Index([stream], folder)
    with suppress(HeadwayError):
        index.at_cycle(0x10, cycle)
    with suppress(HeadwayError):
        index.at_time(1000 + cycle // 10)
