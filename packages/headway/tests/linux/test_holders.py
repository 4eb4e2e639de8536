"""Who had the processor while a thread was ready: threads, interrupts, nobody, and together all of that time."""

from __future__ import annotations

import bisect
import itertools
import os
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.compiling import Compile, script
from tests.effort import FEW, exhaustive

from headway.linux.bpf.shared.layout import offset_of, size_of
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.ebpf import BpfSource
from headway.model import READY, Behind, Cause, Kind, Ledger, Thread, is_interrupt
from headway.model.cause import FORGOTTEN, HIDDEN, IDLE, NOT_KNOWN, STILL_READY
from headway.session.child import SuspendedChild

from .measuring import check, measure, measure_intervals, only, python
from .recorded import Recorded, Row, record

pytestmark = [pytest.mark.root, pytest.mark.kernel]

WHY = MeasureOptions(why=True)
EVERYTHING = Selection(everything=True)
HIDDEN_ONES = ("switches_unseen", "threads_without_kernel_memory", "wakeups_unseen")
"""What a kernel that hides threads from tracing makes unknown of others."""
NO_ROOM = "causes_without_room"
"""What a machine with very many threads, which wait for each other, may lose."""


def holders(thread: Thread) -> list[Cause]:
    return [cause for cause in thread.causes if cause.behind is Behind.HOLDER and cause.state == READY]


def assert_all_held(*ledgers: Ledger) -> None:
    """The holders have all of the time that each thread was ready, to the nanosecond, unless some found no room."""
    for ledger in ledgers:
        for thread in ledger.threads:
            ready, held = thread.times()[Kind.READY], sum(cause.time for cause in holders(thread))
            assert held == ready or (held < ready and ledger.losses[NO_ROOM]), thread


def by_start(row: Row) -> int:
    return row.time


def _begins_before(moment: int, row: Row) -> bool:
    return row.time < moment


def held_by_rows(recorded: Recorded, number: int) -> Counter[str | int]:
    """From the rows: what the processor that the thread got did while the thread was ready, by tid or name."""
    tids = {n: seen.tid for n, seen in recorded.threads.items()}
    placed = sorted((row for row in recorded.rows() if row.duration), key=by_start)
    mine = [row for row in placed if row.thread == number]
    on = {cpu: [row for row in placed if row.cpu == cpu] for cpu in {row.cpu for row in mine}}
    found: Counter[str | int] = Counter()
    for row, after in zip(mine, [*mine[1:], None], strict=True):
        if not row.state.startswith("ready"):
            continue
        if after is None or after.cpu < 0:
            found[STILL_READY] += row.duration
            continue
        there = on[after.cpu]
        first = max(bisect.bisect_right(there, row.time, key=by_start) - 1, 0)
        for other in itertools.takewhile(partial(_begins_before, row.end), itertools.islice(there, first, None)):
            no_thread = is_interrupt(other.state) or other.state == IDLE
            who: str | int = other.state if no_thread else tids.get(other.thread, 0)
            found[who] += min(other.end, row.end) - max(other.time, row.time)
    return +found


@pytest.mark.parametrize("program", ["why_busy", *exhaustive("why_naps")])
def test_each_holder_is_charged_with_what_the_rows_say_that_it_had(compile_c: Compile, program: str) -> None:
    recorded = record(compile_c(program), options=WHY)
    assert_all_held(recorded.ledger)
    numbers = {(seen.tid, seen.birth): number for number, seen in recorded.threads.items()}
    measured = {thread.tid for thread in recorded.ledger.threads}
    for thread in recorded.ledger.threads:
        told: Counter[str | int] = Counter()
        for cause in holders(thread):
            told[cause.name if cause.tid is None else cause.tid if cause.tid in measured else 0] += cause.time
        if FORGOTTEN in told:
            continue
        for name in [name for name in told if isinstance(name, str) and name.endswith(HIDDEN)]:
            told[0] += told.pop(name)
        assert +told == held_by_rows(recorded, numbers[thread.key])


def test_of_a_thread_that_stays_on_one_processor_it_is_known_who_had_it_be_it_nobody(compile_c: Compile) -> None:
    (thread,) = measure(compile_c("why_naps"), options=WHY)[0].threads
    assert sum(cause.count for cause in holders(thread)) > 0
    assert any(cause.tid is None and is_interrupt(cause.name) for cause in holders(thread)), "the timer's woke it"
    assert NOT_KNOWN not in {cause.name for cause in holders(thread)}


