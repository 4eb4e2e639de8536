"""The /proc source charges marked regions out of user time: never more than was certain, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.regions.conftest import Compile

from headway.linux.options import Selection
from headway.linux.procfs._procfs import WAITING, WHOLE_SHARE, Task, ThreadAccount
from headway.linux.regions.blocks import RegionBlock, Spent
from headway.linux.regions.charging import MAX_STATES, Marked
from headway.linux.sources.proc import ProcSource
from headway.model import Cell, Kind, Ledger, Thread, kind_of, violations

pytestmark = pytest.mark.kernel

START = 10**12
NAMES = ["wait"]
REGIONS = ["noneffective.a", "noneffective.b", "poll.c"]


class Stub:
    """What `Marked` wants to know of a task."""

    def __init__(self, account: ThreadAccount) -> None:
        self.account = account
        self.ended = False


def states_of(account: ThreadAccount) -> dict[str, Cell]:
    return {state: Cell(t, None) for state, t in account.states(NAMES).items()}


def block(times: dict[str, Spent], since: int = START, address: int = 1) -> RegionBlock:
    return RegionBlock(1, address, since, None, 0, 0, times)


lives = st.lists(
    st.tuples(st.sampled_from(["user", "wait"]), st.sampled_from(["", *REGIONS]), st.integers(1, 10**7), st.booleans()),
    max_size=60,
)


@given(lives)
def test_no_more_is_charged_than_was_in_the_region_on_the_processor(life: list[tuple[str, str, int, bool]]) -> None:
    account = ThreadAccount(START, tick=1)
    stub = Stub(account)
    task = cast(Task, stub)
    marked = Marked("/nowhere", time.monotonic_ns)
    now = START
    run = 0
    in_region, user_in_region = dict.fromkeys(REGIONS, 0), 0
    before: dict[str, Cell] = {}
    for switches, (doing, region, length, look) in enumerate(life, 1):
        now += length
        run += length if doing == "user" else 0
        if region:
            in_region[region] += length
            user_in_region += length if doing == "user" else 0
        if look:
            account.advance(now, run, 0, switches, 1, 0, WHOLE_SHARE, WAITING, 0)
            marked._charge(task, block({r: Spent(t, switches) for r, t in in_region.items()}), START, NAMES)
            states = marked.split(task, states_of(account))
            assert sum(cell.time for cell in states.values()) == account.span, "conservation"
            assert all(cell.time >= before.get(state, Cell()).time >= 0 for state, cell in states.items())
            charged = sum(cell.time for state, cell in states.items() if state in REGIONS)
            assert charged <= user_in_region
            assert all(states.get(r, Cell()).time <= in_region[r] for r in REGIONS)
            assert states.get("user", Cell()).time >= run - user_in_region, "what is left is a bound of the progress"
            before = states


@given(
    st.lists(
        st.tuples(
            st.integers(1, 10**6),
            st.integers(0, 10**6),
            st.dictionaries(st.sampled_from(REGIONS), st.builds(Spent, st.integers(0, 2**62), st.integers(0, 2**62))),
            st.integers(0, START + 10**8),
            st.integers(0, 2),
        ),
        max_size=30,
    )
)
def test_blocks_that_lie_break_no_law(looks: list[tuple[int, int, dict[str, Spent], int, int]]) -> None:
    account = ThreadAccount(START, tick=1)
    task = cast(Task, Stub(account))
    marked = Marked("/nowhere", time.monotonic_ns)
    now, run = START, 0
    before: dict[str, Cell] = {}
    for length, share, times, since, address in looks:
        now += length
        run += min(share, length)
        account.advance(now, run, 0, now, 1, 0, WHOLE_SHARE, WAITING, 0)
        marked._charge(task, block(times, since, address), START, NAMES)
        states = marked.split(task, states_of(account))
        assert sum(cell.time for cell in states.values()) == account.span
        for state in {*states, *before}:
            assert states.get(state, Cell()).time >= (before.get(state, Cell()).time if state != "user" else 0)
        before = states


def test_a_thread_that_was_on_the_processor_all_the_time_is_divided_exactly() -> None:
    account = ThreadAccount(START, tick=1)
    task = cast(Task, Stub(account))
    marked = Marked("/nowhere", time.monotonic_ns)
    account.advance(START + 1000, 1000, 0, 1, 1, 0, WHOLE_SHARE, WAITING, 0)
    marked._charge(task, block({"noneffective.a": Spent(300, 2), "poll.c": Spent(100, 1)}), START, NAMES)
    assert marked.split(task, states_of(account)) == {
        "user": Cell(600, None),
        "noneffective.a": Cell(300, 2),
        "poll.c": Cell(100, 1),
    }


def test_what_a_region_had_before_the_window_is_not_the_windows() -> None:
    account = ThreadAccount(START, tick=1)
    task = cast(Task, Stub(account))
    marked = Marked("/nowhere", time.monotonic_ns)
    for spent, at in ((10**9, 0), (10**9 + 50, 100)):
        account.advance(START + at, at, 0, at, 1, 0, WHOLE_SHARE, WAITING, 0)
        marked._charge(task, block({"poll": Spent(spent, 1)}, since=START - 1), START, NAMES)
    assert marked.split(task, states_of(account)) == {"user": Cell(50, None), "poll": Cell(50, 0)}


def test_a_program_that_renames_its_regions_for_ever_uses_no_memory_of_the_observer() -> None:
    account = ThreadAccount(START, tick=1)
    task = cast(Task, Stub(account))
    marked = Marked("/nowhere", time.monotonic_ns)
    for i in range(10 * MAX_STATES):
        account.advance(START + i * 100, i * 100, 0, i, 1, 0, WHOLE_SHARE, WAITING, 0)
        marked._charge(task, block({f"poll.{i}": Spent(i, 1)}), START, NAMES)
    assert len(marked.split(task, states_of(account))) <= MAX_STATES + 2


# -- real programs ----------------------------------------------------------------------------------------------------


@contextmanager
def shares(program: Path) -> Iterator[tuple[Ledger, list[int]]]:
    """What the /proc source says of the program while it works, and its own figures: parse, ring, processor time."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    source = ProcSource(Selection(pids=(process.pid,)))
    try:
        process.stdout.readline()
        source.begin()
        process.stdin.write(b"x")
        process.stdin.flush()
        os.set_blocking(process.stdout.fileno(), False)
        told = b""
        while not told:
            time.sleep(source.service() or 0)
            told = process.stdout.read() or b""
        yield source.end(), [int(number) for number in told.split()]
    finally:
        source.close()
        process.kill()
        process.communicate()


