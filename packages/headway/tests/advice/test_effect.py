"""What a change did is told by shares that add up, and never by a process that was not measured."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import ledgers

from headway.advice import Effect, effect
from headway.model import Cell, Kind, Ledger, Thread, Window
from headway.views.console import Console
from headway.views.effect import what_changed
from headway.views.lines import show, text_of
from headway.views.printable import width_of

SECOND = 10**9


def ledger(**shares: float) -> Ledger:
    cells = {state.replace("__", "."): Cell(round(share * SECOND), 1) for state, share in shares.items()}
    span = sum(cell.time for cell in cells.values())
    threads = tuple(Thread(tid, pid, "worker", 0, 0, None, span, span, cells) for tid, pid in ((7, 7), (8, 7), (9, 9)))
    return Ledger("bpf", Window(0, SECOND), threads)


def shown(found: Effect, width: int = 80) -> str:
    out = io.StringIO()
    show(Console(out, width=width), what_changed(found, width))
    return out.getvalue()


def test_shares_are_of_the_time_that_all_its_threads_could_run() -> None:
    found = effect(7, ledger(user=0.4, memory=0.2, ready=0.4, wait__sleep=3), ledger(user=0.9, kernel__read=0.1))
    assert found is not None
    assert found.before[Kind.EFFECTIVE] == pytest.approx(0.4)
    assert found.after[Kind.EFFECTIVE] == pytest.approx(0.9)
    assert found.helped
    assert shown(found) == (
        "  process 7 (worker), of the time it could run: before, after\n"
        "    progress: 40 %, 90 %\n"
        "    memory (MPI): 20 %, 0 %\n"
        "    kernel (KPI): 0 %, 10 %\n"
        "    ready: 40 %, 0 %\n"
    )


def test_what_did_not_help_is_said() -> None:
    same = ledger(user=0.5, ready=0.5)
    found = effect(7, same, same)
    assert found is not None
    assert not found.helped
    assert shown(found).endswith("it makes no more progress than before\n")


def test_a_process_that_is_not_in_both_is_not_compared() -> None:
    there = ledger(user=1)
    assert effect(10, there, there) is None
    assert effect(7, there, ledger(wait__sleep=1)) is None


@given(ledgers(), st.integers(2, 200))
def test_shares_add_up_and_fit_the_width(found: Ledger, width: int) -> None:
    for thread in found.threads:
        compared = effect(thread.pid, found, found)
        if compared is not None:
            assert sum(compared.before.values()) <= 1 + 1e-9
            for line in what_changed(compared, width):
                assert width_of(text_of(line)) <= width
