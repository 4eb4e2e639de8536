"""Levels of detail: which programs are loaded, what stays exact, and how time that no handler divides is divided."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import Compile, script
from tests.effort import FEW

from headway.commands import stat
from headway.linux.bpf.costs.calibration import costs
from headway.linux.bpf.costs.exercising import Exercise
from headway.linux.bpf.threads._cells import Cells
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.clocks import ClockSource
from headway.linux.sources.ebpf import BpfSource
from headway.linux.sources.ebpf.division import divided
from headway.linux.sources.source import LinuxSource
from headway.model import Cell, Kind, Quality, Thread

from .measuring import (
    Together,
    check,
    count_of,
    disturbed,
    measure,
    measure_intervals,
    measure_together,
    only,
    python,
    time_in,
    until_asleep,
)

SWITCHES = MeasureOptions(level=Level.SWITCHES)
CALLS = MeasureOptions(level=Level.CALLS)
needs_root = pytest.mark.root

STATES = ("user", "user.draw", "kernel.read", "kernel.fault", "irq")
counts = st.dictionaries(st.sampled_from(STATES), st.integers(0, 10**6))


# ---- without eBPF ----


@given(st.integers(0, 10**15), st.integers(0, 10**15), counts)
def test_time_that_is_not_divided_goes_to_the_states_of_its_samples(
    undivided: int, ready: int, samples: dict[str, int]
) -> None:
    states = Cells.of([("running", undivided, 3), ("ready", ready, 2)], samples)
    thread = Thread(1, 1, "name", 0, 0, None, undivided + ready, undivided + ready, states)
    (row,) = divided([thread])
    taken = {state: number for state, number in samples.items() if number}
    assert sum(cell.time for cell in row.states.values()) == undivided + ready
    if not undivided or not taken:
        assert row.sampled == {}
        return
    assert "running" not in row.states
    assert {state: estimate.samples for state, estimate in row.sampled.items()} == taken
    assert sum(estimate.time for estimate in row.sampled.values()) == undivided
    assert all(row.states[state].count is None for state in taken)


def test_how_often_a_region_of_progress_was_entered_stays_known() -> None:
    states = Cells.of([("running", 100, 3), ("user.draw", 0, 7)], {"user.draw": 3, "kernel.read": 1})
    (row,) = divided([Thread(1, 1, "name", 0, 0, None, 100, 100, states)])
    assert row.states["user.draw"] == Cell(75, 7)
    assert row.states["kernel.read"] == Cell(25, None)


@given(counts, counts)
def test_samples_of_an_interval_are_those_that_came_in_it(before: dict[str, int], more: dict[str, int]) -> None:
    both = {state: before.get(state, 0) + more.get(state, 0) for state in STATES}
    first = Cells.of([("running", 5, 1)], dict.fromkeys(STATES, 0) | before)
    second = Cells.of([("running", 9, 1)], both)
    new = second.less(first)
    assert new.sample_counts == {state: number for state, number in more.items() if number}
    assert first.plus(new).sample_counts == {state: number for state, number in both.items() if number}


def test_costs_of_events_that_are_not_seen_are_nothing() -> None:
    without, observed = Exercise(80, 100, 120, 130, 500, 2000), Exercise(79, 103, 121, 128, 510, 2600)
    of = costs(without, observed, {}, Level.SWITCHES, 5000.0).of
    assert of.keys() == {"switch", "wake", "sample"}
    assert of["sample"] == 5000.0
    assert of["switch"] > 0


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--noneffective", "malloc"), "--noneffective"),
        (("--poll", "openmp"), "--poll"),
        (("--state", "a=libc:qsort"), "--state"),
        (("-e", "cycles"), "--event"),
        (("--why", "poll"), "--why poll"),
        (("--source", "proc"), "--level"),
        (("--budget", "1%"), "--budget"),
    ],
)
def test_what_needs_the_states_of_processor_time_is_refused_with_one_sentence(
    options: tuple[str, ...], word: str
) -> None:
    result = CliRunner().invoke(stat.command, ["--level", "switches", *options, "--", "true"])
    assert result.exit_code == 2
    assert word in result.output
    assert "Traceback" not in result.output


# ---- the kernel ----

COMPUTES = "import time\nend = time.process_time() + .2\nwhile time.process_time() < end: pass"


@pytest.fixture(scope="module")
def together(compile_c: Compile) -> Together:
    """At the level switches; ``each_wait`` has a process for each of `WAITS`."""
    programs: dict[str, list[str | Path]] = {
        "threads": [compile_c("threads"), "500"],
        "computes": [*python(COMPUTES)],
        "true": ["true"],
        "each_wait": [*script("each_wait")],
    }
    return measure_together(programs, options=SWITCHES)


@needs_root
@pytest.mark.parametrize(
    "options", [pytest.param(SWITCHES, id="switches"), pytest.param(CALLS, id="calls", marks=pytest.mark.exhaustive)]
)
def test_the_laws_hold(options: MeasureOptions, compile_c: Compile, together: Together) -> None:
    if options is SWITCHES:
        assert len(together["threads"][0].threads) == 501
    else:
        measure(compile_c("threads"), "500", options=options)
    whole, parts = measure_intervals(
        0.05, *python("import os\nfor i in range(200): os.wait4(os.spawnlp(1, 'true', 'true'), 0)"), options=options
    )
    assert len(parts) > 1
    assert whole.threads


@needs_root
def test_processor_time_is_exact_and_its_division_is_sampled(together: Together) -> None:
    ledger, _ = together["computes"]
    thread = only(ledger)
    indices = ledger.indices(thread)
    assert indices.quality["rpi"] in (Quality.EXACT, Quality.ESTIMATED), "counted, whatever its cost"
    assert indices.quality["epi"] is indices.quality["kpi"]
    assert indices.quality["epi"] in (Quality.SAMPLED, Quality.BY_MODE)
    assert indices.rpi is not None
    # The program's own clock has what the handlers took, and on some kernels what the hypervisor took.
    assert indices.rpi + time_in(thread, "overhead", "stolen", "unknown") >= 200_000_000
    assert sum(estimate.whole for estimate in thread.sampled.values()) == indices.rpi
    if indices.quality["epi"] is Quality.SAMPLED:
        assert sum(estimate.samples for estimate in thread.sampled.values()) > 0
        assert "because" in ledger.reasons["division"]
    assert not time_in(thread, "running")


@needs_root
def test_a_thread_without_a_sample_is_running_and_its_effective_time_a_bound(together: Together) -> None:
    ledger, _ = together["true"]
    thread = only(ledger)
    if thread.sampled:
        pytest.skip("a sample fell into the millisecond that true lives, or counters divide it")
    indices = ledger.indices(thread)
    assert thread.states["running"].time == indices.rpi == indices.epi
    assert indices.quality["epi"] is Quality.BOUND
    assert indices.kpi is None


WAITS = ("pipe", "poll", "epoll", "child", "signal", "net", "futex", "sleep")


@needs_root
@pytest.mark.parametrize("reason", WAITS)
def test_a_wait_has_its_reason_without_handlers_of_calls(together: Together, reason: str) -> None:
    thread = only(together["each_wait"][0], reason)
    assert count_of(thread, f"wait.{reason}") >= 1
    others = {state for state in thread.states if state.startswith("wait.")} - {f"wait.{reason}"}
    assert not others & {f"wait.{other}" for other in WAITS}


@needs_root
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(SWITCHES, id="switches"),
        pytest.param(CALLS, id="calls", marks=pytest.mark.exhaustive),
        pytest.param(MeasureOptions(), id="interrupts"),
    ],
)
def test_waiting_for_a_page_is_a_wait_for_a_fault_also_in_a_call(
    options: MeasureOptions, compile_c: Compile, tmp_path: Path
) -> None:
    pages = tmp_path / "pages"
    with pages.open("wb") as file:
        file.write(os.urandom(64 * 64 * 4096))
        file.flush()
        os.fsync(file.fileno())
    thread = only(measure(compile_c("cold_pages"), str(pages), options=options)[0])
    waits = {state for state in thread.states if state.startswith("wait.")}
    if "wait.fault" not in waits:
        pytest.skip("the pages were in memory, or this file system keeps all there")
    assert not waits & {"wait.write", "wait.pipe"}, "the write waited for the page that it was to write"
    if options is not SWITCHES:
        assert count_of(thread, "kernel.fault.major") >= 1, "a fault that waits for a disk is major"


def absences(thread: Thread) -> Counter[str]:
    """Return how often the thread was in each wait, and ready. Its parts differ: one level does not see interrupts."""
    counts: Counter[str] = Counter()
    for state, cell in thread.states.items():
        if state.startswith(("wait.", "ready")):
            counts["ready" if state.startswith("ready") else state] += cell.count or 0
    return counts


@needs_root
def test_both_levels_count_the_same_waits_of_one_run(compile_c: Compile) -> None:
    """Two measurements of the same threads at the same time: one sees every call, the other switches only."""
    command = ["sh", "-c", 'read line; exec "$0"', str(compile_c("ping_pong"))]
    program = subprocess.Popen(command, stdin=subprocess.PIPE)
    until_asleep(program.pid)
    chosen = Selection(pids=(program.pid,))
    with closing(BpfSource(chosen)) as exact, closing(BpfSource(chosen, SWITCHES)) as cheap:
        exact.begin()
        cheap.begin()
        assert program.stdin is not None
        program.stdin.close()
        program.wait()
        exact.wait_until_exit_is_seen(program.pid)
        cheap.wait_until_exit_is_seen(program.pid)
        both = exact.end(), cheap.end()
    for ledger in both:
        check(ledger)
    seen, told = ({t.tid: t for t in ledger.threads} for ledger in both)
    assert seen.keys() == told.keys()
    for tid, thread in seen.items():
        assert absences(told[tid]) == absences(thread)


@needs_root
def test_marked_regions_stay_exact() -> None:
    code = (
        "import headway, sys, time\n"
        "def spin(ms):\n"
        "    end = time.monotonic() + ms / 1e3\n"
        "    while time.monotonic() < end: pass\n"
        "with headway.noneffective('first'): pass\n"
        "sys.stdin.readline()\n"
        "for i in range(50):\n"
        "    with headway.noneffective('busy'): spin(4)\n"
        "    spin(2)\n"
        "    time.sleep(.001)"
    )
    program = subprocess.Popen(python(code), stdin=subprocess.PIPE)
    with closing(BpfSource(Selection(pids=(program.pid,)), SWITCHES)) as source:
        until_asleep(program.pid)
        source.begin()
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait() == 0
        source.wait_until_exit_is_seen(program.pid)
        ledger = source.end()
    check(ledger)
    thread = only(ledger)
    # The first time that the block is read, when the thread leaves its processor, it only says where it begins.
    assert 49 <= count_of(thread, "noneffective.busy") <= 50
    assert "noneffective.busy" not in thread.sampled
    assert time_in(thread, "noneffective.busy") >= 49 * 4_000_000 - disturbed(thread)
    assert time_in(thread, "user", "running") >= 50 * 2_000_000 - disturbed(thread)


@needs_root
def test_the_kernels_time_in_a_region_of_progress_is_not_progress(compile_c: Compile) -> None:
    """The region is a part of what samples say of user code: unlike other regions it has no time of its own."""
    program = subprocess.Popen([compile_c("copying"), "ready"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdout.readline()
    with closing(BpfSource(Selection(pids=(program.pid,)), SWITCHES)) as source:
        source.begin()
        program.stdin.close()
        assert program.wait() == 0
        source.wait_until_exit_is_seen(program.pid)
        ledger = source.end()
    check(ledger)
    thread = only(ledger)
    assert 149 <= count_of(thread, "user.copy") <= 150, "how often it was entered is counted"
    indices = ledger.indices(thread)
    assert indices.quality["epi"] in (Quality.SAMPLED, Quality.BY_MODE)
    assert indices.rpi is not None
    assert indices.kpi is not None
    in_kernel = time_in(thread, "kernel")
    assert indices.kpi >= in_kernel
    if sum(estimate.samples + estimate.mode_samples for estimate in thread.sampled.values()) >= 40:
        assert in_kernel > 0, "about half of the time goes into reading"
        assert thread.sampled["user.copy"].whole == time_in(thread, "user.copy")


@needs_root
@pytest.mark.parametrize(
    "options",
    [pytest.param(MeasureOptions(), id="interrupts"), pytest.param(CALLS, id="calls", marks=pytest.mark.exhaustive)],
)
def test_processors_are_in_no_state_but_those_of_the_measured_threads(options: MeasureOptions) -> None:
    """An interrupt often is the first event that shows that no measured thread runs: it ends all the same."""
    beside = {"unknown", "unknown.unmeasured", "overhead", "stolen"}
    for _ in range(1 if FEW else 8):
        ledger, _ = measure("sleep", "0.1", options=options)
        threads, processors = (
            sum((Counter({s: c.time for s, c in row.states.items() if s not in beside}) for row in rows), Counter())
            for rows in (ledger.threads, ledger.processors)
        )
        assert processors == Counter({state: threads[state] for state in processors})


@needs_root
@pytest.mark.parametrize("level", [Level.SWITCHES, Level.CLOCKS, Level.INTERRUPTS])
def test_a_thread_of_the_kernel_has_no_code_of_a_program(level: Level) -> None:
    with closing(source_of(level)) as source:
        source.begin()
        for _ in range(20):
            os.sync()
            time.sleep(0.01)
        ledger = source.end()
    kernel = [thread for thread in ledger.threads if is_of_the_kernel(thread.pid)]
    assert any("kernel.thread" in thread.states for thread in kernel)
    for thread in kernel:
        assert not thread.states.keys() & {"user", "running", "kernel"}, thread.name
        assert ledger.indices(thread).epi in {0, None}


def source_of(level: Level) -> LinuxSource:
    options = MeasureOptions(level=level)
    everything = Selection(everything=True)
    return ClockSource(everything, options) if level is Level.CLOCKS else BpfSource(everything, options)


def is_of_the_kernel(pid: int) -> bool:
    """Whether a process has the flag PF_KTHREAD (proc_pid_stat(5))."""
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return bool(int(words[6]) & 0x00200000)


# ---- levels that change ----


@needs_root
@pytest.mark.parametrize(("budget", "calls"), [(0.01, 6_000_000), (1.0, 2_000_000)], ids=["little", "plenty"])
def test_the_laws_hold_while_the_level_changes(budget: float, calls: int, compile_c: Compile) -> None:
    """A program that does nothing but calls makes a small budget change the level. A large one pays for everything."""
    options = MeasureOptions(budget=budget)
    whole, parts = measure_intervals(0.15, compile_c("getppid"), str(calls), options=options)
    thread = only(whole)
    assert len(parts) > 2
    assert thread.states["kernel.getppid"].time > 0
    if budget == 1.0:
        assert not thread.sampled
        assert thread.states["kernel.getppid"].count == calls
    else:
        # On a busy machine even `switches` costs more than this budget. At `clocks`, samples do not name the call.
        estimated = [thread.sampled[state] for state in ("kernel.getppid", "kernel") if state in thread.sampled]
        assert sum(estimate.samples for estimate in estimated) > 0
        assert sum(estimate.time for estimate in estimated) < thread.times()[Kind.KERNEL]
        assert any(level in whole.reasons["budget"] for level in ("switches", "clocks"))
        assert 0 < (whole.indices(thread).exact_share["rpi"] or 0) <= 1


@needs_root
def test_threads_that_wait_across_a_change_of_the_level_go_on_in_the_right_call(compile_c: Compile) -> None:
    """Before, across and after each change threads sleep and run: no time is lost, and none is in a wrong wait."""
    options = MeasureOptions(budget=0.0001)
    command = python(
        "import threading, time, os\n"
        "def nap():\n"
        "    for i in range(150): time.sleep(.003); os.getppid()\n"
        "def ask():\n"
        "    end = time.monotonic() + .6\n"
        "    while time.monotonic() < end: os.getppid()\n"
        "threads = [threading.Thread(target=t) for t in (nap, nap, ask)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]"
    )
    whole, _ = measure_intervals(0.1, *command, options=options)
    # At `clocks`, to which so small a budget leads, short waits have no name.
    waits = {state for thread in whole.threads for state in thread.states if state.startswith("wait.")}
    times = [thread.times() for thread in whole.threads]
    naps = [each for each in times if each[Kind.WAIT] + each[Kind.UNKNOWN] >= 150 * 3_000_000]
    assert len(naps) >= 3, "two that nap, and one that waits for them"
    assert all(each[Kind.UNKNOWN] < each[Kind.WAIT] / 4 for each in naps)
    assert not waits & {"wait.pipe", "wait.net", "wait.poll", "wait.epoll", "wait.child", "wait.getppid"}, waits
