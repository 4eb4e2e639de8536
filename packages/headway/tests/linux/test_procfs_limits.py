"""Figures of a /proc that are too large to be real: they are limited before they are multiplied or added."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headway.linux.procfs._procfs import Scanner
from headway.linux.procfs.ids import ids_in

PID = 2**22 + 17  # larger than any real one
LARGEST = 1 << 60
"""ns: what a figure is limited to."""
START = 10**12
TICK = 10_000_000


@dataclass
class Tree:
    """A made-up /proc with one process of some threads."""

    root: Path
    fd: int

    def thread(
        self, tid: int, *, ticks: int = 0, children: int = 0, birth: int = 0, run: int = 0, state: str = "S"
    ) -> None:
        task = self.root / str(PID) / "task" / str(tid)
        task.mkdir(parents=True, exist_ok=True)
        middle = f"{state} 1 1 1 -1 -1 0 1 2 3 4 {ticks} {ticks} {children} {children} -20 -1 1 0 {birth} 100 200"
        (task / "stat").write_text(f"{tid} (x) {middle}\n")
        (task / "schedstat").write_text(f"{run} {run} 5\n")

    def scanner(self, *, schedstat: bool) -> Scanner:
        return Scanner(
            self.fd,
            tick=4_000_000,
            clock_tick=TICK,
            boot_offset=0,
            start=START,
            budget=0,
            schedstat=schedstat,
            follow_single=False,
            reason_of_call=lambda number: None,
            reason_of_wchan=lambda name: None,
        )


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield Tree(tmp_path, fd)
    os.close(fd)


def lawful(scanner: Scanner) -> None:
    for task in scanner.tasks.values():
        assert sum(task.account.states(scanner.names).values()) == task.account.span >= 0
    for process in scanner.processes.values():
        assert 0 <= process.accounted <= LARGEST
    assert 0 <= scanner.unseen <= LARGEST


@pytest.mark.parametrize("ticks", [LARGEST // TICK, LARGEST // TICK + 1, LARGEST, (1 << 63) - 1, 1 << 200])
@pytest.mark.parametrize("schedstat", [True, False])
def test_clock_ticks_are_limited_before_they_become_ns(tree: Tree, ticks: int, schedstat: bool) -> None:
    tree.thread(PID, birth=7)
    scanner = tree.scanner(schedstat=schedstat)
    assert scanner.add_process(PID, START, opening=True, all_children=True)
    tree.thread(PID, ticks=ticks, children=ticks, birth=7, run=1000, state="R")
    scanner.scan(START + 10**9, created=False)
    lawful(scanner)
    assert scanner.processes[PID].accounted >= LARGEST // 2, "the children had that much"
    tree.thread(PID + 1, birth=ticks)
    scanner.scan(START + 2 * 10**9, created=True)
    lawful(scanner)
    assert scanner.tasks[PID + 1].account.span == 0, "its birth is after now"


def test_the_run_time_of_many_threads_is_limited(tree: Tree) -> None:
    for number in range(20):
        tree.thread(PID + number, run=(1 << 63) - 1, birth=7)
    scanner = tree.scanner(schedstat=True)
    assert scanner.add_process(PID, START, opening=True)
    lawful(scanner)
    assert scanner.processes[PID].accounted == LARGEST
    scanner.scan(START + 10**9, created=True)
    lawful(scanner)


def test_ticks_that_jump_back_and_forth_are_limited(tree: Tree) -> None:
    tree.thread(PID, birth=7)
    scanner = tree.scanner(schedstat=True)
    assert scanner.add_process(PID, START, opening=True)
    for step in range(40):
        high = step % 2 == 0
        # Run time that goes back makes the account start anew from these ticks, once in two.
        tree.thread(PID, ticks=LARGEST if high else 0, run=0 if high else 10**9, birth=7, state="R")
        scanner.scan(START + 10**8 * (step + 1), created=False)
        lawful(scanner)


def test_ids_that_are_no_numbers_are_none() -> None:
    assert ids_in({"NSpid": "12\t3\t1"}) == [12, 3, 1]
    assert ids_in({"NSpid": "12\t" + "9" * 5000}) == []
    assert ids_in({"NSpid": "²"}) == []
