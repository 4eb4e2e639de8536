"""Why threads were ready, on the real kernel: by programs whose threads are ready for a known reason."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.compiling import Compile, script
from tests.effort import FEW, exhaustive

from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.model import ABOUT_PARTS, READY_PARTS, Behind, Ledger, Thread
from headway.session.measure import observe

from .measuring import check, measure, measure_intervals, own_time, time_in
from .quota import quota, run_in
from .recorded import assert_equal, record

pytestmark = [pytest.mark.root, pytest.mark.kernel]

EVERYTHING = Selection(everything=True)
LEVELS = [Level.INTERRUPTS, Level.CALLS, Level.SWITCHES]
SELECTIONS = [Selection(), EVERYTHING]
SECONDS = "0.4"
"""How long the programs spin."""
NAME = f"pinned{os.getpid()}"
"""What their threads are called: others may run the same program meanwhile."""
HIDDEN_ONES = ("switches_unseen", "threads_without_kernel_memory", "wakeups_unseen")


def spinning(how: str, seconds: str = SECONDS) -> list[str]:
    """The words of a command whose threads spin."""
    return script("pinned_spinners", how, seconds, NAME)


def parts(*threads: Thread) -> dict[str, int]:
    """The time of each part, of these threads together, ns; ``ready``: what was not divided."""
    return {name: sum(t.states[name].time for t in threads if name in t.states) for name in ("ready", *READY_PARTS)}


def spinners(ledger: Ledger, number: int) -> list[Thread]:
    """The threads of the program."""
    found = [thread for thread in ledger.threads if thread.name == NAME]
    assert len(found) == number
    return found


def kept_from_running(thread: Thread, other: Thread) -> int:
    """A lower bound of the time that a thread was ready because another had the one processor that both may use, ns.

    The thread spins: as long as it neither waits nor has yet to begin or has ended, it is ready while the other runs.
    """
    apart = max(thread.start - other.start, 0) + max(other.until - thread.until, 0)
    return own_time(other) - time_in(thread, "wait") - apart


def assert_kept(ledger: Ledger, part: str) -> None:
    """Each of two threads that spin has at least so much of this part, and some of it."""
    one, other = spinners(ledger, 2)
    for thread, holder in ((one, other), (other, one)):
        found = parts(thread)
        assert found[part] >= kept_from_running(thread, holder), found
    assert parts(one, other)[part] > 0


@pytest.mark.parametrize("level", LEVELS[::2] if FEW else LEVELS)
def test_threads_of_one_process_on_one_processor(level: Level) -> None:
    ledger, _ = measure(*spinning("threads"), options=MeasureOptions(level=level))
    assert_kept(ledger, "ready.own")
    assert ABOUT_PARTS in ledger.reasons, "what the parts do not tell is said"
    assert ("interrupts" in ledger.reasons[ABOUT_PARTS]) or level is Level.INTERRUPTS


@pytest.mark.parametrize("level", LEVELS[:1] if FEW else LEVELS)
def test_two_processes_on_one_processor(level: Level) -> None:
    ledger, _ = measure(*spinning("processes"), options=MeasureOptions(level=level))
    assert_kept(ledger, "ready.neighbour")
    assert parts(*spinners(ledger, 2))["ready.own"] == 0


def test_a_neighbour_that_is_not_measured() -> None:
    """Only one of two is measured: what the other one had is known all the same."""
    others: list[subprocess.Popen[bytes]] = []

    def start_another(*_: object) -> None:
        others.append(subprocess.Popen(spinning("alone", "600")))
        while Path(f"/proc/{others[0].pid}/comm").read_text() != f"{NAME}\n":
            time.sleep(0.002)

    try:
        command = spinning("alone")
        ledger = observe(Selection(), command, prefer="bpf", started=start_another).ledger
    finally:
        for other in others:
            other.kill()
            other.wait()
    check(ledger)
    found = parts(*spinners(ledger, 1))
    assert found["ready.neighbour"] > 0
    assert found["ready.own"] == 0


@pytest.mark.parametrize("program", ["deadline", *exhaustive("realtime")])
def test_a_thread_that_has_used_its_runtime_up_is_throttled(compile_c: Compile, program: str) -> None:
    """It has ten times 10 ms of a processor, and waits for its next period in between; or 950 ms of each second."""
    ledger, (away,) = measure(compile_c(program))
    if not int(away):
        pytest.skip("this kernel does not take the policy, or does not throttle it")
    (thread,) = ledger.threads
    times = parts(thread)
    others = time_in(thread, "ready", "wait", "stolen", "unknown", "kernel", "irq", "softirq", "overhead")
    others += ledger.losses["stolen_ns_unplaced"] - times["ready.throttled"]
    assert 0 < int(away) - others <= times["ready.throttled"], thread.states


def times_throttled(group: Path) -> int:
    """How often the kernel has throttled a group."""
    words = (group / "cpu.stat").read_text().split()
    return int(words[words.index("nr_throttled") + 1])


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_quota(selection: Selection) -> None:
    """A thread that may have a fifth of a processor is throttled as soon as it has had that."""
    with quota(0.2) as group:
        command = run_in(group, *spinning("alone"))
        ledger, _ = measure(*command, selection=selection, allowed=HIDDEN_ONES)
        throttled = times_throttled(group)
    found = parts(*spinners(ledger, 1))
    assert found["ready.throttled"] == 0 or throttled > 0, (found, throttled)
    # From Linux 6.18 on a thread is stopped when it returns to user code. If that is in the next period, it is not.
    assert found["ready.throttled"] > 0 or throttled < 3, (found, throttled)
    assert found["ready.own"] == 0


def test_a_quota_in_intervals() -> None:
    """Of a thread that is throttled when an interval ends, the time until then is divided."""
    with quota(0.2) as group:
        command = run_in(group, *spinning("alone"))
        whole, intervals = measure_intervals(0.03, *command)
        throttled = times_throttled(group)
    found = parts(*spinners(whole, 1))
    assert (found["ready.throttled"] > 0) == (throttled > 0), (found, throttled)
    # The clocks of a processor that the hypervisor takes away in the middle of a switch cannot be read.
    assert found["ready"] <= found["ready.throttled"], found
    assert len(intervals) > 1


def test_intervals_add_up_to_the_whole() -> None:
    """Parts are never taken back: the intervals of a busy machine have them as the whole has."""
    whole, intervals = measure_intervals(0.02, *spinning("threads"), selection=EVERYTHING, allowed=HIDDEN_ONES)
    assert len(intervals) > 1
    assert_kept(whole, "ready.own")


@pytest.mark.parametrize("how", ["threads", *exhaustive("processes")])
def test_rows_add_up_to_the_cells(how: str) -> None:
    """A recording has the parts too: its rows add up to what the kernel has counted, part by part."""
    recorded = record(*spinning(how))
    assert_equal(recorded)
    assert any(row.state == "ready.own" or row.state == "ready.neighbour" for row in recorded.rows())


def test_holders_agree() -> None:
    """Who had the processor, as --why says, is what the parts say: its own threads, others, interrupts, or nobody."""
    ledger, _ = measure(*spinning("threads"), options=MeasureOptions(why=True))
    own = {t.tid for t in ledger.threads}
    for thread in spinners(ledger, 2):
        found = parts(thread)
        held = [c for c in thread.causes if c.behind is Behind.HOLDER and c.state == "ready"]
        by_own = sum(c.time for c in held if c.tid in own)
        assert sum(c.time for c in held) == sum(found.values())
        # Interrupts begin and end a little earlier or later for one than for the other, the hypervisor is no holder,
        # and of a processor that many had since, the first holders are forgotten.
        others = sum(c.time for c in held if not c.tid)
        others += sum(time for part, time in found.items() if part not in ("ready.own", "ready.neighbour"))
        assert abs(by_own - found["ready.own"]) <= others, (held, found)
