"""Ledgers of intervals, one after the other, and snapshots of what they add up to."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES, durations, precisions, sampled

from headway.model import Cell, Ledger, Overhead, Processor, Thread, Window
from headway.views.metrics.totals import MAX_SERIES, By, Totals, TotalsSnapshot

SECOND = 1_000_000_000


_states = st.dictionaries(
    st.sampled_from(
        ["user", "running", "kernel.read", "poll", "ready", "wait.futex", "noneffective.x", "unknown", *HOSTILE_NAMES]
    ),
    st.builds(Cell, st.integers(0, 10 * SECOND), st.none() | st.integers(0, 9)),
    max_size=4,
)
_threads = st.tuples(st.sampled_from(["a", "b", *HOSTILE_NAMES]), st.integers(1, 3), st.booleans(), _states)


@st.composite
def runs(draw: st.DrawFn, most: int = 4) -> list[Ledger]:
    """Consecutive intervals in which threads come, go, are renamed, and come back."""
    found, at = [], draw(st.integers(0, 10**9))
    worth = draw(precisions)
    for _ in range(draw(st.integers(1, most))):
        end = at + draw(st.integers(0, 10 * SECOND))
        threads = [
            Thread(
                tid,
                pid,
                name,
                at,
                at,
                end if over else None,
                end,
                sum(cell.time for cell in states.values()),
                states,
                sampled=draw(sampled(states)),
                durations=draw(durations(states)),
            )
            for tid, (name, pid, over, states) in draw(st.dictionaries(st.integers(1, 6), _threads, max_size=4)).items()
        ]
        processors = tuple(Processor(cpu, 0, draw(_states)) for cpu in range(draw(st.integers(0, 2))))
        losses = draw(st.dictionaries(st.sampled_from(["exits_lost", "unseen_ns"]), st.integers(0, 9)))
        cost = Overhead(draw(st.none() | st.integers(0, 9)), draw(st.none() | st.integers(0, 9)))
        source = draw(st.sampled_from(["bpf", "proc"]))
        window = Window(at, end)
        found.append(Ledger(source, window, tuple(threads), processors, precision=worth, losses=losses, overhead=cost))
        at = end
    return found


def thread(
    tid: int, name: str = "a", pid: int | None = None, at: int = 0, end: int | None = None, **states: int
) -> Thread:
    """A thread; underscores in the names of its states stand for dots."""
    cells = {state.replace("_", "."): Cell(time, 1) for state, time in states.items()}
    return Thread(tid, tid if pid is None else pid, name, at, at, end, at, sum(states.values()), cells)


def ledger(start: int, end: int, *threads: Thread, source: str = "bpf") -> Ledger:
    return Ledger(source, Window(start, end), threads, overhead=Overhead(0, 0))


def totals_of(run: Sequence[Ledger], by: By = By.PROCESS, *, most: int = MAX_SERIES) -> Totals:
    totals = Totals(by, most=most)
    for one in run:
        totals.add(one)
    return totals


snapshots: st.SearchStrategy[TotalsSnapshot] = st.builds(
    lambda run, by, most: totals_of(run, by, most=most).snapshot(epoch=10**18),
    runs(),
    st.sampled_from(By),
    st.sampled_from([3, 20, 10_000]),
)
