"""Trace files: written and read back the same; whatever else a file holds is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway_trace.threads.container import MAGIC, MachineShape, TraceFile, TraceFileWriter

SHAPE = MachineShape(cores=2, threads=6, strict=True, cycle_accurate=True, window=1024, program="0" * 64, name="a.elf")


def written(path: Path, parts: list[tuple[int, bytes]], *, closed: bool = True) -> Path:
    with path.open("wb") as stream:
        writer = TraceFileWriter(stream, SHAPE)
        for core, data in parts:
            writer.add(core, data)
        if closed:
            writer.close()
    return path


def opened(path: Path) -> tuple[TraceFile | None, str]:
    try:
        return TraceFile(path), ""
    except HeadwayError as error:
        return None, str(error)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@given(
    parts=st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=50)), max_size=12),
    start=st.integers(0, 300),
)
def test_the_streams_of_a_file_are_read_as_they_were_written(
    folder: Path, parts: list[tuple[int, bytes]], start: int
) -> None:
    streams = [b"".join(data for core, data in parts if core == number) for number in range(2)]
    path = written(folder / "a.hwt", parts)
    if not any(streams):
        with pytest.raises(HeadwayError, match="no trace in it"):
            TraceFile(path)
        return
    found = TraceFile(path)
    assert found.shape == SHAPE
    assert found.complete
    for core, stream in enumerate(streams):
        assert found.sizes[core] == len(stream)
        assert b"".join(found.pieces(core)) == stream
        assert b"".join(found.pieces(core, start)) == stream[start:]


@given(end=st.integers(0, 400))
def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(folder: Path, end: int) -> None:
    whole = written(folder / "b.hwt", [(0, b"x" * 100), (1, b"y" * 50)]).read_bytes()
    path = folder / "c.hwt"
    path.write_bytes(whole[:end])
    found, message = opened(path)
    assert "\n" not in message
    if found is None:
        return
    assert found.complete == (end >= len(whole))
    assert (b"x" * 100).startswith(b"".join(found.pieces(0)))


@given(at=st.integers(0, 400), value=st.integers(0, 255))
def test_a_damaged_file_is_one_sentence_or_readable(folder: Path, at: int, value: int) -> None:
    data = bytearray(written(folder / "d.hwt", [(0, b"x" * 100)]).read_bytes())
    data[at % len(data)] = value
    path = folder / "e.hwt"
    path.write_bytes(data)
    found, message = opened(path)
    assert "\n" not in message
    for core in range(found.shape.cores if found else 0):
        list(found.pieces(core) if found else ())


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"\x7fELF" + bytes(60), "not a trace of the machine"),
        (MAGIC + b"\x01" + bytes(20), "version 1, this headway reads 2"),
        (MAGIC + b"\x02", "does not describe its machine"),
        (MAGIC + b"\x02\xff\x02\0\0\0{]", "no JSON"),
        (MAGIC + b"\x02\xff\x02\0\0\0{}", "cores"),
        (MAGIC + b"\x02\xff\xff\xff\xff\x7f", "does not describe its machine"),
    ],
)
def test_what_is_no_trace_is_said_to_be_none(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "f.hwt"
    path.write_bytes(data)
    with pytest.raises(HeadwayError, match=says):
        TraceFile(path)


def test_a_file_that_is_not_there_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", tmp_path / "nul\0"):
        with pytest.raises(HeadwayError, match=r"\.hwt"):
            TraceFile(path)
