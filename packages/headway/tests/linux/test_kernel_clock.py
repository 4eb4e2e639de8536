"""Processor time by the kernel's clock: what /proc says of threads that are stopped or asleep."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests.compiling import Compile, script

from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.ebpf import BpfSource
from headway.model import KernelClock, Quality, merge

from .measuring import check, measure, measure_intervals, until_asleep

pytestmark = [pytest.mark.root, pytest.mark.kernel]


def by_proc(pid: int) -> int:
    """What the kernel's clock of a process's first thread shows, ns."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def test_the_figure_is_what_proc_says_of_a_thread_that_is_asleep_at_both_ends() -> None:
    words = script("obey")
    with subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        until_asleep(process.pid)
        source = BpfSource(Selection(pids=(process.pid,)), MeasureOptions(), intervals=True)
        try:
            before = by_proc(process.pid)
            source.begin()
            readings = []
            for _ in range(3):
                for _ in range(50):
                    process.stdin.write("sum(range(20000)); time.sleep(0.0005)\n")
                    process.stdin.flush()
                    process.stdout.readline()
                until_asleep(process.pid)
                source.service()
                readings.append((source.interval(), by_proc(process.pid)))
        finally:
            source.close()
            process.kill()
    whole = readings[0][0]
    for ledger, after in readings:
        check(ledger)
        (thread,) = ledger.threads
        assert thread.kernel_clock == KernelClock(after - before, Quality.EXACT)
        before = after
        whole = ledger if ledger is whole else merge(whole, ledger)
    (thread,) = whole.threads
    parts = [ledger.threads[0].kernel_clock for ledger, _ in readings]
    assert thread.kernel_clock is not None
    assert thread.kernel_clock.time == sum(part.time or 0 for part in parts if part is not None)


def test_of_threads_that_were_born_and_ended_it_is_exact_and_of_the_commands_own_a_bound(compile_c: Compile) -> None:
    ledger, _ = measure(compile_c("why_busy"))
    first, *others = sorted(ledger.threads, key=lambda thread: thread.birth)
    assert first.kernel_clock is not None
    assert first.kernel_clock.quality is Quality.BOUND
    assert len(others) == 2
    for thread in others:
        assert thread.kernel_clock is not None
        assert thread.kernel_clock.quality is Quality.EXACT
        assert thread.kernel_clock.time


def test_of_a_thread_that_runs_when_the_window_ends_it_is_not_known() -> None:
    """The thread that measures runs when it ends the window."""
    with closing(BpfSource(Selection(tids=(os.getpid(),)))) as source:
        source.begin()
        ledger = source.end()
    check(ledger)
    (thread,) = ledger.threads
    assert thread.kernel_clock == KernelClock(None, Quality.UNAVAILABLE)


def test_every_thread_of_every_interval_has_one(compile_c: Compile) -> None:
    whole, parts = measure_intervals(0.05, compile_c("why_mutex"))
    assert all(thread.kernel_clock is not None for ledger in (whole, *parts) for thread in ledger.threads)
