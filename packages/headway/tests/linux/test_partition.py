"""Partitions and affinities on a real kernel: others are kept off, and everything is as before afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compiling import script

from headway.advice import Remedy
from headway.linux.placement.changes import Change, MakeGroup, Move
from headway.linux.placement.controls import Controls
from headway.linux.placement.cpuset import cpuset_root
from headway.linux.placement.journal import Journal
from headway.linux.placement.plan import plan
from headway.linux.placement.refused import Refused

from .quota import unlimited

pytestmark = pytest.mark.kernel

CONTROLS = Controls()
THREADS = "import threading, time\nfor _ in range(2): threading.Thread(target=time.sleep, args=(600,)).start()\n"
BUSY = "while True: pass"
needs_two = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    with unlimited() as inside:  # a process that its group limits is left as it is
        started = [subprocess.Popen(inside(sys.executable, "-c", text)) for text in (THREADS, BUSY)]
        while len(CONTROLS.threads(started[0].pid)) < 3:
            time.sleep(0.01)
        yield started
        for process in started:
            process.kill()
            process.wait()


def v2_root() -> str:
    for line in CONTROLS.mounts().splitlines():
        if " - cgroup2 " in line:
            return line.split()[4]
    return ""


def root_or_skip() -> str:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    try:
        return cpuset_root(CONTROLS)
    except Refused as reason:
        pytest.skip(f"no partition can be made here: {reason}")


@needs_two
@pytest.mark.alone  # nobody else may have one of the processors meanwhile
def test_a_partition_is_made_and_unmade(processes: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    root = root_or_skip()
    app, other = (process.pid for process in processes)
    control = CONTROLS.read(f"{root}/cgroup.subtree_control")
    before = [CONTROLS.group_of(pid) for pid in (app, other)]
    effective = CONTROLS.read(f"{root}/cpuset.cpus.effective")
    made = plan([Remedy("partition", app, 1, ())], CONTROLS)
    journal = Journal(tmp_path / "j", CONTROLS)
    journal.apply(made.id, made.changes)
    group = f"{root}/headway-{made.id}-{app}"
    try:
        mine = {CONTROLS.affinity(tid) for tid in CONTROLS.threads(app)}
        assert len(mine) == 1
        (cpus,) = mine
        assert cpus
        assert CONTROLS.read(f"{group}/cpuset.cpus.partition") == "root"
        assert not cpus & (CONTROLS.affinity(other) or frozenset()), "the other still has the processor"
    finally:
        notes = journal.undo(made.id)
    assert notes == []
    assert not os.path.exists(group)
    assert CONTROLS.read(f"{root}/cgroup.subtree_control") == control
    assert CONTROLS.read(f"{root}/cpuset.cpus.effective") == effective
    assert [CONTROLS.group_of(pid) for pid in (app, other)] == before
    for pid in (app, other):
        assert all(CONTROLS.affinity(tid) == CONTROLS.online() for tid in CONTROLS.threads(pid))


@needs_two
def test_an_affinity_keeps_two_processes_apart_and_is_taken_back(
    processes: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    app, other = (process.pid for process in processes)
    before = {tid: CONTROLS.affinity(tid) for pid in (app, other) for tid in CONTROLS.threads(pid)}

    class WithoutGroups(Controls):
        def mounts(self) -> str:
            return ""

    made = plan([Remedy("partition", app, 1, (other,))], WithoutGroups())
    journal = Journal(tmp_path / "j", CONTROLS)
    journal.apply(made.id, made.changes)
    mine = {CONTROLS.affinity(tid) for tid in CONTROLS.threads(app)}
    assert len(mine) == 1
    assert not mine.pop() & (CONTROLS.affinity(other) or frozenset())  # type: ignore[operator]
    journal.undo(made.id)
    assert {tid: CONTROLS.affinity(tid) for pid in (app, other) for tid in CONTROLS.threads(pid)} == before


def test_a_process_is_moved_and_comes_back_with_its_children(tmp_path: Path) -> None:
    root = v2_root()
    if os.geteuid() != 0 or not root or not os.access(root, os.W_OK):
        pytest.skip("needs root and a cgroup v2 hierarchy that can be written")
    process = subprocess.Popen(script("parent"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        before = CONTROLS.group_of(process.pid)
        assert before is not None
        birth = CONTROLS.birth(process.pid)
        assert birth is not None
        group = f"{root}/headway-test-{process.pid}"
        changes: list[Change] = [MakeGroup(group), Move(process.pid, birth, group, (root + before).rstrip("/"), root)]
        journal = Journal(tmp_path / "j", CONTROLS)
        journal.apply("test", changes)
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        assert len((CONTROLS.read(f"{group}/cgroup.procs") or "").split()) == 2
        assert journal.undo("test") == []
        assert not os.path.exists(group)
        assert CONTROLS.group_of(process.pid) == before
    finally:
        for pid in CONTROLS.processes():
            if CONTROLS.parent(pid) == process.pid:
                os.kill(pid, 9)
        process.kill()
        process.wait()