def only(ledger: Ledger) -> Thread:
    assert violations(ledger) == []
    assert len(ledger.threads) == 1
    return ledger.threads[0]


def test_a_busy_programs_regions_are_near_its_own_clock_and_never_above(compile_marked: Compile) -> None:
    with shares(compile_marked("marked_clock.c", flags=("-std=gnu11", "-DWAITS=0"))) as (ledger, (parse, ring, used)):
        states = only(ledger).states
        away = sum(cell.time for state, cell in states.items() if not kind_of(state).in_rpi)
        for time, truth in ((states["noneffective.parse"].time, parse), (states["poll.ring"].time, ring)):
            assert max(truth - away - 10**7, 0) <= time <= truth, "all of it but what may have been off the processor"
        assert states["noneffective.parse"].count == states["poll.ring"].count
        assert (states["noneffective.parse"].count or 0) > 0
        marked = sum(cell.time for state, cell in states.items() if kind_of(state).in_rpi) - states["user"].time
        assert states["user"].time >= used - parse - ring - 10**7, "EPI is not less than the progress, but for a tick"
        assert marked <= used
        assert ledger.losses["untrue_marks"] == ledger.losses["unmarked_threads"] == 0
        assert "regions" in ledger.reasons


def test_sleeping_in_a_region_is_waiting(compile_marked: Compile) -> None:
    with shares(compile_marked("marked_clock.c", flags=("-std=gnu11", "-DWAITS=1"))) as (ledger, (parse, ring, used)):
        states = only(ledger).states
        charged = {state: cell.time for state, cell in states.items() if state.startswith(("noneffective", "poll"))}
        assert sum(charged.values()) <= parse + ring + 10**7, "none of the sleep, but for a tick's uncertainty"
        assert states["user"].time >= used - parse - ring - 10**7
        assert any(kind_of(state) is Kind.WAIT for state in states)


def test_programs_without_regions_are_as_before() -> None:
    process = subprocess.Popen(["sleep", "1000"])
    source = ProcSource(Selection(pids=(process.pid,)))
    try:
        source.begin()
        ledger = source.end()
    finally:
        process.kill()
        process.wait()
    assert not {"regions", "regions_unread"} & ledger.reasons.keys()
    assert not any(state.startswith(("noneffective", "poll")) for state in only(ledger).states)


@pytest.mark.parametrize("name", ["unmarked_threads", "unnamed_regions", "untrue_marks"])
def test_what_was_refused_is_among_the_losses(compile_marked: Compile, name: str) -> None:
    program = compile_marked("refused_marks.c", flags=("-std=gnu11", "-DHEADWAY_BLOCKS=1"))
    process = subprocess.Popen([program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.read(1)
        source = ProcSource(Selection(pids=(process.pid,)))
        source.begin()
        ledger = source.end()
    finally:
        process.kill()
        process.communicate()
    assert violations(ledger) == []
    assert ledger.losses[name] == {"unmarked_threads": 1, "unnamed_regions": 10, "untrue_marks": 1}[name]


def test_what_passed_between_reading_times_and_reading_the_block_is_not_charged() -> None:
    account = ThreadAccount(START, tick=1)
    task = cast(Task, Stub(account))
    marked = Marked("/nowhere", time.monotonic_ns)
    account.advance(START + 1000, 1000, 0, 1, 1, 0, WHOLE_SHARE, WAITING, 0)
    marked._charge(task, block({"noneffective.a": Spent(700, 1)}), START + 1000 + 600, NAMES)
    assert marked.split(task, states_of(account))["noneffective.a"].time == 100
