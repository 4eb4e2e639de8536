"""A budget that goes down to the kernel's clocks and comes back: the ledgers of all parts are one measurement's."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import Compile

from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.budgeted import BudgetSource
from headway.linux.sources.budgeted.source import can_keep_any_budget
from headway.linux.sources.budgeted.stitching import Stitching, merged
from headway.linux.sources.choose import start_source
from headway.linux.sources.ebpf.budget import BudgetPolicy, Period
from headway.model import Cell, Kind, Ledger, Thread, Window, processor_time, violations

from .measuring import lost, python, time_in, until_asleep

pytestmark = pytest.mark.kernel

BUDGET = MeasureOptions(budget=0.01)
needs_root = pytest.mark.root

# ---- parts made into one ----


def row(tid: int, birth: int, start: int, until: int, *, end: bool = False) -> Thread:
    states = {"wait": Cell(until - start, None)}
    return Thread(tid, tid, "name", birth, start, until if end else None, until, until - start, states)


lives = st.lists(st.tuples(st.integers(0, 900), st.integers(1, 1000)), min_size=1, max_size=6)
"""Births and lengths of lives."""
boundaries = st.lists(st.integers(1, 999), unique=True, max_size=4).map(sorted)


@given(lives, boundaries, st.integers(0, 20), st.integers(0, 5), st.data())
def test_threads_keep_their_birth_and_every_nanosecond_in_all_parts(
    lived: list[tuple[int, int]], cuts: list[int], gap: int, late: int, data: st.DataObject
) -> None:
    """A part calls a thread that lived before by the moment at which it found it, ``late`` after its beginning."""
    stitching, whole, told, untold = Stitching(), None, None, None
    start = 0
    for end in [*cuts, 1000]:
        if end <= start + gap + late:
            continue
        begin = start + gap if start else 0
        found = begin + late if start else 0
        rows = []
        for number, (born, length) in enumerate(lived):
            first = max(born, found) if born < found or start == 0 else born
            if born + length > first and first < end:
                until = min(born + length, end)
                rows.append(row(number, first, first, until, end=born + length <= end))
        part = Ledger("bpf", Window(begin, end), tuple(rows))
        if start:
            stitching.begin_part(found)
        cut = data.draw(st.integers(begin, end))
        total = stitching.stitched(part, first=True)
        assert violations(total) == []
        untold = merged(untold, total)
        if cut % 2:
            assert violations(untold) == []
            told, untold = merged(told, untold), None
        whole = merged(whole, total)
        stitching.end_part(total.threads, end)
        start = end
    assert whole is not None
    assert violations(whole) == []
    for number, (born, length) in enumerate(lived):
        rows = [thread for thread in whole.threads if thread.tid == number]
        assert len(rows) <= 1
        for thread in rows:
            assert thread.until - thread.start == thread.span
            assert born + length >= thread.until or thread.end is not None


def test_a_thread_that_ends_between_two_parts_has_ended() -> None:
    stitching = Stitching()
    first = Ledger("bpf", Window(0, 100), (row(1, 5, 5, 100), row(2, 7, 7, 100)))
    stitching.end_part(first.threads, 100)
    stitching.begin_part(120)
    second = stitching.stitched(Ledger("bpf", Window(110, 200), (row(2, 115, 115, 200),)), first=True)
    assert {thread.key: thread.end for thread in second.threads} == {(1, 5): 100, (2, 7): None}
    whole = merged(first, second)
    assert violations(whole) == []
    one, two = whole.threads
    assert (one.end, one.span) == (100, 95)
    assert two.span == 193
    assert two.states["unknown"].time == 15


def test_a_thread_that_lives_between_two_parts_is_told_once() -> None:
    stitching = Stitching()
    stitching.end_part((), 100)
    stitching.begin_part(120, [row(1, 102, 102, 108, end=True), row(2, 103, 103, 119, end=True)])
    part = Ledger("bpf", Window(110, 200), (row(2, 115, 115, 119, end=True),))
    found = stitching.stitched(part, first=True)
    assert {thread.key for thread in found.threads} == {(1, 102), (2, 115)}
    assert violations(found) == []


def test_an_id_that_is_used_again_is_another_thread() -> None:
    stitching = Stitching()
    first = Ledger("bpf", Window(0, 100), (row(1, 5, 5, 100),))
    stitching.end_part(first.threads, 100)
    stitching.begin_part(120)
    second = stitching.stitched(Ledger("bpf", Window(110, 200), (row(1, 150, 150, 200),)), first=True)
    assert {thread.key for thread in merged(first, second).threads} == {(1, 5), (1, 150)}


@pytest.mark.parametrize(
    ("selection", "options"),
    [
        (Selection(cpus=(0,)), BUDGET),
        (Selection(), MeasureOptions(budget=0.01, publish=True)),
        (Selection(), MeasureOptions(budget=0.01, durations=1)),
        (Selection(), MeasureOptions()),
    ],
)
def test_what_clocks_cannot_tell_is_measured_without_them(selection: Selection, options: MeasureOptions) -> None:
    assert not can_keep_any_budget(selection, options)
    assert can_keep_any_budget(Selection(everything=True), BUDGET)


# ---- the kernel ----


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[Level]:
    """Levels that follow each other, whatever anything costs: the policy takes the next at the end of each period."""
    wanted: list[Level] = []

    def feed(self: BudgetPolicy, period: Period) -> Level:
        if wanted:
            self.level = wanted.pop(0)
        return self.level

    monkeypatch.setattr(BudgetPolicy, "feed", feed)
    return wanted


def follow(source: BudgetSource, turns: Sequence[Level], parts: list[Ledger] | None = None) -> None:
    """Serve a source until it has been at all levels."""
    deadline = time.monotonic() + 60
    while turns:
        assert time.monotonic() < deadline
        time.sleep(min(source.service() or 0.05, 0.05))
        if parts is not None:
            parts.append(source.interval())
    source.service()


LEVELS = (Level.CLOCKS, Level.SWITCHES, Level.CLOCKS, Level.INTERRUPTS, Level.SWITCHES, Level.CLOCKS)


@needs_root
def test_the_laws_hold_across_all_changes_of_the_level(turns: list[Level]) -> None:
    program = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    parts: list[Ledger] = []
    try:
        with closing(BudgetSource(Selection(pids=(program.pid,)), BUDGET, intervals=True)) as source:
            source.begin()
            turns += LEVELS
            follow(source, turns, parts)
            assert source.level is Level.CLOCKS
            whole = source.read()
            parts.append(source.end_interval())
    finally:
        program.kill()
        program.wait()
    for part in [*parts, whole]:
        assert violations(part) == []
        assert lost(part) == {}
        assert len(part.threads) == 1
    for before, after in itertools.pairwise(parts):
        assert before.window.end == after.window.start
    (thread,) = whole.threads
    assert {one.key for part in parts for one in part.threads} == {thread.key}
    assert thread.until == whole.window.end
    assert thread.span == thread.until - thread.start
    assert all(word in whole.reasons["budget"] for word in ("clocks", "switches", "interrupts"))
    times = [with_overhead(one) for part in parts for one in part.threads]
    assert sum(times) >= with_overhead(thread), "the last interval goes on after the whole"


def with_overhead(thread: Thread) -> int:
    """A thread's processor time and what measuring took of it. Only together do they stay when the prices change."""
    times = thread.times()
    return processor_time(times) + times[Kind.OVERHEAD]


