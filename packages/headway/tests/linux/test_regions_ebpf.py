"""Marked regions as the eBPF programs see them (T5 to T7): by a program's own clock, come what may, and if it lies."""

from __future__ import annotations

import itertools
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.compiling import Compile, script
from tests.effort import FEW, exhaustive

from headway.linux.bpf.costs.exercising import ExercisingProcess
from headway.linux.sources.ebpf import calibrating
from headway.model import Kind, Ledger, Thread

from .attached import measure_attached
from .measuring import (
    PATIENT,
    Together,
    count_of,
    disturbed,
    lost,
    measure,
    measure_intervals,
    measure_together,
    only,
    own_time,
    rows_broken,
    time_in,
)

pytestmark = [pytest.mark.root, pytest.mark.kernel]


def assert_at_least(thread: Thread, state: str, truth: int) -> None:
    """The state has the time that passed in it on the program's clock, less what disturbed the program."""
    assert time_in(thread, state) >= truth - disturbed(thread), state


# ---- time ----

PROGRAMS = "shares", "named_progress", "switched_out", "marked_threads", "fork_in_region", "signals", "polls_inside"


@pytest.fixture(scope="module")
def together(compile_c: Compile) -> Together:
    programs = {name: [compile_c(name)] for name in PROGRAMS}
    return measure_together({**programs, "marked_python": script("marked_python")}, options=PATIENT)


def test_regions_have_the_time_that_the_program_spent_in_them(together: Together) -> None:
    ledger, said = together["shares"]
    thread = only(ledger)
    outer, inner, ring, plain = map(int, said)
    assert_at_least(thread, "noneffective.outer", outer)
    assert_at_least(thread, "noneffective.inner", inner)
    assert_at_least(thread, "poll.ring", ring)
    assert_at_least(thread, "user", plain)
    for state in ("noneffective.outer", "noneffective.inner", "poll.ring"):
        assert count_of(thread, state) == 300, "coming back from an inner region is not entering"
    times = thread.times()
    assert times[Kind.POLL] == time_in(thread, "poll.ring"), "a tag that says poll is IOPI"
    assert times[Kind.KERNEL] >= time_in(thread, "noneffective."), "the others are KPI"


def test_regions_of_progress_have_their_time_and_are_in_epi(together: Together) -> None:
    ledger, said = together["named_progress"]
    thread = only(ledger)
    drawn, mislaid, shaded, plain = map(int, said)
    assert_at_least(thread, "user.render", drawn)
    assert_at_least(thread, "noneffective.lost", mislaid)
    assert_at_least(thread, "user.shade", shaded)
    assert thread.states["user"].time >= plain - disturbed(thread)
    assert count_of(thread, "user.render") == count_of(thread, "user.shade") == 300
    times = thread.times()
    assert times[Kind.EFFECTIVE] == sum(thread.states[s].time for s in ("user", "user.render", "user.shade"))
    assert times[Kind.KERNEL] >= time_in(thread, "noneffective.lost")


def test_what_is_waited_for_in_a_region_is_a_wait(together: Together) -> None:
    thread = only(together["switched_out"][0])
    slept = time_in(thread, "wait.sleep")
    others = disturbed(thread) - slept
    assert slept >= 10 * 20_000_000 - others
    assert time_in(thread, "noneffective.sleepy") >= 10 * 1_000_000 - others
    assert time_in(thread, "user") >= 20_000_000 - others, "the work after the region is not in it"
    assert count_of(thread, "noneffective.sleepy") == 1


def test_threads_have_regions_of_their_own_and_may_end_in_one(together: Together) -> None:
    ledger, _ = together["marked_threads"]
    threads = [t for t in ledger.threads if t.tid != t.pid]
    assert len(threads) == 48
    for thread in threads:
        assert count_of(thread, "noneffective.shared") == 20
        assert count_of(thread, "noneffective.last") == 1
        assert_at_least(thread, "noneffective.shared", 20 * 100_000)
        assert_at_least(thread, "noneffective.last", 1_000_000)
        assert_at_least(thread, "user", 20 * 100_000)
    main = next(t for t in ledger.threads if t.tid == t.pid)
    assert time_in(main, "noneffective") == 0


def test_a_child_goes_on_in_the_region_and_a_new_program_begins_without(together: Together) -> None:
    ledger, _ = together["fork_in_region"]
    child, executed = only(ledger, "child"), only(ledger, "exe")
    assert_at_least(child, "noneffective.before", 30_000_000)
    assert_at_least(child, "noneffective.inside", 20_000_000)
    assert_at_least(child, "user", 40_000_000)
    assert_at_least(executed, "noneffective.before", 10_000_000)
    assert_at_least(executed, "user", 30_000_000)


