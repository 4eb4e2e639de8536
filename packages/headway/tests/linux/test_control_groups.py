"""The control groups of measured processes: read while they live, kept until they are reported, and not too many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux.sources import control_groups
from headway.linux.sources.control_groups import AGAIN_NS, ControlGroups
from headway.model import Behind, Cause, Cell, Ledger, Thread, Window

pytestmark = pytest.mark.unit


class Proc:
    """A /proc of the test's own, and how often each process was read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, pid: int, cgroup: str, *, name: str = "a", tids: tuple[int, ...] = ()) -> None:
        for tid in (pid, *tids):
            (self.folder / str(tid)).mkdir(exist_ok=True)
            (self.folder / str(tid) / "cgroup").write_text(f"0::{cgroup}\n")
            (self.folder / str(tid) / "status").write_text(f"Name:\t{name}\nTgid:\t{pid}\n")

    def ends(self, pid: int) -> None:
        for file in (self.folder / str(pid)).iterdir():
            file.unlink()
        (self.folder / str(pid)).rmdir()


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    now = [10**12]
    monkeypatch.setattr("time.monotonic_ns", lambda: now[0])
    return now


def thread(tid: int, pid: int, birth: int = 0, end: int | None = None, *causes: Cause) -> Thread:
    return Thread(tid, pid, "a", birth, 0, end, 10, 10, {"ready": Cell(10)}, causes=causes)


def told(groups: ControlGroups, *threads: Thread) -> list[Thread]:
    return list(groups.told(Ledger("bpf", Window(0, 10), threads)).threads)


def held(name: str, tid: int | None) -> Cause:
    return Cause("ready", Behind.HOLDER, name, 5, 1, tid)


def test_each_thread_is_told_the_group_of_its_process(proc: Proc) -> None:
    proc.process(1, "/system.slice/nginx.service")
    proc.process(2, "/")
    groups = ControlGroups(str(proc.folder))
    found = told(groups, thread(1, 1), thread(5, 1), thread(2, 2), thread(9, 9))
    assert [one.cgroup for one in found] == ["/system.slice/nginx.service", "/system.slice/nginx.service", "/", None]


def test_a_process_that_has_ended_has_the_group_in_which_it_was_seen(proc: Proc) -> None:
    proc.process(1, "/batch")
    groups = ControlGroups(str(proc.folder))
    groups.look([(1, 0)])
    proc.ends(1)
    assert told(groups, thread(1, 1, 0, 10))[0].cgroup == "/batch"
    assert told(ControlGroups(str(proc.folder)), thread(1, 1, 0, 10))[0].cgroup is None


def test_a_group_is_read_again_after_a_while_and_of_another_process(proc: Proc, clock: list[int]) -> None:
    proc.process(1, "/first")
    groups = ControlGroups(str(proc.folder))
    groups.look([(1, 5)])
    proc.process(1, "/second")
    groups.look([(1, 5), (1, 7)])
    assert told(groups, thread(1, 1, 5))[0].cgroup == "/first", "it is not read each time"
    clock[0] += AGAIN_NS
    assert told(groups, thread(1, 1, 5))[0].cgroup == "/second"
    proc.process(1, "/third")
    assert told(groups, thread(1, 1, 9))[0].cgroup == "/third", "the number is another process's by now"


def test_no_more_processes_are_kept_than_allowed(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_groups, "MOST", 2)
    groups = ControlGroups(str(proc.folder))
    for pid in (1, 2, 3):
        proc.process(pid, f"/g{pid}")
        groups.look([(pid, 0)])
        proc.ends(pid)
    found = told(groups, *(thread(pid, pid, 0, 10) for pid in (1, 2, 3)))
    assert [one.cgroup for one in found] == [None, "/g2", "/g3"]


def test_who_had_the_processor_is_told_with_process_and_group(proc: Proc) -> None:
    proc.process(1, "/mine")
    proc.process(20, "/theirs", name="cc1", tids=(21,))
    groups = ControlGroups(str(proc.folder))
    causes = (held("b", 5), held("cc1", 21), held("another now", 20), held("gone", 99), held("irq.timer", None))
    waker = replace(held("cc1", 21), behind=Behind.WAKER)
    found = told(groups, thread(1, 1, 0, None, *causes, waker), thread(5, 1))[0].causes
    assert [(cause.name, cause.pid, cause.cgroup) for cause in found] == [
        ("b", 1, "/mine"),
        ("cc1", 20, "/theirs"),
        ("another now", None, None),
        ("gone", None, None),
        ("irq.timer", None, None),
        ("cc1", None, None),
    ]


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_whatever_is_in_the_files_is_taken(
    tmp_path_factory: pytest.TempPathFactory, group: bytes, status: bytes
) -> None:
    folder = tmp_path_factory.mktemp("proc")
    for tid in (1, 7):
        (folder / str(tid)).mkdir()
        (folder / str(tid) / "cgroup").write_bytes(group)
        (folder / str(tid) / "status").write_bytes(status)
    (found,) = told(ControlGroups(str(folder)), thread(1, 1, 0, None, held("cc1", 7)))
    assert found.cgroup is not None
    assert found.causes[0].pid is None or found.causes[0].pid >= 0
