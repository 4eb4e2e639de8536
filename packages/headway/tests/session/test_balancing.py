"""What intervals measured becomes weights: whose each thread is, what is kept, and what is not counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.linux.kernel import FakeKernel

from headway.balance import Limits, Place
from headway.linux.placement import levers
from headway.linux.placement.journal import Journal
from headway.model import Cell, Ledger, Thread, Window
from headway.session.balancing import Balance
from headway.session.parties import Processes, Threads

SECOND = 10**9
NAME = "balance-1-2"


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    monkeypatch.setattr(levers, "lowest_nice", lambda: -20)
    found = FakeKernel()
    found.add(10, threads=2)
    found.add(20)
    found.add(15, parent=10)
    return found


def interval(number: int, *rows: tuple[int, int, int, int]) -> Ledger:
    """Each row is tid, pid, and progress and kernel time in per cent; the thread is ready for the rest."""
    start, threads = number * SECOND, []
    for tid, pid, epi, kpi in rows:
        parts = {"user": epi, "kernel.read": kpi, "ready": 100 - epi - kpi}
        states = {name: Cell(part * SECOND // 100, 1) for name, part in parts.items()}
        threads.append(Thread(tid, pid, f"t{tid}", 0, start, None, start + SECOND, SECOND, states))
    return Ledger("bpf", Window(start, start + SECOND), tuple(threads))


def test_children_are_of_their_party_and_all_is_in_the_journal_first(tmp_path: Path, kernel: FakeKernel) -> None:
    parties, journal = Processes(kernel, (10, 20)), Journal(tmp_path, kernel)
    balance = Balance(parties, {"p20": 2.0}, Limits(), journal, NAME)
    rows = ((10, 10, 10, 0), (15, 15, 30, 0), (20, 20, 20, 20), (99, 99, 20, 0))
    first = balance.turn(interval(0, *rows))
    assert [(row.party.name, row.share, row.seen.progress) for row in first.parties] == [
        ("p10", 1.0, 4 * SECOND // 10),
        ("p20", 2.0, 2 * SECOND // 10),
    ]
    assert (first.ratio, first.unplaced) == (4.0, 2 * SECOND // 10)
    assert not any(kernel.nices.values())
    second = balance.turn(interval(1, *rows))
    assert {row.place for row in second.parties} == {Place.HELD}
    assert kernel.nices[10] == kernel.nices[11] == kernel.nices[15] > 0 > kernel.nices[20]
    kernel.add(16, parent=15)  # started with its parent's value, and its parent ends
    kernel.nices[16] = kernel.nices[15]
    balance.turn(interval(2, *rows, (16, 16, 10, 0)))
    kernel.table.pop(15)
    kernel.table[16].parent = 1
    balance.turn(interval(3, *rows[:1], *rows[2:], (16, 16, 30, 0)))
    assert kernel.nices[16] == kernel.nices[10]
    assert journal.undo(NAME) == []
    assert not any(kernel.nices[tid] for tid in (10, 11, 16, 20))


def test_threads_of_one_process_are_parties_and_go(tmp_path: Path, kernel: FakeKernel) -> None:
    parties, journal = Threads(kernel, 10), Journal(tmp_path, kernel)
    balance = Balance(parties, {}, Limits(), journal, NAME)
    for number in range(4):
        turn = balance.turn(interval(number, (10, 10, 50, 0), (11, 10, 10, 40), (15, 15, 50, 0)))
    assert [row.party.tid for row in turn.parties] == [10, 11]
    assert kernel.nices[10] > 0 > kernel.nices[11]
    assert kernel.nices.get(15, 0) == 0
    journal.undo(NAME)
    assert not any(kernel.nices.values())
