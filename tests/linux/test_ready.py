"""Why threads were ready, on the real kernel: by programs whose threads are ready for a known reason."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.compiling import script

from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.model import ABOUT_PARTS, READY_PARTS, Behind, Kind, Ledger, Thread

from .measuring import check, measure, measure_intervals, time_in
from .quota import quota, run_in
from .recorded import assert_equal, record

pytestmark = [pytest.mark.root, pytest.mark.kernel]

EVERYTHING = Selection(everything=True)
LEVELS = [Level.INTERRUPTS, Level.CALLS, Level.SWITCHES]
SELECTIONS = [Selection(), EVERYTHING]
HIDDEN_ONES = ("switches_unseen", "threads_without_kernel_memory", "wakeups_unseen")


def parts(*threads: Thread) -> dict[str, int]:
    """The time of each part, of these threads together, ns; ``ready``: what was not divided."""
    return {name: sum(t.states[name].time for t in threads if name in t.states) for name in ("ready", *READY_PARTS)}


def spinners(ledger: Ledger, number: int) -> list[Thread]:
    """The threads of the program."""
    found = [thread for thread in ledger.threads if thread.name == "pinned"]
    assert len(found) == number
    return found


def mostly(found: dict[str, int], part: str) -> None:
    """Nearly all of the time was in this part: the machine may have other work, which has its share."""
    assert found[part] > 0.6 * sum(found.values()), found


@pytest.mark.parametrize("level", LEVELS)
def test_threads_of_one_process_on_one_processor(level: Level) -> None:
    ledger, _ = measure(*script("pinned_spinners", "threads", "0.6"), options=MeasureOptions(level=level))
    mostly(parts(*spinners(ledger, 2)), "ready.own")


@pytest.mark.parametrize("level", LEVELS)
def test_two_processes_on_one_processor(level: Level) -> None:
    ledger, _ = measure(*script("pinned_spinners", "processes", "0.6"), options=MeasureOptions(level=level))
    mostly(parts(*spinners(ledger, 2)), "ready.neighbour")


def test_a_neighbour_that_is_not_measured() -> None:
    """Only one of two is measured: what the other one had is known all the same."""
    other = subprocess.Popen(script("pinned_spinners", "alone", "1.5"))
    try:
        ledger, _ = measure(*script("pinned_spinners", "alone", "0.6"))
    finally:
        other.wait()
    mostly(parts(*spinners(ledger, 1)), "ready.neighbour")


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_quota(selection: Selection) -> None:
    """A thread that may have a fifth of a processor is throttled four fifths of the time."""
    with quota(0.2) as group:
        command = run_in(group, *script("pinned_spinners", "alone", "1"))
        ledger, _ = measure(*command, selection=selection, allowed=HIDDEN_ONES)
    found = parts(*spinners(ledger, 1))
    mostly(found, "ready.throttled")
    assert found["ready.throttled"] > 300_000_000, found


def test_a_quota_in_intervals() -> None:
    """Of a thread that is throttled when an interval ends, the time until then is divided."""
    with quota(0.2) as group:
        command = run_in(group, *script("pinned_spinners", "alone", "1"))
        whole, intervals = measure_intervals(0.03, *command)
    found = parts(*spinners(whole, 1))
    mostly(found, "ready.throttled")
    assert found["ready"] < 0.1 * sum(found.values()), found
    assert len(intervals) > 10


def test_waking_on_an_idle_processor() -> None:
    """A thread that sleeps and wakes is ready only as long as the processor takes to come out of idleness."""
    if os.getloadavg()[0] > 0.7:
        pytest.skip("other programs use the processors")
    ledger, _ = measure(sys.executable, "-c", "import time\nfor _ in range(200): time.sleep(0.001)")
    (thread,) = ledger.threads
    found = parts(thread)
    assert found["ready.wakeup"] > 0
    count = sum(thread.states[name].count or 0 for name in ("ready", *READY_PARTS) if name in thread.states)
    assert count >= 200


def test_intervals_add_up_to_the_whole() -> None:
    """Parts are never taken back: the intervals of a busy machine have them as the whole has."""
    whole, intervals = measure_intervals(
        0.02, *script("pinned_spinners", "threads", "0.6"), selection=EVERYTHING, allowed=HIDDEN_ONES
    )
    assert len(intervals) > 10
    mostly(parts(*spinners(whole, 2)), "ready.own")


@pytest.mark.parametrize("how", ["threads", "processes"])
def test_rows_add_up_to_the_cells(how: str) -> None:
    """A recording has the parts too: its rows add up to what the kernel has counted, part by part."""
    recorded = record(*script("pinned_spinners", how, "0.4"))
    assert_equal(recorded)
    assert any(row.state == "ready.own" or row.state == "ready.neighbour" for row in recorded.rows())


def test_holders_agree() -> None:
    """Who had the processor, as --why says, is what the parts say: its own threads, others, interrupts, or nobody."""
    ledger, _ = measure(*script("pinned_spinners", "threads", "0.6"), options=MeasureOptions(why=True))
    own = {t.tid for t in ledger.threads}
    for thread in spinners(ledger, 2):
        found = parts(thread)
        held = [c for c in thread.causes if c.behind is Behind.HOLDER]
        by_own = sum(c.time for c in held if c.tid in own)
        assert sum(c.time for c in held) == sum(found.values())
        assert abs(by_own - found["ready.own"]) <= found["ready.stolen"] + 0.02 * by_own + 1_000_000, (held, found)


def test_what_the_parts_do_not_tell_is_said() -> None:
    for level in LEVELS:
        ledger, _ = measure("/bin/true", options=MeasureOptions(level=level))
        assert ABOUT_PARTS in ledger.reasons
        assert ("interrupts" in ledger.reasons[ABOUT_PARTS]) or level is Level.INTERRUPTS
        check(ledger)
        assert time_in(ledger.threads[0], "ready") == ledger.threads[0].times()[Kind.READY]
