from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.linux.options import Selection
from headway.model import Cell, Counted, Ledger, Precision, Quality, Thread, Window
from headway.model.verification import FigureVerdict, LoopRun, Verification, judge, run_of
from headway.session import verifying
from headway.session.measure import observe
from headway.session.verifying import neighbours_of, verify

GOOD = (
    LoopRun("compute", 0, "cycles", 980, 5, 15, 1000, {}, {}),
    LoopRun("memory", 0, "cycles", 50, 900, 50, 100, {}, {}),
    LoopRun("compute", 2, "cycles", 970, 10, 20, 1000, {}, {}),
    LoopRun("memory", 2, "cycles", 40, 950, 10, 100, {}, {}),
)
figures = st.none() | st.integers(0, 10**12)
runs = st.builds(
    LoopRun,
    st.sampled_from(["compute", "memory"]),
    st.integers(0, 3),
    st.sampled_from(["cycles", "ns"]),
    st.integers(0, 10**12),
    figures,
    figures,
    figures,
    st.just({}),
    st.just({}),
)


def verification(found: Sequence[LoopRun]) -> Verification:
    return Verification(tuple(found), tuple(judge(found)), {})


@given(st.lists(runs, max_size=6))
def test_whatever_was_measured_there_is_an_answer(found: list[LoopRun]) -> None:
    judged = verification(found)
    for index in ("epi", "mpi"):
        mine = [finding.kept for finding in judged.findings if finding.index == index]
        assert (judged.answer(index) is FigureVerdict.NO) == (False in mine)
        assert (judged.answer(index) is FigureVerdict.YES) == (bool(mine) and all(mine))


@given(st.lists(runs, max_size=6))
def test_what_is_not_counted_is_never_believed(found: list[LoopRun]) -> None:
    unseen = [replace(run, mpi=None, stall=None, instructions=None) for run in found]
    assert FigureVerdict.YES not in {verification(unseen).answer(index) for index in ("epi", "mpi")}
    assert not any(finding.kept is False for finding in verification(unseen).findings)


def test_loops_that_show_what_they_do_are_believed() -> None:
    assert verification(GOOD).answer("epi") is FigureVerdict.YES
    assert verification(GOOD).answer("mpi") is FigureVerdict.YES


@pytest.mark.parametrize(
    ("place", "changes", "index"),
    [
        (0, {"mpi": 100}, "mpi"),
        (0, {"stall": 500}, "epi"),
        (1, {"mpi": 0, "epi": 950}, "mpi"),
        (2, {"mpi": 100}, "mpi"),
        (2, {"epi": 1200}, "epi"),
        (2, {"instructions": 1200}, "epi"),
        (3, {"mpi": 10}, "mpi"),
    ],
)
def test_one_loop_that_does_not_is_enough_to_doubt(place: int, changes: dict[str, int], index: str) -> None:
    found = [replace(run, **changes) if i == place else run for i, run in enumerate(GOOD)]  # type: ignore[arg-type]
    assert verification(found).answer(index) is FigureVerdict.NO


def test_figures_in_different_units_are_not_compared() -> None:
    found = [*GOOD[:2], replace(GOOD[2], unit="ns"), GOOD[3]]
    assert verification(found).answer("epi") is FigureVerdict.UNKNOWN


def ledger(precision: Precision, **user: Any) -> Ledger:
    """Of one arithmetic loop with these figures of its own code."""
    states = {"user": Cell(1000, 1, **user), "kernel.read": Cell(10, 1, cycles=50, instructions=9)}
    thread = Thread(7, 7, "compute", 0, 0, None, 1010, 1010, states)
    return Ledger(
        "bpf", Window(0, 1010), (thread,), precision=precision, unit="cycles", counted={"cycles": Counted(9, 9)}
    )


def test_only_the_loops_own_code_is_looked_at() -> None:
    run = run_of(
        ledger(Precision(), cycles=4000, instructions=8000, stall_cycles=100, memory_stall_cycles=40), "compute", 1
    )
    assert (run.epi, run.mpi, run.stall, run.instructions, run.own) == (3900, 40, 60, 8000, 4000)
    assert run.per_instruction == 3900 / 8000


def test_a_figure_without_an_event_is_not_zero() -> None:
    unseen = Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE)
    run = run_of(ledger(unseen, cycles=4000, instructions=8000), "compute", 0)
    assert (run.epi, run.mpi, run.stall) == (4000, None, None)
    assert run.progress is None
    assert run.memory is None


def test_a_loop_that_did_not_run_is_an_error() -> None:
    with pytest.raises(HeadwayError, match="pointer chase did not run"):
        run_of(ledger(Precision(), cycles=1), "memory", 0)


def test_neighbours_are_those_nearest(tmp_path: Path) -> None:
    (tmp_path / "cpu0/topology").mkdir(parents=True)
    (tmp_path / "cpu0/topology/thread_siblings_list").write_text("0,4\n")
    (tmp_path / "cpu0/cache/index3").mkdir(parents=True)
    (tmp_path / "cpu0/cache/index3/shared_cpu_list").write_text("0-1,4-5\n")
    assert neighbours_of(0, range(8), tmp_path) == (4, 1, 5, 2)
    assert neighbours_of(0, [0, 2, 5], tmp_path) == (5, 2)
    assert neighbours_of(3, [3], tmp_path) == (3,)


@pytest.mark.kernel
def test_the_loops_run_and_are_measured_here_whatever_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "MAX_NEIGHBOURS", 1)

    def measure(command: Sequence[str]) -> Ledger:
        done = observe(Selection(), command)
        assert done.exit_status == 0
        return done.ledger

    found = verify(measure, 0.05)
    assert [(run.loop, bool(run.neighbours)) for run in found.runs] == [
        ("compute", False),
        ("memory", False),
        ("compute", True),
        ("memory", True),
    ]
    assert all(run.own > 0 for run in found.runs)
