"""Which interrupts are sent away, where to, and what a mask says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linux.kernel import MOUNTS, ROOT, FakeKernel

from headway.advice import DeviceInterrupt, Facilities, Remedy
from headway.linux.placement.changes import Partition
from headway.linux.placement.interrupts import (
    Redirect,
    RedirectNew,
    arrived,
    as_mask,
    parse_mask,
    redirections,
)
from headway.linux.placement.plan import plan
from headway.linux.procfs.processors import as_list

processors = st.frozensets(st.integers(0, 200), min_size=1)


@given(processors)
def test_a_mask_says_which_processors(cpus: frozenset[int]) -> None:
    assert parse_mask(as_mask(cpus)) == cpus
    assert all(len(part) == 8 for part in as_mask(cpus).split(",")[1:])


@pytest.mark.parametrize(("text", "cpus"), [("f", {0, 1, 2, 3}), ("1,00000000", {32}), ("00000000,00000001", {0})])
def test_masks_are_as_the_kernel_writes_them(text: str, cpus: set[int]) -> None:
    assert parse_mask(text) == cpus


@pytest.mark.parametrize("text", ["", "0x3", "1,2", "zz", "1,00000000,", "f" * 9, "1\n", "-1"])
def test_what_is_no_mask_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a mask"):
        parse_mask(text)


@given(
    st.lists(
        st.tuples(st.frozensets(st.integers(0, 7), min_size=1), st.dictionaries(st.integers(0, 7), st.integers(0, 9)))
    ),
    st.frozensets(st.integers(0, 7), min_size=1, max_size=7),
)
def test_what_arrived_on_the_processors_goes_elsewhere_and_nothing_else_is_touched(
    table: list[tuple[frozenset[int], dict[int, int]]], own: frozenset[int]
) -> None:
    kernel = FakeKernel(8)
    interrupts = [DeviceInterrupt(at, "x", as_list(allowed), counts) for at, (allowed, counts) in enumerate(table)]
    kernel.irqs = {f"{i.number}/smp_affinity_list": i.affinity for i in interrupts} | {"default_smp_affinity": "ff"}
    changes = redirections(interrupts, own, kernel.cpus - own, kernel)
    assert changes[-1] == RedirectNew("ff", tuple(sorted(kernel.cpus - own)))
    sent = {change.number: change for change in changes if isinstance(change, Redirect)}
    for interrupt, (allowed, counts) in zip(interrupts, table, strict=True):
        came = any(counts.get(cpu) for cpu in own)
        change = sent.get(interrupt.number)
        if not came or not allowed & own:
            assert change is None or came
        if change is not None:
            assert change.before == interrupt.affinity
            assert not own & set(change.after)
            assert set(change.after) == (allowed - own or kernel.cpus - own)


def test_only_those_that_arrived_meanwhile_count() -> None:
    before = Facilities((0, 1), interrupts=(DeviceInterrupt(24, "a", "0-1", {0: 1000, 1: 5}),))
    after = Facilities(
        (0, 1),
        interrupts=(DeviceInterrupt(24, "a", "0-1", {0: 1000, 1: 9}), DeviceInterrupt(25, "b", "0-1", {0: 3, 1: 0})),
    )
    found = arrived(before, after).interrupts
    assert [dict(i.counts) for i in found] == [{0: 0, 1: 4}, {0: 3, 1: 0}]
    again = arrived(after, before).interrupts  # a counter that was reset
    assert [dict(i.counts) for i in again] == [{0: 0, 1: 0}]


QUIET = Remedy("interrupts", 4711, 1, ())


def test_a_process_gets_an_isolated_partition_only_where_nothing_is_to_be_balanced() -> None:
    kernel = FakeKernel(4)
    kernel.add(4711, threads=3)
    one = plan([QUIET], kernel)
    assert [c.kind for c in one.changes if isinstance(c, Partition)] == ["isolated"]
    two = plan([Remedy("interrupts", 4711, 2, ())], kernel)
    assert [c.kind for c in two.changes if isinstance(c, Partition)] == ["root"]
    assert two.notes == (
        "the partition of process 4711 is not isolated: its 3 threads would not be balanced over 2 processors",
    )


def test_a_bound_process_without_a_partition_has_its_processors_cleared() -> None:
    kernel = FakeKernel(4, mounts="")
    kernel.add(4711)
    kernel.table[4711].threads[4711] = (5711, frozenset({2}))
    kernel.irqs = {"24/smp_affinity_list": "0-3", "default_smp_affinity": "f"}
    made = plan([QUIET], kernel, interrupts=[DeviceInterrupt(24, "eth0", "0-3", {2: 9})])
    assert made.changes == (Redirect(24, "eth0", "0-3", (0, 1, 3)), RedirectNew("f", (0, 1, 3)))
    assert made.refused == ("process 4711 gets no processors of its own: no cgroup v2 hierarchy is mounted",)


def test_a_process_that_may_run_anywhere_keeps_its_interrupts() -> None:
    kernel = FakeKernel(4, mounts="")
    kernel.add(4711)
    kernel.irqs = {"24/smp_affinity_list": "0-3", "default_smp_affinity": "f"}
    made = plan([QUIET], kernel, interrupts=[DeviceInterrupt(24, "eth0", "0-3", {2: 9})])
    assert made.changes == ()
    assert "may run on every processor" in made.refused[1]


def test_two_processes_share_one_redirection_of_an_interrupt() -> None:
    kernel = FakeKernel(4)
    kernel.add(10)
    kernel.add(20)
    kernel.irqs = {"24/smp_affinity_list": "0-3", "default_smp_affinity": "f"}
    made = plan(
        [Remedy("interrupts", pid, 1, ()) for pid in (10, 20)],
        kernel,
        interrupts=[DeviceInterrupt(24, "eth0", "0-3", {2: 9, 3: 1})],
    )
    assert [c.after for c in made.changes if isinstance(c, Redirect)] == [(0, 1)]


def test_a_user_without_the_right_is_told() -> None:
    class Unprivileged(FakeKernel):
        def may_write(self, file: str) -> bool:
            return not file.startswith(self.interrupts)

    kernel = Unprivileged(4, mounts=MOUNTS)
    kernel.add(4711, ROOT)
    kernel.irqs = {"default_smp_affinity": "f"}
    made = plan([QUIET], kernel)
    assert "device interrupts stay where they are: /nowhere/irq cannot be written" in made.refused[0]


@pytest.mark.parametrize("raw", ["", "x", "0-", "ffff,1"])
def test_files_that_are_not_as_documented_move_nothing(raw: str) -> None:
    kernel = FakeKernel(2)
    kernel.add(4711)
    kernel.irqs = {"24/smp_affinity_list": raw, "default_smp_affinity": raw}
    made = plan([QUIET], kernel, interrupts=[DeviceInterrupt(24, "eth0", "0-1", {1: 9})])
    assert not any(isinstance(change, Redirect | RedirectNew) for change in made.changes)
    assert bool(made.refused) == bool(raw)
