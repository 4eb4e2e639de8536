"""What is applied can be taken back: after a failure, after a kill at any moment, twice, and not by anybody's file."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest
from tests.effort import exhaustive
from tests.linux.kernel import MOUNTS, ROOT, FakeKernel, KilledError
from tests.linux.resctrl_tree import ResctrlTree

from headway.advice import DeviceInterrupt, Remedy
from headway.errors import HeadwayError
from headway.linux.placement.documents import change_of, document_of
from headway.linux.placement.draft import PlacementPlan
from headway.linux.placement.journal import Journal
from headway.linux.placement.plan import plan

REMEDY = Remedy("partition", 4711, 1, (50,))
QUIET = Remedy("interrupts", 4711, 1, ())
MEMORY = Remedy("memory", 4711, 1, ())
AMONG = Remedy("memory", 4711, 1, (50,))
KINDS: dict[str, tuple[Remedy, ...]] = {
    "partition": (REMEDY,),
    "affinity": (REMEDY,),
    "interrupts": (QUIET,),
    "node": (MEMORY,),
    "cache": (MEMORY,),
    "neighbours": (AMONG,),
    "everything": (REMEDY, QUIET, MEMORY),
}
V1 = "30 20 0:26 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
MOST_OF_ALL = ("affinity", "neighbours", "everything")
"""Together they make every sort of change."""
HOW = pytest.mark.parametrize("how", [*MOST_OF_ALL, *exhaustive(*sorted(KINDS.keys() - {*MOST_OF_ALL}))])
INTERRUPTS = (
    DeviceInterrupt(24, "nvme0q1", "0-1", {0: 5, 1: 70}),
    DeviceInterrupt(25, "eth0", "1", {1: 7}),
    DeviceInterrupt(26, "elsewhere", "0-1", {0: 9}),
)


def kernel(how: str = "partition") -> FakeKernel:
    tree = ResctrlTree() if how in ("cache", "neighbours", "everything") else None
    found = FakeKernel(mounts=V1 if how == "affinity" else MOUNTS, resctrl=tree)
    found.add(4711, f"{ROOT}/app", threads=3)
    found.add(50, f"{ROOT}/other", threads=2)
    found.irqs = {f"{i.number}/smp_affinity_list": i.affinity for i in INTERRUPTS} | {"default_smp_affinity": "3"}
    found.unmovable = {"24/smp_affinity_list": errno.EIO}
    if how in ("node", "everything"):
        found.memory = {0: frozenset({0}), 1: frozenset({1})}
        found.table[4711].processor = 1
        found.table[4711].pages = {0: 3 << 30, 1: 1 << 30}
    return found


def planned(found: FakeKernel, how: str = "partition") -> PlacementPlan:
    made = plan(KINDS[how], found, interrupts=INTERRUPTS)
    assert made.changes, made.refused
    assert not made.refused
    return made


def operations(how: str) -> int:
    found = kernel(how)
    made = planned(found, how)
    before = found.operations
    Journal(Path("/nonexistent"), found)
    for change in made.changes:
        change.do(found)
    return found.operations - before


@HOW
def test_what_is_done_is_undone(tmp_path: Path, how: str) -> None:
    found = kernel(how)
    before, made = found.state(), planned(found, how)
    journal = Journal(tmp_path / "j", found)
    journal.apply(made.id, made.changes)
    assert found.state() != before
    assert journal.ids() == [made.id]
    assert journal.undo(made.id) == []
    assert found.state() == before
    assert journal.ids() == []
    with pytest.raises(HeadwayError, match="no plan"):
        journal.undo(made.id)


@pytest.mark.parametrize("how", ["partition", "affinity"])
def test_a_partition_is_exclusive_and_an_affinity_keeps_apart(tmp_path: Path, how: str) -> None:
    found = kernel(how)
    made = planned(found, how)
    Journal(tmp_path, found).apply(made.id, made.changes)
    if how == "partition":
        group = f"{ROOT}/headway-{made.id}-4711"
        assert found.all[group].procs == {4711}
        assert found.all[group].files["cpuset.cpus"] == "1"
        assert found.read(f"{ROOT}/cpuset.cpus.effective") == "0"
    else:
        assert {found.affinity(tid) for tid in (4711, 4712, 4713)} == {frozenset({1})}
        assert {found.affinity(tid) for tid in (50, 51)} == {frozenset({0})}


@HOW
def test_a_step_that_fails_takes_everything_back(tmp_path: Path, how: str) -> None:
    for step in range(operations(how)):
        found = kernel(how)
        before, made = found.state(), planned(found, how)
        found.fail_at = found.operations + step
        journal = Journal(tmp_path / f"{step}", found)
        with pytest.raises(HeadwayError) as caught:
            journal.apply(made.id, made.changes)
        assert "Read-only file system" in str(caught.value)
        assert "; what was done before is taken back" in str(caught.value)
        assert str(caught.value).count("\n") == 0
        assert found.state() == before
        assert journal.ids() == []


@HOW
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_moment_can_be_undone(tmp_path: Path, how: str, after: bool) -> None:
    for step in range(operations(how)):
        found = kernel(how)
        before, made = found.state(), planned(found, how)
        found.kill_at, found.kill_after = found.operations + step, after
        folder = tmp_path / f"{step}"
        with pytest.raises(KilledError):
            Journal(folder, found).apply(made.id, made.changes)
        found.revive()
        assert Journal(folder, found).ids() == [made.id]
        Journal(folder, found).undo(made.id)
        assert found.state() == before


@HOW
@pytest.mark.parametrize("after", [False, True])
def test_an_undo_that_is_killed_can_be_asked_again(tmp_path: Path, how: str, after: bool) -> None:
    for step in range(40):
        found = kernel(how)
        before, made = found.state(), planned(found, how)
        folder = tmp_path / f"{step}"
        Journal(folder, found).apply(made.id, made.changes)
        found.kill_at, found.kill_after = found.operations + step, after
        try:
            Journal(folder, found).undo(made.id)
        except KilledError:
            found.revive()
            Journal(folder, found).undo(made.id)
        else:
            assert step, "it was never killed"
            assert found.state() == before
            break
        assert found.state() == before


def test_a_partition_that_the_kernel_does_not_make_is_none(tmp_path: Path) -> None:
    found = kernel()
    found.invalid_partitions = True
    before, made = found.state(), planned(found)
    with pytest.raises(HeadwayError, match=r"Parent is not a partition root.*taken back"):
        Journal(tmp_path, found).apply(made.id, made.changes)
    assert found.state() == before


def test_a_process_that_has_ended_meanwhile_is_not_mistaken_for_another(tmp_path: Path) -> None:
    found = kernel()
    made = planned(found)
    found.table[4711].threads[4711] = (9999, found.cpus)
    with pytest.raises(HeadwayError, match="process 4711 has ended"):
        Journal(tmp_path, found).apply(made.id, made.changes)


def test_what_was_started_since_goes_back_too(tmp_path: Path) -> None:
    found = kernel()
    made = planned(found)
    journal = Journal(tmp_path, found)
    journal.apply(made.id, made.changes)
    found.add(4800, f"{ROOT}/headway-{made.id}-4711", parent=4711)
    assert journal.undo(made.id) == []
    assert found.all[f"{ROOT}/app"].procs == {4711, 4800}


def test_what_somebody_moved_elsewhere_stays_there(tmp_path: Path) -> None:
    found = kernel()
    made = planned(found)
    journal = Journal(tmp_path, found)
    journal.apply(made.id, made.changes)
    found.write(f"{ROOT}/other/cgroup.procs", "4711")
    journal.undo(made.id)
    assert found.group_of(4711) == "/other"


def test_where_the_former_group_has_gone_the_next_above_is_taken_and_said(tmp_path: Path) -> None:
    found = kernel()
    made = planned(found)
    journal = Journal(tmp_path, found)
    journal.apply(made.id, made.changes)
    del found.all[f"{ROOT}/app"]
    (note,) = journal.undo(made.id)
    assert "was moved to /cg" in note
    assert found.group_of(4711) == "/"


def test_threads_made_since_are_let_go_and_others_of_the_same_number_are_not_touched(tmp_path: Path) -> None:
    found = kernel("affinity")
    made = planned(found, "affinity")
    journal = Journal(tmp_path, found)
    journal.apply(made.id, made.changes)
    one, zero = frozenset({1}), frozenset({0})
    found.table[4711].threads[4720] = (9000, one)
    found.add(4800, parent=4711)
    found.table[4800].threads[4800] = (9001, one)
    found.table[50].threads[50] = (9002, zero)  # another process has the number by now
    journal.undo(made.id)
    assert found.affinity(4720) == found.affinity(4800) == found.cpus
    assert found.affinity(50) == zero


def test_the_controller_stays_on_while_another_plan_needs_it(tmp_path: Path) -> None:
    found = FakeKernel(4)
    found.add(4711)
    found.add(50)
    journal = Journal(tmp_path, found)
    first = plan([Remedy("partition", 4711, 1, ())], found)
    journal.apply(first.id, first.changes)
    second = plan([Remedy("partition", 50, 1, ())], found)
    journal.apply(second.id, second.changes)
    (note,) = journal.undo(first.id)
    assert "stays on" in note
    assert found.read(f"{ROOT}/headway-{second.id}-50/cpuset.cpus.partition") == "root"


def test_after_another_start_of_the_machine_nothing_is_touched(tmp_path: Path) -> None:
    found = kernel("affinity")
    made = planned(found, "affinity")
    journal = Journal(tmp_path, found)
    journal.apply(made.id, made.changes)
    file = tmp_path / f"{made.id}.json"
    file.write_text(file.read_text().replace("this-boot", "that-boot"))
    done = found.state()
    (note,) = journal.undo(made.id)
    assert "booted since" in note
    assert found.state() == done


def test_the_journal_is_for_its_owners_eyes_and_hands(tmp_path: Path) -> None:
    found = kernel()
    made = planned(found)
    folder = tmp_path / "j"
    journal = Journal(folder, found)
    journal.apply(made.id, made.changes)
    file = folder / f"{made.id}.json"
    assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    file.chmod(0o666)
    with pytest.raises(HeadwayError, match="written by others"):
        journal.undo(made.id)
    file.chmod(0o600)
    moved = folder / "x.json"
    file.rename(moved)
    file.symlink_to(moved)
    with pytest.raises(HeadwayError, match="cannot be read"):
        journal.undo(made.id)
    folder.chmod(0o777)
    with pytest.raises(HeadwayError, match="can be written by others"):
        journal.undo("x")


@pytest.mark.parametrize("name", ["../x", "", "a/b", "A", "a" * 50, ".x"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(HeadwayError, match="not the name of a plan"):
        Journal(tmp_path, kernel()).undo(name)


@pytest.mark.parametrize(
    "change",
    [
        None,
        {},
        {"change": "remove"},
        {"change": "make", "group": "/cg/app"},
        {"change": "make", "group": "headway-x"},
        {"change": "make", "group": "/cg/../headway-x"},
        {"change": "move", "pid": 0, "birth": 1, "group": "/cg/headway-x", "former": "/cg", "root": "/cg"},
        {"change": "move", "pid": True, "birth": 1, "group": "/cg/headway-x", "former": "/cg", "root": "/cg"},
        {"change": "partition", "group": "/cg/headway-x", "cpus": []},
        {"change": "partition", "group": "/cg/headway-x", "cpus": [-1]},
        {"change": "bind", "pid": 1, "name": "x", "threads": []},
        {"change": "bind", "pid": 1, "name": "x", "threads": [3]},
        {"change": "enable", "root": 7},
        {"change": ["enable"]},
        {"change": "partition", "group": "/cg/headway-x", "cpus": [1], "kind": "member"},
        {"change": "node", "group": "/cg/app", "node": 0, "cpus": []},
        {"change": "node", "group": "/cg/headway-x", "node": -1, "cpus": []},
        {"change": "node", "group": "/cg/headway-x", "node": 0, "cpus": None},
        {"change": "redirect", "number": "../x", "name": "x", "before": "0", "after": [1]},
        {"change": "redirect", "number": 24, "name": "x", "before": "all", "after": [1]},
        {"change": "redirect", "number": 24, "name": 7, "before": "0", "after": [1]},
        {"change": "redirect", "number": 24, "name": "x", "before": "0", "after": []},
        {"change": "redirect new", "before": "zz", "after": [1]},
        {"change": "redirect new", "before": "", "after": [1]},
        {"change": "schemata", "group": "/r/app", "root": "/r", "before": "", "after": "L3:0=1"},
        {"change": "schemata", "group": "/etc/headway-x", "root": "/r", "before": "", "after": "L3:0=1"},
        {"change": "schemata", "group": "/r", "root": "/r", "before": "", "after": "L3:0=x"},
        {"change": "schemata", "group": "/r", "root": "/r", "before": "", "after": ""},
        {"change": "assign", "pid": 7, "birth": 1, "name": "x", "group": "/r/app"},
        {"change": "exclusive", "group": "/r"},
    ],
)
def test_a_journal_that_lies_is_refused(tmp_path: Path, change: object) -> None:
    document = {"schema": "headway.undo/1", "id": "x", "boot": "this-boot", "begun": 1, "changes": [change]}
    (tmp_path / "x.json").write_text(json.dumps(document))
    (tmp_path / "x.json").chmod(0o600)
    with pytest.raises(HeadwayError, match="not an undo journal"):
        Journal(tmp_path, kernel()).undo("x")


@pytest.mark.parametrize("raw", [b"", b"\xff", b"[]", b"{}", b"[" * 10**5, b'{"schema":"headway.undo/1"}'])
def test_a_journal_that_is_none_is_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "x.json").write_bytes(raw)
    (tmp_path / "x.json").chmod(0o600)
    with pytest.raises(HeadwayError, match="not an undo journal"):
        Journal(tmp_path, kernel()).undo("x")


@HOW
def test_changes_survive_being_written_down(how: str) -> None:
    for change in planned(kernel(how), how).changes:
        assert change_of(json.loads(json.dumps(document_of(change)))) == change


def test_two_journals_at_once_do_not_mix(tmp_path: Path) -> None:
    import fcntl

    fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    found = kernel()
    made = planned(found)
    with pytest.raises(HeadwayError, match="another headway advise"):
        Journal(tmp_path, found, patience=0.02).apply(made.id, made.changes)
    os.close(fd)


def test_a_journal_waits_for_another_that_is_done_soon(tmp_path: Path) -> None:
    import fcntl

    fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    found = kernel()
    made = planned(found)
    soon = threading.Timer(0.1, os.close, [fd])
    soon.start()
    Journal(tmp_path, found, patience=60).apply(made.id, made.changes)
    soon.join()
    assert Journal(tmp_path, found).ids() == [made.id]


def test_a_name_that_is_none_is_refused_at_once_beside_another(tmp_path: Path) -> None:
    import fcntl

    fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(HeadwayError, match="not the name of a plan"):
        Journal(tmp_path, kernel(), patience=60).undo("../x")
    os.close(fd)


@pytest.mark.parametrize("answer", [errno.EIO, errno.EPERM])
def test_what_cannot_be_moved_is_said_and_does_not_stop_the_rest(tmp_path: Path, answer: int) -> None:
    found = kernel("interrupts")
    found.unmovable = {"24/smp_affinity_list": answer}
    made = planned(found, "interrupts")
    (note,) = Journal(tmp_path, found).apply(made.id, made.changes)
    assert note == "interrupt 24 (nvme0q1) cannot be moved (the kernel manages it): it stays on 0-1"
    assert found.irqs == {
        "24/smp_affinity_list": "0-1",
        "25/smp_affinity_list": "0",
        "26/smp_affinity_list": "0-1",
        "default_smp_affinity": "1",
    }


def test_an_interrupt_that_somebody_else_has_moved_stays_there(tmp_path: Path) -> None:
    found = FakeKernel(4)
    found.add(4711)
    found.irqs = {"25/smp_affinity_list": "0-3", "default_smp_affinity": "f"}
    made = plan([QUIET], found, interrupts=[DeviceInterrupt(25, "eth0", "0-3", {3: 7})])
    journal = Journal(tmp_path, found)
    journal.apply(made.id, made.changes)
    assert found.irqs == {"25/smp_affinity_list": "0-2", "default_smp_affinity": "7"}
    found.irqs = {"25/smp_affinity_list": "1", "default_smp_affinity": "2"}
    assert journal.undo(made.id) == [
        "/nowhere/irq/default_smp_affinity was changed to 2 since, and stays so",
        "interrupt 25 (eth0) was sent to 1 since, and stays there",
    ]
    assert found.irqs == {"25/smp_affinity_list": "1", "default_smp_affinity": "2"}


def test_a_kernel_without_isolated_partitions_makes_a_root_partition_and_says_so(tmp_path: Path) -> None:
    found = kernel("interrupts")
    found.isolated = False
    before, made = found.state(), planned(found, "interrupts")
    journal = Journal(tmp_path, found)
    notes = journal.apply(made.id, made.changes)
    group = f"{ROOT}/headway-{made.id}-4711"
    assert notes[0] == f"this kernel has no isolated partitions (Linux 6.1 has): {group} is a root partition"
    assert found.all[group].files["cpuset.cpus.partition"] == "root"
    journal.undo(made.id)
    assert found.state() == before


def test_memory_goes_to_the_node_of_the_processors_and_stays_there_after_the_undo(tmp_path: Path) -> None:
    found = kernel("node")
    made = planned(found, "node")
    journal = Journal(tmp_path, found)
    journal.apply(made.id, made.changes)
    assert found.pages(4711) == {1: 4 << 30}
    files = found.all[f"{ROOT}/headway-{made.id}-4711"].files
    assert (files["cpuset.mems"], files["cpuset.cpus"], files["cpuset.cpus.partition"]) == ("1", "1", "member")
    assert journal.undo(made.id) == []
    assert found.pages(4711) == {1: 4 << 30}


def test_a_process_keeps_half_of_the_ways_and_the_others_the_rest(tmp_path: Path) -> None:
    found = kernel("cache")
    assert found.resctrl is not None
    made = planned(found, "cache")
    Journal(tmp_path, found).apply(made.id, made.changes)
    (group,) = found.resctrl.groups()
    assert found.resctrl.tasks(group) == {4711, 4712, 4713}
    assert found.resctrl.limits(group)["L3"] == {0: 0x003FF, 1: 0x003FF}, "the shared ways are the highest"
    assert found.resctrl.limits(found.resctrl.root)["L3"] == {0: 0xFFC00, 1: 0xFFC00}
    assert found.read(f"{group}/mode") == "exclusive"


def test_neighbours_that_use_memory_are_confined(tmp_path: Path) -> None:
    found = kernel("neighbours")
    assert found.resctrl is not None
    made = planned(found, "neighbours")
    Journal(tmp_path, found).apply(made.id, made.changes)
    (group,) = found.resctrl.groups()
    assert found.resctrl.tasks(group) == {50, 51}
    assert found.resctrl.limits(group) == {"L3": {0: 0xFFC00, 1: 0xFFC00}, "MB": {0: 50, 1: 50}}
    assert found.resctrl.limits(found.resctrl.root)["L3"] == {0: 0xFFFFF, 1: 0xFFFFF}


def test_a_division_that_somebody_else_has_changed_stays_so(tmp_path: Path) -> None:
    found = kernel("cache")
    assert found.resctrl is not None
    made = planned(found, "cache")
    journal = Journal(tmp_path, found)
    journal.apply(made.id, made.changes)
    root = found.resctrl.root
    found.write(f"{root}/schemata", "L3:0=f0000;1=f0000\n")
    (note,) = journal.undo(made.id)
    assert note == f"{root}/schemata was changed since, and stays so"
    assert found.resctrl.limits(root)["L3"] == {0: 0xF0000, 1: 0xF0000}
    assert found.resctrl.groups() == []


def test_what_the_kernel_says_of_a_refused_division_is_passed_on(tmp_path: Path) -> None:
    found = kernel("cache")
    assert found.resctrl is not None
    made = planned(found, "cache")
    found.resctrl.info["L3"] = {**found.resctrl.info["L3"], "min_cbm_bits": "11"}
    before = found.state()
    with pytest.raises(HeadwayError, match=r"the kernel says: Need at least 11 bits in the mask\).*is taken back"):
        Journal(tmp_path, found).apply(made.id, made.changes)
    assert found.state() == before
