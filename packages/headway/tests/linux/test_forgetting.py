"""Sources that are read for ever: what has ended is in one interval, and nowhere else."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import closing

import pytest
from tests.compiling import script

from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.choose import start_source
from headway.linux.sources.ebpf import BpfSource
from headway.linux.sources.ebpf import ended as ended_threads
from headway.linux.sources.ebpf import options as source_options
from headway.model import Ledger, violations
from headway.session.child import SuspendedChild

from .measuring import go

pytestmark = pytest.mark.kernel


def ended(ledger: Ledger) -> set[tuple[int, int]]:
    return {thread.key for thread in ledger.threads if thread.end is not None}


@pytest.mark.parametrize("source", [pytest.param("bpf", marks=pytest.mark.root), "proc"])
@pytest.mark.parametrize("forget", [True, False])
def test_what_has_ended_is_told_once_and_kept_only_if_that_is_wanted(source: str, forget: bool) -> None:
    program = subprocess.Popen(script("batches_of_threads"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    measuring, _ = start_source(Selection(pids=(program.pid,)), source, intervals=True, forget=forget)
    told: list[set[tuple[int, int]]] = []
    try:
        for _ in range(3):
            go(program)
            measuring.interval()  # /proc sees what it looks at
            go(program)
            gone: list[tuple[int, int]] = []
            deadline = time.monotonic() + 120
            while len(gone) < 5 and time.monotonic() < deadline:  # a thread is joined a little before it has ended
                gone += ended(measuring.interval())
            told.append(set(gone))
        everything = ended(measuring.read())
    finally:
        measuring.close()
        program.kill()
        program.wait()
    assert [len(threads) for threads in told] == [5, 5, 5]
    assert not told[0] & told[1]
    assert not told[1] & told[2]
    assert everything == set() if forget else everything >= set.union(*told)


@pytest.mark.root
@pytest.mark.parametrize("options", [MeasureOptions(), MeasureOptions(budget=0.01)], ids=["fixed", "budget"])
def test_where_nothing_is_read_before_the_end_ended_threads_do_not_pile_up(
    options: MeasureOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more threads than are listed, the rest is added up while measuring goes on, and all of them are in the end."""
    monkeypatch.setattr(ended_threads, "MAX_WAITING", 3)
    monkeypatch.setattr(source_options, "MAX_ENDED", 4)
    program = subprocess.Popen(script("batches_of_threads"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with closing(BpfSource(Selection(pids=(program.pid,)), options)) as source:
        source.begin()
        try:
            for _ in range(8):
                go(program)
            deadline = time.monotonic() + 120
            while source.losses().get("ended_threads_added_up", 0) < 10 and time.monotonic() < deadline:
                source.service()
                time.sleep(0.02)
            assert source.losses()["ended_threads_added_up"] >= 10
            ledger = source.end()
        finally:
            program.kill()
            program.wait()
    for thread in ledger.threads:  # those of one name are added up, whenever they lived
        assert sum(cell.time for cell in thread.states.values()) == thread.span
    assert 4 <= len(ended(ledger)) < 20


@pytest.mark.root
def test_what_ended_threads_take_is_bounded_whatever_their_names_and_all_of_it_is_in_the_ledger() -> None:
    """Each process is another one, so that no two threads have the same process and name."""
    children = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done; exec sleep 100"]
    program = SuspendedChild(children)
    with closing(BpfSource(Selection(command=program.pid), max_ended=2)) as source:
        source.begin()
        program.release()
        try:
            deadline = time.monotonic() + 120
            total = source.read()
            while total.losses.get("ended_threads_added_up", 0) < 7 and time.monotonic() < deadline:
                time.sleep(0.05)
                total = source.read()
            ledger = source.end()
        finally:
            program.send(signal.SIGKILL)
            program.wait()
    gone = [thread for thread in ledger.threads if thread.end is not None]
    (others,) = [thread for thread in gone if thread.name == "others"]
    assert (others.tid, others.pid) == (0, 0)
    assert len(gone) == 2 + 2 + 1
    assert ledger.losses["ended_threads_added_up"] == 7
    for thread in gone:
        assert sum(cell.time for cell in thread.states.values()) == thread.span
    assert violations(ledger) == []
