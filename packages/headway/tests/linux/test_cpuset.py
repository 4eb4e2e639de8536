"""Plans: whole cores, never the last processor, and a reason for every process that is left as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linux.kernel import MOUNTS, ROOT, FakeKernel

from headway.advice import Remedy
from headway.linux.placement.changes import Bind, Enable, MakeGroup, Move, Partition
from headway.linux.placement.controls import Controls
from headway.linux.placement.cpuset import choose
from headway.linux.placement.plan import plan
from headway.linux.privileges import LinuxCapability

cores = st.lists(st.integers(1, 4), min_size=1, max_size=8).map(
    lambda sizes: [tuple(range(sum(sizes[:i]), sum(sizes[: i + 1]))) for i in range(len(sizes))]
)


@given(cores, st.integers(1, 40), st.data())
def test_the_choice_is_free_enough_and_leaves_something(
    found: list[tuple[int, ...]], wanted: int, data: st.DataObject
) -> None:
    cpus = [cpu for core in found for cpu in core]
    free = frozenset(data.draw(st.sets(st.sampled_from(cpus))))
    chosen = choose(free, wanted, found)
    if chosen is None:
        assert len(free) <= wanted
    else:
        assert set(chosen) < free
        assert len(chosen) >= wanted


def test_hardware_threads_of_a_core_go_together_unless_there_is_one_core() -> None:
    assert choose(frozenset(range(4)), 1, [(0, 2), (1, 3)]) == (1, 3)
    assert choose(frozenset(range(2)), 1, [(0, 1)]) == (1,)
    assert choose(frozenset(range(2)), 1, [(0,), (1,)]) == (1,)
    assert choose(frozenset(range(2)), 2, [(0,), (1,)]) is None
    assert choose(frozenset(range(4)), 3, [(0, 2), (1, 3)]) == (1, 2, 3)


def test_a_plan_says_every_file_and_value() -> None:
    kernel = FakeKernel()
    kernel.add(4711, f"{ROOT}/app", threads=3)
    made = plan([Remedy("partition", 4711, 1, ())], kernel)
    group = f"{ROOT}/headway-{made.id}-4711"
    assert made.changes == (
        Enable(ROOT),
        MakeGroup(group),
        Partition(group, (1,)),
        Move(4711, 5711, group, f"{ROOT}/app", ROOT),
    )
    assert [change.words() for change in made.changes] == [
        f"write +cpuset to {ROOT}/cgroup.subtree_control",
        f"make the group {group}",
        f"write 1 to {group}/cpuset.cpus and root to {group}/cpuset.cpus.partition",
        f"write 4711 to {group}/cgroup.procs",
    ]
    assert kernel.operations == 0, "a plan changes nothing"


def test_a_controller_that_is_on_is_left_on() -> None:
    kernel = FakeKernel()
    kernel.root.files["cgroup.subtree_control"] = "cpuset"
    kernel.add(4711)
    assert not any(isinstance(c, Enable) for c in plan([Remedy("partition", 4711, 1, ())], kernel).changes)


def test_several_processes_get_different_processors_until_none_is_left() -> None:
    kernel = FakeKernel(3)
    for pid in (10, 20, 30):
        kernel.add(pid)
    made = plan([Remedy("partition", pid, 1, ()) for pid in (10, 20, 30)], kernel)
    sets = [change.cpus for change in made.changes if isinstance(change, Partition)]
    assert sorted(sets) == [(1,), (2,)]
    assert len(made.refused) == 1
    assert "none would be left for the others" in made.refused[0]


V1 = "31 20 0:27 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
HYBRID = V1 + MOUNTS


@pytest.mark.parametrize(
    ("mounts", "files", "words"),
    [
        ("", {}, "no cgroup v2 hierarchy is mounted;"),
        (V1, {}, "only v1 (/cg/cpuset)"),
        (HYBRID, {"cgroup.controllers": "hugetlb"}, "belongs to cgroup v1 here (/cg/cpuset)"),
        (MOUNTS, {"cgroup.controllers": "cpu"}, "has no cpuset controller"),
        (MOUNTS.replace("rw,nosuid", "ro,nosuid"), {}, "read-only"),
        (MOUNTS, {"cgroup.type": "domain"}, "controlled from outside"),
        ("garbage\n\n - \n1 2 3 - cgroup2\n", {}, "no cgroup v2"),
    ],
)
def test_where_there_can_be_no_partition_the_reason_is_given(mounts: str, files: dict[str, str], words: str) -> None:
    kernel = FakeKernel(mounts=mounts)
    kernel.root.files.update(files)
    kernel.add(4711)
    made = plan([Remedy("partition", 4711, 1, ())], kernel)
    assert made.changes == ()
    assert words in made.refused[0]
    assert "without knowing who it waits for" in made.refused[0]


def test_without_partitions_known_neighbours_are_kept_apart_by_affinity() -> None:
    kernel = FakeKernel(mounts=V1)
    kernel.add(4711, threads=2)
    kernel.add(50, threads=3)
    kernel.add(2, kernel=True)
    made = plan([Remedy("partition", 4711, 1, (52, 50, 2, 4712, 777))], kernel)
    theirs, mine = made.changes
    assert isinstance(theirs, Bind)
    assert isinstance(mine, Bind)
    assert (theirs.pid, {t.after for t in theirs.threads}) == (50, {(0,)})
    assert (mine.pid, {t.after for t in mine.threads}) == (4711, {(1,)})
    assert theirs.words() == "bind 3 threads of process 50 (p50) to processors 0 instead of 0-1"


@pytest.mark.parametrize(
    ("foreign", "changes", "words"),
    [
        ({50}, [60, 4711], "other users: 1"),
        ({50, 60}, [], "its neighbours belong to other users"),
        ({4711}, [], "it belongs to another user"),
    ],
)
def test_processes_of_other_users_are_not_bound(foreign: set[int], changes: list[int], words: str) -> None:
    kernel = FakeKernel(mounts=V1)
    for pid in (4711, 50, 60):
        kernel.add(pid)
    kernel.foreign = foreign
    made = plan([Remedy("partition", 4711, 1, (50, 60))], kernel)
    assert [change.pid for change in made.changes if isinstance(change, Bind)] == changes
    assert words in "".join([*made.notes, *made.refused])


def test_who_may_be_bound_is_told_by_the_users_of_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("Name:\tUid:\nUid:\t1000\t1001\t1002\t1003\n")
    monkeypatch.setattr("headway.linux.placement.controls.effective", frozenset)
    found = {}
    for user in (0, 1000, 1001, 1002):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        found[user] = Controls(tmp_path).may_bind(7), Controls(tmp_path).may_bind(8)
    assert found == {0: (False, False), 1000: (True, False), 1001: (True, False), 1002: (False, False)}
    monkeypatch.setattr("headway.linux.placement.controls.effective", lambda: {LinuxCapability.SYS_NICE})
    assert Controls(tmp_path).may_bind(7)


@pytest.mark.parametrize("limit", [("memory.max", "1000"), ("cpu.max", "50000 100000"), ("io.max", "8:0 rbps=1")])
def test_a_process_does_not_escape_its_limits(limit: tuple[str, str]) -> None:
    kernel = FakeKernel()
    kernel.add(4711, f"{ROOT}/a/b")
    kernel.add(1, f"{ROOT}/a")
    kernel.all[f"{ROOT}/a"].files[limit[0]] = limit[1]
    made = plan([Remedy("partition", 4711, 1, ())], kernel)
    assert made.changes == ()
    assert f"{ROOT}/a/{limit[0]}" in made.refused[0]


def test_no_limit_is_no_obstacle_and_a_limit_of_tasks_is_mentioned() -> None:
    kernel = FakeKernel()
    kernel.add(4711, f"{ROOT}/a")
    kernel.all[f"{ROOT}/a"].files.update({"memory.max": "max", "cpu.max": "max 100000", "io.max": "", "pids.max": "10"})
    made = plan([Remedy("partition", 4711, 1, ())], kernel)
    assert made.changes
    assert "pids.max" in made.notes[0]


def test_what_must_not_be_moved_is_not() -> None:
    kernel = FakeKernel()
    for pid in (1, 60):
        kernel.add(pid)
    kernel.add(2, kernel=True)
    kernel.add(70, f"{ROOT}/threaded")
    kernel.all[f"{ROOT}/threaded"].files["cgroup.type"] = "threaded"
    kernel.add(80, threads=2)
    kernel.table[80].threads[81] = (1080, frozenset({0}))
    made = plan([Remedy("partition", pid, 1, ()) for pid in (1, 2, 60, 70, 80, 99)], kernel, myself=[60])
    assert made.changes == ()
    reasons = dict(zip((1, 2, 60, 70, 80, 99), sorted(made.refused, key=lambda r: int(r.split()[1])), strict=True))
    assert "everything here runs under" in reasons[1]
    assert "kernel" in reasons[2]
    assert "everything here runs under" in reasons[60]
    assert "groups of their own" in reasons[70]
    assert "bound to processors of their own already" in reasons[80]
    assert "has ended" in reasons[99]


def test_processors_that_another_partition_has_are_not_taken() -> None:
    kernel = FakeKernel(2)
    kernel.root.files["cgroup.subtree_control"] = "cpuset"
    kernel.add(4711)
    kernel.add(50, f"{ROOT}/theirs")
    kernel.all[f"{ROOT}/theirs"].files.update({"cpuset.cpus": "1", "cpuset.cpus.partition": "root"})
    made = plan([Remedy("partition", 4711, 1, ())], kernel)
    assert made.changes == ()
    assert "it needs 1 of processor 0" in made.refused[0]
