"""Which memory node a process belongs on, and what is read of its pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linux.kernel import ROOT, FakeKernel

from headway.advice import Remedy
from headway.linux.placement.changes import Enable, MakeGroup, Move, Partition, UseNode
from headway.linux.placement.controls import Controls
from headway.linux.placement.nodes import home
from headway.linux.placement.plan import plan
from headway.linux.placement.refused import Refused

GIB = 1 << 30
MEMORY = Remedy("memory", 4711, 1, ())
MAPS = """\
55d0c8a2f000 default file=/usr/bin/a\\040N1=9 mapped=8 N0=8 kernelpagesize_kB=4
55d0c8c00000 default heap anon=10 dirty=10 N0=4 N1=6 kernelpagesize_kB=4
7f0000000000 default huge anon=2 dirty=2 N1=2 kernelpagesize_kB=2048
7f1000000000 default file=/lib/libc.so.6 mapped=300 mapmax=90 N0=300 kernelpagesize_kB=4
7f2000000000 default stack
"""


def kernel(**pages: int) -> FakeKernel:
    found = FakeKernel(4)
    found.memory = {0: frozenset({0, 1}), 1: frozenset({2, 3})}
    found.add(4711, f"{ROOT}/app", threads=2)
    found.table[4711].pages = {int(node[1:]): size for node, size in pages.items()}
    return found


def test_a_process_belongs_where_its_processors_are() -> None:
    found = kernel(n0=3 * GIB, n1=GIB)
    bound = home(found, 4711, frozenset({2, 3}), 1)
    assert (bound.node, bound.cpus, bound.elsewhere, bound.total) == (1, frozenset({2, 3}), 3 * GIB, 4 * GIB)
    found.table[4711].processor = 3
    assert home(found, 4711, found.cpus, 2).node == 1
    found.table[4711].processor = 0
    with pytest.raises(Refused, match="needs 3 processors, and node 0 has 0-1"):
        home(found, 4711, found.cpus, 3)


@pytest.mark.parametrize(
    ("pages", "memory", "free", "why"),
    [
        ({0: 4 * GIB}, None, 8 * GIB, "is on node 0, at its processors, already"),
        ({0: 99 * GIB, 1: GIB}, None, 8 * GIB, "1,024 MiB elsewhere"),
        ({0: 1000, 1: 900_000}, None, 8 * GIB, "already"),
        ({}, None, 8 * GIB, "cannot be read"),
        ({0: GIB, 1: 4 * GIB}, None, GIB, "node 0 has 1,024 MiB free"),
        ({0: GIB}, {0: frozenset(range(4))}, GIB, "one memory node"),
        ({0: GIB}, {}, GIB, "one memory node"),
        ({0: GIB}, {0: frozenset(), 1: frozenset()}, GIB, "no memory is at its processors"),
    ],
)
def test_where_nothing_would_be_won_the_reason_is_given(
    pages: dict[int, int], memory: dict[int, frozenset[int]] | None, free: int, why: str
) -> None:
    found = kernel()
    found.table[4711].pages = pages
    found.memory = found.memory if memory is None else memory
    found.free = free
    made = plan([MEMORY], found)
    assert made.changes == ()
    (refused,) = made.refused
    assert refused.startswith("process 4711 shares memory and cache as before: ")
    assert why in refused
    assert "resctrl is not mounted" in refused


def test_a_plan_for_a_node_says_every_file_and_value() -> None:
    found = kernel(n0=3 * GIB, n1=GIB)
    found.table[4711].processor = 2
    made = plan([MEMORY], found)
    group = f"{ROOT}/headway-{made.id}-4711"
    assert made.changes == (
        Enable(ROOT),
        MakeGroup(group),
        UseNode(group, 1, (2, 3)),
        Move(4711, 5711, group, f"{ROOT}/app", ROOT),
    )
    assert made.changes[2].words() == f"write 1 to {group}/cpuset.mems and 2-3 to {group}/cpuset.cpus"
    assert made.notes == ("about 3,072 of 4,096 MiB of process 4711 move to node 1, which takes a moment",)
    assert made.refused == ()


def test_processors_of_its_own_are_of_the_node() -> None:
    found = kernel(n0=GIB, n1=3 * GIB)
    made = plan([Remedy("partition", 4711, 1, ()), MEMORY], found)
    placed = [change for change in made.changes if isinstance(change, UseNode | Partition)]
    group = f"{ROOT}/headway-{made.id}-4711"
    assert placed == [UseNode(group, 0, ()), Partition(group, (1,))]


def test_a_process_that_may_not_leave_its_group_keeps_its_memory() -> None:
    found = kernel(n0=3 * GIB, n1=GIB)
    found.table[4711].processor = 2
    found.all[f"{ROOT}/app"].files["memory.max"] = "1000"
    made = plan([MEMORY], found)
    assert made.changes == ()
    assert "its group limits it" in made.refused[0]


def test_pages_are_counted_by_node_without_shared_ones(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/numa_maps").write_text(MAPS)
    assert Controls(tmp_path).pages(7) == {0: 12 * 4096, 1: 6 * 4096 + 2 * (2 << 20)}
    assert Controls(tmp_path).pages(8) == {}


@given(st.text(max_size=200))
def test_no_text_of_pages_brings_it_down(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("proc")
    (folder / "7").mkdir()
    (folder / "7/numa_maps").write_text(text, errors="surrogateescape")
    Controls(folder).pages(7)


def test_nodes_and_their_free_memory_are_read_from_the_files(tmp_path: Path) -> None:
    system = tmp_path / "devices/system"
    for name, text in (
        ("cpu/online", "0-3\n"),
        ("node/has_memory", "0,2\n"),
        ("node/node0/cpulist", "0-1\n"),
        ("node/node2/cpulist", "2-5\n"),
        ("node/node2/meminfo", "Node 2 MemTotal:   900 kB\nNode 2 MemFree:    5 kB\nNode 2 Inactive(file):  3 kB\n"),
    ):
        (system / name).parent.mkdir(parents=True, exist_ok=True)
        (system / name).write_text(text)
    controls = Controls(tmp_path, tmp_path)
    assert controls.nodes() == {0: frozenset({0, 1}), 2: frozenset({2, 3})}
    assert (controls.free_memory(2), controls.free_memory(0)) == (8192, 0)
