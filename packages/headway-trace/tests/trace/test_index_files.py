"""Later looks at a capture read its index and answer the same. After a change or damage the index is made anew."""

from __future__ import annotations

import hashlib
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

from headway.errors import HeadwayError
from headway_trace import index_files, moments, stream_index
from headway_trace._coresight import Deformatter
from headway_trace.commands.trace import command
from headway_trace.decode import Capture
from headway_trace.index_files import Built, IndexFile, IndexFolder
from headway_trace.moments import Index
from headway_trace.snapshot import TraceSnapshot


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
    path = IndexFolder.of(TraceSnapshot.open(capture), ()).path
    assert path is not None
    return path


def test_a_later_look_reads_the_index_and_answers_the_same(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = asked(capture)
    assert sorted(os.listdir(kept(capture))) == ["0x10", "contents"]
    monkeypatch.setattr(moments, "build", lambda *_: pytest.fail("the stream was indexed again"))
    monkeypatch.setattr("headway_trace.decode._contents", lambda *_: pytest.fail("the buffer was read again"))
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
        folder = tmp_path / f"{number:032x}"
        IndexFolder(folder).write("one", Built({}, {}))
        os.utime(folder, (number, number))
    IndexFolder(tmp_path / ("f" * 32)).write("one", Built({}, {}))
    assert len(os.listdir(tmp_path)) == index_files._KEPT
    assert (tmp_path / ("f" * 32) / "one").exists()
    assert not (tmp_path / ("0" * 32)).exists()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), cycle=st.integers(0, 1100))
def test_a_damaged_index_makes_no_difference(capture: Path, seed: int, cycle: int) -> None:
    draw, folder = random.Random(seed), IndexFolder(place := capture.parent / "index")
    streams = list(Capture.open(str(capture)).streams.values())
    wanted = Index(streams).at_cycle(0x10, cycle)
    Index(streams, folder)
    file = place / "0x10"
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


def test_links_are_replaced_and_not_followed(capture: Path, tmp_path: Path) -> None:
    first = asked(capture)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    precious.chmod(0o644)
    (kept(capture) / "0x10").unlink()
    (kept(capture) / "0x10").symlink_to(precious)
    assert asked(capture) == first
    assert (precious.read_text(), precious.stat().st_mode & 0o777) == ("mine", 0o644)
    assert not (kept(capture) / "0x10").is_symlink()


def test_what_is_no_file_is_replaced_without_waiting(capture: Path) -> None:
    first = asked(capture)
    (kept(capture) / "0x10").unlink()
    os.mkfifo(kept(capture) / "0x10")
    assert asked(capture) == first
    assert (kept(capture) / "0x10").is_file()


@pytest.mark.parametrize("which", ["root", "folder"])
def test_a_folder_that_is_a_link_or_that_others_may_write_is_left_alone(
    which: str, capture: Path, tmp_path: Path
) -> None:
    first = asked(capture)
    place = kept(capture) if which == "folder" else kept(capture).parent
    shutil.rmtree(place)
    elsewhere = tmp_path / "elsewhere"
    for number in range(40):
        (elsewhere / f"{number:032x}").mkdir(parents=True)
    place.symlink_to(elsewhere)
    assert asked(capture) == first
    assert len(list(elsewhere.iterdir())) == 40
    place.unlink()
    place.mkdir(0o700)
    place.chmod(0o777)
    assert asked(capture) == first
    assert list(place.iterdir()) == []


def test_only_folders_of_captures_are_removed_the_oldest_first(capture: Path) -> None:
    asked(capture)
    root = kept(capture).parent
    shutil.rmtree(kept(capture))
    for number in range(40):
        for name in (f"{number:032x}", f"notes-{number}"):
            (root / name).mkdir()
            os.utime(root / name, (number, number))
    asked(capture)
    left = {entry.name for entry in root.iterdir()}
    assert {f"notes-{number}" for number in range(40)} < left
    assert left - {f"notes-{number}" for number in range(40)} == {kept(capture).name} | {
        f"{number:032x}" for number in range(9, 40)
    }


def test_a_user_without_a_home_gets_the_answer(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = asked(capture)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert IndexFolder.of(TraceSnapshot.open(capture), ()).path is None
    assert asked(capture) == first


def test_a_header_that_nests_without_end_is_no_index(capture: Path) -> None:
    first = asked(capture)
    header = b'{"header": {"buffers": ' + b"[" * 200_000 + b"]" * 200_000 + b'}, "sections": {}}'
    head = index_files._HEAD.pack(index_files.MAGIC, index_files.VERSION, len(header), hashlib.sha256(header).digest())
    (kept(capture) / "contents").write_bytes(head + header)
    assert asked(capture) == first


@pytest.mark.parametrize("offsets", [[], [0] * 5, {}, None])
def test_a_state_of_frames_without_all_offsets_is_refused(offsets: object) -> None:
    frames_ = Deformatter()
    state = frames_.save()
    state[4] = offsets
    with pytest.raises((ValueError, TypeError)):
        frames_.load(state)