def test_signal_handlers_that_mark_regions_in_a_region(together: Together) -> None:
    ledger, (outside, inside, times) = together["signals"]
    thread = only(ledger)
    assert_at_least(thread, "noneffective.main", int(outside))
    assert_at_least(thread, "noneffective.handler", int(inside))
    assert count_of(thread, "noneffective.handler") == int(times)


def test_a_row_of_checks_in_a_region_is_polling(compile_c: Compile, together: Together) -> None:
    whole, _ = together["polls_inside"]
    again, parts = measure_intervals(0.01, compile_c("polls_inside"), options=PATIENT)
    assert len(parts) > 1
    for ledger, counted in ((whole, [whole]), (again, parts)):
        thread = only(ledger)
        rows = sum(rows_broken(only(part)) for part in counted if part.threads)
        asked = count_of(thread, "poll.recvfrom.socket")
        assert 40_000 - rows <= asked <= 40_000
        assert_at_least(thread, "poll.recvfrom.socket", 2000 * (asked - rows))
        assert_at_least(thread, "noneffective.around", 5_000_000)


TOGGLED = "noneffective.a", "poll.b", "user"


def test_regions_of_a_microsecond_in_intervals_of_twenty_milliseconds(compile_c: Compile) -> None:
    with tempfile.TemporaryFile() as output:
        whole, parts = measure_intervals(0.02, compile_c("toggle"), "200" if FEW else "700", stdout=output.fileno())
        output.seek(0)
        n, *shortest = map(int, output.read().split())
    assert len(parts) > 1
    thread = only(whole)
    assert count_of(thread, "noneffective.a") == count_of(thread, "poll.b") == n
    for state, least in zip(TOGGLED, shortest, strict=True):
        assert_at_least(thread, state, n * least)
    for part, after in itertools.pairwise(parts):  # what is stolen at its end may be found in the next one only
        if not (part.threads and after.threads):
            continue
        regions = count_of(only(part), "poll.b") - 1  # from the first to the last: so many whole ones of each
        for state, least in zip(TOGGLED, shortest, strict=True):
            others = disturbed(only(part)) + disturbed(only(after))
            assert time_in(only(part), state) >= regions * least - others, state


# ---- what marks cost ----


def with_marks_that_take(inside: float, around: float, monkeypatch: pytest.MonkeyPatch, program: Path) -> Thread:
    monkeypatch.setattr(ExercisingProcess, "marks", lambda _: (inside, around))
    monkeypatch.setattr(calibrating, "_kept", lambda _: None)  # neither are costs found before taken, nor these kept
    return only(measure(program, "100")[0])