@pytest.mark.parametrize(
    "program",
    ["why_busy", *exhaustive("why_mutex", "why_cond", "why_naps")],
)
def test_the_holders_have_all_of_the_time_ready_in_intervals_too(compile_c: Compile, program: str) -> None:
    whole, intervals = measure_intervals(0.05, compile_c(program), options=WHY)
    assert len(intervals) > 1
    assert_all_held(whole, *intervals)


def test_the_holders_have_all_of_the_time_ready_of_everything_under_load() -> None:
    seconds = 0.3 if FEW else 1
    burn = (
        f"import os, time\nend = time.monotonic() + {seconds}\nos.fork(); os.fork()\nwhile time.monotonic() < end: pass"
    )
    ledger, _ = measure(*python(burn), selection=EVERYTHING, options=WHY, allowed=(*HIDDEN_ONES, NO_ROOM))
    assert_all_held(ledger)
    assert sum(len(holders(thread)) for thread in ledger.threads) > 0


def test_a_thread_that_is_ready_when_measuring_ends_has_no_holder_yet() -> None:
    """The thread that measures has the only processor on which the other thread may run."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinner:
            try:
                with closing(BpfSource(Selection(pids=(spinner.pid,)), WHY)) as source:
                    source.begin()
                    ledger = source.end()
            finally:
                spinner.kill()
    finally:
        os.sched_setaffinity(0, allowed)
    check(ledger)
    assert_all_held(ledger)
    (thread,) = ledger.threads
    ready = thread.times()[Kind.READY]
    told = sum(cause.time for cause in holders(thread) if cause.name == STILL_READY)
    assert 0 < told <= ready


def with_a_wrong_thread(program: Path) -> Ledger:
    """Measure a program while the eBPF programs are made to take its second thread, where it runs, for another."""
    where = {name: offset_of("processor", name) for name in ("task", "switched_clock", "running")}
    stride = size_of("processor")
    allowed = os.sched_getaffinity(0)
    here, there = sorted(allowed)[:2]
    os.sched_setaffinity(0, {there})
    child = SuspendedChild([str(program)], None)
    os.sched_setaffinity(0, {here})
    source = BpfSource(Selection(command=child.pid), WHY)
    try:
        source.begin()
        memory = source._measurement._programs.object.map("processors").map_memory()  # type: ignore[union-attr]
        child.release()
        while not child.has_ended:
            for at in range(0, len(memory) - stride + 1, stride):
                (running,) = struct.unpack_from("I", memory, at + where["running"])
                if _name_of(child.pid, running) == "second":
                    (clock,) = struct.unpack_from("Q", memory, at + where["switched_clock"])
                    struct.pack_into("Q", memory, at + where["switched_clock"], max(clock - 200_000, 0))
                    struct.pack_into("Q", memory, at + where["task"], 1)
            time.sleep(0.002)
            source.service()
        ledger = source.end()
    except BaseException:
        child.send(signal.SIGKILL)  # it may still wait to be released
        raise
    finally:
        source.close()
        os.sched_setaffinity(0, allowed)
        status = child.wait()
    assert status == 0
    return ledger


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_a_thread_whose_own_events_do_not_show_is_named_as_hidden(compile_c: Compile) -> None:
    """Kernels seldom hide any: it is brought about in the memory of the eBPF programs, if a look meets the thread."""
    program, hidden = compile_c("why_busy"), 0
    deadline = time.monotonic() + 200
    while not hidden:
        assert time.monotonic() < deadline, "no time was hidden"
        ledger = with_a_wrong_thread(program)
        check(ledger, *HIDDEN_ONES)
        assert_all_held(ledger)
        hidden = sum(cause.time for cause in holders(only(ledger, "first")) if cause.name.endswith(HIDDEN))


def _name_of(pid: int, tid: int) -> str:
    try:
        return Path(f"/proc/{pid}/task/{tid}/comm").read_text().strip()
    except OSError:
        return ""


def test_waiting_for_the_gil_leaves_no_time_ready_without_a_holder() -> None:
    assert_all_held(measure(*script("gil_contention"), options=WHY)[0])
