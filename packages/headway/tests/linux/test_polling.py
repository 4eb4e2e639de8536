"""Polling (T8): programs that ask again and again for what is not there, and those that only look as if they did.

What a program does is told by itself: how often it asked in vain, and for how long by its own clock. How far two checks
are apart depends on what else runs; where that is not tested, `PATIENT` sets no limit to it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.compiling import Compile, script
from tests.effort import FEW

from headway.linux.options import MeasureOptions
from headway.model import Kind, Ledger, interrupt_time

from .measuring import (
    PATIENT,
    Together,
    count_of,
    disturbed,
    measure,
    measure_intervals,
    measure_together,
    only,
    own_time,
    rows_broken,
    time_in,
)

pytestmark = [pytest.mark.root, pytest.mark.kernel]


STATES = {
    "epoll_wait": "poll.epoll_wait.epoll",
    "epoll_pwait": "poll.epoll_pwait.epoll",
    "epoll_pwait2": "poll.epoll_pwait2.epoll",
    "poll": "poll.poll",
    "ppoll": "poll.ppoll",
    "select": "poll.select",
    "recvfrom": "poll.recvfrom.socket",
    "recvmsg": "poll.recvmsg.socket",
    "read_pipe": "poll.read.pipe",
    "readv": "poll.readv.pipe",
    "write": "poll.write.pipe",
    "read_event": "poll.read.event",
    "read_timer": "poll.read.event",
    "read_file": "poll.read.file",
    "sched_yield": "poll.sched_yield",
    "io_getevents": "poll.io_getevents",
    "accept4": "poll.accept4.socket",
    "wait4": "poll.wait4",
    "flock": "poll.flock.file",
    "sigtimedwait": "poll.rt_sigtimedwait",
    "lock_file": "poll.openat",
    "record_lock": "poll.fcntl.file",
    "semaphore": "poll.semtimedop",
    "kill_0": "poll.kill",
    "end_of_file": "poll.pread64.file",
    "bytes": "poll.ioctl.socket",
    "futex_0": "poll.futex",
    "access": "poll.access",
    "stat": "poll.newfstatat",
    "statx": "poll.statx",
}
ASKED = 5_000 if FEW else 50_000
X86_64 = os.uname().machine == "x86_64"


@pytest.fixture(scope="module")
def in_vain(compile_c: Compile) -> tuple[Ledger, dict[str, str]]:
    """One measurement of all of them, and how each ended."""
    ledger, said = measure(compile_c("in_vain"), str(ASKED), *STATES, options=PATIENT)
    return ledger, dict(zip(STATES, said, strict=True))


@pytest.mark.parametrize("how", STATES)
def test_asking_in_vain_is_polling_and_each_time_is_counted(in_vain: tuple[Ledger, dict[str, str]], how: str) -> None:
    ledger, ended = in_vain
    if ended[how] == "77":
        pytest.skip("this kernel has no such call")
    assert ended[how] == "0"
    thread = max((t for t in ledger.threads if t.name == how), key=own_time)  # one has a child that sleeps
    state = STATES[how]
    call = "kernel." + state.split(".")[1]
    assert {s for s in thread.states if s.startswith("poll")} == {state}
    assert 0 <= count_of(thread, state) + count_of(thread, call) - ASKED <= 5
    assert count_of(thread, state) >= ASKED - rows_broken(thread)


@pytest.fixture(scope="module")
def patient(compile_c: Compile) -> Together:
    programs: dict[str, list[str | Path]] = {
        "share": [compile_c("share"), "2", "3000", "100000"],
        "select": [sys.executable, "-c", SELECT],
        "yield": [compile_c("together"), "yield"],
        "receive": [compile_c("together"), "receive"],
        **{name: [compile_c(name)] for name in ("until_ready", "many_sockets", "ends")},
    }
    if X86_64:
        programs["swallowed"] = [compile_c("swallowed")]
    return measure_together(programs, options=PATIENT)


@pytest.fixture(scope="module")
def strict(compile_c: Compile) -> Together:
    """With the checks as they are, which end rows after a while."""
    programs: dict[str, list[str | Path]] = {
        "always_there": [compile_c("always_there")],
        "asyncio_callbacks": [*script("asyncio_callbacks")],
        **{
            f"not_polling: {how}": [compile_c("not_polling"), how]
            for how in ("other calls", "long gaps", "one of two", "other names", "files that are there")
        },
        **{f"event_loop: {how}": [compile_c("event_loop"), how] for how in ("level", "edge")},
    }
    return measure_together(programs)


# What a program says of itself: `stamp` adds what passed since the last one, unless something else came in between.


@pytest.mark.parametrize(
    ("k", "pause", "share"),
    [
        (2, 3000, 100_000),
        pytest.param(5, 8000, 40_000, marks=pytest.mark.exhaustive),
        pytest.param(40, 1000, 40_000, marks=pytest.mark.exhaustive),
    ],
)
def test_the_time_of_a_known_share_of_checks_in_vain(
    compile_c: Compile, patient: Together, k: int, pause: int, share: int
) -> None:
    if k == 2:
        ledger, (said,) = patient["share"]
    else:
        ledger, (said,) = measure(compile_c("share"), str(k), str(pause), str(share), options=PATIENT)
    thread = only(ledger)
    state, call = "poll.recvfrom.socket", "kernel.recvfrom"
    assert 1500 * k - rows_broken(thread) <= count_of(thread, state) <= 1500 * k
    assert count_of(thread, state) + count_of(thread, call) == 1500 * (k + 1), "each check is counted once"
    assert thread.times()[Kind.POLL] == thread.states[state].time
    # Each part has at least what the program's clock says, less what disturbed it; and together they are all there is.
    assert thread.states[state].time >= int(said) - disturbed(thread)
    assert time_in(thread, "user") >= 1500 * share - disturbed(thread)


def test_the_check_that_finds_something_is_progress_and_what_was_before_it_is_not(patient: Together) -> None:
    ledger, (in_vain, polled_) = patient["until_ready"]
    thread = only(ledger)
    state = thread.states["poll.read.event"]
    assert int(in_vain) - rows_broken(thread) <= (state.count or 0) <= int(in_vain)
    assert count_of(thread, "kernel.read") >= 1000, "each of the timers was found to have run off once"
    assert state.time >= int(polled_) - disturbed(thread)
    assert time_in(thread, "user") >= 1000 * 60_000 - disturbed(thread)


def test_a_thread_that_always_finds_something_does_not_poll(strict: Together) -> None:
    thread = only(strict["always_there"][0])
    assert time_in(thread, "poll") == 0
    assert count_of(thread, "kernel.read") >= 180_000


def test_checks_in_vain_that_are_not_polling(strict: Together) -> None:
    for how in ("other calls", "long gaps", "one of two"):
        thread = only(strict[f"not_polling: {how}"][0])
        # Nobody tells in which span the hypervisor took time. In a gap of 60 us, it lets the gap look short.
        assert time_in(thread, "poll") <= (60_000 * count_of(thread, "stolen") if how == "long gaps" else 0)
        assert count_of(thread, "kernel.recvfrom") >= 5000


def test_looking_for_a_file_in_several_places_and_asking_about_one_that_is_there_are_no_polling(
    strict: Together,
) -> None:
    for how in ("other names", "files that are there"):
        thread = only(strict[f"not_polling: {how}"][0])
        assert time_in(thread, "poll") == 0
        assert count_of(thread, "kernel.newfstatat") >= 20_000
    assert count_of(thread, "kernel.ioctl") >= 20_000


def test_long_gaps_that_are_alike_are_polling_where_the_user_allows_them(compile_c: Compile, tmp_path: Path) -> None:
    checks = tmp_path / "checks.toml"
    checks.write_text("alike_us = 100")
    programs: dict[str, list[str | Path]] = {
        how: [compile_c("not_polling"), how] for how in ("long gaps", "unlike gaps", "other calls")
    }
    seen = measure_together(programs, options=MeasureOptions(checks=str(checks)))
    alike, unlike, others = (only(seen[how][0]) for how in programs)
    polled = alike.states["poll.recvfrom.socket"]
    assert (polled.count or 0) + count_of(alike, "kernel.recvfrom") == 5000, "each check is counted once"
    assert (polled.count or 0) >= 2500, "the hypervisor and shared caches make some gaps unlike the others"
    assert polled.time >= 2500 * 60_000 - disturbed(alike), "and so is what is between them"
    assert count_of(unlike, "poll.recvfrom.socket") <= 1000, "of 4,000, by the same chance"
    assert time_in(others, "poll") == 0


def test_an_event_loop_does_not_poll(strict: Together) -> None:
    for how in ("level", "edge"):
        (loop,) = (t for t in strict[f"event_loop: {how}"][0].threads if count_of(t, "kernel.epoll_wait"))
        assert count_of(loop, "kernel.recvfrom") >= 4000
        assert time_in(loop, "poll") == 0


def test_an_asyncio_program_with_callbacks_does_not_poll(strict: Together) -> None:
    thread = only(strict["asyncio_callbacks"][0])
    assert count_of(thread, "kernel.epoll_wait") > 1900, "it looks for events between two callbacks, without waiting"
    assert count_of(thread, "poll.epoll_wait.epoll") < 100, "some as it starts and ends"


SELECT = "import select,socket\na,b=socket.socketpair()\nfor i in range(100000): select.select([a],[],[],0)"


def test_python_that_spins_on_select_polls(patient: Together) -> None:
    thread = only(patient["select"][0])
    call = next(s for s in ("select", "pselect6") if f"poll.{s}" in thread.states)  # as libc makes it
    assert count_of(thread, f"poll.{call}") >= 100_000 - rows_broken(thread)
    assert count_of(thread, f"poll.{call}") + count_of(thread, f"kernel.{call}") >= 100_000


def test_going_round_many_things_that_are_not_ready_is_polling(patient: Together) -> None:
    thread = only(patient["many_sockets"][0])
    assert count_of(thread, "poll.recvfrom.socket") + count_of(thread, "kernel.recvfrom") == 128_000
    assert count_of(thread, "poll.recvfrom.socket") >= 128_000 - rows_broken(thread)


def test_two_threads_that_yield_to_each_other_poll(patient: Together) -> None:
    ledger, _ = patient["yield"]
    for thread in (t for t in ledger.threads if t.tid != t.pid):
        assert count_of(thread, "ready") > 0
        assert count_of(thread, "poll.sched_yield") > 0
        assert count_of(thread, "kernel.sched_yield") <= rows_broken(thread)


def test_a_thread_that_is_preempted_while_it_polls_goes_on_polling(patient: Together) -> None:
    ledger, _ = patient["receive"]
    for thread in (t for t in ledger.threads if t.tid != t.pid):
        assert count_of(thread, "ready") > 0
        assert count_of(thread, "poll.recvfrom.socket") > 0
        assert count_of(thread, "kernel.recvfrom") <= rows_broken(thread)
        assert not any(s.startswith(("wait.poll", "poll.other")) for s in thread.states)


def test_a_preemption_for_longer_than_the_gap_does_not_end_a_row(compile_c: Compile) -> None:
    ledger, (asked,) = measure(compile_c("polls_preempted"))
    if asked == "0":
        pytest.skip("the kernel refuses a priority to the program")
    (thread,) = (t for t in ledger.threads if t.tid == t.pid)
    preempted = count_of(thread, "ready")
    assert preempted > 20
    assert count_of(thread, "poll.recvfrom.socket") >= int(asked) - rows_broken(thread)
    calls = sum(cell.count or 0 for state, cell in thread.states.items() if state.startswith("kernel."))
    assert count_of(thread, "user") <= calls + preempted / 4, "what is between two checks is polling"


def test_intervals_that_cut_rows_in_two_add_up(compile_c: Compile) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    with os.fdopen(read) as output:
        whole, parts = measure_intervals(0.005, compile_c("share"), "4", "2000", "4000", options=PATIENT)
        asking = script("rows_of_checks", f"/proc/{os.getpid()}/fd/{write}")
        again, others = measure_intervals(0.02, *asking, options=PATIENT)
        os.close(write)
        n = int(output.read())
    assert len(others) > 1
    assert len(parts) > 1
    for ledger in (whole, again):
        assert time_in(only(ledger), "poll.recvfrom") > 0
    asked, found = count_of(only(again), "poll.recvfrom.socket"), n // 5
    assert n - found - sum(rows_broken(only(part)) for part in others if part.threads) <= asked <= n
    assert n + found - 1 <= asked + count_of(only(again), "kernel.recvfrom") <= n + found, "each is counted once"


def test_whole_intervals_of_nothing_but_polling_lose_no_check(compile_c: Compile) -> None:
    whole, parts = measure_intervals(0.005, compile_c("nothing_else"))
    assert len(parts) > 1
    assert count_of(only(whole), "poll.recvfrom.socket") + count_of(only(whole), "kernel.recvfrom") == 500_000


def test_a_thread_that_ends_or_executes_while_it_polls_is_polling_until_then(patient: Together) -> None:
    ledger, _ = patient["ends"]
    assert len(ledger.threads) == 6
    for thread in ledger.threads:
        assert thread.end is not None
        assert count_of(thread, "poll.recvfrom.socket") > 0
        assert time_in(thread, "poll.recvfrom.socket") > 0
    executed = only(ledger, "true")
    assert executed.states["user"].count, "the new program does not poll"


@pytest.mark.skipif(not X86_64, reason="the registers are those of x86-64")
def test_a_fault_without_an_end_between_two_checks_is_not_taken_from_user_code(patient: Together) -> None:
    ledger, _ = patient["swallowed"]
    child = max(ledger.threads, key=lambda t: t.birth)
    others = time_in(child, "ready", "stolen", "overhead", "unknown") + interrupt_time(child.states)
    assert time_in(child, "poll.", "kernel.fault", "user") > 20 * 4_000_000 - others
