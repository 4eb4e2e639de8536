"""Perf maps: anybody can write into /tmp."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.binary import perf_map as perfmap

UID = os.geteuid()
PID = 4_190_000 + os.getpid() % 1000
"""Of no process."""


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(f"/tmp/perf-{PID}.map")
    yield path
    with suppress(FileNotFoundError):
        path.unlink()


def test_functions_are_found_by_any_address_in_them() -> None:
    found = perfmap.parse(b"1000 20 f\n2000 10 py::work:/a b/c.py\n")
    assert found.at(0x1000) == ("f", 0x1000)
    assert found.at(0x101F) == ("f", 0x1000)
    assert found.at(0x1020) is None
    assert found.at(0xFFF) is None
    assert found.at(0x2005) == ("py::work:/a b/c.py", 0x2000)


def test_of_two_at_one_place_the_later_counts() -> None:
    assert perfmap.parse(b"1000 20 old\n1000 10 new\n").at(0x1005) == ("new", 0x1000)


@given(st.binary(max_size=400))
def test_whatever_is_in_it_is_read_or_passed_over(data: bytes) -> None:
    found = perfmap.parse(data)
    for address in (0, 1, 0x1000, (1 << 64) - 1):
        hit = found.at(address)
        assert hit is None or len(hit[0]) <= 4000


@pytest.mark.parametrize(
    "line",
    [
        b"", b"zz 10 f", b"10 zz f", b"10 f", b"-10 20 f", b"10 -20 f", b"10 0 f", b"1" * 40 + b" 10 f",
        b"10 " + b"f" * 30 + b" f", b"10 20 ", b"\xff\xfe\x00",
    ],
)  # fmt: skip
def test_lines_that_make_no_sense_are_passed_over(line: bytes) -> None:
    found = perfmap.parse(line + b"\n1000 20 f\n")
    assert len(found) == 1
    assert found.at(0x1000) == ("f", 0x1000)


@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(1, 1 << 20), st.text("abc:/ ", min_size=1)), max_size=20)
)
def test_what_was_written_is_found(rows: list[tuple[int, int, str]]) -> None:
    text = "".join(f"{start:x} {size:X} {name}\n" for start, size, name in rows)
    found = perfmap.parse(text.encode())
    last = {start: name for start, _, name in rows if name.strip()}
    assert len(found) == len(last)
    for start, name in last.items():
        assert found.at(start) == (name.lstrip(), start)


def test_one_of_the_processs_user_is_used(place: Path) -> None:
    place.write_text("1000 20 f\n")
    found, problem = perfmap.read(PID, UID)
    assert problem == ""
    assert found is not None
    assert len(found) == 1


def test_a_process_without_a_perf_map_has_no_names() -> None:
    assert perfmap.read(PID, UID) == (None, "")


def test_a_perf_map_of_another_user_is_not_used(place: Path) -> None:
    if UID:
        pytest.skip("needs root to give a file away")
    place.write_text("1000 20 f\n")
    os.chown(place, 12345, -1)
    found, problem = perfmap.read(PID, UID)
    assert found is None
    assert "belongs to user 12345" in problem
    assert perfmap.read(PID, 12345)[0] is not None


def test_a_link_is_not_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("1000 20 f\n")
    place.symlink_to(tmp_path / "secret")
    found, problem = perfmap.read(PID, UID)
    assert found is None
    assert "symbolic link" in problem


def test_a_pipe_does_not_hold_us(place: Path) -> None:
    os.mkfifo(place)
    found, problem = perfmap.read(PID, UID)
    assert found is None
    assert "no plain file" in problem


def test_one_that_is_too_large_is_not_read(place: Path) -> None:
    place.touch()
    os.truncate(place, 1 << 40)
    found, problem = perfmap.read(PID, UID)
    assert found is None
    assert "MiB" in problem


@pytest.mark.parametrize("absolute", [True, False])
def test_no_link_leads_out_of_the_root_of_the_process(absolute: bool, tmp_path: Path) -> None:
    """A container's /tmp that is a link to a folder is that folder of the container's, whatever ours has there."""
    root = tmp_path / "root"
    ours = Path(tempfile.mkdtemp(dir="/var/tmp")) if absolute else tmp_path / "ours"
    ours.mkdir(exist_ok=True)
    (ours / "perf-7.map").write_text("1000 20 ours\n")
    root.mkdir()
    (root / "tmp").symlink_to(ours if absolute else Path("..", "ours"))
    assert perfmap.read(PID, UID, inner=7, root=str(root)) == (None, "")
    within = root / (str(ours)[1:] if absolute else "ours")
    within.mkdir(parents=True)
    (within / "perf-7.map").write_text("1000 20 its\n")
    found, problem = perfmap.read(PID, UID, inner=7, root=str(root))
    assert problem == ""
    assert found is not None
    assert found.at(0x1000) == ("its", 0x1000)
    shutil.rmtree(ours)


def test_a_map_in_another_root_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp/perf-7.map").symlink_to("/tmp/other")
    found, problem = perfmap.read(PID, UID, inner=7, root=str(tmp_path))
    assert found is None
    assert "symbolic link" in problem