def test_what_marks_take_is_taken_out_of_regions_and_the_sum_stays(
    compile_c: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every measurement asserts that the states add up to the thread's span."""
    program = compile_c("toggle")
    free = with_marks_that_take(0, 0, monkeypatch, program)
    dear = with_marks_that_take(1e6, 0, monkeypatch, program)
    assert time_in(free, "noneffective.a") > 0
    assert time_in(free, "overhead.marks") == 0
    left = time_in(dear, "noneffective.a", "poll.b")
    assert time_in(dear, "overhead.marks") > left, "what is left is in spans that no region began in"
    assert count_of(dear, "noneffective.a") == count_of(dear, "poll.b") > 0


def test_what_marks_take_around_a_region_is_taken_out_where_only_one_tag_is_entered(
    compile_c: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = with_marks_that_take(0, 1e6, monkeypatch, compile_c("toggle"))
    assert time_in(several, "user") > time_in(several, "overhead.marks"), "one of them may be around the other"
    one = with_marks_that_take(0, 1e6, monkeypatch, compile_c("one_region"))
    assert time_in(one, "noneffective.only") > 0
    assert time_in(one, "overhead.marks") > time_in(one, "user")


def test_regions_of_progress_that_marks_make_up_are_overhead_too(
    compile_c: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = with_marks_that_take(1e6, 0, monkeypatch, compile_c("named_progress"))
    assert time_in(thread, "user.") < time_in(thread, "overhead.marks")
    assert count_of(thread, "user.render") == 300


# ---- from outside ----


@contextmanager
def running(*command: str | Path) -> Iterator[int]:
    """A program that has said that it is ready."""
    target = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE)
    assert target.stdout is not None
    try:
        target.stdout.readline()
        yield target.pid
    finally:
        target.kill()
        target.wait()


def test_regions_of_a_program_that_was_there_before_are_found(compile_c: Compile) -> None:
    with running(compile_c("toggle"), "60000", "ready") as pid:
        ledger, whole = measure_attached(pid), measure_attached(pid, interval=0.02)
    for found in (ledger, whole):
        thread = only(found)
        assert all(time_in(thread, state) > 0 for state in TOGGLED)
        assert count_of(thread, "noneffective.a") > 0
        assert abs(count_of(thread, "noneffective.a") - count_of(thread, "poll.b")) <= 1, "b follows each a"


def test_regions_in_a_pid_namespace_of_its_own_are_counted(compile_c: Compile) -> None:
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("needs unshare and permission to make a pid namespace")
    ledger, (n, *_) = measure(*unshare, compile_c("toggle"), "100")
    assert count_of(only(ledger, "toggle"), "poll.b") == int(n)


def test_regions_of_python_have_the_time_spent_in_them(together: Together) -> None:
    ledger, _ = together["marked_python"]
    thread = min(ledger.threads, key=lambda t: t.birth)
    assert_at_least(thread, "noneffective.parse", 150_000_000)
    assert_at_least(thread, "poll.queue", 100_000_000)
    assert count_of(thread, "noneffective.parse") == count_of(thread, "poll.queue") == 5


# ---- blocks that lie ----


BLOCKS, LIES = "region_blocks_unread", "region_times_impossible"


def measure_hostile(compile_c: Compile, how: str) -> tuple[Thread, Ledger, int]:
    """It is not harmed: it ends well and says so."""
    ledger, (said,) = measure(compile_c("hostile"), how, allowed=(BLOCKS, LIES))
    thread = min(ledger.threads, key=lambda t: t.birth)
    if how not in ("addresses", "foreign"):
        assert count_of(thread, "kernel.getppid") == 3000
    for state in thread.states:
        assert re.fullmatch(r"[a-z_]+(\.[A-Za-z0-9_.-]+)?", state), state
    return thread, ledger, int(said)


@pytest.mark.parametrize("how", ["addresses", *exhaustive("foreign")])
def test_addresses_where_no_block_of_this_thread_is_are_refused_and_counted(compile_c: Compile, how: str) -> None:
    thread, ledger, refused = measure_hostile(compile_c, how)
    assert ledger.losses[BLOCKS] == refused
    assert time_in(thread, "noneffective") == 0


@pytest.mark.parametrize("how", ["garbage", *exhaustive("future", "backwards", "entries", "all on")])
def test_times_that_cannot_be_are_cut_and_counted(compile_c: Compile, how: str) -> None:
    thread, ledger, _ = measure_hostile(compile_c, how)
    assert ledger.losses[LIES] >= (1 if how in ("all on", "future") else 1000)
    assert time_in(thread, "noneffective") <= own_time(thread)
    for state, cell in thread.states.items():
        if state.startswith("noneffective"):
            assert (cell.count or 0) <= thread.span, "no region is shorter than a nanosecond"


@pytest.mark.parametrize(
    "how", ["names nowhere", *exhaustive("many tags", "names change", "since", "names without end", "again")]
)
def test_blocks_that_make_no_sense_harm_nobody(compile_c: Compile, how: str) -> None:
    thread, _, _ = measure_hostile(compile_c, how)
    marked = {state for state in thread.states if state.startswith("noneffective")}
    assert len(marked) <= 32
    if how in ("names nowhere", "names without end"):
        assert not any("lie" in state for state in marked)


def test_a_block_that_is_told_of_in_a_row_of_checks_is_read(compile_c: Compile) -> None:
    thread, ledger, _ = measure_hostile(compile_c, "after a check")
    assert ledger.losses[BLOCKS] == 0
    assert count_of(thread, "noneffective.lie0") == 1999


@pytest.mark.parametrize("how", ["half unmapped", *exhaustive("magic", "unmapped", "protected")])
def test_blocks_that_cannot_be_read_any_more_are_counted(compile_c: Compile, how: str) -> None:
    _, ledger, _ = measure_hostile(compile_c, how)
    assert ledger.losses[BLOCKS] >= 400


def test_more_tags_than_there_is_room_for_share_a_state(compile_c: Compile) -> None:
    ledger, _ = measure(compile_c("many_tags"), allowed=("tags_sharing_a_state",))
    states = {s for t in ledger.threads for s in t.states if s.startswith("noneffective.")}
    assert "noneffective.other" in states
    assert len(states) == 128
    assert ledger.losses["tags_sharing_a_state"] == 8 * 30 - 127
    assert lost(ledger, "tags_sharing_a_state") == {}
    everything = sum(count_of(t, s) for t in ledger.threads for s in states)
    assert everything == 8 * 30
