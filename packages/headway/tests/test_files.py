"""Files that a user names are read whole or refused, and take no more memory than they have bytes."""

from __future__ import annotations

import errno
import os
import tempfile
import tracemalloc
from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway.files import open_regular, read_file, written_whole

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_a_file_is_read_whole_up_to_its_limit(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    path.write_bytes(data)
    assert read_file(path, "a file", size) == read_file(path, "a file", size + 1) == data
    if size:
        with pytest.raises(HeadwayError, match="too much: give a file"):
            read_file(path, "a file", size - 1)


def test_a_small_file_takes_little_memory_whatever_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    tracemalloc.start()
    try:
        read_file(path, "a file", 1 << 28)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 16


def test_a_pipe_that_nobody_writes_to_is_no_file_and_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    for path, why in ((pipe, "it is not a file"), (tmp_path, "Is a directory")):
        with pytest.raises(OSError, match=why):
            open_regular(path)


def test_a_file_of_ones_own_is_written_in_a_folder_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    path = tmp_path / "report"
    with pytest.raises(PermissionError), written_whole(str(path)):
        pass
    path.write_bytes(b"what was there before")
    with pytest.raises(TypeError), written_whole(str(path)) as stream:
        stream.write("no bytes")  # type: ignore[call-overload]
    assert path.read_bytes() == b"what was there before"
    with written_whole(str(path)) as stream:
        stream.write(b"whole")
    assert path.read_bytes() == b"whole"
