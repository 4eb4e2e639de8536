"""How much memory is left, read from a /proc and control groups of the test's own."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux.procfs.memory import Room, room

pytestmark = pytest.mark.unit

MIB = 1 << 20
UNLIMITED = 9223372036854771712
"""What cgroup v1 writes where there is no limit, with pages of 4 KiB."""


class Machine:
    """A /proc, and a hierarchy of control groups with this process in one of them."""

    def __init__(self, folder: Path, version: int, path: str, free: int = 1 << 40) -> None:
        self.proc, self.top, self._version = folder / "proc", folder / "cgroup", version
        (self.proc / "self").mkdir(parents=True)
        self.top.mkdir()
        (self.proc / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable: {free >> 10} kB\n")
        (self.proc / "self/cgroup").write_text(f"0::{path}\n" if version == 2 else f"4:memory,cpu:{path}\n0::/\n")
        kind, options = ("cgroup2", "rw") if version == 2 else ("cgroup", "rw,memory")
        (self.proc / "self/mountinfo").write_text(f"1 0 0:1 / {self.top} rw - {kind} {kind} {options}\n")

    def group(
        self, path: str, *, limit: int | str, used: int = 0, cache: int = 0, hierarchical: int = UNLIMITED
    ) -> None:
        folder = self.top / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        names = ("memory.max", "memory.current") if self._version == 2 else _V1
        for name, value in zip(names, (limit, used), strict=True):
            (folder / name).write_text(f"{value}\n")
        v1 = f"total_cache {cache}\ntotal_shmem 0\nhierarchical_memory_limit {hierarchical}\n"
        (folder / "memory.stat").write_text(f"file {cache}\nshmem 0\n" if self._version == 2 else v1)

    def room(self) -> Room | None:
        return room(str(self.proc))


_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
versions = pytest.mark.parametrize("version", [1, 2])


@versions
def test_without_a_limit_there_is_what_the_machine_has(tmp_path: Path, version: int) -> None:
    machine = Machine(tmp_path, version, "/a", free=300 * MIB)
    machine.group("/a", limit="max" if version == 2 else UNLIMITED, used=100 * MIB)
    assert machine.room() == Room(300 * MIB, "")


@versions
@given(
    levels=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=4)
)
def test_the_least_room_on_the_way_up_counts_and_pages_of_files_are_free(
    version: int, levels: list[tuple[int, int, int]]
) -> None:
    with TemporaryDirectory() as scratch:
        path = "".join(f"/{number}" for number in range(len(levels)))
        machine = Machine(Path(scratch), version, path)
        rooms = []
        for number, (limit, used, cache) in enumerate(levels):
            folder = "".join(f"/{level}" for level in range(number + 1))
            machine.group(folder, limit=limit * MIB, used=used * MIB, cache=cache * MIB)
            rooms.append(max(limit - max(used - cache, 0), 0) * MIB)
        found = machine.room()
    assert found is not None
    assert found.size == min(rooms)
    assert found.limited_by.endswith("memory.max" if version == 2 else "memory.limit_in_bytes")


def test_a_limit_of_a_group_above_the_mount_is_seen_where_the_kernel_tells_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 1, "/")
    machine.group("/", limit=UNLIMITED, used=50 * MIB, hierarchical=200 * MIB)
    assert machine.room() == Room(150 * MIB, str(machine.top / "memory.stat"))


@versions
@pytest.mark.parametrize("path", ["/../outside", "/docker/4711"])
def test_where_the_path_is_not_below_the_mount_the_mount_is_the_group(tmp_path: Path, version: int, path: str) -> None:
    machine = Machine(tmp_path, version, path)
    machine.group("/", limit=70 * MIB)
    found = machine.room()
    assert found is not None
    assert found.size == 70 * MIB


@given(st.binary(max_size=200))
def test_whatever_the_files_say_it_is_a_size_or_nothing(text: bytes) -> None:
    for version in (1, 2):
        with TemporaryDirectory() as scratch:
            machine = Machine(Path(scratch), version, "/a")
            machine.group("/a", limit=70 * MIB)
            files = [path for path in Path(scratch).rglob("*") if path.is_file() and path.name != "mountinfo"]
            for file in files:
                before = file.read_bytes()
                file.write_bytes(text)
                found = machine.room()
                assert found is None or found.size >= 0
                file.write_bytes(before)


def test_where_nothing_can_be_read_nothing_is_said(tmp_path: Path) -> None:
    assert room(str(tmp_path)) is None