@needs_root
def test_no_thread_is_lost_whatever_the_level_is(turns: list[Level], compile_c: Compile) -> None:
    """Each thread was born at one level, and many end at another."""
    code = (
        "import threading, time\n"
        "for i in range(300):\n"
        "    threading.Thread(target=time.sleep, args=(i % 7 * .01,)).start(); time.sleep(.005)\n"
        "while threading.active_count() > 1: time.sleep(.01)\n"
        "print('over', flush=True); time.sleep(1000)"
    )
    with subprocess.Popen(python(f"input()\n{code}"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        try:
            until_asleep(program.pid)
            with closing(BudgetSource(Selection(pids=(program.pid,)), BUDGET)) as source:
                source.begin()
                turns += LEVELS
                assert program.stdin is not None
                assert program.stdout is not None
                program.stdin.write(b"go\n")
                program.stdin.flush()
                follow(source, turns)
                program.stdout.readline()
                for _ in range(20):
                    source.service()
                    time.sleep(0.01)
                ledger = source.end()
        finally:
            program.kill()
    assert violations(ledger) == []
    lost_threads = lost(ledger, "unseen_ends")  # of a thread in its exit, when the level changes, the end is not seen
    refused = lost_threads.pop("threads_without_kernel_memory", 0)  # the kernel's, on a busy machine
    assert lost_threads == {}
    assert 301 - refused <= len(ledger.threads) <= 301
    assert Counter(thread.end is None for thread in ledger.threads)[True] == 1
    assert time_in(ledger.threads[0], "unknown") < ledger.window.duration


@needs_root
def test_children_that_come_at_one_level_are_followed_at_the_next(turns: list[Level]) -> None:
    code = (
        "import os, subprocess, sys, time\n"
        "words = [sys.executable, '-c', 'import time; time.sleep(1000)']\n"
        "children = []\n"
        "for line in sys.stdin:\n"
        "    children.append(subprocess.Popen(words)); print(children[-1].pid, flush=True)\n"
        "for child in children: child.kill()"
    )
    children = []
    with subprocess.Popen(python(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        with closing(BudgetSource(Selection(pids=(program.pid,)), BUDGET)) as source:
            source.begin()
            for level in (Level.CLOCKS, Level.SWITCHES, Level.CLOCKS):
                program.stdin.write(b"more\n")
                program.stdin.flush()
                children.append(int(program.stdout.readline()))
                turns.append(level)
                follow(source, turns)
            ledger = source.end()
        program.stdin.close()
    assert violations(ledger) == []
    assert {thread.pid for thread in ledger.threads} == {program.pid, *children}
    assert len(ledger.threads) == 1 + len(children)


@needs_root
def test_a_budget_takes_this_source_unless_what_is_wanted_needs_programs() -> None:
    for selection, name in ((Selection(everything=True), "BudgetSource"), (Selection(cpus=(0,)), "BpfSource")):
        source, _ = start_source(selection, "bpf", options=BUDGET)
        with closing(source):
            assert type(source).__name__ == name
