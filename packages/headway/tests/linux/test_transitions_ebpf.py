"""Transitions out of the kernel: what their rows add up to is what the kernel has added up itself, exactly.

`record` asserts it in each of these tests, thread by thread and processor by processor, and that the rows tile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.compiling import Compile, script
from tests.effort import FEW

from headway.linux.bpf.rings.transitions import NICE
from headway.linux.options import MarkedFunctions, MeasureOptions, Selection
from headway.linux.sources.ebpf import BpfSource
from headway.linux.sources.ebpf import options as source_options
from headway.model import Kind, kind_of, violations

from .measuring import PATIENT, python, rows_broken, time_in
from .recorded import Recorded, Row, assert_tiles, cells_of, record, record_together

pytestmark = [pytest.mark.root, pytest.mark.kernel]


def waits(recorded: Recorded, state: str, thread: int | None = None) -> list[Row]:
    """The rows of waits that were ended by a wake-up."""
    return [r for r in recorded.rows() if r.state == state and r.duration and thread in (None, r.thread)]


# ---- what programs do ----

CALLS = 20_000 if FEW else 100_000
THREADS = 600 if FEW else 3000
ASKED = 5000 if FEW else 20_000
WAYS_TO_ASK = ("epoll_wait", "read_pipe", "sched_yield", "select")
NEUTRAL = "rr" + "c" * 3 + "rgrtrum" * 20
FAULTS = "import mmap\nfor _ in range(20):\n m = mmap.mmap(-1, 1 << 20)\n for i in range(0, 1 << 20, 4096): m[i] = 1"


@pytest.fixture(scope="module")
def together(compile_c: Compile) -> dict[str, Recorded]:
    """One recording of them all: `record` has compared its rows with the ledger."""
    alone = ("bomb", "spawn", "exec_by_thread", "shares", "two_mutexes", "ping_pong", "exits", "hand_over")
    programs: dict[str, list[str | Path]] = {
        "getppid": [compile_c("getppid"), str(CALLS)],
        "threads": [compile_c("threads"), str(THREADS)],
        "in_vain": [compile_c("in_vain"), str(ASKED), *WAYS_TO_ASK],
        "neutral": [compile_c("scripts_of_calls"), *[NEUTRAL] * 50],
        "shell": ["sh", "-c", "/bin/true; /bin/true; (exec /bin/true); exit 0"],
        "faults": [*python(FAULTS)],
        "sleeps": [*python("import time\nfor _ in range(20): time.sleep(.002)")],
        **{name: [compile_c(name)] for name in alone},
    }
    return record_together(programs, PATIENT)


Together = dict[str, Recorded]


def test_each_system_call_of_a_loop_is_a_row(together: Together) -> None:
    rows = together["getppid"].rows()
    (thread,) = together["getppid"].threads
    calls = [r for r in rows if r.state == "kernel.getppid" and r.count]
    assert len(calls) == CALLS
    assert all(r.cpu >= 0 and r.thread == thread and r.count == 1 for r in calls)


def test_many_short_threads_that_have_the_same_records(together: Together) -> None:
    threads = together["threads"].threads.values()
    assert len(threads) == THREADS + 1
    assert all(seen.end is not None for seen in threads)


def test_processes_that_fork_processes(together: Together) -> None:
    assert len(together["bomb"].threads) == 1 + 4 + 16 + 64 + 256 + 1024


def test_programs_that_execute_programs(together: Together) -> None:
    assert sorted(seen.name for seen in together["shell"].threads.values()) == ["sh", "true", "true", "true"]
    assert len(together["spawn"].threads) > 1
    executed = together["exec_by_thread"].threads.values()
    assert sum(seen.name == "sleep" and seen.tid == seen.pid for seen in executed) == 1


def test_polling_is_what_the_rows_say_too(together: Together) -> None:
    recorded = together["in_vain"]
    rows = recorded.rows()
    polls = [r for r in rows if kind_of(r.state) is Kind.POLL and r.duration and r.count]
    corrections = [r for r in rows if not r.duration and not r.cpu < 0 and r.count < 0]
    broken = sum(rows_broken(thread) for thread in recorded.ledger.threads)
    assert len(WAYS_TO_ASK) * ASKED - broken <= len(polls)
    assert len(corrections) <= broken, "what is found out later changes the row itself, unless that has been sent"


def test_a_neutral_call_is_no_check_in_the_rows_either(together: Together) -> None:
    recorded = together["neutral"]
    rows = recorded.rows()
    corrections = [r for r in rows if not r.duration and not r.cpu < 0 and r.count < 0]
    assert sum(r.count for r in rows if r.state == "poll.recvfrom.socket" and r.duration) > 50 * 20
    assert len(corrections) <= sum(rows_broken(thread) for thread in recorded.ledger.threads)


def test_entries_of_marked_regions_are_rows_without_duration(together: Together) -> None:
    rows = [r for r in together["shares"].rows() if r.state == "noneffective.inner"]
    assert sum(r.count for r in rows) == 300
    assert all(r.duration == 0 and r.cpu >= 0 for r in rows)
    assert all(r.taken <= 0 for r in rows if r.count), "other rows take out what the hypervisor stole"


def test_rows_are_the_ledger_too_where_it_is_read_meanwhile(compile_c: Compile) -> None:
    record(compile_c("polls_inside"), interval=0.02)


def test_calls_of_marked_functions_are_rows() -> None:
    code = "x = [bytes(100_000) for _ in range(300)]"
    recorded = record(sys.executable, "-c", code, options=MeasureOptions(functions=(MarkedFunctions("malloc"),)))
    assert any(r.state.startswith("noneffective.") and r.count for r in recorded.rows())


def test_waits_for_a_lock_say_which_lock_it_was(together: Together) -> None:
    recorded = together["two_mutexes"]
    names = {number: seen.name for number, seen in recorded.threads.items()}
    found = [{r.futex for r in waits(recorded, "wait.futex") if names[r.thread] == f"waiter-{n}"} for n in range(2)]
    assert all(len(addresses) == 1 for addresses in found), "each waits for one lock only"
    first, second = (next(iter(addresses)) for addresses in found)
    assert abs(first - second) in (40, 48), "they are neighbours in an array of pthread_mutex_t"
    assert not any(r.futex for r in recorded.rows() if r.state != "wait.futex")


def test_page_faults_are_rows(together: Together) -> None:
    rows = together["faults"].rows()
    assert sum(r.count for r in rows if r.state == "kernel.fault.minor") >= 20 * 256


def test_with_causes_and_events_the_rows_are_the_same(compile_c: Compile) -> None:
    record(compile_c("threads"), "200", options=MeasureOptions(why=True, events=("page-faults",)))


def test_states_that_share_a_cell_are_told_apart_in_the_rows(compile_c: Compile) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86-64")
    shared = "states_sharing_a_cell"
    recorded = record(compile_c("many_calls"), allowed=[shared], lawful=False)
    assert recorded.ledger.losses[shared]
    assert_tiles(recorded)
    calls = {r.state for r in recorded.rows() if r.count and r.state.startswith("kernel.")}
    assert len(calls) >= 121


# ---- whom, where and when ----


def test_threads_that_are_there_before_and_after() -> None:
    target = subprocess.Popen(script("spinner_and_sleepers"), stdout=subprocess.PIPE)
    try:
        assert target.stdout is not None
        target.stdout.readline()
        while sum(b") S " in stat.read_bytes() for stat in Path(f"/proc/{target.pid}/task").glob("*/stat")) < 3:
            time.sleep(0.002)
        recorded = record(selection=Selection(pids=(target.pid,)), seconds=0.2)
    finally:
        target.kill()
        target.wait()
    assert len(recorded.threads) == 4
    assert all(seen.end is None for seen in recorded.threads.values())
    opened = recorded.opened()
    asleep = [number for number in recorded.threads if opened[number].state in ("wait.sleep", "wait.futex")]
    assert len(asleep) >= 2, "long waits are known before they end"
    for number in asleep:
        assert opened[number].cpu == -1
        assert opened[number].since in {r.time for r in recorded.rows() if r.thread == number}


def test_only_what_happens_on_some_processors(compile_c: Compile) -> None:
    (first, *_) = sorted(os.sched_getaffinity(0))
    recorded = record("sh", "-c", "for i in 1 2 3 4 5 6; do /bin/true; done", selection=Selection(cpus=(first,)))
    assert {r.cpu for r in recorded.rows()} <= {-1, first}


def test_everything_under_load_read_in_intervals_meanwhile(compile_c: Compile) -> None:
    program = compile_c("threads")
    allowed = ["switches_unseen", "threads_without_kernel_memory"]
    times = 600 if FEW else 4000
    everything = Selection(everything=True)
    recorded = record(program, str(times), selection=everything, interval=0.01, each=0.02, allowed=allowed)
    assert len(recorded.threads) + recorded.ledger.losses["threads_without_kernel_memory"] > times


def test_interrupts_that_meet_handlers_after_the_last_snapshot_are_not_in_the_rows(compile_c: Compile) -> None:
    target = subprocess.Popen([compile_c("interrupts")])
    try:
        for _ in range(1 if FEW else 4):
            recorded = record(selection=Selection(pids=(target.pid,)), seconds=0.02)
            assert all(r.end <= recorded.ledger.window.end for r in recorded.rows())
    finally:
        target.kill()
        target.wait()


# ---- who woke whom ----


def test_two_processes_wake_each_other(together: Together) -> None:
    recorded = together["ping_pong"]
    pong = next(seen.thread for seen in recorded.threads.values() if seen.name == "pong")
    ping = next(number for number in recorded.threads if number != pong)
    for thread, other in ((ping, pong), (pong, ping)):
        ended = waits(recorded, "wait.pipe", thread)
        assert ended
        unseen = sum(r.waker == -1 for r in ended)
        assert unseen < max(10, len(ended) // 20), "a kernel may keep a processor from being traced for a moment"
        assert all(r.waker in (other, -1) and r.waker_tid == 0 and r.waker_state is None for r in ended)


def test_who_waits_for_a_child_is_woken_by_it_though_it_may_be_gone_when_that_is_done(together: Together) -> None:
    recorded = together["exits"]
    parent = min(recorded.threads, key=lambda number: recorded.threads[number].start)
    ended = waits(recorded, "wait.child", parent)
    wakers = [r.waker for r in ended if r.waker != -1]
    assert wakers, "not each of 50 children has ended before its parent waits for it"
    assert len(set(wakers)) == len(wakers), "each child ends one wait"
    for r in ended:
        assert r.waker == -1 or recorded.threads[r.waker].start < r.time + r.duration


def test_threads_that_hand_over_by_futex(together: Together) -> None:
    recorded = together["hand_over"]
    first, second = recorded.threads
    for thread, other in ((first, second), (second, first)):
        ended = waits(recorded, "wait.futex", thread)
        assert ended, "a thread waits unless the other one has handed over before"
        unseen = sum(r.waker == -1 for r in ended)
        assert unseen < max(10, len(ended) // 20), "a kernel may keep a processor from being traced for a moment"
        assert {r.waker for r in ended} <= {other, -1}


def test_a_timer_wakes_who_sleeps(together: Together) -> None:
    ended = waits(together["sleeps"], "wait.sleep")
    assert 0 < len(ended) <= 20, "a timer that has run out before the thread has left leaves nothing to wait for"
    assert all(r.waker == -1 and r.waker_tid == 0 for r in ended)
    shown = [
        r.waker_state for r in ended if r.waker_state
    ]  # a kernel may keep a processor from being traced for a moment
    assert shown
    assert all(state.startswith(("irq.", "softirq.")) for state in shown)


def test_who_is_woken_by_a_thread_that_is_not_measured_is_told_its_id() -> None:
    event, tids, over = threading.Event(), [], threading.Event()

    def wait() -> None:
        tids.append(threading.get_native_id())
        while not over.is_set():
            event.wait()
            event.clear()

    def wake() -> None:
        tids.append(threading.get_native_id())
        while waiter.is_alive():
            time.sleep(0.01)
            event.set()

    waiter, waker = threading.Thread(target=wait), threading.Thread(target=wake)
    waiter.start()
    while not tids:
        time.sleep(0.001)
    waker.start()
    ended: list[Row] = []
    deadline = time.monotonic() + 200
    try:
        while not ended:
            assert time.monotonic() < deadline, "it is never woken"
            recorded = record(selection=Selection(tids=(tids[0],)), seconds=0.3)
            ended = [r for r in waits(recorded, "wait.futex") if r.waker_tid == tids[1]]
    finally:
        over.set()
        waiter.join()
        waker.join()
    assert all(r.waker == -1 and r.waker_state is None for r in ended)


# ---- what is lost ----


def test_what_does_not_fit_the_rings_is_counted_and_is_time_that_is_not_known(compile_c: Compile) -> None:
    lost = "transitions_lost"
    program = compile_c("getppid")
    recorded = record(program, "50000", ring_words=64, allowed=[lost], lawful=False)
    assert recorded.ledger.losses[lost] > 10_000
    assert recorded.batches[-1].losses[lost] == recorded.ledger.losses[lost]
    assert_tiles(recorded)
    assert violations(recorded.ledger) == []
    (thread,) = recorded.ledger.threads
    assert thread.states["kernel.getppid"].count == 50_000, "the kernel's own ledger has it all"
    (cells,) = recorded.sums("thread").values()
    unknown = cells["unknown"][0]
    assert sum(spent for spent, _ in cells.values()) == thread.span
    for state, (spent, count) in cells.items():
        if state != "unknown":
            kept = thread.states[state]
            assert spent <= kept.time + time_in(thread, "stolen"), "what is taken out of a row may be among the lost"
            assert count <= (kept.count or 0)
    missing = sum(c.time - cells.get(s, (0, 0))[0] for s, c in thread.states.items())
    assert unknown == missing
    record(compile_c("bomb"), ring_words=64, allowed=[lost], lawful=False)


def test_many_threads_and_little_room_lose_rows_but_no_thread(compile_c: Compile) -> None:
    recorded = record(compile_c("threads"), "1000", ring_words=256, allowed=["transitions_lost"], lawful=False)
    assert len(recorded.threads) == 1001
    assert_tiles(recorded)


def test_threads_whose_end_is_lost_leave_rows_of_nobody(compile_c: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_options, "EXIT_BYTES", 4096)
    allowed = ["exits_lost", "transitions_of_unknown_threads"]
    recorded = record(compile_c("threads"), "1000", allowed=allowed, lawful=False)
    assert recorded.ledger.losses["exits_lost"] > 100
    assert recorded.ledger.losses["transitions_of_unknown_threads"] > 100
    by_cpu = recorded.sums("cpu")
    for processor in recorded.ledger.processors:
        assert by_cpu[processor.cpu] == cells_of(processor.states)
    by_thread, kept = recorded.sums("thread"), {t.key: t for t in recorded.ledger.threads}
    for number, seen in recorded.threads.items():
        if (
            seen.tid,
            seen.birth,
        ) in kept:  # some of its rows may be of nobody: another thread had its record, and no end
            whole = cells_of(kept[seen.tid, seen.birth].states)
            for state, (time, count) in by_thread.get(number, {}).items():
                assert time <= whole[state][0]
                assert count <= whole[state][1]


def test_there_is_nothing_to_take_where_nothing_is_recorded() -> None:
    source = BpfSource(Selection(pids=(os.getpid(),)))
    try:
        source.begin()
        assert source.waiting == 0
        with pytest.raises(ValueError, match="no transitions are recorded"):
            source.take()
    finally:
        source.close()


def test_the_thread_that_reads_goes_before_others_as_long_as_it_does() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    source = BpfSource(Selection(pids=(os.getpid(),)), record=True)
    try:
        source.begin()
        assert os.getpriority(os.PRIO_PROCESS, 0) == min(before, NICE)
    finally:
        source.close()
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
